"""Makes and reads the headers of calls.

Most calls have none, and then no code here runs. Headers are sent as a dict:

* ``batch``: the call is a chunk of a map, so many calls: the number of arguments of
  each, and whether the first error ends the chunk.
* ``group``: the concurrency group that the caller has named.
* ``detach``: a stream continues without a reader; for the owner alone.
* ``deadline``: see ``Deadline``.
* ``mover``: returns another actor that may get the call if this one dies; for the
  owner alone.
* ``name``: the name of the call in the worker.
* ``observed``: the data of an observed call; see ``Observed``.
* ``retries``: how often and after which errors it is sent again; for the owner alone.
* ``variables``: the propagated context variables, each as a payload.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, cast

from actorlib._core.current_call import deadline_of
from actorlib._core.propagation import OBSERVED, PROPAGATED, current_values, set_values
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

    ``parent_call`` is the call that makes it, and ``label_of`` returns the label of
    that call from its method or function.

    Raises:
        SerializationError: The value of a context variable cannot be sent.
    """
    inherited = deadline_of(parent_call[2]) if parent_call is not None else None
    if callee.headers is None and inherited is None and not _sends_variables():
        return None
    headers = dict(callee.headers or {})
    timeout = cast("float | None", headers.pop("timeout", None))
    own = None if timeout is None else (time.monotonic() + timeout, timeout, "")
    if parent_call is not None and inherited is not None:
        when, seconds, source = inherited
        inherited = (when, seconds, source or label_of(parent_call[1]))
    sooner = min((each for each in (own, inherited) if each), default=None)
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


def _sends_variables() -> bool:
    """Whether a marked variable may be sent with the call that is being made."""
    count = len(PROPAGATED)
    if count != 1 or OBSERVED.name not in PROPAGATED:
        return count > 0
    return OBSERVED.get(None) is not None


def enter_variables(headers: Mapping[str, Any]) -> None:
    """Sets the context variables that came with a call in this context."""
    arrived = cast("Mapping[str, bytes]", headers.get("variables", {}))
    set_values({name: _unpacked(name, payload) for name, payload in arrived.items()})


def variables_in(headers: Mapping[str, Any]) -> dict[str, object]:
    """Loads the context variables that are sent with a call, to display them."""
    arrived = cast("Mapping[str, bytes]", headers.get("variables", {}))
    variables: dict[str, object] = {}
    for name, payload in arrived.items():
        try:
            variables[name] = decode(payload)
        except Exception as error:  # noqa: BLE001  # the code of the user's classes
            variables[name] = f"<cannot be loaded here: {error}>"
    return variables


def late_error(where: str, deadline: Deadline) -> DeadlineExceededError:
    _, seconds, outer_call = deadline
    timeout = (
        f"the {seconds:g} s that {outer_call}, which called it, was given"
        if outer_call
        else f"the {seconds:g} s that it was given"
    )
    return DeadlineExceededError(
        f"{where} was not done within {timeout}: it was cancelled, with its own calls",
        timeout=seconds,
        is_inherited=bool(outer_call),
    )


def _packed(name: str, value: object) -> bytes:
    try:
        payload = encode(value)
        return payload if isinstance(payload, bytes) else dump(value)
    except Exception as error:
        raise SerializationError(
            f"the value of the context variable {name!r}, a "
            f"{type(value).__qualname__}, cannot be sent to another process: {error}"
        ) from error


def _unpacked(name: str, payload: bytes) -> object:
    try:
        return decode(payload)
    except Exception as error:
        raise SerializationError(
            f"the value of the context variable {name!r} cannot be loaded here: {error}"
        ) from error
