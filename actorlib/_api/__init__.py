"""The public classes and functions: decorators, handles, refs, queues, pools, groups.

In reading order:

* ``decorators``: ``@remote`` on a class makes an ``ActorClass``, whose instances live
  in workers.
* ``bindings``: watches the global names of a user's code, so that changed code is sent
  again.
* ``typed_methods``: ``@method`` and ``typed()``: options of one method, and its types.
* ``actor_handle``: ``ActorHandle`` and its methods.
* ``result_parts``: the parts of a result, each a ref: ``options(num_returns=2)``.
* ``call_batch``: the results of ``handle.method.map(items)``, all sent at once.
* ``batching``: ``@batch``: combines calls of one method in its actor.
* ``remote_function``: ``@remote`` on a function: each call runs in a worker.
* ``group_options``: the placement group and the directory of an actor or a call.
* ``placement_group``: bundles that are reserved together, and actors in them.
* ``gang``: one call in each bundle of a group, as ranks: ``group.map``.
* ``gang_calls``: the arguments of each rank, and the failure to report.
* ``actor_lookup``: finds actors by name, and lists all of them.
* ``waiting``: ``wait``: some of many refs, awaited on a loop or in a blocked thread.
* ``results``: iterators over results, for ``async for``, ``for`` and ``await``.
* ``as_completed``: the values of refs in the order of their completion.
* ``inspection``: names the members of a value that cannot be pickled.
* ``queue``: ``Queue``, and one process's client of it.
* ``queue_actor``: the actor of a queue, and its buffer.
* ``actor_pool``: ``ActorPool``: distributes values among actors.
* ``replicas``: ``Replicas``: equal actors behind one handle.
* ``replicated_method``: the methods of replicas, and the options of their calls.
* ``replica_router``: chooses the replica of each call, and refuses calls.
* ``replica_routing``: decides who gets a call: the fewest calls, or a key.
* ``replica_limits``: estimates when a refused call may be made again.
* ``replica_set``: makes, replaces and ends replicas, and keeps their number.
* ``replica_autoscaler``: changes the number with the load, by one timer.
* ``replica_scaling``: decides how many replicas there are.
* ``replica_health``: calls health checks, and restarts the replicas that fail.
* ``pipeline``: the implementation of every map.
* ``map_source``: reads the values of a map from iterables.
* ``map_calls``: the calls of a map, until their results are taken.
* ``map_window``: decides the order of results and the size of chunks.
* ``cached_map``: the cache of a map: loads results of earlier runs, and keeps new ones.
* ``cache_key``: computes the keys of cached results, from functions and arguments.
* ``cache_folder``: the files of cached results.
* ``recorded_calls``: combines the calls of a pool's function into chunks.
* ``progress``: counts results, and shows that on a terminal or in a notebook.
* ``notebook``: interrupts the calls that an interrupted cell waits for.
"""
