"""Borrowed references, and the shared memory of values.

In reading order:

* ``refcount``: reference counts: which process holds what, and how often.
* ``objects``: the objects of refs inside of values, while a process holds them.
* ``shared_memory``: the shared memory that the owner and its workers allocate.
* ``stored_objects``: lists the content of the object store.
"""
