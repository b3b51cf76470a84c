"""What users declare: options, amounts of resources, interfaces of classes.

In reading order:

* ``kinds``: the kinds of devices, and how much of each may be asked for at once.
* ``resources``: what is asked for and what there is: named amounts, in exact integers.
* ``runtime_env``: what an actor's process is like: its variables and its working
  directory.
* ``shares``: shares of devices: how they are to hold, and what is told of them.
* ``actor_options``: the options of actors, and those that functions share.
* ``call_options``: the options of methods, and those that functions share.
* ``function_options``: the options of remote functions.
* ``runtime_name``: what a runtime may be called.
* ``runtime_options``: the options of runtimes.
* ``group_spec``: what a placement group asks for: checked once, then frozen.
* ``hooks``: marks the methods with which an actor's life begins and ends.
* ``interface``: the signatures of an actor class, by which callers check calls.
* ``callee``: what a call goes to: a method of an actor, or a function.
* ``call_events``: the events of a call that users' code may consume.
"""
