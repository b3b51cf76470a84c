"""The declarations of users: options, amounts of resources, interfaces of classes.

In reading order:

* ``kinds``: the kinds of devices, and the amounts of each that may be asked for.
* ``resources``: named amounts of what is asked for and what exists, in exact integers.
* ``runtime_env``: the variables and the working directory of an actor's process.
* ``shares``: shares of devices, and how they are enforced.
* ``priority``: the priority among those that wait.
* ``actor_options``: the options of actors, and those that functions share.
* ``call_options``: the options of methods, and those that functions share.
* ``function_options``: the options of remote functions.
* ``runtime_options``: the options of runtimes, their names among them.
* ``group_spec``: the bundles and the strategy of a placement group.
* ``hooks``: marks the methods that run at the beginning and at the end of an actor.
* ``interface``: the signatures of an actor class, by which callers check calls.
* ``callee``: the method of an actor, or the function, that a call is for.
* ``call_events``: the events of a call that users' code may consume.
"""
