"""Records when calls were made and ran, for traces and timelines.

In reading order:

* ``runtime``: records calls in the owner.
* ``worker``: records when the calls of a worker run.
* ``trace_events``: draws a recording, for Perfetto and Chrome.
* ``runtime_trace``: ``runtime.trace()`` and ``actorlib trace``.
"""
