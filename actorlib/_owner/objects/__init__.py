"""References, and the shared memory that values lie in.

In reading order:

* ``refcount``: reference counts: who holds what, how often.
* ``objects``: what refs stand for that were sent inside of values: kept while somebody
  holds them.
* ``shared_memory``: the shared memory of a runtime: what the owner makes, and what its
  workers make.
* ``stored_objects``: what the object store keeps, by whom and for which calls.
"""
