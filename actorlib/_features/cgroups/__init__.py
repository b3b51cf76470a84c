"""The kernel and the driver hold actors to what they asked for, by cgroups.

* ``tier``: what is held of an actor, and whether that can be.
* ``delegation``: finds out whether this program may limit its processes by cgroup.
* ``host_cgroups``: the cgroups of workers, with memory and CPUs of the host.
* ``device_cgroups``: has NVIDIA's driver hold cgroups to their memory of devices.
* ``names``: how the cgroups of a program are called, by which it is known whose.
* ``worker``: has a worker join its cgroup.
* ``leftovers``: removes the cgroups that an owner leaves which was killed.
"""
