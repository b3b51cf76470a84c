"""Shows where the threads and the tasks of a worker stand, even if it is stuck.

In reading order:

* ``worker``: makes the threads of a worker write their stacks on a signal.
* ``worker_tasks``: writes where the tasks of a worker stand.
* ``runtime``: signals the threads of a worker from any process, and reads the stacks.
"""
