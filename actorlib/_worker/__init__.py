"""The child's side of the pipe: one actor, and the template that workers come from.

Loading it is part of every start, so it imports neither ``_local`` nor
``accelerators``. In reading order:

* ``__main__``: how a worker begins, forked or spawned.
* ``leaving``: how a process ends, and a fork of it.
* ``birth``: the first frame becomes an environment, a class and an object.
* ``built_in``: the methods that every actor has.
* ``inbox``: the frames that came, where there is no loop.
* ``serial``: one call at a time on the main thread, without an event loop.
* ``threaded``: several calls at once, on threads that are made when they are needed.
* ``looped``, ``plain``: an event loop, for actors with ``async def``, and the main
  thread beside it.
* ``loopwatch``: who blocks that loop, and what waits for its own actor.
* ``crew``: the threads that serve it beside the main one.
* ``carried``: what the caller said of a call, where it runs.
* ``functions``, ``attention``, ``yielding``, ``tempo``: calls of functions; looking at
  the pipe while one runs; those that yield; how long they take.
* ``gate``: how many calls run at once, and which waits next.
* ``streams``, ``producer``, ``async_streams``: generators, whose items go to readers;
  those whose readers are behind are set aside.
* ``replies``: what a method returned or raised becomes a frame.
* ``uplink``: the engine of a worker: the same verbs, as frames to the owner.
* ``groups``: likewise for placement groups.
* ``loops``: event loops, and how links are read on one.
* ``looplink``: the same beside an event loop, whose frames go by way of that loop.
* ``refs``: what it has asked and has no answer to.
* ``making``: actors that it makes.
* ``outbox``: what it asks, in order behind what waits for its arguments.
* ``asking``: calls of other actors on their way out.
* ``ways``, ``hosts``, ``peers``, ``guests``: which way a call goes; what links need of
  a worker; whom this one calls over links, and who calls it.
* ``pace``: which methods are quick enough for answers to wait behind.
* ``calling``: functions that it calls.
* ``loans``: which handles this worker holds.
* ``objects``: its refs that are sent to others, and theirs.
* ``template``: the fork server, which outlives the owner to clean up after it.
* ``requests``, ``spare``, ``rehearsal``: what it is asked; a worker that it forks
  ahead of that; the life that such a one lives before its own.
* ``preload``, ``processes``: what it imports before it forks; how it ends processes.
"""
