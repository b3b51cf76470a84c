"""Shares of a GPU by CUDA's Multi-Process Service.

* ``tier``: the tier ``"mps"``: workers share GPUs with one daemon for each GPU, and end
  together after a fault.
* ``decisions``: the variables of a client, and the workers to blame for a fault.
* ``compute_modes``: finds GPUs that cannot have our daemon.
* ``daemon``: the owner's side of an MPS daemon.
* ``keeper``: the process that runs the daemon, and ends it with the owner.
* ``worker``: verifies in a worker that its memory limit applies.
"""
