"""Ends a worker before the machine runs out of memory.

Without this, one function that allocates without limit makes the kernel kill a process
of its choice, often the program itself.

* ``policy``: decides which worker to end.
* ``runtime``: checks the memory from time to time and ends the worker.
"""
