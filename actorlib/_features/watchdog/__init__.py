"""Watches what workers have of devices that they share, and of the host's memory.

* ``tier``: watches, and acts on actors that have more of a device than granted.
* ``judgement``: judges whether a worker takes more of a device than it was granted.
* ``resident``: judges whether a worker has more of the host's memory than it asked for.
* ``resident_watch``: looks every few seconds at the host's memory that workers have.
"""
