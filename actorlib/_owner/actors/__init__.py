"""The lives of actors, from creation to death.

In reading order:

* ``actor_record``: the actors of one runtime and the states they may be in.
* ``actor_table``: a runtime's actors: their supervisors, and who holds which.
* ``placement``: what each actor asks for, its wait in line, its lease, given back.
* ``supervisor``: keeps one actor from its creation until it is dead for good.
* ``suspension``: suspends an actor, whose process lives on without its share, and
  resumes it.
* ``worker_session``: one incarnation of a worker: from its first frame to its end.
* ``restart_policy``: whether an actor that died is started anew, and when.
* ``exit_reason``: why an actor is gone: what its process left behind, put in words.
* ``names``: names of actors, one for each name of a namespace.
* ``gangs``: actors that are ranks: who meets whom, and how they end together.
"""
