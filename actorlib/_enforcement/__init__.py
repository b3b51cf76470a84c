"""Enforcement: limits a process to its lease, where a visibility mask cannot.

A mask decides which devices a process sees. Frameworks, drivers and kernels limit how
much of the machine it uses, for every vendor. Each kind of limit is a feature
(``_features``). This package has what these features share. It does not decide which
actor gets which device.

* ``tiers``: the interface of these features, and which of them a share gets.
* ``enforcement``: the tiers of one runtime, and what they do for each lease.
* ``caps``: environment variables that limit libraries to a number of threads.
* ``checkpoints``: has CUDA's driver move a worker's state off its GPU and back.
* ``cuda_checkpoint``: the program that calls the driver for it.
* ``gpu_watch``: polls for the memory that workers have on NVIDIA's devices, during
  their lives and after their ends.
* ``gpu_processes``: the table that it fills: the memory of each process on each device,
  and the worker of the process.
* ``host_memory``: reads how much of the host's memory is in use, and by which worker.
* ``nvml_session``: calls NVML in a separate thread.
* ``drains``: holds shares back until the driver has freed their memory.
"""
