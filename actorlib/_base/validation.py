"""Checks options: each check raises TypeError or ValueError with the option's name.

A field of a dataclass of options contains its type, its default and its check:
``grace: float = option(check_seconds, default=1.0)``. A field that allows a few words
needs its type alone: ``devices: Literal["all", "free"] = choice(default="all")``. The
dataclass derives from ``Options``, which reads the keywords of the user.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import field, fields
from functools import cache
from numbers import Integral, Real
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Literal,
    NamedTuple,
    Self,
    TypeVar,
    cast,
    get_args,
)
from typing import get_origin as origin_of

from actorlib._base.stack_frames import warn_old_name
from actorlib.exceptions import UnknownOptionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


def closest_names(name: str, known: Iterable[str], count: int = 1) -> list[str]:
    """Returns the known names that are most like an unknown one, in order."""
    # A tenth of the import of this package, for messages that few ever see.
    from difflib import get_close_matches  # noqa: PLC0415

    return get_close_matches(name, known, n=count)


T = TypeVar("T")


def wrong_type(expectation: str, value: object) -> TypeError:
    """Makes the error for a value: "preload takes a list of names, not 3 (int)"."""
    return TypeError(f"{expectation}, not {value!r} ({type(value).__name__})")


def option(
    check: Callable[..., object],
    *args: object,
    default: T,
    rays_name: str = "",
    old_name: str = "",
) -> T:
    """Makes a field of a dataclass of options that is checked if the user sets it.

    The check is called with the name of the option, the value and ``args``. It raises
    an error, or returns the value to store; None stores the user's value.
    """
    metadata = {"check": (check, args), "rays_name": rays_name, "old_name": old_name}
    return field(default=default, metadata=metadata)


def choice(*, default: T) -> T:
    """Makes a field of a dataclass of options that allows the words of its type."""
    metadata = {"check": (check_one_of, None)}
    return field(default=default, metadata=metadata)


_WITHOUT_EFFECT = frozenset({"_metadata", "enable_task_events"})
"""Options of Ray that change no result."""


class Options:
    """The base of the dataclasses that have the options of a subject as fields."""

    __slots__ = ()
    subject: ClassVar[str] = "it"  # for messages

    @classmethod
    def of(cls, given: Mapping[str, object]) -> Self:
        """Makes options from the keywords of the user, by our names or by Ray's.

        Raises:
            UnknownOptionError: An option is unknown.
            TypeError: A value has the wrong type.
            ValueError: A value is out of range.
        """
        kind: type = cls
        names, old_names = options_by_word(kind), _layout(kind).old_names
        for word, value in given.items():
            if word in old_names:
                warn_old_name(f"{word}=", f"{names[word]}=")
            elif word in _WITHOUT_EFFECT:
                given = {name: given[name] for name in given if name != word}
            elif word not in names:
                raise UnknownOptionError(
                    f"{word}={value!r} is not an option of {cls.subject}. "
                    f"{advice_on_options(cls, word)}"
                )
        return cls(**{names[word]: value for word, value in given.items()})

    def updated(self, given: Mapping[str, object]) -> Self:
        """Returns a copy of these options with some of them replaced; see ``of``."""
        return self.of({**given_options(self), **given})


def advice_on_options(kind: type, word: str) -> str:
    """Names up to three options that are like an unknown one, and where all are."""
    close = [f"{name}=" for name in closest_names(word, names_of(kind), 3)]
    listed = " or ".join(filter(None, (", ".join(close[:-1]), *close[-1:])))
    question = f"Did you mean {listed}? " if close else ""
    return f"{question}help(actorlib.{kind.__name__}) describes all options"


def given_options(options: object) -> dict[str, Any]:
    return {name: getattr(options, name) for name in names_of(type(options))}


def names_of(kind: type) -> tuple[str, ...]:
    return _layout(kind).names


def options_by_word(kind: type) -> Mapping[str, str]:
    """Returns the names of the options of a class, by each name that users write."""
    return _layout(kind).by_word


def words_of(kind: type, name: str) -> tuple[str, ...]:
    annotation = next(f.type for f in fields(kind) if f.name == name)
    return tuple(_literals(annotation))


def _literals(annotation: object) -> Iterator[str]:
    for part in get_args(annotation):
        if origin_of(annotation) is Literal:
            yield part
        else:
            yield from _literals(part)


def check_option(kind: type, name: str, value: object) -> None:
    for checked, _, check, args in _layout(kind).checks:
        if checked == name:
            check(name, value, *args)


def check_fields(options: Options) -> None:
    """Checks each option that is set, and stores what its check returns."""
    kind: type = type(options)
    for name, default, check, args in _layout(kind).checks:
        value = getattr(options, name)
        if value is not default:
            new_value = check(name, value, *args)
            if new_value is not None:
                object.__setattr__(options, name, new_value)


class _Layout(NamedTuple):
    """The fields of a class of options, read once.

    Attributes:
        names: The names of the options.
        by_word: The same names, by each name that users may write.
        old_names: Names that will be removed.
        checks: For each option with a check: its name, its default, the check and the
            check's further arguments.
    """

    names: tuple[str, ...]
    by_word: Mapping[str, str]
    old_names: frozenset[str]
    checks: tuple[tuple[str, object, Any, tuple[object, ...]], ...]


@cache
def _layout(kind: Any) -> _Layout:
    by_word: dict[str, str] = {}
    old_names: set[str] = set()
    checks: list[tuple[str, object, Any, tuple[object, ...]]] = []
    options = [f for f in fields(kind) if f.init]
    for field_ in options:
        name = field_.name
        by_word[name] = name
        by_word[field_.metadata.get("rays_name") or name] = name
        if old_name := field_.metadata.get("old_name"):
            by_word[old_name] = name
            old_names.add(old_name)
        if "check" in field_.metadata:
            check, args = field_.metadata["check"]
            if args is None:
                args = (words_of(kind, name),)
            checks.append((name, field_.default, check, args))
    names = tuple(f.name for f in options)
    return _Layout(names, by_word, frozenset(old_names), tuple(checks))


def check_one_of(name: str, value: object, allowed: tuple[str, ...]) -> str:
    """Returns one of the words that are allowed, in upper or lower case."""
    if not isinstance(value, str):
        raise wrong_type(f"{name} takes one of {', '.join(map(repr, allowed))}", value)
    for word in allowed:
        if word.lower() == value.lower():
            return word
    raise ValueError(
        f"{name} takes one of {', '.join(map(repr, allowed))}, not {value!r}"
    )


def check_text(name: str, value: object, example: str) -> None:
    """Checks that a value is a string that is not empty."""
    if not isinstance(value, str):
        raise wrong_type(f"{name} takes a name, for example {example}", value)
    if not value.strip():
        raise ValueError(f"{name} takes a name, for example {example}, not {value!r}")


def check_seconds(name: str, value: object) -> None:
    """Checks that a value is a finite number of seconds, 0 or more."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise wrong_type(f"{name} takes a number of seconds", value)
    try:
        seconds = float(value)
    except OverflowError:
        seconds = math.inf
    if not math.isfinite(seconds) or seconds < 0:
        raise ValueError(f"{name} takes a finite number of seconds >= 0, not {value!r}")


