"""The signatures of an actor class, by which callers check calls.

Else a misspelt method or a missing argument would fail later, in another process, with
a traceback that does not show the line at fault. An interface is plain data, so it is
pickled with each handle.
"""

from __future__ import annotations

import functools
import inspect
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from actorlib._options.call_options import CallOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from actorlib._options.actor_options import ActorOptions

OPTIONS = "__actorlib_options__"
"""The attribute in which ``@method`` keeps the options of a method."""
_PLAIN = CallOptions()
_UNBOUNDED = 1 << 30
_VALUES = (type(None), bool, int, float, complex, str, bytes)
_NO_CONSTRUCTOR: object = inspect.getattr_static(object, "__init__")


class MethodDocs:
    """The docstring and the signature of a method, for ``help()`` and for editors.

    It does not hold the function, which may capture handles: an interface lives longer
    than its class.

    Attributes:
        doc: Its docstring, or None.
        signature: How it is called on an instance; defaults that are no plain values
            are shown as ``...``.
        classes: The subclasses of ActorMethod that show them, by the class that each
            derives from; see ``_api/actor_handle.py``.
    """

    __slots__ = ("classes", "doc", "signature")

    def __init__(self, function: object, signature: inspect.Signature) -> None:
        self.doc: str | None = getattr(function, "__doc__", None)
        self.signature = signature.replace(
            parameters=[_shown(p) for p in signature.parameters.values()]
        )
        self.classes: dict[type, type] = {}


def _shown(parameter: inspect.Parameter) -> inspect.Parameter:
    if parameter.default is parameter.empty or type(parameter.default) in _VALUES:
        return parameter
    return parameter.replace(default=...)


class Method(NamedTuple):
    """How one method may be called.

    Attributes:
        name: Its name.
        is_async: Whether it is an ``async def``, with ``yield`` or without.
        positional: Names of the parameters that may be given by position, in order.
        positional_only: How many of those may not be given by name.
        required: How many of those have no default.
        keywords: Keyword-only parameters.
        required_keywords: Those of them without a default.
        low: The fewest positional arguments of a call without keywords.
        high: The most positional arguments; very large behind ``*args``.
        any_keyword: Whether it takes ``**kwargs``.
        takes_nothing: Whether it is the constructor of a class that has none.
        options: The options of calls of it: those of ``@method``, with the caller's.
        headers: The headers of every call of it, or None.
        keeps_order: Whether a call waits behind an earlier one that waits for an
            argument.
        is_stream: Whether it is a generator: a call gives items, one after the other.
        docs: Its docstring and signature; None after unpickling.
    """

    name: str
    is_async: bool
    positional: tuple[str, ...]
    positional_only: int
    required: int
    keywords: tuple[str, ...]
    required_keywords: tuple[str, ...]
    low: int
    high: int
    any_keyword: bool
    takes_nothing: bool = False
    options: CallOptions = _PLAIN
    headers: dict[str, object] | None = None
    keeps_order: bool = True
    is_stream: bool = False
    docs: MethodDocs | None = None

    def __reduce__(self) -> tuple[object, ...]:
        return Method, tuple(self)[:-1]

    def check_batch(self, where: str, width: int, parts: int) -> None:
        """Refuses a ``map()`` that could not be.

        Args:
            where: What it is called in messages.
            width: How many arguments each call has.
            parts: How many refs a call gives.

        Raises:
            TypeError: It gives items, or not one ref, or the arguments do not fit.
        """
        if self.is_stream:
            raise TypeError(
                f"map() gives one result for each call, and {where} is a generator: "
                "call remote() for each item"
            )
        if parts != 1:
            raise TypeError(
                f"map() gives one result for each call, and {where} was told "
                f"num_returns={parts}: call remote() for each item"
            )
        self.check(width, {})

    def check(self, nargs: int, kwargs: Mapping[str, object]) -> None:
        """Refuses arguments that could not be bound, in Python's own words.

        Args:
            nargs: How many positional arguments there are.
            kwargs: The keyword arguments.

        Raises:
            TypeError: The call would fail to bind.
        """
        if nargs > self.high:
            raise self._too_many(nargs)
        given = set(self.positional[:nargs])
        by_name = self.positional[self.positional_only :]
        for name in kwargs:
            if name in by_name:
                if name in given:
                    raise TypeError(
                        f"{self.name}() got multiple values for argument {name!r}"
                    )
            elif name not in self.keywords and not self.any_keyword:
                if name in self.positional:
                    raise TypeError(
                        f"{self.name}() got some positional-only arguments passed as "
                        f"keyword arguments: {name!r}"
                    )
                raise TypeError(
                    f"{self.name}() got an unexpected keyword argument {name!r}"
                )
        missing = [
            name
            for place, name in enumerate(self.positional[: self.required])
            if name not in given
            and (place < self.positional_only or name not in kwargs)
        ]
        if missing:
            raise _missing(self.name, "positional", missing)
        missing = [name for name in self.required_keywords if name not in kwargs]
        if missing:
            raise _missing(self.name, "keyword-only", missing)

    def _too_many(self, nargs: int) -> TypeError:
        if self.takes_nothing:
            return TypeError(f"{self.name}() takes no arguments")
        takes = _count(self.high, "positional argument")
        if self.required < self.high:
            takes = f"from {self.required} to {self.high} positional arguments"
        given = f"{nargs} {'was' if nargs == 1 else 'were'}"
        return TypeError(f"{self.name}() takes {takes} but {given} given")


