"""What users write and hold: decorators, handles, functions, queues, pools, groups.

In reading order:

* ``decorators``: ``@remote``: a class becomes an ActorClass, whose instances live in
  workers.
* ``bindings``: what names in a user's code stand for, so that code is sent anew when
  that changes.
* ``typed_methods``: ``@method``: what a class says about calls of one of its methods.
* ``actor_handle``: handles: names become calls.
* ``result_parts``: the parts of a result, each a ref of its own:
  ``options(num_returns=2)``.
* ``call_batch``: many calls of one method made at once, in few frames:
  ``handle.method.map(items)``.
* ``remote_function``: remote functions: each call runs in some process, on a share of
  its own.
* ``placement_group``: placement groups: bundles that are reserved all or nothing, and
  actors inside them.
* ``actor_lookup``: finding actors: one by its name, or all of them to look at.
* ``waiting``: waiting for some of many refs: ``await`` where a loop runs, else
  ``get()``.
* ``as_completed``: results one after the other, for ``async for`` and for ``for``.
* ``inspection``: why a value cannot be sent: the members of it that nothing can pickle.
* ``queue``: A queue that the owner and any number of actors share: one actor stands
  behind it.
* ``queue_actor``: the actor behind a ``Queue``: it keeps items as bytes, and whoever
  asks waiting.
* ``actor_pool``: A pool: values are shared out among actors, each of which has one at a
  time.
* ``pipeline``: calls that are begun as there is room for them: values may be endless,
  or come late.
* ``progress_bar``: A bar on the standard error; only who asks for one loads this room,
  and rich.
"""
