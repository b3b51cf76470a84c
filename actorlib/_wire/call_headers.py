"""Makes and reads the headers of calls: what goes with one besides its arguments.

Most calls have none, and then nothing of this runs. Headers travel as a dict:

* ``batch``: that it is a chunk of a map, so many calls: how many arguments each
  has, and whether the first error ends the chunk.
* ``group``: the concurrency group that the caller has named.
* ``detach``: that a stream runs on when nobody reads it; for the owner alone.
* ``deadline``: when its time is over; see ``Deadline``.
* ``mover``: gives another actor that may have the call if this one dies; for the
  owner alone.
* ``name``: what the call is called where it runs.
* ``observed``: what crosses with a call that is observed; see ``Observed``.
* ``retries``: how often and after what it is sent again; for the owner alone.
* ``variables``: the context variables that travel, each as a payload.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, cast

from actorlib._core.current_call import deadline_of
from actorlib._core.propagation import (
    OBSERVED,
    PROPAGATED,
    current_values,
    set_values,
)
from actorlib._wire.serialization import decode, dump, encode
from actorlib.exceptions import DeadlineExceededError, SerializationError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from actorlib._core.current_call import Deadline, Running
    from actorlib._options.callee import Callee


def headers_of(
    callee: Callee,
    parent_call: Running | None = None,
    label_of: Callable[[str], str] = str,
) -> dict[str, Any] | None:
    """Makes the headers of a call that is made now; None for none.

    Args:
        callee: What is called.
        parent_call: The call that makes it, if one does.
        label_of: Names that call, for messages, by its method or function.

    Raises:
        SerializationError: A context variable holds what cannot be sent.
    """
    inherited = deadline_of(parent_call[2]) if parent_call is not None else None
    if callee.headers is None and inherited is None and not _travels():
        return None
    headers = dict(callee.headers or {})
    timeout = cast("float | None", headers.pop("timeout", None))
    own = None if timeout is None else (time.monotonic() + timeout, timeout, "")
    if parent_call is not None and inherited is not None:
        when, seconds, giver = inherited
        inherited = (when, seconds, giver or label_of(parent_call[1]))
    sooner = min((given for given in (own, inherited) if given), default=None)
    if sooner is not None:
        headers["deadline"] = sooner
    observed = OBSERVED.get(None)
    if observed is not None:
        headers["observed"] = observed
    if len(PROPAGATED) > (OBSERVED.name in PROPAGATED):
        values = current_values()
        values.pop(OBSERVED.name, None)
        variables = {name: _packed(name, value) for name, value in values.items()}
        if variables:
            headers["variables"] = variables
    return headers or None


def _travels() -> bool:
    """Whether a marked variable may travel with the call that is being made."""
    count = len(PROPAGATED)
    if count != 1 or OBSERVED.name not in PROPAGATED:
        return count > 0
    return OBSERVED.get(None) is not None


def enter_variables(headers: Mapping[str, Any]) -> None:
    """Sets the context variables that came with a call in this context.

    Raises:
        SerializationError: A value cannot be loaded here.
    """
    arrived = cast("Mapping[str, bytes]", headers.get("variables", {}))
    set_values({name: _unpacked(name, payload) for name, payload in arrived.items()})


def variables_in(headers: Mapping[str, Any]) -> dict[str, object]:
    """Loads the context variables that travel with a call, to show them."""
    arrived = cast("Mapping[str, bytes]", headers.get("variables", {}))
    found: dict[str, object] = {}
    for name, payload in arrived.items():
        try:
            found[name] = decode(payload)
        except Exception as error:  # noqa: BLE001  # the user's classes
            found[name] = f"<cannot be loaded here: {error}>"
    return found


def late_error(where: str, deadline: Deadline) -> DeadlineExceededError:
    """Makes the error of a call whose time is over.

    Args:
        where: The call: class and method.
        deadline: Its deadline.
    """
    _, seconds, giver = deadline
    given = (
        f"the {seconds:g} s that {giver}, which called it, was given"
        if giver
        else f"the {seconds:g} s that it was given"
    )
    return DeadlineExceededError(
        f"{where} was not done within {given}: it was cancelled, with what it called",
        timeout=seconds,
        is_inherited=bool(giver),
    )


def _packed(name: str, value: object) -> bytes:
    try:
        payload = encode(value)
        return payload if isinstance(payload, bytes) else dump(value)
    except Exception as error:
        raise SerializationError(
            f"the context variable {name!r} holds a {type(value).__qualname__}, which "
            f"cannot be sent to another process: {error}"
        ) from error


def _unpacked(name: str, payload: bytes) -> object:
    try:
        return decode(payload)
    except Exception as error:
        raise SerializationError(
            f"the value of the context variable {name!r} cannot be loaded here: {error}"
        ) from error
