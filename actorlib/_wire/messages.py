"""Lists the kinds of frames between the owner and one worker, with their fields.

A frame is a tuple: its kind, its fields in order, and its payload last. Kinds are plain
numbers, so that a frame on the hot path is one tuple and one ``pack``, with no object
in between. A process that forwards a payload does not decode it.

A payload is ``bytes``, or a list of buffers if it is large. Then the frame contains
their sizes, and the buffers follow it raw, to be read into place without a copy. Or it
is a ``SharedPayload``: it lies in memory that both processes have, and the frame
contains its location.

The last field of any other frame is not a tuple, because a tuple there means sizes.

*Scalars* (``are_scalars`` of ``codec``) may also be fields of a frame, so that a short
call is packed once and not twice.

``borrowed`` are the borrowed references of the payload: the ids of its actors, objects
and blocks of memory, or None. Each frame that arrives makes its receiver a holder of
them (see ``_owner/objects/refcount.py``). ``headers`` are those of ``call_headers``.
The borrowed references come right before the payload, or before headers that are not
None. A sender looks only there for references to shared memory.

Owner to worker (down), worker to owner (up), or both:

=================  ====  ===============================================================
START              down  the fields of an ActorConfig; class; borrowed; the
                         constructor's arguments
READY              up    the actor's name for itself, or empty; its process id: calls
                         may be sent
STOP               down  finish the earlier calls, then leave
LEAVE              up    id: the actor leaves by its own decision; if id is not 0, that
                         call gets no result
CALL               down  id, method, borrowed, arguments
CALL_WITH          down  id, method, borrowed, headers, arguments
CALL_SCALARS       down  id, method, the arguments one by one: a CALL with scalars
CALL_ACTOR         up    id, parent, actor, method, borrowed, arguments: a call to
                         another actor; parent is the number of the call that makes it,
                         or 0
CALL_ACTOR_WITH    up    id, parent, actor, method, borrowed, headers, arguments: a
                         CALL_ACTOR with headers
CALL_DEFERRED      up    id, parent, actor, deadline, method: a call that waits for its
                         arguments; its CALL_ACTOR follows, unless it is cancelled
RESULT             both  id, borrowed, value
RESULT_SCALAR      up    id, the value: a RESULT with a scalar, for the owner only
FAILURE            both  id, kind of failure, text, traceback, where, borrowed,
                         exception
CANCEL             both  id: the call is cancelled; up also whether its own calls are
                         cancelled too; down also true if a plain method is to be
                         interrupted
CANCEL_CHILDREN    down  session, call: the calls that this call has made over links are
                         cancelled; session is the caller's, or 0 if the call runs here
WAITS              up    id, method: the actor's only thread runs that method, which
                         waits for a call; the id is 0 if it no longer waits
STUCK              up    id, methods, method: that method awaits a call, and holds the
                         only slot for which calls of those methods wait
BLOCKED            up    number, calls, count: the running function waits, usually until
                         that many of those calls are answered; its CPUs may be granted
                         to others, unless that many are already answered
RESUMED            up    number: its wait is over, and it waits for its CPUs
RESUME             down  number: it has its CPUs again
CREATE             up    id, actor, borrowed, class, options and interface: an actor is
                         created; if id is not 0, reply with nothing, or with the actor
                         that has its name
CREATE_ARGUMENTS   up    actor, whether they are valid, borrowed, the arguments that
                         followed later, because they had to be waited for, or the error
AWAIT              up    id, actor: reply when it is ready, or with the reason why it
                         never will be
END                up    id, actor, manner: reply when it is gone
RELEASE_REFS       up    actor, how many borrowed references to it are returned
FIND               up    id, name, namespace: reply with the actor of that name
LIST               up    id, the name of a list: reply with all actors, their names, or
                         the total or free resources
GROUP              up    id, operation, its argument: a request about placement groups
OBJECT_ANNOUNCE    up    object, call: a ref of this worker, the result of that call (or
                         0), is about to be sent inside of a value
OBJECT_PUT         up    object, whether it is valid, borrowed, its value or the error
OBJECT_GET         up    id, object: reply with its value
OBJECT_CANCEL      up    object: cancel the call whose result it is
ITEM               both  id, index, borrowed, value: the next item of a stream; a RESULT
                         with the number of items, or a FAILURE, ends it
STREAM_ACK         both  id, how many items of a stream its reader has taken in all; -1
                         if it no longer reads
STREAM_EXPIRE      down  the streams without an item taken since the last STREAM_EXPIRE
                         end
REGISTER_FUNCTION  up    its number, label, borrowed, a function: it is about to be
                         called
RUN                up    id, parent, a function's number, its options, headers,
                         borrowed, and its arguments
FORCE_CANCEL       up    id, whether its own calls are cancelled too: cancel that call
                         of a function, and end its process
DURATION           up    function, seconds of its recent calls
RETURN_UNSTARTED   down  return the calls that have not begun
RAN                up    number, method, caller, made, began, ended, status, error: an
                         observed call has run; see ``Run``
FEATURE            down  name, arguments: attach a feature to this worker, or change it;
                         see ``_worker/features.py``
LINK_OPEN          both  up: actor: this worker calls it often; requests a link to it.
                         down: session of the caller: a link from it is here
LINK_OPENED        down  actor, the session at the link's other end; 0: not now, -1:
                         never
LINK_BEGIN         both  session at the other end: the next messages of the link were
                         sent after the frames before this one
LINK_FENCE         both  session at the other end: the messages of the link up to a
                         LINK_PAUSE, or to its end, were sent before the frames after
                         this one
LINK_CALL_SENT     up    id, parent, actor, method: a call that was sent over a link;
                         the caller is about to wait for it
LINK_CANCEL        both  up: session, call there, whether the link had no room for the
                         cancellation: the calls of that call are cancelled, and the
                         call itself; down: call
LINK_CLOSE         down  accept no calls over links from now on
LINK_CLOSED        up    all calls that came over links are answered
LINK_LOST          down  session, text, error: it has ended, and will answer no calls
LINK_CALLS         both  down: 0: request the unanswered calls of this worker over
                         links; 1: reply when there are none. up: for each the id,
                         parent, actor, method; their number; and the 1, or 0
LOG                up    level, name of the logger, seconds since the epoch, id, method,
                         attributes, traceback or None, message: a log record; the id is
                         that of the call whose code logged it, or 0
NOTE_CALLS         both  down: record the running calls from now on: see
                         ``RunningCalls``; up: this worker has no memory for that
RECORDED           up    the number of a request, or 0 if more follows; how many runs,
                         and the recording, as msgpack
=================  ====  ===============================================================

Between two workers, over a link (``peer_socket``):

===========  =============  ============================================================
RESULT       to the caller  id, None, value
FAILURE      to the caller  as between owner and worker, with None for borrowed
CANCEL       to the callee  id: the call is cancelled
LINK_OPENED  to the caller  the callee has its end
LINK_PAUSE   to the callee  the next messages are sent after the next LINK_BEGIN; this
                            is the only frame of its message
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

# Calls and results with scalars.
CALL_SCALARS: Final = 49
RESULT_SCALAR: Final = 50

# Calls that are observed.
RAN: Final = 51
FEATURE: Final = 52

# Requests of observers.
LINK_CALLS: Final = 53
RECORDED: Final = 56
NOTE_CALLS: Final = 57

# Reports of the running code.
LOG: Final = 54

_NAMES = {number: name for name, number in [*globals().items()] if name.isupper()}
"""The name of each kind: the constants above, and none of those below."""

BEHIND_CALLS: Final = 0
"""An END after the earlier calls of the actor."""
AT_ONCE: Final = 1
"""An END of a running actor."""
TO_RESTART: Final = 2
"""An END of its process; the actor is restarted if its options allow that."""

RAISED: Final = 0
"""A FAILURE of the user's code."""
DIED: Final = 1
"""A FAILURE because the called actor is gone or never started."""
CANCELLED: Final = 2
"""A FAILURE because the call, or its caller, was cancelled; perhaps with the reason."""
UNSTARTED: Final = 3
"""Not an error: the worker returns a call that it has not begun."""

Frame: TypeAlias = tuple[Any, ...]


def name_of(kind: int) -> str:
    """Returns the name of a kind of frame, such as ``CALL_ACTOR``, for messages."""
    return _NAMES.get(kind, f"frames of kind {kind}")
