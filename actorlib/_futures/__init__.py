"""Results that are not there yet: refs, streams, and their flow control.

In reading order:

* ``tally``: counts calls by their outcome, without a separate callback for each.
* ``object_ref``: ``ObjectRef``, the future of a call's result.
* ``stream_reader``: receives the items of a generator's call in this process.
* ``flow_control``: limits how many items a generator may be ahead of its reader.
* ``runtime_portal``: runs an engine's methods on its loop, for callers on any thread.
"""
