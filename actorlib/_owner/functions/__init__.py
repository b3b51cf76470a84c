"""Calls of functions, and the workers that run them.

In reading order:

* ``task_pool``: takes every call of a function, and tells whoever waits for it.
* ``task_functions``: knows the functions that are called in a runtime, and the queue of
  each.
* ``task_queue``: decides which worker runs which call of a function, and which calls go
  again.
* ``task_worker``: sends calls of functions to one worker, and takes care of workers
  without any.
* ``task_workers``: starts the workers of functions, gives them slots and calls, and
  ends them.
* ``task_slots``: gives workers of functions their slots: from the machine, or a
  placement group.
"""
