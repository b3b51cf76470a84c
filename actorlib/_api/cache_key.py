"""Computes the keys of cached results, from functions and their arguments.

A key is a digest of a canonical form, which has the type of each value in it: 1, True
and 1.0 have different keys. The form of a container is made of the digests of its
items, so that its items and its length cannot be confused. It is pure.

NumPy is not imported: before that its values cannot exist.
"""

from __future__ import annotations

import dataclasses
import struct
import sys
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from enum import Enum
from functools import cached_property
from hashlib import blake2b
from pathlib import PurePath
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, cast
from zoneinfo import ZoneInfo

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

_SIZE = 20
"""Bytes of a digest."""
_FORMAT = "1"
"""Changes with the canonical form, so that older entries are not found."""
_BUILT_IN = {str, bytes, int, float, tuple, list, set, frozenset, dict}
"""Types with a content of their own, which a dataclass may have besides its fields."""
KINDS = (
    "None, bool, int, float, str, bytes, enums, paths, dates and times, tuples, lists, "
    "sets, dicts, dataclasses, and arrays and scalars of NumPy"
)
"""The values that have a key, for messages."""


class NoKeyError(TypeError):
    """A value has no canonical form.

    Attributes:
        place: The path to it, such as ``"[3].model"``.
        value: The value.
        reason: Why it has none, if its type is not the reason.
    """

    def __init__(self, value: object, reason: str = "") -> None:
        super().__init__(reason)
        self.place = ""
        self.value = value
        self.reason = reason


def entry_key(name: str, version: str, arguments: Mapping[str, object]) -> str:
    """Returns the key of a result, as hexadecimal digits.

    Args:
        name: The qualified name of the function.
        version: The version of the function.
        arguments: The arguments of the call, by the names of the parameters.

    Raises:
        NoKeyError: An argument has no canonical form.
    """
    digests = [
        _digest("argument", _text(each), _placed(value, each))
        for each, value in arguments.items()
    ]
    parts = (_text(_FORMAT), _text(name), _text(version), *digests)
    return _digest("entry", *parts).hex()


def code_version(function: FunctionType) -> str:
    """Returns a digest of the code of a function and of the variables around it.

    It is the compiled code, which runs: the file may have been changed since it was
    imported. Comments, formatting and decorators that only mark the function do not
    change it.

    Raises:
        NoKeyError: A variable of the function around it has no canonical form.
    """
    return _function(function, ()).hex()[:16]


def _digest(tag: str, *parts: bytes) -> bytes:
    """Hashes parts, all digests, or a single one of any length."""
    return blake2b(
        b"\0".join([tag.encode(), b"".join(parts)]), digest_size=_SIZE
    ).digest()


def _text(text: str) -> bytes:
    return _digest("str", text.encode("utf-8", "surrogatepass"))


def _placed(value: object, place: str, above: tuple[int, ...] = ()) -> bytes:
    """Returns the digest of a part of a value; errors name its place."""
    try:
        return _value(value, above)
    except NoKeyError as error:
        error.place = f"{place}{error.place}"
        raise


_SCALARS: dict[type, Callable[[Any], bytes]] = {
    type(None): lambda _: _digest("None"),
    bool: lambda value: _digest("bool", b"1" if value else b"0"),
    int: lambda value: _digest("int", hex(value).encode()),
    float: lambda value: _digest("float", struct.pack(">d", value)),
    str: _text,
    bytes: lambda value: _digest("bytes", value),
}


def _value(value: object, above: tuple[int, ...]) -> bytes:
    kind = type(value)
    if kind in _SCALARS:
        return _SCALARS[kind](value)
    if isinstance(value, Enum):
        return _enum(value, above)
    if isinstance(value, PurePath) and kind.__module__.split(".")[0] == "pathlib":
        return _digest("path", _text(kind.__name__), _text(str(value)))
    if kind in _TIMES:
        return _time(value)
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.ndarray | numpy.generic):
        return _array(numpy, value)
    return _container(value, kind, above)


def _type_name(kind: type) -> bytes:
    return _text(f"{kind.__module__}.{kind.__qualname__}")


def _enum(value: Enum, above: tuple[int, ...]) -> bytes:
    name = cast("str | None", value.name)  # a combination of flags may have none
    form = _value(value.value, above) if name is None else _text(name)
    return _digest("enum", _type_name(type(value)), form)


_TIMES = (datetime, date, time, timedelta, timezone, ZoneInfo)


def _time(value: Any) -> bytes:
    """Returns the digest of a date, a time, a duration or a time zone."""
    name: str = type(value).__name__
    zone: tzinfo | None = None
    if isinstance(value, timedelta):
        text = f"{value.days} {value.seconds} {value.microseconds}"
    elif isinstance(value, timezone):
        offset = value.utcoffset(None)
        text = (
            f"{offset.days} {offset.seconds} {offset.microseconds} {value.tzname(None)}"
        )
    elif isinstance(value, ZoneInfo):
        if value.key is None:  # pyright: ignore[reportUnnecessaryComparison]  # of a file
            raise NoKeyError(value, "is a time zone without a name")
        text = value.key
    elif isinstance(value, datetime | time):
        zone = value.tzinfo
        text = f"{value.replace(tzinfo=None).isoformat()} {value.fold}"
    else:
        text = cast("date", value).isoformat()
    if zone is not None and type(zone) not in _TIMES:
        raise NoKeyError(zone)
    zone_form = _digest("None") if zone is None else _time(zone)
    return _digest("time", _text(name), _text(text), zone_form)


