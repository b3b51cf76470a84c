"""The command line: what ``actorlib demo`` and ``actorlib devices`` show.

In reading order:

* ``demo``: ``actorlib demo``, as it is shown.
* ``demo_figures``: what ``actorlib demo`` measures, and the actor that it places.
* ``devices``: what ``actorlib devices`` shows: every accelerator of this machine, and
  why not more.
"""