READY = Method("__ray_ready__", False, (), 0, 0, (), (), 0, 0, False)  # noqa: FBT003  # it takes nothing
CALL = Method("__ray_call__", False, ("function",), 1, 1, (), (), 1, _UNBOUNDED, True)  # noqa: FBT003  # anything goes
TERMINATE = Method("__ray_terminate__", False, (), 0, 0, (), (), 0, 0, False)  # noqa: FBT003  # it takes nothing
BUILT_IN = {method.name: method for method in (READY, CALL, TERMINATE)}
"""What every handle has, for scripts that know them from Ray."""


class Interface(NamedTuple):
    """The signatures of an actor class, and what of its options the caller needs.

    Attributes:
        class_name: The class's own name.
        constructor: How it is constructed; its name is the class's.
        methods: By name, inherited ones included.
        groups: The concurrency groups that an actor of it has.
        max_pending: How many calls without an answer one process may have, or -1.
        max_unread: How many items of all its streams may be unread, or -1.
        attributes: What each public name of the class is that is not a method, for
            messages: ``"a property"`` or ``"an attribute"``.
    """

    class_name: str
    constructor: Method
    methods: dict[str, Method]
    groups: tuple[str, ...] = ()
    max_pending: int = -1
    max_unread: int = -1
    attributes: Mapping[str, str] = {}

    @property
    def is_async(self) -> bool:
        """Whether the constructor or a method is an ``async def``.

        The actor then has an event loop.
        """
        methods = self.methods.values()
        return self.constructor.is_async or any(method.is_async for method in methods)

    def awaits(self, method: str) -> bool:
        """Whether a method is an ``async def`` that gives one value."""
        known = self.methods.get(method)
        return known is not None and known.is_async and not known.is_stream

    def with_actor_options(self, options: ActorOptions) -> Interface:
        """The interface of actors that have these options.

        Raises:
            ValueError: The class and its options contradict one another.
        """
        is_many = self.is_async or bool(options.limits(is_async=False))
        if is_many and options.allow_out_of_order_execution is False:
            raise ValueError(
                f"{self.class_name} runs several calls at once, so their order cannot "
                "be kept: leave allow_out_of_order_execution=False out, or give it "
                "neither async methods nor max_concurrency nor concurrency_groups"
            )
        keeps_order = not (is_many or options.allow_out_of_order_execution)
        interface = self._replace(
            groups=tuple(options.concurrency_groups or ()),
            max_pending=options.max_pending_calls or -1,
            max_unread=options.max_unread_items or -1,
        )
        for method in self.methods.values():
            interface.check_group(method.name, method.options)
        methods = {
            name: method._replace(keeps_order=keeps_order)
            for name, method in self.methods.items()
        }
        return interface._replace(methods=methods)

    def with_options(self, method: Method, given: Mapping[str, object]) -> Method:
        """A method with some of its options replaced for a call.

        Raises:
            TypeError: An option is unknown, or a value has the wrong type.
            ValueError: It names an unknown group, or is for generators alone.
        """
        options = method.options.updated(given)
        self.check_group(method.name, options)
        options.check(f"{self.class_name}.{method.name}", is_stream=method.is_stream)
        headers = _headers(options, is_stream=method.is_stream)
        if options.concurrency_group != method.options.concurrency_group:
            headers["group"] = options.concurrency_group
        elif method.headers is not None and "group" in method.headers:
            headers["group"] = method.headers["group"]
        return method._replace(options=options, headers=headers or None)

    def check_batch(self, method: Method, width: int) -> None:
        """Makes sure that ``map()`` can call a method.

        Args:
            method: The method.
            width: How many arguments each call has.

        Raises:
            TypeError: It cannot.
        """
        where = f"{self.class_name}.{method.name}"
        method.check_batch(where, width, method.options.parts)

    def retried(self) -> dict[str, object]:
        """The ``retry_exceptions`` of the methods that have them, by name."""
        known = {n: m.options.retry_exceptions for n, m in self.methods.items()}
        return {name: listed for name, listed in known.items() if listed is not None}

    def retrying(self, listed: Mapping[str, object]) -> Interface:
        """The interface with other ``retry_exceptions`` for some methods.

        Args:
            listed: By name of the method; None for its actor's.
        """
        methods = dict(self.methods)
        for name, exceptions in listed.items():
            method = methods[name]
            options = replace(method.options, retry_exceptions=cast("bool", exceptions))
            headers = _headers(options, is_stream=method.is_stream)
            methods[name] = method._replace(options=options, headers=headers or None)
        return self._replace(methods=methods)

    def check_group(self, method: str, options: CallOptions) -> None:
        """Makes sure that an actor has the concurrency group of a method.

        Raises:
            ValueError: It has none of that name.
        """
        group = options.concurrency_group
        if group is not None and group not in self.groups:
            defined = ", ".join(map(repr, self.groups)) or "none"
            raise ValueError(
                f"{self.class_name}.{method} is to run in the concurrency group "
                f"{group!r}, and the groups of {self.class_name} are: {defined}. They "
                f"are defined with @remote(concurrency_groups={{{group!r}: 2}})"
            )

    def grouped(self) -> dict[str, str]:
        """The methods that are in a concurrency group, each with its name."""
        named = {
            name: method.options.concurrency_group
            for name, method in self.methods.items()
        }
        return {name: group for name, group in named.items() if group is not None}


