"""What an option may be: each check raises TypeError or ValueError and names it.

What somebody may have meant who wrote a name that there is not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Iterable

    from _typeshed import DataclassInstance


def closest_names(name: str, known: Iterable[str], count: int = 1) -> list[str]:
    """The names that look most like one that is unknown, the likeliest first.

    Args:
        name: What was written.
        known: What there is.
        count: How many at the most.
    """
    # A tenth of the import of this package, for messages that few ever see.
    from difflib import get_close_matches  # noqa: PLC0415

    return get_close_matches(name, known, n=count)


K = TypeVar("K")


def check_one_of(name: str, value: object, allowed: tuple[str, ...]) -> None:
    """One of a few words."""
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
    """A name that is not empty."""
    if not isinstance(value, str):
        raise TypeError(
            f"{name} takes a name, for example {example}, not {value!r} "
            f"({type(value).__name__})"
        )
    if not value.strip():
        raise ValueError(f"{name} takes a name, for example {example}, not {value!r}")


def check_seconds(name: str, value: object) -> None:
    """A finite number of seconds, at least 0."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(
            f"{name} takes a number of seconds, not {value!r} ({type(value).__name__})"
        )
    if not math.isfinite(value) or value < 0:
        raise ValueError(f"{name} takes a finite number of seconds >= 0, not {value!r}")


def checked_duration(name: str, value: object) -> float:
    """A finite number of seconds above 0."""
    check_seconds(name, value)
    given = float(cast("Real", value))
    if not given:
        raise ValueError(f"{name} takes a finite number of seconds > 0, not {value!r}")
    return given


def check_count(name: str, value: object, least: int) -> None:
    """A whole number, at least so many."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(
            f"{name} takes a whole number, not {value!r} ({type(value).__name__})"
        )
    if value < least:
        raise ValueError(f"{name} takes a whole number >= {least}, not {value!r}")


def check_limit(name: str, value: object) -> None:
    """A whole number, at least 1, or -1 for no limit."""
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
    """True or False."""
    if not isinstance(value, bool):
        raise TypeError(
            f"{name} takes True or False, not {value!r} ({type(value).__name__})"
        )


def checked_counts(name: str, value: object, example: str) -> dict[str, int]:
    """Names, each with a whole number, at least 1."""
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
    """A number of times, or -1 for no limit."""
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
    """True, False, or several classes of exceptions."""
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


def checked_modules(preload: object) -> tuple[str, ...]:
    """The names of modules to be imported."""
    if isinstance(preload, str) or not isinstance(preload, Sequence):
        raise TypeError(
            f"preload takes a list of module names, for example ['torch'], not "
            f"{preload!r}"
        )
    modules = cast("Sequence[object]", preload)
    for module in modules:
        if not isinstance(module, str):
            raise TypeError(f"preload takes names of modules, not {module!r}")
        if not all(part.isidentifier() for part in module.split(".")):
            raise ValueError(f"preload={module!r} is no name of a module")
    return tuple(cast("Sequence[str]", modules))


def checked_options(
    kind: type[K],
    whose: str,
    given: Mapping[str, object],
    *,
    unknown: type[Exception] = ValueError,
) -> K:
    """Options of one kind from keywords a user wrote.

    Args:
        kind: The class of options.
        whose: What they are options of, for messages.
        given: The keywords.
        unknown: What is raised for an option that there is not.

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
    """What a set of options was made from, by the names of the keywords."""
    return {
        option.name: getattr(options, option.name)
        for option in fields(options)
        if option.init
    }
