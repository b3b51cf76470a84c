"""Which value cannot be sent, and what in it: looked for when sending has failed."""

from __future__ import annotations

import inspect
import itertools
import sys
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from actorlib._serializers import REDUCERS
from actorlib._wire.memory import shared
from actorlib._wire.payload import encode, encode_call, kept
from actorlib.exceptions import SerializationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from actorlib._wire.memory import Memory
    from actorlib._wire.shared import Payload

_DEPTH = 5
"""Steps into a value that are searched for an error's sake."""
_TRIES = 300
"""Members that are tried for it: who has millions waits for no search of them all."""
_TOLD = 3
"""Of how many an error tells."""


def encode_arguments(
    where: str,
    args: tuple[object, ...],
    kwargs: Mapping[str, object],
    memory: Memory,
    loans: list[Any],
) -> Payload:
    """The payload of a call's arguments, as they are now.

    Args:
        where: What is called, for messages.
        args: The positional arguments.
        kwargs: The keyword arguments.
        memory: Where large ones may go.
        loans: Gets the id of their block, if they do.

    Raises:
        SerializationError: One cannot be sent; the message says which.
        ObjectStoreFullError: They have no room, and may not go another way.
    """
    try:
        payload = encode_call(args, kwargs)
    except Exception as error:
        named: list[tuple[int | str, object]] = [*enumerate(args), *kwargs.items()]
        raise SerializationError(blame(where, named, error)) from error
    return kept(shared(memory, payload, loans))


def encode_value(value: object) -> Payload:
    """The payload of one value; its buffers may be the value's own.

    Raises:
        SerializationError: It cannot be sent.
    """
    try:
        return encode(value)
    except Exception as error:
        raise unsendable("the value", value, error) from error


def blame(
    where: str, arguments: Iterable[tuple[int | str, object]], error: Exception
) -> str:
    """Says which argument of a call cannot be sent, and why.

    Args:
        where: What is called.
        arguments: Each with its place, counted from 0, or its name.
        error: What came of the attempt to send all of them.
    """
    for place, value in arguments:
        try:
            encode_call((value,), {})
        except Exception as own:  # noqa: BLE001  # any reason will do
            return str(unsendable(argument(place, where), value, own))
    return f"the arguments of {where} cannot be sent to another process: {error}"


def argument(place: int | str, where: str) -> str:
    """Names an argument of a call.

    Args:
        place: Its place, counted from 0, or its name.
        where: What is called.
    """
    named = f"{place}=" if isinstance(place, str) else str(place + 1)
    return f"argument {named} of {where}"


def unsendable(what: str, value: object, error: Exception) -> SerializationError:
    """The error that says what cannot be sent, and what in it prevents that.

    Args:
        what: What the value is, for example ``"argument 1 of Model.ping"``.
        value: The value.
        error: What came of the attempt to send it.
    """
    return SerializationError(
        f"{what}, a {type(value).__qualname__}, cannot be sent to another process: "
        f"{reason(value, error)}"
    )


class Failure(NamedTuple):
    """Something that cannot be sent, and nothing in it is to blame.

    Attributes:
        obj: What it is.
        name: What it is called where it was found, as ``"self.lock"`` or ``"[3]"``.
        parent: What it was found in; itself if it is the value that was asked about.
    """

    obj: object
    name: str
    parent: object

    def __hash__(self) -> int:
        return hash((id(self.obj), self.name, id(self.parent)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Failure) and hash(self) == hash(other)

    def __repr__(self) -> str:
        found_in = type(self.parent).__qualname__
        kind = type(self.obj).__qualname__
        return f"Failure({self.name!r}, a {kind}, in a {found_in})"


def trouble_with(value: object) -> Exception | None:
    """What prevents a value from being sent, if anything does."""
    try:
        encode(value)
    except Exception as error:  # noqa: BLE001  # pickling runs the user's code
        return error
    return None


def failures_in(
    value: object, name: str, depth: int, tries: int = sys.maxsize
) -> list[Failure]:
    """The innermost things in a value that cannot be sent; itself if there are none.

    Args:
        value: What cannot be sent.
        name: What it is called.
        depth: How many steps into it are searched.
        tries: How many members are tried at the most: each is pickled for that.
    """
    left = itertools.repeat(None, tries)
    return list(_culprits(Failure(value, name, value), depth, [], left))


def _culprits(
    failure: Failure,
    depth: int,
    above: Sequence[object],
    left: Iterator[None],
) -> Iterator[Failure]:
    inner = [
        Failure(member, f"{failure.name}{step}", failure.obj)
        for (step, member), _ in zip(_members(failure.obj), left, strict=False)
        if not any(member is seen for seen in (*above, failure.obj))
        and trouble_with(member) is not None
    ]
    if not inner or not depth:
        yield failure
        return
    for each in inner:
        yield from _culprits(each, depth - 1, [*above, failure.obj], left)


def reason(value: object, error: Exception) -> str:
    """Why a value cannot be sent: what in it prevents that, and what that says.

    Args:
        value: The value.
        error: What came of the attempt to send it.
    """
    label = str(getattr(value, "__qualname__", type(value).__qualname__))
    found = failures_in(value, label, _DEPTH, _TRIES)
    if found[0].obj is value:
        return str(error)
    told = [f"{each.name}, a {type(each.obj).__qualname__}" for each in found[:_TOLD]]
    more = f" and {len(found) - _TOLD} more" if len(found) > _TOLD else ""
    return f"{'; '.join(told)}{more}: {trouble_with(found[0].obj) or error}"


def _members(value: object) -> Iterator[tuple[str, object]]:
    """What a value is made of, each with the step to it."""
    if inspect.ismethod(value):
        yield ".__self__", value.__self__
        yield from _members(value.__func__)
    elif inspect.isfunction(value):
        used = inspect.getclosurevars(value)
        for names in (used.globals, used.nonlocals):
            for name, member in names.items():
                yield f" -> {name}", member
    elif isinstance(value, dict):
        for key, member in cast("Mapping[object, object]", value).items():
            yield f"[{key!r}]", member
    elif isinstance(value, list | tuple | set | frozenset):
        for place, member in enumerate(cast("Sequence[object]", value)):
            yield f"[{place}]", member
    elif _is_sent_by_attributes(type(value)):
        yield from _attributes(value)


def _is_sent_by_attributes(cls: type) -> bool:
    """Whether pickle takes instances apart as it does by itself.

    What else their attributes hold is not sent: what a class of its own way keeps
    there, a ref its whole engine, is not to blame.
    """
    own = ("__reduce__", "__reduce_ex__", "__getstate__", "__getnewargs_ex__")
    makers = (base for base in cls.__mro__ if any(name in vars(base) for name in own))
    return all(base.__module__ == "builtins" for base in makers) and cls not in REDUCERS


def _attributes(value: object) -> Iterator[tuple[str, object]]:
    names = dict[str, object](getattr(value, "__dict__", {}))
    for kind in type(value).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for slot in (slots,) if isinstance(slots, str) else slots:
            if hasattr(value, slot):
                names[slot] = getattr(value, slot)
    for name, member in names.items():
        if not name.startswith("__"):  # what Python keeps of a class is not sent
            is_wrapped = isinstance(member, staticmethod | classmethod)
            yield f".{name}", cast("Any", member).__func__ if is_wrapped else member
