"""Checks the values of options: each raises TypeError or ValueError and names it.

A field of a dataclass of options names its check:
``grace: float = option(check_seconds, default=1.0)``. ``check_fields`` runs the checks
of the options that are given.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import field, fields
from functools import cache
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from _typeshed import DataclassInstance


def closest_names(name: str, known: Iterable[str], count: int = 1) -> list[str]:
    """Returns the known names that are most like an unknown one, the likeliest first.

    Args:
        name: The unknown name.
        known: The known names.
        count: How many to return at the most.
    """
    # A tenth of the import of this package, for messages that few ever see.
    from difflib import get_close_matches  # noqa: PLC0415

    return get_close_matches(name, known, n=count)


K = TypeVar("K")
T = TypeVar("T")


def option(check: Callable[..., object], *args: object, default: T) -> T:
    """Makes a field of a dataclass of options that is checked when it is given.

    Args:
        check: Is called with the name of the option, the value and ``args``. It raises
            an error, or returns the value to keep; None keeps the value that was given.
        *args: Further arguments of the check.
        default: The default, which is not checked.
    """
    checked: T = field(default=default, metadata={"check": (check, args)})
    return checked


def check_fields(options: DataclassInstance) -> None:
    """Checks each option that is given, and keeps what its check returns.

    Raises:
        TypeError: A value has the wrong type.
        ValueError: A value is out of range.
    """
    for name, default, check, args in _checks(type(options)):
        value = getattr(options, name)
        if value is not default:
            kept = check(name, value, *args)
            if kept is not None:
                object.__setattr__(options, name, kept)


@cache
def _checks(kind: type[DataclassInstance]) -> list[tuple[str, object, Any, Any]]:
    return [
        (made.name, made.default, *made.metadata["check"])
        for made in fields(kind)
        if "check" in made.metadata
    ]


def check_one_of(name: str, value: object, allowed: tuple[str, ...]) -> None:
    """Makes sure that a value is one of a few words."""
    if not isinstance(value, str):
        raise TypeError(
            f"{name} takes one of {', '.join(map(repr, allowed))}, not {value!r} "
            f"({type(value).__name__})"
        )
    if value not in allowed:
        raise ValueError(
            f"{name} takes one of {', '.join(map(repr, allowed))}, not {value!r}"
        )


def check_text(name: str, value: object, example: str) -> None:
    """Makes sure that a value is a string that is not empty."""
    if not isinstance(value, str):
        raise TypeError(
            f"{name} takes a name, for example {example}, not {value!r} "
            f"({type(value).__name__})"
        )
    if not value.strip():
        raise ValueError(f"{name} takes a name, for example {example}, not {value!r}")


def check_seconds(name: str, value: object) -> None:
    """Makes sure that a value is a finite number of seconds, 0 or more."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(
            f"{name} takes a number of seconds, not {value!r} ({type(value).__name__})"
        )
    try:
        seconds = float(value)
    except OverflowError:
        seconds = math.inf
    if not math.isfinite(seconds) or seconds < 0:
        raise ValueError(f"{name} takes a finite number of seconds >= 0, not {value!r}")


def checked_duration(name: str, value: object) -> float:
    """Returns a finite number of seconds above 0, as a float."""
    check_seconds(name, value)
    given = float(cast("Real", value))
    if not given:
        raise ValueError(f"{name} takes a finite number of seconds > 0, not {value!r}")
    return given


def check_count(name: str, value: object, least: int) -> None:
    """Makes sure that a value is a whole number, ``least`` or more."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(
            f"{name} takes a whole number, not {value!r} ({type(value).__name__})"
        )
    if value < least:
        raise ValueError(f"{name} takes a whole number >= {least}, not {value!r}")


def check_limit(name: str, value: object) -> None:
    """Makes sure that a value is a whole number, 1 or more, or -1 for no limit."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(
            f"{name} takes a whole number, or -1 for no limit, not {value!r} "
            f"({type(value).__name__})"
        )
    if value < 1 and value != -1:
        raise ValueError(
            f"{name} takes a whole number >= 1, or -1 for no limit, not {value!r}"
        )


def check_bool(name: str, value: object) -> None:
    """Makes sure that a value is True or False."""
    if not isinstance(value, bool):
        raise TypeError(
            f"{name} takes True or False, not {value!r} ({type(value).__name__})"
        )


