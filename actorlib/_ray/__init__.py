"""The engine on a Ray cluster.

A host is a Ray actor that holds the user's object and calls its methods by name. Ray
transfers and counts values, refs and handles. Options that Ray does not support are
refused by name where they are written.

Only this subpackage imports ``ray``. It is imported by ``init(engine="ray")``, or when
Ray starts a host.

In reading order:

* ``ray_api``: imports Ray, and wraps its private functions that are used here.
* ``pickled``: pickles values so that a client server does not load them.
* ``client_mode``: the differences of Ray's client from a process of the cluster.
* ``deadlines``: converts deadlines of calls for their way from one machine to another.
* ``timer_thread``: calls back at given times: one thread for all calls of a process.
* ``options``: translates options of actors and calls into Ray's, and refuses the
  others.
* ``messages``: messages between a caller and a host: calls, their failures, and
  configuration.
* ``errors``: translates Ray's errors, and those of failed connections.
* ``host_loop``: runs callbacks on an actor's event loop, even while a plain method
  blocks it.
* ``process``: fills the refs of one process with Ray's answers, on its loop if it has
  one.
* ``host``: the Ray actor that holds the user's object and calls its methods.
* ``actors``: the actors that one process can call.
* ``refs``: fills refs with the results of Ray tasks; the ``ResultOwner`` on Ray.
* ``streams``: reads a Ray stream: the reader behind ``ObjectRefGenerator`` on Ray.
* ``calls``: sends calls of actors and of functions.
* ``state``: reports the state of a cluster: its actors, calls, groups and machines.
* ``placement_groups``: placement groups on Ray, whose strategies concern machines.
* ``engine``: implements Engine on Ray, in each process of a cluster.
* ``worker``: makes the engine of a worker when it is first needed.
* ``cluster``: connects to a cluster or starts one, and makes the owner's engine.
"""
