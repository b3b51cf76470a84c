"""The control plane: supervises actors, routes calls, counts references.

In reading order:

* ``engine``: the verbs of the embedded engine, in the owner's process.
* ``threadsafe_engine``: the embedded engine for threads that are not its loop's, such
  as scripts'.
* ``launching``: chooses what starts workers, and has it begin before the rest is
  loaded.
* ``machine``: the machine a runtime works on: what there is, and how workers start
  there: process, pipe, first frame.
* ``actor_table``: a runtime's actors: their supervisors, and who holds which.
* ``inspection``: what is known of actors and calls, for who asks.
* ``inquiries``: asks workers what only they know, and waits for no busy one.
* ``stored_objects``: what the object store keeps, by whom and for which calls.
* ``actor_record``: the actors of one runtime and the states they may be in.
* ``placement``: what each actor asks for, its wait in line, its lease, given back.
* ``supervisor``: keeps one actor from its creation until it is dead for good.
* ``suspension``: suspends an actor, whose process lives on without its share, and
  resumes it.
* ``teardown``: the steps of an end, each of them done whatever the others raise; and
  the cleanup of what was kept for a worker that is gone.
* ``gangs``: actors that are ranks: who meets whom, and how they end together.
* ``reserved_port``: keeps the port where ranks meet.
* ``creation``: what actors are made from, ready to be sent.
* ``clients``: programs that are attached to a runtime, each with a session.
* ``worker_session``: one incarnation of a worker: from its first frame to its end.
* ``restart_policy``: whether an actor that died is started anew, and when.
* ``exit_reason``: why an actor is gone: what its process left behind, put in words.
* ``names``: names of actors, one for each name of a namespace.
* ``refcount``: reference counts: who holds what, how often.
* ``objects``: what refs stand for that were sent inside of values: kept while somebody
  holds them.
* ``shared_memory``: the shared memory of a runtime: what the owner makes, and what its
  workers make.
* ``call_table``: keeps the calls that have no answer: whom each is for, since when.
* ``calls_under_way``: tells which of an actor's calls run, from those that have no
  answer.
* ``mailbox``: decides which calls of one actor go to its worker, and which go again.
* ``router``: the way to one worker and back; routes an actor's calls: out in order, and
  their answers and items back.
* ``link_callers``: knows who calls one actor over links, and tells them of its end.
* ``call_policy``: says of each call of an actor how often it is sent again, and until
  when it may take.
* ``response_target``: keeps calls that await answers, of actors and of functions, and
  gives those to the callers: the owner's code, or a worker.
* ``submission``: calls on their way out, with their arguments and in order.
* ``worker_requests``: serves what workers ask for: calls to other actors, creations,
  endings, references.
* ``log_tail``: cuts the last lines of standard error down to what helps a user.
* ``pending_creations``: actors that workers make: first what they are, then the
  constructor's arguments.
* ``untrusted``: what workers send pickled for the owner itself to read: options,
  groups.
* ``worker_calls``: calls of workers that have no answer: who gets it, and which call
  made which.
* ``peer_links``: links between workers that call one another often.
* ``deadlines``: deadlines of calls: whose time is over, told by one timer.
* ``deadlocks``: calls of workers that wait for one another, and will for ever.
* ``placement_groups``: the verbs of placement groups, for the owner's own code and for
  workers.
* ``task_pool``: takes every call of a function, and tells whoever waits for it.
* ``task_queue``: decides which worker runs which call of a function, and which calls go
  again.
* ``read_signal``: has a worker read while the user's code runs there.
* ``task_worker``: sends calls of functions to one worker, and takes care of workers
  without any.
* ``task_workers``: starts the workers of functions, gives them slots and calls, and
  ends them.
* ``task_functions``: knows the functions that are called in a runtime, and the queue of
  each.
* ``task_slots``: gives workers of functions their slots: from the machine, or a
  placement group.
"""
