"""Event loops and their threads: portals, forks, signals.

In reading order:

* ``loop_thread``: calls functions on an event loop that another thread runs.
* ``forking``: gives a forked child's event loop separate descriptors.
* ``fork_copies``: closes, in a forked child, the copies of what its parent has open.
* ``termination``: turns signals that end a program into its cancellation.
* ``main_watch``: warns if the program's own code blocks the event loop.
"""
