"""The control plane: supervises actors, routes calls, counts references.

In reading order:

* ``engine``: the verbs of the embedded engine, in the owner's process.
* ``threadsafe_engine``: the embedded engine for threads that are not its loop's, such
  as scripts'.
* ``launching``: chooses what starts workers, and has it begin before the rest is
  loaded.
* ``machine``: the machine a runtime works on: what there is, and how workers start
  there: process, pipe, first frame.
* ``teardown``: the steps of an end, each of them done whatever the others raise; and
  the cleanup of what was kept for a worker that is gone.
* ``actors``: the lives of actors, from creation to death.
* ``calls``: calls without an answer: in order, out, back, again.
* ``functions``: calls of functions, and the workers that run them.
* ``objects``: references, and the shared memory that values lie in.
* ``requests``: what workers and attached programs ask of the owner.
* ``observation``: what is known of a runtime, for whoever asks.
"""
