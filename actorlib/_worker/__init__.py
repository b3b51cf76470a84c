"""The child's side of the pipe: one actor, and the process that forks workers.

Loading it is part of every start, so it imports neither ``_owner`` nor
``accelerators``. In reading order:

* ``__main__``: runs a worker from its first frame to its exit code.
* ``forkserver``: the template: forks workers, and cleans up after everyone.
* ``prefork``: workers that are forked before somebody asks for them.
* ``demand``: says how many of them, by what was asked for lately.
* ``preload``: imports what workers need before the template forks, and says whether it
  may still fork then.
* ``shared_numpy``: imports NumPy in the template once a worker has, for later ones.
* ``huge_pages``: makes forks of a template with large preloads cheap.
* ``immortal``: has forks copy less, as they count no references to what they share.
* ``os_process``: asks the kernel about processes, and ends them.
* ``startup``: makes the environment, the class and the object of the START frame.
* ``features``: the features of a worker, each imported when the owner asks for it.
* ``executor_threads``: starts the threads of an actor beside its main one.
* ``invoke``: runs one call: decodes, calls the method, encodes the answer. Executors
  inherit it, and decide where that happens.
* ``method_timing``: knows which methods are quick: the only ones that an answer may
  wait behind.
* ``inbox``: decides which thread reads, and wakes those that wait; reads the pipe and
  the links where there is no event loop.
* ``serial_executor``: runs one call at a time on the main thread.
* ``threaded_executor``: runs several calls at once, on threads.
* ``async_executor``: serves an actor with ``async def`` methods: its frames, the places
  of its calls, its end.
* ``coroutines``: runs the ``async def`` methods of such an actor.
* ``async_streams``: runs its async generators.
* ``plain_methods``: runs its plain methods.
* ``actor_loop``: runs the loop of its own thread, and its constructor there.
* ``group_loops``: runs the loops and the threads of its concurrency groups.
* ``async_client``: reads on an event loop, and speaks to the owner from there.
* ``loop_watchdog``: says what blocks the event loop of an actor, once for each method.
* ``concurrency_groups``: limits how many calls of a group run at once.
* ``interrupt_signal``: has the pipe read while the user's code runs.
* ``task_executor``: runs calls of functions, one at a time on the main thread.
* ``generators``: keeps the streams that a worker makes, and which of them are paused.
* ``refcount``: counts the holders of borrowed references.
* ``objects``: announces, keeps and fetches objects.
* ``engine``: says what the parts of a worker's client need of it.
* ``client``: fulfils the verbs of an engine, by frames to the owner.
* ``actor_calls``: sends calls to other actors, in order.
* ``task_calls``: sends calls of functions, each function once.
* ``actor_creation``: creates actors from within a worker.
* ``features``: the features that a worker can have, each imported when asked for.
* ``run_events``: produces the events of the calls that run here.
* ``placement_groups``: asks the owner for placement groups.
* ``pending``: keeps calls that are not sent yet, and those without an answer.
* ``outgoing_links``: calls actors over links, and chooses the route of each call.
* ``incoming_links``: serves callers over links.
"""
