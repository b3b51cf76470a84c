"""Makes dataclasses without a compiler.

The decorator of the standard library compiles up to six methods for each class while
its module is imported. That takes 0.6 ms per class, and was a fifth of the CPU time of
a program with one actor. Here the methods are closures over the fields that the library
has found. They also make values faster than a compiled constructor, which looks up
``object.__setattr__`` for each field; here the setter of the slot is at hand. Type
checkers see the decorator of the library.

The result is a dataclass in every respect: ``fields``, ``replace``, ``asdict``,
``match``, pickles, derived classes. It has no order, and a field that its constructor
does not accept cannot have a default. Classes that need those use the decorator of the
library.
"""

from __future__ import annotations

import dataclasses
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from inspect import Signature

T = TypeVar("T")


def _dataclass(
    *,
    frozen: bool = False,
    slots: bool = False,
    kw_only: bool = False,
    eq: bool = True,
    weakref_slot: bool = False,
) -> Callable[[type[T]], type[T]]:
    def decorate(cls: type[T]) -> type[T]:
        written = set(vars(cls))
        cls = dataclasses.dataclass(
            init=False,
            repr=False,
            eq=False,
            frozen=_has_frozen_base(cls),  # the compiled methods are replaced below
            kw_only=kw_only,
            slots=slots,
            weakref_slot=weakref_slot,
        )(cls)
        methods = {"__init__": _constructor(cls), "__repr__": _make_repr(cls)}
        methods["__signature__"] = _LateSignature(cls)
        if eq:
            methods |= _comparison_methods(cls, is_hashable=frozen)
        if frozen:
            methods |= _frozen_methods(cls)
            if slots:
                methods |= {"__getstate__": _get_state, "__setstate__": _set_state}
        for name, method in methods.items():
            if name not in written:
                setattr(cls, name, method)
        parameters = cast("Any", cls).__dataclass_params__  # subclasses read them
        parameters.init = parameters.repr = True
        parameters.eq, parameters.frozen = eq, frozen
        return cls

    return decorate


def _has_frozen_base(cls: type) -> bool:
    parameters = (getattr(base, "__dataclass_params__", None) for base in cls.__bases__)
    return any(each is not None and each.frozen for each in parameters)


def _constructor(cls: type) -> object:
    """Makes the constructor of a class, which sets each field by its slot."""
    by_place: list[str] = []
    required: list[tuple[str, Callable[[object, object], None]]] = []
    optional: list[tuple[str, Callable[[object, object], None], object]] = []
    computed: list[tuple[str, Callable[[object, object], None], Any]] = []
    for field in dataclasses.fields(cls):
        name, put = field.name, _setter(cls, field.name)
        has_default = field.default is not dataclasses.MISSING
        if not field.init:
            if has_default or field.default_factory is not dataclasses.MISSING:
                raise TypeError(f"{cls.__qualname__}.{name} has a default in vain")
            continue
        if not field.kw_only:
            by_place.append(name)
        if has_default:
            optional.append((name, put, field.default))
        elif field.default_factory is not dataclasses.MISSING:
            computed.append((name, put, field.default_factory))
        else:
            required.append((name, put))
    places = [_setter(cls, name) for name in by_place]
    has_more = hasattr(cls, "__post_init__")

    def __init__(self: Any, /, *args: object, **given: object) -> None:  # noqa: N807
        if args:
            if len(args) == len(places) and not given:
                for put, value in zip(places, args, strict=True):
                    put(self, value)
                if has_more:
                    self.__post_init__()
                return
            _name_arguments(cls, by_place, args, given)
        take = given.pop
        try:
            for name, put in required:
                put(self, take(name))
        except KeyError:
            raise _missing(cls, [name for name, _ in required], self, given) from None
        for name, put, default in optional:
            put(self, take(name, default))
        for name, put, make in computed:
            put(self, take(name) if name in given else make())
        if given:
            raise TypeError(
                f"{cls.__qualname__}.__init__() got an unexpected keyword argument "
                f"{next(iter(given))!r}"
            )
        if has_more:
            self.__post_init__()

    __init__.__module__ = cls.__module__
    __init__.__qualname__ = f"{cls.__qualname__}.__init__"
    return __init__


def _setter(cls: type, name: str) -> Callable[[object, object], None]:
    slot: Any = getattr(cls, name, None)
    if hasattr(slot, "__set__"):
        return cast("Callable[[object, object], None]", slot.__set__)

    def put(self: object, value: object) -> None:
        vars(self)[name] = value

    return put


