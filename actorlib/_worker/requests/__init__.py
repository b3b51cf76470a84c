"""What a worker asks of the owner, and the answers.

In reading order:

* ``engine``: says what the parts of a worker's client need of it.
* ``client``: fulfils the verbs of an engine, by frames to the owner.
* ``async_client``: reads on an event loop, and speaks to the owner from there.
* ``inbox``: decides which thread reads, and wakes those that wait; reads the pipe and
  the links where there is no event loop.
* ``pending``: keeps calls that are not sent yet, and those without an answer.
* ``actor_calls``: sends calls to other actors, in order.
* ``task_calls``: sends calls of functions, each function once.
* ``actor_creation``: creates actors from within a worker.
* ``objects``: announces, keeps and fetches objects.
* ``refcount``: counts the holders of borrowed references.
* ``placement_groups``: asks the owner for placement groups.
"""
