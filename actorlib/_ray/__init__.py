"""Actors on a cluster: the same verbs, on Ray.

A host is one of Ray's actors; it holds the user's object and calls its methods by name.
Values, refs and handles travel in Ray's own way, so Ray counts and moves them. What Ray
cannot do is refused by name, in the line that asks.

Nothing outside of this package imports ``ray``, and nothing imports this package before
``init(engine="ray")``, or before Ray has started a host.

In reading order:

* ``library``: Ray, as ``Any``; the one file that imports it
* ``deadlines``: when calls' time is over, on their way between machines
* ``alarm``: what calls back when it is
* ``sealed``: values that a client server passes on as they are
* ``client``: what else is special about Ray's client
* ``options``: options in Ray's words, and those that it has none for
* ``crossing``: what crosses between a caller and a host besides values
* ``translate``: Ray's errors in our words
* ``home``: where answers become values of refs
* ``asked``: what is known of it until it is answered
* ``tasks``: what stands behind a ref
* ``stream``: a stream as it is read in this process
* ``actors``: what a process knows of the actors it can call
* ``nodes``: what the machines have, and whether one could hold this
* ``sending``: the arguments of a call on their way to a host
* ``calls``: calls of actors on their way out
* ``endings``: whether an actor is ready, and how it is ended
* ``groups``: placement groups
* ``functions``: remote functions
* ``infos``: what the cluster tells of its actors
* ``lookout``: what is told of calls, actors and groups
* ``directory``: who is in the cluster
* ``making``: the hosts of actors, as Ray is given them
* ``engine``: RayEngine, the verbs
* ``here``: the engine of this process, wherever that is
* ``host``: what Ray runs
* ``refusal``: why there is no cluster, and what to write instead
* ``cluster``: finding a cluster, or starting one
* ``owner``: the engine of the user's program
"""