def _array(numpy: Any, value: Any) -> bytes:
    dtype = value.dtype
    if type(value) not in (numpy.ndarray, dtype.type):
        raise NoKeyError(value)
    if dtype.hasobject:
        raise NoKeyError(value, f"is an array of Python objects (dtype {dtype})")
    kind = "array" if type(value) is numpy.ndarray else "scalar"
    # Some types of other packages differ in their repr alone, structures in that, too.
    return _digest(
        kind,
        _text(f"{dtype.str} {dtype!r} {value.shape}"),
        _digest("bytes", value.tobytes()),
    )


def _container(value: Any, kind: type[Any], above: tuple[int, ...]) -> bytes:
    if id(value) in above:
        raise NoKeyError(value, "contains itself")
    above = (*above, id(value))
    has_fields_alone = _BUILT_IN.isdisjoint(kind.__mro__)
    if has_fields_alone and dataclasses.is_dataclass(cast("object", kind)):
        return _members("dataclass", kind, _fields(value, kind), above)
    names: Iterable[str] | None = getattr(kind, "_fields", None)
    if names is not None and tuple in kind.__mro__:
        _check_attributes(value, kind, names)
        return _members("named tuple", kind, zip(names, value, strict=True), above)
    if kind is tuple or kind is list:
        items = (_placed(each, f"[{i}]", above) for i, each in enumerate(value))
        return _digest(kind.__name__, *items)
    if kind is set or kind is frozenset:
        members = sorted(_placed(each, "{...}", above) for each in value)
        return _digest(kind.__name__, *members)
    if kind is dict:
        pairs = (_pair(key, each, above) for key, each in value.items())
        return _digest("dict", *sorted(pairs))
    raise NoKeyError(value)


def _pair(key: object, value: object, above: tuple[int, ...]) -> bytes:
    digest = _placed(key, "{...}", above)
    try:
        return digest + _value(value, above)
    except NoKeyError as error:  # only now: a repr takes long, and may raise
        error.place = f"[{key!r}]{error.place}"
        raise


def _fields(value: Any, kind: type[Any]) -> Iterator[tuple[str, object]]:
    for field in dataclasses.fields(value):
        try:
            yield field.name, getattr(value, field.name)
        except AttributeError:
            reason = f"has no value for its field {field.name}"
            raise NoKeyError(value, reason) from None
    if "__dataclass_fields__" not in vars(kind):
        names = [field.name for field in dataclasses.fields(value)]
        _check_attributes(value, kind, names)


def _check_attributes(value: Any, kind: type[Any], fields: Iterable[str]) -> None:
    """Refuses other attributes than fields, of a class that inherits its fields.

    Such attributes need not follow from the fields, so two values that differ could
    have the same key.
    """
    for name in sorted(getattr(value, "__dict__", {}).keys() - set(fields)):
        if not isinstance(getattr(kind, name, None), cached_property):
            raise NoKeyError(value, f"has the attribute {name}, which is not a field")


def _members(
    tag: str,
    kind: type,
    members: Iterable[tuple[str, object]],
    above: tuple[int, ...],
) -> bytes:
    """Returns the digest of a value with named members."""
    digests = [_type_name(kind)]
    for name, member in members:
        digests += (_text(name), _placed(member, f".{name}", above))
    return _digest(tag, *digests)


def _function(function: FunctionType, above: tuple[int, ...]) -> bytes:
    if id(function) in above:  # it calls itself
        return _digest("itself")
    above = (*above, id(function))
    captured: list[bytes] = []
    names = function.__code__.co_freevars
    for name, cell in zip(names, function.__closure__ or (), strict=True):
        try:
            value = cell.cell_contents
        except ValueError:  # it has no value yet
            continue
        if isinstance(value, FunctionType):
            defaults = (value.__defaults__, value.__kwdefaults__)
            captured += (_function(value, above), _placed(defaults, name))
        else:
            captured.append(_placed(value, name))
    return _digest("function", _code(function.__code__), *captured)


def _code(code: CodeType) -> bytes:
    """Returns the digest of compiled code, without its file and its lines."""
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount)
    return _digest(
        "code",
        _digest("bytes", code.co_code),
        _digest("bytes", code.co_exceptiontable),
        _value((*names, *counts, code.co_flags), ()),
        *map(_constant, code.co_consts),
    )


def _constant(value: Any) -> bytes:
    if isinstance(value, CodeType):
        return _code(value)
    if isinstance(value, tuple | frozenset):
        items = map(_constant, cast("Iterable[Any]", value))
        if isinstance(value, tuple):
            return _digest("tuple", *items)
        return _digest("frozenset", *sorted(items))
    try:
        return _value(value, ())
    except NoKeyError:  # a complex number, an ellipsis, a slice
        return _digest("constant", _text(repr(value)))
