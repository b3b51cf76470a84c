"""Enforcement: limits a process to its lease, where a visibility mask cannot.

A mask decides which devices a process sees. How much of the machine it takes is for
frameworks, drivers and kernels to limit, whoever the vendor is; each kind of limit is a
file here, and none of them decides who gets what:

* ``caps``: environment variables that limit libraries to a number of threads.
* ``tiers``: chooses what makes a share of a device hold, and why nothing stronger does.
* ``frameworks``: what frameworks are told, so that they take no more than a share.
* ``mps``: how shares hold under CUDA's Multi-Process Service.
* ``compute_modes``: finds out on which GPUs no MPS daemon of ours can be.
* ``mps_daemon``: the owner's side of an MPS daemon.
* ``mps_keeper``: the process that keeps the daemon, and ends it with the owner.
* ``enforcement``: what a runtime has of all that, found out once, and asked per lease.
* ``delegation``: finds out whether this program may limit its processes by cgroup.
* ``host_cgroups``: has workers held to what they asked for by cgroups of their own.
* ``device_cgroups``: has NVIDIA's driver hold cgroups to their memory of devices.
* ``checkpoints``: has CUDA's driver take a worker's work off its GPU, and put it back.
* ``cuda_checkpoint``: the program that asks the driver to.
* ``resident``: judges whether a worker has more of the host's memory than it asked for.
* ``resident_watch``: looks every few seconds at the host's memory that workers have.
* ``gpu_watch``: polls for the memory that workers have on NVIDIA's devices, while they
  live and when they have ended.
* ``gpu_processes``: the table that it fills: which process has how much of which
  device, since when, and whose it is.
* ``nvml_session``: asks NVML what is on devices, in a thread of its own.
* ``drains``: holds shares back until the driver has taken apart what was on them.
* ``draining``: decides whether memory is back that a process had which has ended.
* ``watchdog``: judges whether a worker takes more memory than it was granted.
"""