def builder_of(cls: type[T]) -> Callable[[Iterable[object]], T]:
    """Makes a function that builds values of a dataclass in a third of the usual time.

    The class has no ``__post_init__``.
    """
    new: Any = object.__new__
    setters = [
        _setter(cls, field.name) for field in dataclasses.fields(cast("Any", cls))
    ]

    def build(values: Iterable[object]) -> T:
        value: T = new(cls)
        for put, each in zip(setters, values, strict=True):
            put(value, each)
        return value

    return build


def _name_arguments(
    cls: type, names: list[str], args: tuple[object, ...], given: dict[str, object]
) -> None:
    if len(args) > len(names):
        raise TypeError(
            f"{cls.__qualname__}.__init__() takes {len(names)} positional arguments, "
            f"and {len(args)} were given"
        )
    for name, value in zip(names, args, strict=False):
        if name in given:
            raise TypeError(
                f"{cls.__qualname__}.__init__() got multiple values for argument "
                f"{name!r}"
            )
        given[name] = value


def _missing(
    cls: type, names: list[str], value: object, given: Mapping[str, object]
) -> TypeError:
    missing = [n for n in names if n not in given and not hasattr(value, n)]
    return TypeError(
        f"{cls.__qualname__}.__init__() misses {', '.join(map(repr, missing))}"
    )


class _LateSignature:
    """Makes the signature of a class's constructor when it is first read."""

    def __init__(self, cls: type) -> None:
        self._cls = cls

    def __get__(self, instance: object, owner: type) -> Signature:
        if owner is not self._cls:
            raise AttributeError("__signature__")  # it may have another constructor
        import inspect  # noqa: PLC0415  # rarely read

        def parameter(field: dataclasses.Field[Any]) -> inspect.Parameter:
            place = inspect.Parameter.POSITIONAL_OR_KEYWORD
            kind = inspect.Parameter.KEYWORD_ONLY if field.kw_only else place
            default = field.default
            if field.default_factory is not dataclasses.MISSING:
                default = _FACTORY
            elif default is dataclasses.MISSING:
                default = inspect.Parameter.empty
            return inspect.Parameter(
                field.name, kind, default=default, annotation=field.type
            )

        fields = [field for field in dataclasses.fields(self._cls) if field.init]
        fields.sort(key=lambda field: bool(field.kw_only))
        return inspect.Signature(list(map(parameter, fields)), return_annotation=None)


class _Factory:
    """The default in a signature of a field that has a factory."""

    def __repr__(self) -> str:
        return "<factory>"


_FACTORY = _Factory()


def _make_repr(cls: type) -> object:
    names = [field.name for field in dataclasses.fields(cls) if field.repr]

    def __repr__(self: object) -> str:  # noqa: N807
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"{type(self).__qualname__}({values})"

    return __repr__


def _comparison_methods(cls: type, *, is_hashable: bool) -> dict[str, object]:
    names = [field.name for field in dataclasses.fields(cls) if field.compare]
    values = attrgetter(*names)

    def __eq__(self: object, other: object) -> bool:  # noqa: N807
        if type(other) is not type(self):
            return NotImplemented
        return values(self) == values(other)

    def __hash__(self: object) -> int:  # noqa: N807
        return hash(values(self))

    return {"__eq__": __eq__, "__hash__": __hash__ if is_hashable else None}


def _frozen_methods(cls: Any) -> dict[str, object]:
    """Makes the methods of a frozen class that refuse changes."""

    def refuse(instance: object, name: str, change: str) -> None:
        if type(instance) is cls or name in cls.__dataclass_fields__:
            raise dataclasses.FrozenInstanceError(f"cannot {change} field {name!r}")

    def __setattr__(self: object, name: str, value: object) -> None:  # noqa: N807
        refuse(self, name, "assign to")
        super(cls, self).__setattr__(name, value)

    def __delattr__(self: object, name: str) -> None:  # noqa: N807
        refuse(self, name, "delete")
        super(cls, self).__delattr__(name)

    return {"__setattr__": __setattr__, "__delattr__": __delattr__}


def _get_state(self: Any) -> list[object]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _set_state(self: Any, state: list[object]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)


if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass  # noqa: PLC0414  # for others
else:
    dataclass = _dataclass
