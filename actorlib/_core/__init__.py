"""The interface of engines, and the context that code runs in.

In reading order:

* ``serializers``: functions that users register to pickle instances of a class.
* ``engine``: the operations of engines, and the current engine.
* ``current_call``: the call whose code is running.
* ``runtime_context``: the machine, the actor and the call that code is running in.
* ``propagation``: context variables that are sent with each call.
"""
