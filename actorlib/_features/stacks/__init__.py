"""Shows where the threads and the tasks of a worker stand, also if it is stuck.

In reading order:

* ``worker``: lets who may look see where the threads of a worker stand.
* ``worker_tasks``: writes down where its tasks stand, for the same.
* ``runtime``: asks the threads of a worker where they stand, from any process.
"""
