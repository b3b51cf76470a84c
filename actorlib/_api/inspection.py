"""Names the members of a value that cannot be pickled."""

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
    """Checks whether a value can be sent to another process, and finds the reason.

    It searches the globals and closure variables of a function, the members of a class,
    the attributes of an object, and the items of a container. It prints the result too.

    Args:
        base_obj: The value: an argument, a result, a function or a class.
        name: Its name in the output. Default: None, for its own name or its type's.
        depth: The number of levels that are searched. Default: 3.
        print_file: The file to print to. Default: None, for standard output.

    Returns:
        Whether it can be sent, and the innermost objects that cannot.

    Raises:
        TypeError: ``depth`` is not a whole number, or ``name`` is not a string.
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
    error = sending_error(base_obj)
    if error is None:
        print(f"{label} can be sent to another process", file=out)
        return True, set()
    failures = set(failures_in(base_obj, label, depth))
    print(f"{label} cannot be sent to another process: {error}", file=out)
    for failure in sorted(failures, key=lambda failure: failure.name):
        kind = type(failure.obj).__qualname__
        reason = sending_error(failure.obj)
        print(f"  {failure.name}, a {kind}: {reason}", file=out)
    return False, failures