def checked_duration(name: str, value: object) -> float:
    """Returns a finite number of seconds above 0, as a float."""
    check_seconds(name, value)
    seconds = float(cast("Real", value))
    if not seconds:
        raise ValueError(f"{name} takes a finite number of seconds > 0, not {value!r}")
    return seconds


def check_count(name: str, value: object, least: int) -> None:
    """Checks that a value is a whole number, ``least`` or more."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise wrong_type(f"{name} takes a whole number", value)
    if value < least:
        raise ValueError(f"{name} takes a whole number >= {least}, not {value!r}")


def check_limit(name: str, value: object) -> None:
    """Checks that a value is a whole number, 1 or more, or -1 for no limit."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise wrong_type(f"{name} takes a whole number, or -1 for no limit", value)
    if value < 1 and value != -1:
        raise ValueError(
            f"{name} takes a whole number >= 1, or -1 for no limit, not {value!r}"
        )


def check_bool(name: str, value: object) -> None:
    if not isinstance(value, bool):
        raise wrong_type(f"{name} takes True or False", value)


def checked_counts(name: str, value: object, example: str) -> dict[str, int]:
    """Returns a dict of names, each with a whole number, 1 or more."""
    if not isinstance(value, Mapping):
        raise wrong_type(f"{name} takes a dict, for example {example}", value)
    counts = cast("Mapping[str, int]", value)
    for key, number in counts.items():
        check_text(name, key, example)
        check_count(f"{name}[{key!r}]", number, 1)
    return dict(counts)


def check_key(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, str | bytes | int):
        raise wrong_type(
            f"{name} takes a str, bytes or an int, such as 'user 7'", value
        )


def check_times(name: str, value: object) -> None:
    """Checks that a value is a whole number, 0 or more, or -1 for no limit."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise wrong_type(f"{name} takes a whole number, or -1 for no limit", value)
    if value < -1:
        raise ValueError(
            f"{name} takes a whole number >= 0, or -1 for no limit, not {value!r}"
        )


def checked_exceptions(name: str, value: object) -> bool | tuple[type[Exception], ...]:
    """Returns True, False, or a tuple of exception classes."""
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
                f"{name} has {module!r} in it, which is not a module name: write it "
                "as import does, for example 'torch.nn'"
            )
    return tuple(cast("Sequence[str]", modules))


def check_rows(limit: int | None) -> None:
    """Checks a limit of rows: a whole number, 1 or more, or None."""
    if limit is None:
        return
    if isinstance(limit, bool) or not isinstance(cast("object", limit), int):
        raise wrong_type(
            "limit takes a number of rows, 1 or more, or None for all", limit
        )
    if limit < 1:
        raise ValueError(f"limit takes a number of rows >= 1, not {limit!r}")
