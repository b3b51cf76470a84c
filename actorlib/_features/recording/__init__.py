"""Records when calls were made and ran, for traces and timelines.

In reading order:

* ``runtime``: records for all who want to know, in the owner.
* ``worker``: records when the calls of a worker run.
* ``trace_events``: draws what was recorded, for Perfetto and Chrome.
* ``runtime_trace``: what ``runtime.trace()`` gives, and ``actorlib trace``.
"""
