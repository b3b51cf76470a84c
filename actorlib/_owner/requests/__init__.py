"""What workers and attached programs ask of the owner.

In reading order:

* ``clients``: programs that are attached to a runtime, each with a session.
* ``worker_requests``: serves what workers ask for: calls to other actors, creations,
  endings, references.
* ``worker_calls``: calls of workers that have no answer: who gets it, and which call
  made which.
* ``pending_creations``: actors that workers make: first what they are, then the
  constructor's arguments.
* ``untrusted``: what workers send pickled for the owner itself to read: options,
  groups.
* ``peer_links``: links between workers that call one another often.
* ``placement_groups``: the verbs of placement groups, for the owner's own code and for
  workers.
* ``deadlocks``: calls of workers that wait for one another, and will for ever.
"""