def check_gang_name(name: str, value: object) -> None:
    """Makes sure that a value says whether, or by which name, something is a rank."""
    if isinstance(value, bool) or (isinstance(value, str) and value):
        return
    raise TypeError(
        f"{name} takes True, False, or the name of a gang where several are in one "
        f"placement group, for example 'trainers', not {value!r} "
        f"({type(value).__name__})"
    )


def checked_counts(name: str, value: object, example: str) -> dict[str, int]:
    """Returns a dict of names, each with a whole number, 1 or more."""
    if not isinstance(value, Mapping):
        raise TypeError(
            f"{name} takes a dict, for example {example}, not {value!r} "
            f"({type(value).__name__})"
        )
    given = cast("Mapping[str, int]", value)
    for key, number in given.items():
        check_text(name, key, example)
        check_count(f"{name}[{key!r}]", number, 1)
    return dict(given)


def check_times(name: str, value: object) -> None:
    """Makes sure that a value is a whole number, 0 or more, or -1 for no limit."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(
            f"{name} takes a whole number, or -1 for no limit, not {value!r} "
            f"({type(value).__name__})"
        )
    if value < -1:
        raise ValueError(
            f"{name} takes a whole number >= 0, or -1 for no limit, not {value!r}"
        )


def checked_exceptions(name: str, value: object) -> bool | tuple[type[Exception], ...]:
    """Returns True, False, or a tuple of classes of exceptions."""
    if isinstance(value, bool):
        return value
    if isinstance(value, list | tuple):
        classes = tuple(cast("Sequence[object]", value))
        if all(isinstance(cls, type) and issubclass(cls, Exception) for cls in classes):
            return cast("tuple[type[Exception], ...]", classes)
    raise TypeError(
        f"{name} takes True, False or a list of classes of exceptions, for example "
        f"[ConnectionError], not {value!r}"
    )


def checked_modules(name: str, value: object) -> tuple[str, ...]:
    """Returns the names of modules to import."""
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise TypeError(
            f"{name} takes a list of module names, for example ['torch'], not {value!r}"
        )
    modules = cast("Sequence[object]", value)
    for module in modules:
        if not isinstance(module, str):
            raise TypeError(
                f"{name} takes a list of module names, for example ['torch'], and "
                f"has {module!r} ({type(module).__name__}) in it"
            )
        if not all(part.isidentifier() for part in module.split(".")):
            raise ValueError(
                f"{name} has {module!r} in it, which is no name of a module: write it "
                "as import does, for example 'torch.nn'"
            )
    return tuple(cast("Sequence[str]", modules))


def checked_options(
    kind: type[K],
    whose: str,
    given: Mapping[str, object],
    *,
    unknown: type[Exception] = ValueError,
) -> K:
    """Makes options from the keywords that a user wrote.

    Args:
        kind: The class of options.
        whose: What they are options of, for messages.
        given: The keywords.
        unknown: The class of the error for an unknown option.

    Raises:
        TypeError: A value has the wrong type.
        ValueError: An option is unknown or its value is out of range.
    """
    known = [option.name for option in fields(cast("Any", kind)) if option.init]
    for name, value in given.items():
        if name not in known:
            close = closest_names(name, known)
            hint = f" Did you mean {close[0]}=?" if close else ""
            raise unknown(
                f"{name}={value!r} is no option of {whose}.{hint} "
                f"The options are {', '.join(known)}"
            )
    return kind(**cast("dict[str, Any]", given))  # the class checks each value


def given_options(options: DataclassInstance) -> dict[str, Any]:
    """The keywords that options were made from."""
    return {
        option.name: getattr(options, option.name)
        for option in fields(options)
        if option.init
    }


def check_rows(limit: int | None) -> None:
    """Refuses what is no number of rows.

    Raises:
        TypeError: It has the wrong type.
        ValueError: It is below 1.
    """
    if limit is None:
        return
    if isinstance(limit, bool) or not isinstance(cast("object", limit), int):
        raise TypeError(
            "limit takes a number of rows, 1 or more, or None for all, not "
            f"{limit!r} ({type(limit).__name__})"
        )
    if limit < 1:
        raise ValueError(f"limit takes a number of rows >= 1, not {limit!r}")
