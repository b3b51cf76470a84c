"""The worker's side of the pipe, and the template that forks workers.

Every start of a worker loads this code, so it imports neither ``_owner`` nor
``accelerators``. In reading order:

* ``__main__``: runs a worker from its first frame to its exit code.
* ``os_process``: queries the kernel about processes, and ends this process.
* ``startup``: turns the START frame into an environment, a class and an object.
* ``features``: imports and attaches the features of a worker.
* ``template``: the process that forks workers and cleans up after them.
* ``executors``: where calls run: the main thread, threads, event loops.
* ``requests``: the requests of a worker to the owner, and the answers.
* ``links``: calls between workers without the owner.
"""
