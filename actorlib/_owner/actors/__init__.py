"""Actors, from their creation to their end.

In reading order:

* ``actor_record``: the definition, the state and the id of an actor.
* ``actor_table``: the supervisors of a runtime's actors, and their holders.
* ``placement``: an actor's request, its wait in line, and its lease.
* ``supervisor``: manages one actor from its creation until it is dead for good.
* ``worker_starter``: starts workers: a process, its pipe, its first frame.
* ``suspension``: suspends and resumes an actor; its process lives on without its share.
* ``worker_session``: one incarnation of a worker, from its first frame to its end, and
  the cleanup after it.
* ``restart_policy``: whether an actor that died is restarted, and when.
* ``exit_reason``: explains the end of an actor from what its process left: its exit,
  its last lines, its calls.
* ``names``: names of actors, each unique in its namespace.
* ``gangs``: actors that are ranks: which meet, and how they end together.
"""
