"""Small tools that know nothing of actors: values, processes, sockets.

In reading order:

* ``public``: names the module that users import a public class or function from.
* ``value``: dataclasses whose methods are generated when they are first used.
* ``validation``: what an option may be: each check raises TypeError or ValueError and
  names it.
* ``log``: warnings of the owner's that belong to no call.
* ``stdio``: the standard streams of this process, which a daemon may have closed.
* ``own_files``: finds the frames of users' code, and removes others from tracebacks.
* ``start_errors``: explains why the operating system refuses the start of a runtime.
* ``ids``: the ids of actors and of objects, and which process made them.
* ``labels``: how messages name an actor: ``Model 'm1' (pid 812)``.
* ``process_stat``: reads what the kernel says of a process.
* ``named_sockets``: listening sockets with names that other processes can list.
* ``outcomes``: how a call ended.
* ``notifier``: wakes all who wait for an event, with a result or an error.
* ``awaited_frames``: where a coroutine stands, for who looks at tasks.
* ``deadlines``: orders deadlines: which are over, and which is the next.
"""