NO_METHODS = Interface("actor in a value", READY, {})
"""The interface of handles that are held for a value, and never called."""


def interface_of(cls: type) -> Interface:
    """Makes the interface of a class.

    Every callable that the class or a base of it defines is a method, static and class
    methods too, except those of ``object``.
    """
    methods: dict[str, Method] = {}
    attributes: dict[str, str] = {}
    for base in reversed(cls.__mro__[:-1]):
        for name, value in vars(base).items():
            methods.pop(name, None)
            attributes.pop(name, None)
            if name in BUILT_IN:  # a class cannot replace those
                continue
            if callable(getattr(cls, name, None)) and not isinstance(value, type):
                methods[name] = _method(cls, name)
            elif not name.startswith("_"):
                is_property = isinstance(value, property | functools.cached_property)
                attributes[name] = "a property" if is_property else "an attribute"
    constructor = _constructor(cls)
    return Interface(cls.__name__, constructor, methods, attributes=attributes)


def method_of(function: Callable[..., object]) -> Method:
    """How a function may be called."""
    name: str = getattr(function, "__name__", "")
    return _read(name, function, skip_self=False)


def signature_of(function: Callable[..., object]) -> inspect.Signature:
    """Reads the signature of a function that may have any annotations.

    From Python 3.14 on annotations are evaluated when they are read (PEP 649). That
    fails for names that type checkers alone import, and for classes that stand further
    down in the file. The annotations are strings then.

    Raises:
        TypeError: It is not a callable that has a signature.
        ValueError: It is written in C and has none.
    """
    if sys.version_info >= (3, 14):
        from annotationlib import Format  # noqa: PLC0415  # 3.14 has it

        try:
            return inspect.signature(function)
        except Exception:  # noqa: BLE001  # annotations are code of the user's
            return inspect.signature(function, annotation_format=Format.STRING)
    return inspect.signature(function)


def _method(cls: type, name: str) -> Method:
    found = inspect.getattr_static(cls, name)
    function = getattr(cls, name)
    # A function takes the instance; what is no descriptor (a partial, an object with
    # __call__) is left as it is when it is looked up. In Python 3.13 a partial is a
    # descriptor that only warns of what it will do from 3.14 on: take the instance.
    is_bound = hasattr(found, "__get__") and not (
        isinstance(found, functools.partial) and sys.version_info < (3, 14)
    )
    is_own = isinstance(found, (staticmethod, classmethod))
    method = _read(name, function, skip_self=is_bound and not is_own)
    options = cast("CallOptions", getattr(function, OPTIONS, _PLAIN))
    headers = _headers(options, is_stream=method.is_stream)
    return method._replace(options=options, headers=headers or None)


