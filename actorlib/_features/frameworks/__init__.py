"""Frameworks take no more memory of a device than the share that a worker holds.

* ``tier``: what frameworks are told: variables and hooks.
* ``worker``: sets in a worker what has no variable.
* ``import_hook``: tells of modules when they have been imported, whoever does.
"""
