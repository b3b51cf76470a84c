"""Makes frameworks take no more memory of a device than the share of the worker.

* ``tier``: the tier ``"frameworks"``: variables and hooks for frameworks.
* ``worker``: sets the limits in a worker that have no variable.
* ``import_hook``: calls functions after the import of modules.
"""
