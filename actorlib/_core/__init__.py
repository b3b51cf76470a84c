"""Values and contracts that every other room speaks in.

In reading order:

* ``public``: names the module that users import a public class or function from.
* ``value``: dataclasses whose methods are generated when they are first used.
* ``kinds``: the kinds of devices, and how much of each may be asked for at once.
* ``resources``: what is asked for and what there is: named amounts, in exact integers.
* ``validation``: what an option may be: each check raises TypeError or ValueError and
  names it.
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
* ``tables``: makes what people see of rows: lines of text, tables of columns.
* ``rows``: encodes rows as plain values, for sockets and documents, and decodes them.
* ``snapshot``: the state of a runtime at one moment, as rows.
* ``labels``: how messages name an actor: ``Model 'm1' (pid 812)``.
* ``serializers``: how users say by what a class is pickled.
* ``stdio``: the standard streams of this process, which a daemon may have closed.
* ``ids``: the ids of actors and of objects, and which process made them.
* ``callee``: what a call goes to: a method of an actor, or a function.
* ``engine``: the verbs of engines, and which engine is the current one.
* ``deadlines``: orders deadlines: which are over, and which is the next.
* ``notifier``: wakes all who wait for an event, with a result or an error.
* ``object_ref``: ``ObjectRef``, the future of a call's result.
* ``stream_reader``: the items of a generator's call, as this process reads them.
* ``termination``: turns signals that end a program into its cancellation.
* ``flow_control``: limits how many items a generator may be ahead of its reader.
* ``current_call``: the call whose code is running.
* ``runtime_context``: the machine, the actor and the call that code is running in.
* ``propagation``: context variables that are sent along with each call.
* ``call_events``: the events of a call that users' code may consume.
* ``outcomes``: how a call ended.
* ``tally``: counts calls by how they ended, without a look at each of them.
* ``loop_thread``: calls functions on an event loop that another thread runs.
* ``forking``: gives a forked child's event loop descriptors of its own.
* ``fork_copies``: closes in a forked child its copies of what its parent has open.
* ``runtime_portal``: runs an engine's methods on its loop, whichever thread calls them.
* ``log``: warnings of the owner's that belong to no call.
* ``awaited_frames``: where a coroutine stands, for who looks at tasks.
* ``named_sockets``: listening sockets with names that other processes can list.
* ``process_stat``: reads what the kernel says of a process.
* ``own_files``: how the paths of our own files begin, whose frames tell a user nothing.
"""
