"""Runs actors in their owner's process: for breakpoints, and for unit tests.

The local engine without processes. What decides, sends and counts is that engine's own,
on both sides of the pipe; only what starts a worker is another, and starts a thread.
In reading order:

* ``launcher``: launches workers that are threads of this process, and what that means.
* ``worker``: runs one worker as a thread, at the other end of a pipe.
"""
