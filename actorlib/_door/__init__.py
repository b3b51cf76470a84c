"""The door of a runtime: a local socket where its own user asks what goes on inside.

In reading order:

* ``rows``: the rows with which a runtime answers.
* ``protocol``: what is sent there: frames, versions, limits.
* ``addresses``: where doors are, and who stands before one.
* ``reception``: lets clients in, where a runtime has a name.
* ``door``: opens one, and sleeps behind it until somebody knocks.
* ``service``: serves those who ask, also while the owner's loop is blocked.
* ``answers``: what can be asked, and what is answered.
* ``stacks``: where the threads and the tasks of the owner stand.
* ``worker_stacks``: asks the threads of an actor's process where they stand.
* ``client``: asks, from another process.
* ``within``: asks, from another thread of the same process.
* ``processes``: what the system says of processes: state, time, memory, words.
"""
