"""The interface of engines, and the context that code runs in.

In reading order:

* ``serializers``: how users say by what a class is pickled.
* ``engine``: the verbs of engines, and which engine is the current one.
* ``current_call``: the call whose code is running.
* ``runtime_context``: the machine, the actor and the call that code is running in.
* ``propagation``: context variables that are sent along with each call.
"""
