"""Runs actors on a cluster: the same engine interface, on Ray.

A host is one of Ray's actors; it holds the user's object and calls its methods by name.
Values, refs and handles travel in Ray's own way, so Ray counts and moves them. What Ray
cannot do is refused by name, in the line that asks.

Nothing outside of this package imports ``ray``, and nothing imports this package before
``init(engine="ray")``, or before Ray has started a host.

In reading order:

* ``ray_api``: imports Ray, and wraps what is used of its private parts; no other file
  does.
* ``pickled``: pickles values so that a client server passes them on without loading
  them.
* ``client_mode``: works around what Ray's client does differently from a process of the
  cluster.
* ``deadlines``: converts deadlines of calls for their way from one machine to another.
* ``timer_thread``: calls back at given times: one thread for all calls of a process.
* ``options``: translates options of actors and calls into Ray's, and refuses the
  others.
* ``messages``: messages between a caller and a host: calls, their failures, and
  configuration.
* ``errors``: translates Ray's errors; told apart by the names of their classes.
* ``host_loop``: runs what is posted to an actor's event loop, also while a plain method
  blocks it.
* ``process``: fills the refs of one process with Ray's answers, on its loop if it has
  one.
* ``host``: hosts an actor: Ray's actor that holds the user's object and calls its
  methods.
* ``actors``: caches what one process knows of the actors that it can call.
* ``refs``: fills refs with the results of Ray's tasks; a ref's ``ResultOwner`` on Ray.
* ``streams``: reads a stream of Ray's: the reader behind ``ObjectRefGenerator`` on Ray.
* ``calls``: sends calls: of actors, whose hosts call a method, and of functions.
* ``state``: reports the state of a cluster: its actors, calls, groups and machines.
* ``placement_groups``: makes placement groups on Ray, where strategies are about
  machines, not devices.
* ``engine``: implements Engine on Ray, in every process of a cluster.
* ``worker``: makes the engine of a worker, as soon as Ray brings something to it.
* ``connection_errors``: says why a program could not be connected to a cluster, and
  what to write instead.
* ``cluster``: connects to a cluster, or starts one on this machine, and runs the engine
  on it.
"""
