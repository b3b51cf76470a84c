"""Enforcement: limits a process to its lease, where a visibility mask cannot.

A mask decides which devices a process sees. How much of the machine it takes is for
frameworks, drivers and kernels to limit, whoever the vendor is. Each kind of limit is a
feature (``_features``). What they share is here, and does not decide who gets what:

* ``tiers``: the interface of those features, and which of them a share gets.
* ``enforcement``: what a runtime has of all that, found out once, and asked per lease.
* ``caps``: environment variables that limit libraries to a number of threads.
* ``checkpoints``: has CUDA's driver take a worker's work off its GPU, and put it back.
* ``cuda_checkpoint``: the program that asks the driver to.
* ``gpu_watch``: polls for the memory that workers have on NVIDIA's devices, while they
  live and when they have ended.
* ``gpu_processes``: the table that it fills: which process has how much of which
  device, since when, and whose it is.
* ``memory_usage``: reads how much memory of the machine or the cgroup is in use.
* ``process_memory``: reads the memory of the host that workers use.
* ``nvml_session``: asks NVML what is on devices, in a thread of its own.
* ``drains``: holds shares back until the driver has taken apart what was on them.
* ``draining``: decides whether memory is back that a process had which has ended.
"""
