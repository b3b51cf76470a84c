"""What users write and hold: decorators, handles, functions, queues, pools, groups.

In reading order:

* ``decorators``: ``@remote`` on a class makes an ``ActorClass``, whose instances live
  in workers.
* ``bindings``: what the names in a user's code stand for, so that changed code is sent
  anew.
* ``typed_methods``: ``@method`` and ``typed()``: options of one method, and its types.
* ``actor_handle``: ``ActorHandle`` and the methods that it offers.
* ``result_parts``: the parts of a result, each a ref: ``options(num_returns=2)``.
* ``call_batch``: the results of ``handle.method.map(items)``, all sent at once.
* ``batching``: ``@batch``: many calls of one method are one in its actor.
* ``remote_function``: ``@remote`` on a function: each call runs in some worker.
* ``group_options``: which placement group options mean, and whether it fits.
* ``placement_group``: bundles that are reserved all or nothing, and actors in them.
* ``gang``: one call in each bundle of a group, as ranks: ``group.map``.
* ``gang_calls``: what each rank is called with, and which failure is to blame.
* ``actor_lookup``: finds actors by name, and lists all of them.
* ``waiting``: ``wait``: some of many refs, awaited on a loop or in a blocked thread.
* ``results``: iterators over results, for ``async for`` and ``for``, and to be awaited.
* ``as_completed``: the values of refs in the order in which they come.
* ``inspection``: names the members of a value that cannot be pickled.
* ``queue``: ``Queue``, and one process's end of it.
* ``queue_actor``: the actor behind a queue, and the buffer that decides.
* ``actor_pool``: ``ActorPool``: shares out values among actors.
* ``replicas``: ``Replicas``: alike actors behind one handle.
* ``pipeline``: the one behind every map: makes calls for values as there is room.
* ``map_source``: takes the values of a map from iterables.
* ``map_calls``: the calls of a map, until their results are taken.
* ``map_window``: decides whose results come next, and how long chunks are.
* ``recorded_calls``: gathers what a pool's function calls into chunks.
* ``progress``: shows how many results there are, where somebody sees it.
* ``progress_line``: shows that below what the program prints on its terminal.
* ``progress_cell``: shows that in the output of a notebook's cell.
* ``notebook``: interrupts what an interrupted cell waits for; ends its output.
"""
