"""Runs actors in their owner's process, for breakpoints and for unit tests.

This is the local engine without processes. Both sides of the pipe run the code of the
local engine; only the launcher differs, and starts threads.

* ``launcher``: launches workers that are threads of this process, and says how they
  differ from processes.
"""
