"""The server of a runtime: a local socket where its own user asks what goes on inside.

In reading order:

* ``rows``: the rows with which a runtime answers.
* ``protocol``: what is sent there: frames, versions, limits.
* ``addresses``: where servers are, and who asks.
* ``attach_server``: lets clients in, where a runtime has a name.
* ``server``: opens one, and sleeps behind it until a client connects.
* ``service``: serves those who ask, also while the owner's loop is blocked.
* ``queries``: what a query is: a name, parameters, an answer.
* ``answers``: what any runtime can be asked, and what it answers.
* ``stacks``: where the threads and the tasks of the owner stand.
* ``client``: asks, from another process.
* ``local_client``: asks, from another thread of the same process.
* ``processes``: what the system says of processes: state, time, memory, words.
"""
