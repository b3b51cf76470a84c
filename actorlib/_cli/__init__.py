"""The command line: what ``actorlib demo`` and ``actorlib devices`` show.

In reading order:

* ``demo``: shows placement and speed on this machine in half a minute.
* ``demo_figures``: the actor and the measurements behind it.
* ``devices``: shows every accelerator of this machine, and why not more.
"""
