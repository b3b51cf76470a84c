"""Lists the kinds of frames between the owner and one worker, with their fields.

A frame is a tuple: its kind, its fields in order, and its payload last. Kinds are
numbers here and nothing else, so that a frame on the hot path is one tuple, one
``pack`` and no object in between. Payloads are opaque to whoever passes them on.

A payload is ``bytes``, or a list of buffers when it is large: then the frame carries
their sizes, and the buffers follow it raw, to be read into place without a copy. Or it
is a ``SharedPayload``: it lies in memory that both processes have, and the frame says
where.

The last field of any other frame is no tuple, as a tuple there means sizes.

*Scalars* (``are_scalars`` of ``codec``) may also stand in a frame as they are, so that
a short call is packed once on its way and not twice.

``loans`` are the ids of the actors, objects and blocks of memory that the payload
refers to, or None: each frame that arrives makes its receiver a holder of them (see
``_owner/objects/refcount.py``). ``headers`` are those of ``call_headers``. Loans stand
right before the payload, or before headers that stand there and are not None. Whoever
sends a frame looks there, and nowhere else, for what lies in shared memory.

Owner to worker, worker to owner, or both:

=================  ====  ===============================================================
START              down  the fields of an ActorConfig; class; loans; the constructor's
                         arguments
READY              up    what the actor calls itself, or nothing; its process id: calls
                         may come
STOP               down  finish what was sent before, then leave
LEAVE              up    id: the actor ends by its own will; if id is not 0, that call
                         gets no answer
CALL               down  id, method, loans, arguments
CALL_WITH          down  id, method, loans, headers, arguments
CALL_SCALARS       down  id, method, the arguments one by one: a CALL of scalars
CALL_ACTOR         up    id, parent, actor, method, loans, arguments: a call to another
                         actor; parent is the number of the call that makes it, or 0
CALL_ACTOR_WITH    up    id, parent, actor, method, loans, headers, arguments: likewise
CALL_DEFERRED      up    id, parent, actor, deadline, method: a call that waits for its
                         arguments; its CALL_ACTOR follows, unless it is cancelled
RESULT             both  id, loans, value
RESULT_SCALAR      up    id, the value: a RESULT of a scalar, for the owner alone
FAILURE            both  id, kind of failure, text, traceback, where, loans, exception
CANCEL             both  id: nobody wants the answer any more; up also whether the calls
                         that it made are not wanted either; down also true if a plain
                         method is to be interrupted
CANCEL_CHILDREN    down  session, call: nobody wants what that call has asked for over
                         links; session is the caller's, or 0 if the call runs here
WAITS              up    id, method: the actor's one thread runs that method, which
                         waits for a call; the id is 0 if it does not any more
STUCK              up    id, methods, method: that method awaits a call, and holds the
                         only place which calls of those methods wait for
BLOCKED            up    number, calls, how many: the function that runs waits, usually
                         until so many of those calls are answered; others may have its
                         CPUs, unless as many were answered before
RESUMED            up    number: it has what it waited for, and waits for its CPUs
RESUME             down  number: it has them back
CREATE             up    id, actor, loans, class, options and interface: an actor is
                         made; if id is not 0, answer with nothing, or with the one that
                         has its name
CREATE_ARGUMENTS   up    actor, whether they are good, loans, the arguments that it was
                         made without, as they had to be waited for, or the error
AWAIT              up    id, actor: answer when it is ready, or why it never will be
END                up    id, actor, in which manner: answer when it is gone
RELEASE_REFS       up    actor, how many loans of it are given back
FIND               up    id, name, namespace: answer with the actor of that name
LIST               up    id, what is looked at: answer with all actors, with their
                         names, or with what there is of everything, or what nobody has
                         of it
GROUP              up    id, verb, about what: a question about placement groups
OBJECT_ANNOUNCE    up    object, call: a ref of this worker, the result of that call (0:
                         of none), is about to be sent inside of a value
OBJECT_PUT         up    object, whether it is good, loans, its value or the error
OBJECT_GET         up    id, object: answer with it
OBJECT_CANCEL      up    object: cancel the call that it is the result of
ITEM               both  id, index, loans, value: the next of a stream; RESULT ends it,
                         with how many there were, or FAILURE
STREAM_ACK         both  id, how many items of a stream its reader has taken in all; -1:
                         nobody reads it any more
STREAM_EXPIRE      down  the streams of which nothing was taken since the last
                         STREAM_EXPIRE end
REGISTER_FUNCTION  up    a number for it, label, loans, a function: it is about to be
                         called
RUN                up    id, parent, a function's number, its options, headers, loans,
                         and its arguments
FORCE_CANCEL       up    id, whether the calls that it made are not wanted either:
                         cancel that call of a function, and end the process it runs in
DURATION           up    function, seconds that it takes of late
RETURN_UNSTARTED   down  give back the calls that have not begun
RAN                up    number, method, caller, made, began, ended, status, error: a
                         call that is observed has run; see ``Run``
OBSERVE            down  what is told of calls in this worker, or nothing
LINK_OPEN          both  up: actor: this worker calls it often; may there be a link to
                         it? down: session of the caller: a link from it is here
LINK_OPENED        down  actor, the session that the link goes to; 0: not now, -1: never
LINK_BEGIN         both  session at the other end: what the link brings next was sent
                         after what came before this
LINK_FENCE         both  session at the other end: what the link brings up to a
                         LINK_PAUSE, or to its end, was sent before what follows this
LINK_CALL_SENT     up    id, parent, actor, method: a call that went over a link; about
                         to be waited for
LINK_CANCEL        both  up: session, call there, whether the link had no room to say
                         so: nobody wants what that call has asked for, nor that call;
                         down: call
LINK_CLOSE         down  take nothing over links from now on
LINK_CLOSED        up    everything that came over links is answered
LINK_LOST          down  session, text, error: it has ended, and answers nothing any
                         more
LINK_CALLS         both  down: which calls of this worker over links have no answer?
                         Or 1: answer as soon as none of them has none.
                         up: those: of each the id, parent, actor, method; how many
                         they are; and the 1, or 0
LOG                up    level, name of the logger, seconds since the epoch, id, method,
                         attributes, traceback or None, message: a log record; the id
                         is that of the call whose code made it, or 0
NOTE_CALLS         both  down: note which calls run, from now on: see ``RunningCalls``;
                         up: this worker has no memory for that
RECORD             down  in which manner, number: record when calls run, or no more, and
                         answer with what was recorded
RECORDED           up    the number of that, or 0 if it is not all; how many runs, and
                         what was recorded, as msgpack
=================  ====  ===============================================================

Between two workers, over a link (``peer_socket``):

===========  =============  ============================================================
RESULT       to the caller  as above, without loans
FAILURE      to the caller  likewise
CANCEL       to the callee  id: nobody wants the answer any more
LINK_OPENED  to the caller  the callee has its end
LINK_PAUSE   to the callee  what follows is sent behind the next LINK_BEGIN; this is the
                            only frame of its message
LINK_CALL    to the callee  id, parent, method, headers or None, arguments
===========  =============  ============================================================
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

# Life of a worker.
START: Final = 0
READY: Final = 1
STOP: Final = 2
LEAVE: Final = 3

# Calls.
CALL: Final = 4
CALL_WITH: Final = 5
CALL_ACTOR: Final = 6
CALL_ACTOR_WITH: Final = 7
CALL_DEFERRED: Final = 8
RESULT: Final = 9
FAILURE: Final = 10
CANCEL: Final = 11
CANCEL_CHILDREN: Final = 12

# Waiting.
WAITS: Final = 13
STUCK: Final = 14
BLOCKED: Final = 15
RESUMED: Final = 16
RESUME: Final = 17

# Actors and their handles.
CREATE: Final = 18
CREATE_ARGUMENTS: Final = 19
AWAIT: Final = 20
END: Final = 21
RELEASE_REFS: Final = 22
FIND: Final = 23
LIST: Final = 24
GROUP: Final = 25

# Objects.
OBJECT_ANNOUNCE: Final = 26
OBJECT_PUT: Final = 27
OBJECT_GET: Final = 28
OBJECT_CANCEL: Final = 29

# Streams.
ITEM: Final = 30
STREAM_ACK: Final = 31
STREAM_EXPIRE: Final = 32

# Functions.
REGISTER_FUNCTION: Final = 33
RUN: Final = 34
FORCE_CANCEL: Final = 35
DURATION: Final = 36
RETURN_UNSTARTED: Final = 37

# Links.
LINK_OPEN: Final = 38
LINK_OPENED: Final = 39
LINK_BEGIN: Final = 40
LINK_PAUSE: Final = 41
LINK_FENCE: Final = 42
LINK_CALL: Final = 43
LINK_CALL_SENT: Final = 44
LINK_CANCEL: Final = 45
LINK_CLOSE: Final = 46
LINK_CLOSED: Final = 47
LINK_LOST: Final = 48

# Calls and answers that are scalars.
CALL_SCALARS: Final = 49
RESULT_SCALAR: Final = 50

# Calls that are observed.
RAN: Final = 51
OBSERVE: Final = 52

# What somebody asks who looks on.
LINK_CALLS: Final = 53
RECORD: Final = 55
RECORDED: Final = 56
NOTE_CALLS: Final = 57

# What is told of the code that runs.
LOG: Final = 54

_NAMES = {number: name for name, number in [*globals().items()] if name.isupper()}
"""The name of each kind: the constants above, and none of those below."""

RECORD_BEGIN: Final = 0
"""A RECORD that has runs recorded from now on."""
RECORD_TELL: Final = 1
"""A RECORD that asks for what was recorded, and has it go on."""
RECORD_END: Final = 2
"""A RECORD that asks for it, and has no more recorded."""

BEHIND_CALLS: Final = 0
"""An END behind what the actor was sent."""
AT_ONCE: Final = 1
"""An END of a running actor."""
TO_RESTART: Final = 2
"""An END of its process; the actor is restarted if it may be."""

RAISED: Final = 0
"""A FAILURE of the user's code."""
DIED: Final = 1
"""A FAILURE because the actor that was asked is gone or never came."""
CANCELLED: Final = 2
"""A FAILURE because the call was cancelled, or one that made it; perhaps why."""
UNSTARTED: Final = 3
"""A FAILURE of nobody: the worker gives the call back as it came."""

Frame: TypeAlias = tuple[Any, ...]


def name_of(kind: int) -> str:
    """Names a kind of frame, such as ``CALL_ACTOR``, for messages to people."""
    return _NAMES.get(kind, f"frames of kind {kind}")
