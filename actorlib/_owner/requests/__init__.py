"""Requests of workers and attached programs to the owner.

In reading order:

* ``clients``: programs that are attached to a runtime, each with a session.
* ``worker_requests``: serves the requests of workers: calls of other actors,
  creations, endings, references.
* ``worker_calls``: unanswered calls of workers: the recipient and the parent call.
* ``pending_creations``: actors that workers create: first the class and options, then
  the constructor's arguments.
* ``untrusted``: loads pickled values of workers for the owner: options, groups.
* ``peer_links``: links between workers that call one another often.
* ``placement_groups``: the operations on placement groups, for the owner's own code
  and for workers.
* ``deadlocks``: calls of workers that wait for one another for ever.
"""
