"""Calls of functions, and the workers that run them.

In reading order:

* ``task_pool``: accepts every call of a function, and delivers its answer.
* ``task_functions``: the functions that are called in a runtime, and the queue of each.
* ``task_queue``: decides which worker runs which call, and which calls run again.
* ``task_worker``: sends calls to one worker; ends idle workers and takes back calls
  that wait behind a long one.
* ``task_workers``: starts the workers of functions, assigns slots and calls to them,
  and ends them.
* ``task_slots``: the slots of workers, from the machine or a placement group.
"""
