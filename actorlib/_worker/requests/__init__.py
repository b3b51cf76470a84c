"""Requests of a worker to the owner, and the answers.

In reading order:

* ``engine``: what the parts of a worker's client need of it.
* ``client``: implements the operations of an engine by frames to the owner.
* ``async_client``: the client of a worker with an event loop, which reads the pipe.
* ``inbox``: decides which thread reads, and wakes waiting threads; reads the pipe and
  the links of a worker without an event loop.
* ``pending``: the calls that are not sent yet, and those without an answer.
* ``actor_calls``: sends calls to other actors, in order.
* ``task_calls``: sends calls of functions, and each function once.
* ``actor_creation``: creates actors from within a worker.
* ``objects``: announces, keeps and fetches objects.
* ``refcount``: counts the holders of borrowed references.
* ``placement_groups``: requests placement groups from the owner.
"""
