"""Why a value cannot be sent: the members of it that nothing can pickle."""

from __future__ import annotations

import inspect
import sys
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO, cast

from actorlib._checks import count, text
from actorlib._wire.payload import encode

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


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


def inspect_serializability(
    base_obj: object,
    name: str | None = None,
    depth: int = 3,
    print_file: TextIO | None = None,
) -> tuple[bool, set[Failure]]:
    """Looks whether a value can be sent to another process, and else what prevents it.

    A function is searched for the globals and the variables of its closure that it
    uses, a class for its members, an object for its attributes, a container for its
    items. What was found is printed, too.

    Args:
        base_obj: The value: an argument, a result, a function or a class.
        name: What to call it; by default its own name, or its type's.
        depth: How many steps into it are searched.
        print_file: Where to print; by default standard output.

    Returns:
        Whether it can be sent, and the innermost things that cannot.

    Raises:
        TypeError: ``depth`` is no whole number, or ``name`` no text.
        ValueError: ``depth`` is below 1, or ``name`` empty.
    """
    count("depth", depth, 1)
    if name is not None:
        text("name", name, "'config'")
    own = getattr(base_obj, "__qualname__", type(base_obj).__qualname__)
    label = name or str(own)
    out = print_file or sys.stdout
    trouble = trouble_with(base_obj)
    if trouble is None:
        print(f"{label} can be sent to another process", file=out)  # what it is for
        return True, set()
    found = set(_culprits(Failure(base_obj, label, base_obj), depth, []))
    print(f"{label} cannot be sent to another process: {trouble}", file=out)  # likewise
    for failure in sorted(found, key=lambda failure: failure.name):
        kind = type(failure.obj).__qualname__
        why = trouble_with(failure.obj)
        print(f"  {failure.name}, a {kind}: {why}", file=out)  # likewise
    return False, found


def trouble_with(value: object) -> Exception | None:
    """What prevents a value from being sent, if anything does."""
    try:
        encode(value)
    except Exception as error:  # noqa: BLE001  # pickling runs the user's code
        return error
    return None


def _culprits(
    failure: Failure, depth: int, above: Sequence[object]
) -> Iterator[Failure]:
    """The innermost things in one that cannot be sent; itself if there are none."""
    inner = [
        Failure(member, f"{failure.name}{step}", failure.obj)
        for step, member in _members(failure.obj)
        if not any(member is seen for seen in (*above, failure.obj))
        and trouble_with(member) is not None
    ]
    if not inner or not depth:
        yield failure
        return
    for each in inner:
        yield from _culprits(each, depth - 1, [*above, failure.obj])


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
    else:
        yield from _attributes(value)


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
