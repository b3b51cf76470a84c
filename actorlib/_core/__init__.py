"""Values and contracts that every other room speaks in.

In reading order:

* ``public``: where public things are at home: what users import them from.
* ``kinds``: the kinds of devices, and how much of each may be asked for at once.
* ``resources``: what is asked for and what there is: named amounts, in exact integers.
* ``validation``: what an option may be: each check raises TypeError or ValueError and
  names it.
* ``runtime_env``: what an actor's process is like: its variables and its working
  directory.
* ``actor_options``: what may be said about an actor: checked once, then frozen.
* ``call_options``: what may be said about a call: checked once, then frozen.
* ``function_options``: what may be said about a remote function: checked once, then
  frozen.
* ``runtime_options``: what may be said about a runtime: checked once, then frozen.
* ``group_spec``: what a placement group asks for: checked once, then frozen.
* ``interface``: the methods of an actor class, known to the caller: misuse fails at the
  call.
* ``snapshot``: the state of a runtime at one moment, for people and programs to look
  at.
* ``labels``: what an actor is called in everything that people read: ``Model 'm1' (pid
  812)``.
* ``serializers``: how instances of some classes are sent that cannot be pickled as they
  are.
* ``stdio``: the standard streams of this process, which a daemon may have closed.
* ``ids``: the ids of actors and of objects, and which process made them.
* ``callee``: what a call goes to: a method of an actor, or a function.
* ``engine``: the waist: the few verbs that every handle speaks and every engine
  fulfils.
* ``notifier``: something that others wait for.
* ``object_ref``: the result of a call, to be awaited: a standard future with an engine
  behind it.
* ``stream_reader``: A stream as it is read in this process: what has come, what was
  taken, its end.
* ``flow_control``: how far a stream's producer may be ahead of its reader.
* ``current_call``: the call whose code is running, for whoever asks about it and for
  what it calls.
* ``runtime_context``: where code is running, for whoever asks: the machine, the actor,
  the call.
* ``propagation``: context variables that travel with calls: marked once, then sent with
  each call.
* ``loop_thread``: how threads cross to the one that runs a runtime's loop.
* ``forking``: what a fork of a process must not go on sharing with it: an event loop's
  descriptors.
* ``owner_thread``: the thread that runs a runtime's loop, for verbs that other threads
  call.
* ``log``: what the owner logs that nobody has just asked for.
"""
