"""The child's side of the pipe: one actor, and the process that forks workers.

Loading it is part of every start, so it imports neither ``_owner`` nor
``accelerators``. In reading order:

* ``__main__``: how a worker begins, forked from the template or spawned.
* ``forkserver``: the template: the process that workers come from and that cleans up
  after everyone.
* ``prefork``: A worker that is forked before somebody asks for one.
* ``preload``: what the template imports before it forks, and whether it may still fork
  then.
* ``os_process``: what the template asks of the kernel about processes.
* ``startup``: the first frame becomes an environment, then a class, then an object.
* ``invoke``: runs one call: its arguments decoded, in its context, its answer a frame.
* ``method_timing``: which methods are known to be quick: the only ones an answer may
  wait behind.
* ``inbox``: the frames that came to a worker without a loop, read by one thread at a
  time.
* ``serial_executor``: one call at a time on the main thread, without an event loop.
* ``threaded_executor``: several calls at once, on threads that are made when they are
  needed.
* ``async_executor``: actors with ``async def`` methods: one event loop, on the actor's
  own thread.
* ``plain_methods``: the plain methods of an actor with an event loop, on the thread
  that each is given.
* ``async_client``: the engine of a worker with an event loop: every frame goes by way
  of that loop.
* ``loop_watchdog``: says what keeps the event loop of an actor from its work, once for
  each method.
* ``concurrency_groups``: how many calls of a kind run at once: the rest wait, in the
  order in which they came.
* ``task_executor``: the worker of functions: one call at a time on the main thread, of
  any function.
* ``generators``: the streams that this actor makes: how far each is ahead, and which
  are set aside.
* ``generator_runner``: runs plain generators: until they end, or until their readers
  are behind.
* ``refcount``: which handles this worker holds, and which loans it can give back.
* ``objects``: the refs of a worker that are sent to others, and those that others send
  to it.
* ``client``: the engine of a worker: the same verbs as in the owner, as frames to it.
* ``actor_calls``: calls of other actors on their way out: with their arguments, and in
  order.
* ``task_calls``: functions that the code of this worker calls: told once, and then by
  number.
* ``actor_creation``: actors that a worker makes: what the owner is told of each.
* ``placement_groups``: placement groups, as an actor's code speaks of them: questions
  to the owner.
* ``pending``: what a worker has asked: what is not sent yet, and what has no answer.
* ``outgoing_links``: the actors that this worker calls over links, and what they have
  not answered.
* ``incoming_links``: the callers of this actor that have a link to it, and what they
  are not answered.
"""
