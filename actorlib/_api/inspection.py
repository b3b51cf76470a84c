"""Why a value cannot be sent: the members of it that nothing can pickle."""

from __future__ import annotations

import sys
from typing import TextIO

from actorlib._base.public import public
from actorlib._base.validation import check_count, check_text
from actorlib._wire.errors import Failure, failures_in, sending_error

__all__ = ["Failure", "inspect_serializability"]


@public("actorlib")
def inspect_serializability(
    base_obj: object,
    name: str | None = None,
    depth: int = 3,
    print_file: TextIO | None = None,
) -> tuple[bool, set[Failure]]:
    """Finds out whether a value can be sent to another process, and if not, why.

    A function is searched for the globals and the variables of its closure that it
    uses, a class for its members, an object for its attributes, a container for its
    items. What was found is printed, too.

    Args:
        base_obj: The value: an argument, a result, a function or a class.
        name: What to call it; by default its own name, or its type's. Default: None.
        depth: How many steps into it are searched. Default: 3.
        print_file: Where to print; by default standard output. Default: None.

    Returns:
        Whether it can be sent, and the innermost things that cannot.

    Raises:
        TypeError: ``depth`` is no whole number, or ``name`` no text.
        ValueError: ``depth`` is below 1, or ``name`` empty.

    Example:
        >>> result = actorlib.inspect_serializability({"a": 1}, name="config")
        config can be sent to another process
        >>> result
        (True, set())
    """
    check_count("depth", depth, 1)
    if name is not None:
        check_text("name", name, "'config'")
    own = getattr(base_obj, "__qualname__", type(base_obj).__qualname__)
    label = name or str(own)
    out = print_file or sys.stdout
    trouble = sending_error(base_obj)
    if trouble is None:
        print(f"{label} can be sent to another process", file=out)  # what it is for
        return True, set()
    found = set(failures_in(base_obj, label, depth))
    print(f"{label} cannot be sent to another process: {trouble}", file=out)  # likewise
    for failure in sorted(found, key=lambda failure: failure.name):
        kind = type(failure.obj).__qualname__
        why = sending_error(failure.obj)
        print(f"  {failure.name}, a {kind}: {why}", file=out)  # likewise
    return False, found
