"""Features: each has its own folder, and the core works without it.

A feature attaches through an interface of the core. ``runtime`` lists the features of a
runtime. ``_worker/features.py`` imports the module ``worker`` of a feature when the
owner requests it by the name of the folder. Only the owner's process imports tiers and
the modules whose names begin with ``runtime``. A module ``worker`` loads no owner code.

* ``runtime``: the features of a runtime.
* ``frameworks``: makes frameworks take no more memory of a device than the share.
* ``watchdog``: watches the memory that workers have of devices and of the host.
* ``memory_monitor``: ends a worker before the machine runs out of memory.
* ``mps``: limits shares by CUDA's Multi-Process Service.
* ``cgroup``: limits actors to what they requested by the kernel and the driver.
* ``middleware``: reports calls to users' objects, on both sides.
* ``recording``: records when calls were made and ran, and draws that.
* ``logs``: keeps what workers print and log.
* ``stacks``: shows where the threads and the tasks of a worker stand.
"""
