"""Watches the memory of workers on shared devices and on the host.

* ``tier``: the tier ``"watchdog"``: watches, and acts on an excess of device memory.
* ``judgement``: decides whether a worker has more of a device than it was granted.
* ``resident``: decides whether a worker has more of the host's memory than requested.
* ``resident_watch``: reads the host's memory of workers every few seconds.
"""
