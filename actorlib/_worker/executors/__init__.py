"""Executors: where calls run (the main thread, threads, event loops).

In reading order:

* ``invoke``: runs one call: loads the arguments, calls the method, encodes the answer.
  Executors inherit it, and decide on which thread a call runs.
* ``serial_executor``: runs one call at a time on the main thread.
* ``threaded_executor``: runs several calls at once, on threads.
* ``task_executor``: runs calls of functions, one at a time on the main thread.
* ``async_executor``: serves an actor with ``async def`` methods: its frames, the limits
  of its calls, its plain methods, its end.
* ``async_functions``: runs calls of ``async def`` functions in the same way.
* ``coroutines``: runs the ``async def`` methods and async generators of such an actor.
* ``actor_loop``: runs the loop of its own thread, and its constructor there.
* ``group_loops``: runs the loops and the threads of its concurrency groups.
* ``concurrency_groups``: limits how many calls of a group run at once.
* ``group_threads``: runs the calls of a group on threads.
* ``termination``: ends such an actor and a threaded one when SIGTERM comes.
* ``generators``: keeps the streams that a worker produces, and which of them are
  paused.
* ``loop_watchdog``: warns of what blocks the event loop of an actor, once per method.
* ``interrupt_signal``: has the pipe read while the user's code runs.
* ``run_events``: produces the events of the calls that run here.
"""
