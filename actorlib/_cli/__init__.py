"""The command line: what ``actorlib demo`` and ``actorlib devices`` show.

In reading order:

* ``demo``: shows placement and speed on this machine in half a minute.
* ``demo_figures``: measures what that shows, with an actor of its own.
* ``devices``: shows every accelerator of this machine, and why not more.
"""
