"""Where calls run: the main thread, threads, event loops.

In reading order:

* ``invoke``: runs one call: decodes, calls the method, encodes the answer. Executors
  inherit it, and decide where that happens.
* ``method_timing``: knows which methods are quick: the only ones that an answer may
  wait behind.
* ``serial_executor``: runs one call at a time on the main thread.
* ``threaded_executor``: runs several calls at once, on threads.
* ``task_executor``: runs calls of functions, one at a time on the main thread.
* ``async_executor``: serves an actor with ``async def`` methods: its frames, the places
  of its calls, its end.
* ``coroutines``: runs the ``async def`` methods of such an actor.
* ``async_streams``: runs its async generators.
* ``plain_methods``: runs its plain methods.
* ``actor_loop``: runs the loop of its own thread, and its constructor there.
* ``group_loops``: runs the loops and the threads of its concurrency groups.
* ``concurrency_groups``: limits how many calls of a group run at once.
* ``termination``: ends such an actor and a threaded one when SIGTERM comes.
* ``executor_threads``: starts the threads of an actor beside its main one.
* ``generators``: keeps the streams that a worker makes, and which of them are paused.
* ``loop_watchdog``: says what blocks the event loop of an actor, once for each method.
* ``interrupt_signal``: has the pipe read while the user's code runs.
* ``run_events``: produces the events of the calls that run here.
"""
