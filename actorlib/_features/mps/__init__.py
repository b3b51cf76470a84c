"""Shares of a GPU hold by CUDA's Multi-Process Service.

* ``tier``: has workers share GPUs, with a daemon for each, and ends them at a fault.
* ``decisions``: how shares hold under MPS, and who is to blame for a fault.
* ``compute_modes``: finds out on which GPUs no MPS daemon of ours can be.
* ``daemon``: the owner's side of an MPS daemon.
* ``keeper``: the process that keeps the daemon, and ends it with the owner.
* ``worker``: verifies in a worker that its limit of memory holds.
"""
