"""Watches the global names of a user's code, so that changed code is sent again.

Code that cannot be imported by its name (of a script, a notebook, inside a function) is
sent by value, with the globals and the closures that it uses. It is pickled once and
sent many times. In a notebook a helper is often defined again between two of those
times, and later actors have to get the new one.

The check compares identities and not values, as that could take as long as pickling. So
values that may be changed in place (a dict, an object's attribute) are *mutable*, and
code with such values is pickled each time where the cost is acceptable.
"""

from __future__ import annotations

import dis
import enum
import sys
import types
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar, cast

from actorlib._api.actor_handle import ActorHandle
from actorlib._futures.object_ref import ObjectRef

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

T = TypeVar("T")

_MISSING: Any = object()
_BY_NAME = frozenset({"LOAD_GLOBAL", "LOAD_NAME"})
_FIXED = (
    type(None),
    bool,
    int,
    float,
    complex,
    str,
    bytes,
    range,
    type,
    enum.Enum,
    types.BuiltinFunctionType,
    types.EllipsisType,
    types.FunctionType,
    types.ModuleType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
    ActorHandle,
    ObjectRef,
)
_FIXED_MODULES = frozenset(
    {"_abc", "datetime", "decimal", "fractions", "logging", "pathlib", "re", "typing"}
)
"""Modules and packages of values that are not changed in place.

A path is in ``pathlib._local`` in Python 3.13.
"""
_METHODS = (types.FunctionType, staticmethod, classmethod, property)


class _Name(NamedTuple):
    names: Mapping[str, object]
    name: str
    value: object


class _Cell(NamedTuple):
    cell: types.CellType
    value: object


class CurrentSource(Generic[T]):
    """The object by which the pickled code of a class or a function is cached.

    Args:
        code: The class or the function.
        first: The first object.
        again: Makes another object, when the code has to be pickled again.
        is_kept_if_mutable: Whether changes in place are ignored: code that is used very
            often is not pickled each time.
    """

    __slots__ = ("_again", "_bindings", "_code", "_current", "_is_kept_if_mutable")

    def __init__(
        self,
        code: object,
        first: T,
        again: Callable[[], T],
        *,
        is_kept_if_mutable: bool,
    ) -> None:
        self._code = code
        self._current = first
        self._again = again
        self._is_kept_if_mutable = is_kept_if_mutable
        self._bindings: Bindings | None = None

    @property
    def may_change(self) -> bool:
        """Whether ``get`` may ever return another object."""
        return self._bindings is None or bool(self._bindings)

    def get(self) -> T:
        """Returns the same object as the last time, unless the code has changed."""
        bindings = self._bindings
        if bindings is None:
            self._bindings = Bindings(self._code)
        elif bindings.have_changed() or (
            bindings.are_mutable and not self._is_kept_if_mutable
        ):
            self._current = self._again()
            self._bindings = Bindings(self._code)
        return self._current


class Bindings:
    """The names that a class or a function by value uses, with their values.

    Attributes:
        are_mutable: Whether a value may be changed in place.
    """

    __slots__ = ("_cells", "_names", "_seen", "are_mutable")

    def __init__(self, code: object) -> None:
        self._names: list[_Name] = []
        self._cells: list[_Cell] = []
        self._seen: dict[int, object] = {}
        self.are_mutable = False
        self._walk(code)
        self._seen.clear()

    def __bool__(self) -> bool:
        """Whether there are names to check."""
        return bool(self._names or self._cells)

    def have_changed(self) -> bool:
        for names, name, value in self._names:
            if names.get(name, _MISSING) is not value:
                return True
        return any(_contents(cell) is not value for cell, value in self._cells)

    def _walk(self, value: object) -> None:
        if id(value) in self._seen:
            return
        self._seen[id(value)] = value
        wrapped = _wrapped(value)
        if isinstance(value, types.FunctionType):
            self._walk_function(value)
        elif isinstance(value, type):
            self._walk_class(value)
        elif isinstance(value, staticmethod | classmethod):
            self._walk(cast("staticmethod[..., Any]", value).__func__)
        elif isinstance(value, property):
            for accessor in (value.fget, value.fset, value.fdel):
                self._walk(accessor)
        elif isinstance(value, partial):
            self._walk(cast("partial[Any]", value).func)
        elif isinstance(value, tuple):
            for part in cast("tuple[object, ...]", value):
                self._walk(part)
        elif isinstance(wrapped, type | types.FunctionType):
            self._walk(wrapped)
        elif (
            not isinstance(value, _FIXED)
            and type(value).__module__.partition(".")[0] not in _FIXED_MODULES
        ):
            self.are_mutable = True

    def _walk_function(self, function: types.FunctionType) -> None:
        if _travels_by_name(function):
            return
        for name in dict.fromkeys(_globals_of(function.__code__)):
            value = function.__globals__.get(name, _MISSING)
            if value is _MISSING and _is_built_in(function, name):
                continue
            self._names.append(_Name(function.__globals__, name, value))
            if value is not _MISSING:
                self._walk(value)
        for cell in function.__closure__ or ():
            value = _contents(cell)
            self._cells.append(_Cell(cell, value))
            if value is not _MISSING:
                self._walk(value)

    def _walk_class(self, cls: type) -> None:
        if _travels_by_name(cls):
            return
        for base in cls.__bases__:
            self._walk(base)
        for name, value in cast("Mapping[str, object]", vars(cls)).items():
            is_internal = name.startswith("__") and name.endswith("__")
            if is_internal and not isinstance(value, _METHODS):
                continue  # annotations, slots, fields of a dataclass
            self._names.append(_Name(vars(cls), name, value))
            self._walk(cast("object", value))


def _travels_by_name(code: type | types.FunctionType) -> bool:
    member = found_by_name(code.__module__, code.__qualname__)
    return member is code or (member is not None and _wrapped(member) is code)


def _wrapped(value: object) -> object:
    """Returns the object that a decorator has wrapped, without ``__getattr__``."""
    try:
        return object.__getattribute__(value, "__dict__").get("__wrapped__")
    except AttributeError:
        return None


def _globals_of(code: types.CodeType) -> Iterator[str]:
    """Iterates over the globals that code uses, with inner functions and classes."""
    for instruction in dis.get_instructions(code):
        if instruction.opname in _BY_NAME:
            yield cast("str", instruction.argval)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _globals_of(constant)


def _is_built_in(function: types.FunctionType, name: str) -> bool:
    return name in cast("Any", function).__builtins__


def _contents(cell: types.CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:
        return _MISSING


def found_by_name(module: str, qualname: str) -> object:
    """Returns the object that a worker can import by a name, or None."""
    if module == "__main__" or "<locals>" in qualname:
        return None
    member: object = sys.modules.get(module)
    for part in qualname.split("."):
        member = getattr(member, part, None)
    return member
