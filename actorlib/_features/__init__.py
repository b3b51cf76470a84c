"""Features: each in a folder of its own, without which the core works.

A feature attaches through an interface of the core, and two lists name what is
attached: ``runtime`` here, for the owner, and ``_worker/features.py``. Modules whose
names begin with ``runtime`` are imported in the owner's process alone. So are tiers,
with what only they import. A module ``worker`` loads no owner code.

* ``runtime``: the features of a runtime.
* ``frameworks``: frameworks take no more memory of a device than the share.
* ``watchdog``: what workers have of devices and of the host's memory is watched.
* ``memory_monitor``: ends a worker before the machine runs out of memory.
* ``mps``: shares hold by CUDA's Multi-Process Service.
* ``cgroups``: the kernel and the driver hold actors to what they asked for.
* ``middleware``: tells users' objects of calls, on both sides.
* ``recording``: records when calls were made and ran, and draws that.
* ``logs``: keeps what workers print and log, for whoever asks.
* ``stacks``: shows where the threads and the tasks of a worker stand.
"""
