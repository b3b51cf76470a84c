"""The whole vocabulary of the pipe between the owner and one worker.

A frame is a tuple: its kind, its fields in order, and its payload last. Kinds are
numbers here and nothing else, so that a frame on the hot path is one tuple, one
``pack`` and no object in between. Payloads are opaque to whoever passes them on.

A payload is ``bytes``, or a list of buffers when it is large: then the frame carries
their sizes, and the buffers follow it raw, to be read into place without a copy.

``loans`` are the actors whose handles are inside the payload, or None: each frame that
arrives makes its receiver a holder of them (see ``_local/holders.py``).

Owner to worker, worker to owner, or both:

=========  ====  ===========================================================
START      down  environment, context, arguments of the interpreter; class;
                 loans; the constructor's arguments
READY      up    the actor is there: calls may come
CALL       down  id, method, loans, arguments
ASK        up    id, actor, method, loans, arguments: a call to another actor
RESULT     both  id, loans, value
FAILURE    both  id, kind of failure, text, traceback, where, loans, exception
CANCEL     both  id: nobody wants the answer any more
CREATE     up    actor, class, options and interface: an actor is made
GIVE       up    actor, whether they are good, loans, its arguments or the error
AWAIT      up    id, actor: answer when it is ready, or why it never will be
END        up    id, actor, in which manner: answer when it is gone
RETURN     up    actor, how many loans of it are given back
STOP       down  finish what was sent before, then leave
=========  ====  ===========================================================
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

START: Final = 0
READY: Final = 1
CALL: Final = 2
ASK: Final = 3
RESULT: Final = 4
FAILURE: Final = 5
CANCEL: Final = 6
CREATE: Final = 7
AWAIT: Final = 8
END: Final = 9
RETURN: Final = 10
STOP: Final = 11
GIVE: Final = 12

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
"""A FAILURE because the call was cancelled."""

Buffer: TypeAlias = bytes | bytearray | memoryview
Payload: TypeAlias = bytes | list[Buffer]
Frame: TypeAlias = tuple[Any, ...]
