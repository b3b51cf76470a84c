"""Features: what the core does without, each in a folder of its own.

A feature attaches through an interface of the core, and two lists name what is
attached: ``owner`` here, and ``_worker/features.py``. Its module ``worker`` is what
a worker imports, if its START frame has an entry for it. It loads no owner code.

* ``owner``: the list of what is attached to an owner.
* ``frameworks``: frameworks take no more memory of a device than the share.
* ``watchdog``: what workers have of devices and of the host's memory is watched.
* ``mps``: shares hold by CUDA's Multi-Process Service.
* ``cgroups``: the kernel and the driver hold actors to what they asked for.
"""
