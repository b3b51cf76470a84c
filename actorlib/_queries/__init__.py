"""A local socket of a runtime, which answers queries of the same user.

In reading order:

* ``rows``: the rows of answers.
* ``protocol``: the frames, the versions and the limits.
* ``addresses``: the addresses of servers.
* ``attach_server``: accepts clients of a runtime that has a name.
* ``server``: opens the socket and sleeps until a client connects.
* ``service``: serves clients, even while the owner's loop is blocked.
* ``queries``: the interface of a query: a name, parameters, an answer.
* ``answers``: the queries that each runtime answers.
* ``stacks``: the stacks of the owner's threads and tasks.
* ``client``: sends queries from another process.
* ``local_client``: sends queries from another thread of the same process.
* ``processes``: the state, CPU time, memory and command lines of processes.
"""
