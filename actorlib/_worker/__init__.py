"""The child's side of the pipe: one actor, and the process that forks workers.

Loading it is part of every start, so it imports neither ``_owner`` nor
``accelerators``. In reading order:

* ``__main__``: runs a worker from its first frame to its exit code.
* ``os_process``: asks the kernel about processes, and ends them.
* ``startup``: makes the environment, the class and the object of the START frame.
* ``features``: the features of a worker, each imported when the owner asks for it.
* ``features``: the features that a worker can have, each imported when asked for.
* ``template``: the process that forks workers and cleans up after everyone.
* ``executors``: where calls run: the main thread, threads, event loops.
* ``requests``: what a worker asks of the owner, and the answers.
* ``links``: calls between workers without the owner.
"""
