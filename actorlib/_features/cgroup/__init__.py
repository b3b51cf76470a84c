"""The kernel and the driver limit actors to what they requested, by cgroups.

* ``tier``: the tier ``"cgroup"``.
* ``delegation``: finds out whether this program may limit its processes by cgroup.
* ``host_cgroups``: the cgroups of workers, which limit memory and CPUs of the host.
* ``device_cgroups``: limits the device memory of cgroups by NVIDIA's driver.
* ``files``: the names and files of cgroups; removes those of a killed owner.
* ``worker``: moves a worker into its cgroup.
"""
