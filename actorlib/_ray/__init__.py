"""Actors on a cluster: the same verbs, on Ray.

A host is one of Ray's actors; it holds the user's object and calls its methods by name.
Values, refs and handles travel in Ray's own way, so Ray counts and moves them. What Ray
cannot do is refused by name, in the line that asks.

Nothing outside of this package imports ``ray``, and nothing imports this package before
``init(engine="ray")``, or before Ray has started a host.

In reading order:

* ``ray_api``: Ray itself: the one file that imports it, and all that is asked of its
  inside.
* ``client_mode``: what is special about a process that is no part of the cluster, but
  Ray's client.
* ``sealed``: values that only those load who asked for them: bytes, and Ray's own
  things beside.
* ``deadlines``: converts deadlines of calls for their way between machines.
* ``timer_thread``: calls back at given times: one thread for all calls of a process.
* ``options``: options of actors and calls in Ray's words, and those that Ray has none
  for.
* ``messages``: what crosses between a caller and a host, besides the values themselves.
* ``errors``: Ray's errors in actorlib's words; told apart by the names of their
  classes.
* ``host_loop``: the event loop of an actor, which its plain methods block while they
  run.
* ``process``: where the answers of one process become the values of its refs.
* ``refs``: what stands behind a ref: something that Ray has, or will have.
* ``streams``: a stream as it is read in this process: Ray's generator behind ours.
* ``actors``: what one process knows of the actors that it can call.
* ``calls``: calls on their way out: of actors, and of functions.
* ``host``: what Ray runs: it holds the user's object, and calls its methods by name.
* ``state``: what the cluster tells of its actors, calls, groups and machines.
* ``placement_groups``: placement groups on Ray: there the strategies are about
  machines, not devices.
* ``engine``: the verbs on Ray, in whatever process of the cluster.
* ``worker``: the engine of this process, wherever in the cluster that is.
* ``connection_errors``: says why there is no connection to a cluster, and what to
  write.
* ``cluster``: connects to a cluster, or starts one on this machine.
"""
