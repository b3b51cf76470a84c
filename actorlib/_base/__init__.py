"""Small tools without a notion of actors: values, processes, sockets.

In reading order:

* ``public``: sets the public module of a class or function.
* ``value``: dataclasses without compiled methods.
* ``validation``: checks options; each check raises TypeError or ValueError with the
  option's name.
* ``log``: logs messages of the owner that do not belong to a call.
* ``stdio``: the standard streams of this process, which a daemon may have closed.
* ``stack_frames``: finds the frames of coroutines and of users' code, and removes
  others from tracebacks.
* ``start_errors``: explains why the operating system refuses the start of a runtime.
* ``import_path``: the places that modules are imported from, for other processes.
* ``ids``: the ids of actors and of objects, and which process made them.
* ``labels``: the names of actors in messages: ``Model 'm1' (pid 812)``.
* ``process_stat``: reads the kernel's facts about a process.
* ``named_sockets``: listening sockets with names that other processes can list.
* ``outcomes``: how a call ended.
* ``notifier``: wakes all tasks that wait for an event, with a result or an error.
* ``deadlines``: orders deadlines: which have passed, and which is the next.
"""
