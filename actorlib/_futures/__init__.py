"""Results that are not there yet: refs, streams, and their flow control.

In reading order:

* ``tally``: counts calls by how they ended, without a look at each of them.
* ``object_ref``: ``ObjectRef``, the future of a call's result.
* ``stream_reader``: the items of a generator's call, as this process reads them.
* ``flow_control``: limits how many items a generator may be ahead of its reader.
* ``runtime_portal``: runs an engine's methods on its loop, whichever thread calls them.
"""
