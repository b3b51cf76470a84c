"""The control plane: supervises actors, routes calls, counts references.

In reading order:

* ``engine``: the operations of the local engine, in the owner's process.
* ``launching``: starts the launcher of workers before the rest is loaded.
* ``machine``: the machine of a runtime: its resources, devices and processes.
* ``device_use``: announces the devices in use, and waits for those of other programs.
* ``teardown``: runs all steps of an end even if one fails.
* ``actors``: actors from creation to death.
* ``calls``: unanswered calls: order, sending, answers, retries.
* ``functions``: calls of functions, and the workers that run them.
* ``objects``: references, and the shared memory of values.
* ``requests``: requests of workers and attached programs.
* ``observation``: the rows about actors and calls.
"""