def _headers(options: CallOptions, *, is_stream: bool) -> dict[str, object]:
    headers = options.headers
    if is_stream:  # the worker has to know how far it may be ahead of its reader
        headers |= options.stream_headers
    return headers


def is_generator(function: object) -> bool:
    """Whether a call of a function gives items, one after the other."""
    return inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)


def _constructor(cls: type) -> Method:
    made: object = inspect.getattr_static(cls, "__init__")
    if made is _NO_CONSTRUCTOR and cast("object", cls.__new__) is not object.__new__:
        made = cls.__new__
    return _read(cls.__name__, made, skip_self=True)


def _read(name: str, function: object, *, skip_self: bool) -> Method:
    if function is _NO_CONSTRUCTOR:
        return Method(name, False, (), 0, 0, (), (), 0, 0, False, True)  # noqa: FBT003  # the empty signature
    is_items = inspect.isasyncgenfunction(function)
    is_async = is_items or inspect.iscoroutinefunction(function)
    try:
        signature = signature_of(cast("Callable[..., object]", function))
    except (TypeError, ValueError):  # written in C without a signature: let it judge
        return Method(name, is_async, (), 0, 0, (), (), 0, _UNBOUNDED, True)  # noqa: FBT003  # anything goes
    parameters = list(signature.parameters.values())
    if skip_self and parameters and parameters[0].kind is not _VAR_POSITIONAL:
        parameters = parameters[1:]
    positional = [p for p in parameters if p.kind in _BY_POSITION]
    required = sum(p.default is p.empty for p in positional)
    keywords = [p for p in parameters if p.kind is _KEYWORD_ONLY]
    must = tuple(p.name for p in keywords if p.default is p.empty)
    unbounded = any(p.kind is _VAR_POSITIONAL for p in parameters)
    return Method(
        name,
        is_async,
        tuple(p.name for p in positional),
        sum(p.kind is _POSITIONAL_ONLY for p in positional),
        required,
        tuple(p.name for p in keywords),
        must,
        # A required keyword makes every call take the long way, which names it.
        _UNBOUNDED if must else required,
        _UNBOUNDED if unbounded else len(positional),
        any(p.kind is _VAR_KEYWORD for p in parameters),
        is_stream=is_items or inspect.isgeneratorfunction(function),
        docs=MethodDocs(function, signature.replace(parameters=parameters)),
    )


_POSITIONAL_ONLY = inspect.Parameter.POSITIONAL_ONLY
_KEYWORD_ONLY = inspect.Parameter.KEYWORD_ONLY
_VAR_POSITIONAL = inspect.Parameter.VAR_POSITIONAL
_VAR_KEYWORD = inspect.Parameter.VAR_KEYWORD
_BY_POSITION = (_POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def _missing(function: str, kind: str, names: list[str]) -> TypeError:
    *most, last = map(repr, names)
    listed = last
    if most:
        listed = f"{', '.join(most)}{',' if len(most) > 1 else ''} and {last}"
    return TypeError(
        f"{function}() missing {_count(len(names), f'required {kind} argument')}: "
        f"{listed}"
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def class_of(source: object) -> type:
    """The user's class, from the class itself or from its ActorClass."""
    return cast("type", getattr(source, "__wrapped__", source))


def find_method(instance: object, name: str) -> Callable[..., Any]:
    """Finds what a call of a method calls.

    A callable attribute of the instance replaces the method of the class, as in
    ``self.predict = torch.compile(self.predict)``. Another attribute of that name, as
    in ``self.value = 0``, does not.
    """
    found = getattr(instance, name)
    return found if callable(found) else bind_method(instance, name)


def bind_method(instance: object, name: str) -> Callable[..., Any]:
    """Binds a method of an instance's class, whatever attributes the instance has."""
    cls = type(instance)
    found: object = inspect.getattr_static(cls, name)
    bind: Any = getattr(cast("type", type(found)), "__get__", None)
    bound = found if bind is None else bind(found, instance, cls)
    return cast("Callable[..., Any]", bound)


def interface_of_source(source: object) -> Interface:
    """The interface of a class, from the class itself or from its ActorClass."""
    if isinstance(source, type):
        return interface_of(source)
    # An ActorClass has made it already.
    return cast("Interface", source._interface)  # type: ignore[attr-defined]  # noqa: SLF001
