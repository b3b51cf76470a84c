"""The signatures of an actor class, by which callers check calls.

Without the check a misspelt method or a missing argument would fail later, in another
process, with a traceback that does not show the wrong line. An interface is plain data,
so it is pickled with each handle.
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

    It does not refer to the function, which may capture handles: an interface lives
    longer than its class.

    Attributes:
        doc: The docstring, or None.
        signature: The signature on an instance; defaults that are not plain values are
            shown as ``...``.
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
    """The signature and the options of one method.

    Attributes:
        name: Its name.
        is_async: Whether it is an ``async def``, with or without ``yield``.
        positional: The names of the positional parameters, in order.
        positional_only: How many of those are positional-only.
        required: How many of those have no default.
        keywords: The keyword-only parameters.
        required_keywords: Those of them without a default.
        low: The smallest number of positional arguments of a call without keywords.
        high: The largest number of positional arguments; very large with ``*args``.
        any_keyword: Whether it has ``**kwargs``.
        takes_nothing: Whether it stands for the missing constructor of a class.
        options: The options of its calls: those of ``@method``, replaced by the
            caller's.
        headers: The headers of its calls, or None.
        keeps_order: Whether a call waits behind an earlier one that waits for an
            argument.
        is_stream: Whether it is a generator.
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
        """Refuses a ``map()`` of calls that do not have one result.

        Args:
            where: Its name in messages.
            width: The number of arguments of each call.
            parts: The number of refs of each call.
        """
        if self.is_stream:
            raise TypeError(
                f"map() returns one result for each call, and {where} is a generator: "
                "call remote() for each item"
            )
        if parts != 1:
            raise TypeError(
                f"map() returns one result for each call, and {where} has "
                f"num_returns={parts}: call remote() for each item"
            )
        self.check(width, {})

    def check(self, nargs: int, kwargs: Mapping[str, object]) -> None:
        """Refuses arguments that do not fit, with Python's own messages."""
        if nargs > self.high:
            raise self._too_many(nargs)
        bound = set(self.positional[:nargs])
        by_name = self.positional[self.positional_only :]
        for name in kwargs:
            if name in by_name:
                if name in bound:
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
            if name not in bound
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
        number = f"{nargs} {'was' if nargs == 1 else 'were'}"
        return TypeError(f"{self.name}() takes {takes} but {number} given")


READY = Method("__ray_ready__", False, (), 0, 0, (), (), 0, 0, False)  # noqa: FBT003  # it takes nothing
CALL = Method("__ray_call__", False, ("function",), 1, 1, (), (), 1, _UNBOUNDED, True)  # noqa: FBT003  # anything goes
TERMINATE = Method("__ray_terminate__", False, (), 0, 0, (), (), 0, 0, False)  # noqa: FBT003  # it takes nothing
BUILT_IN = {method.name: method for method in (READY, CALL, TERMINATE)}
"""The methods of every handle, for scripts of Ray."""


class Interface(NamedTuple):
    """The signatures of an actor class, and the options that callers need.

    Attributes:
        class_name: The name of the class.
        constructor: Its constructor, under the name of the class.
        methods: Its methods by name, inherited ones included.
        groups: The concurrency groups of its actors.
        max_pending: How many calls without an answer one process may have, or -1.
        max_unread: How many items of all its streams may be unread, or -1.
        attributes: The public names of the class that are not methods, each with
            ``"a property"`` or ``"an attribute"`` for messages.
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
        """Whether a method is an ``async def`` without ``yield``."""
        entry = self.methods.get(method)
        return entry is not None and entry.is_async and not entry.is_stream

    def with_actor_options(self, options: ActorOptions) -> Interface:
        """Returns the interface of actors with these options; checks that they fit."""
        is_many = self.is_async or bool(options.limits(is_async=False))
        if is_many and options.allow_out_of_order_execution is False:
            raise ValueError(
                f"{self.class_name} runs several calls at once, so their order cannot "
                "be kept: leave out allow_out_of_order_execution=False, or else its "
                "async methods, max_concurrency and concurrency_groups"
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

    def with_options(self, method: Method, changes: Mapping[str, object]) -> Method:
        """Returns a method with some of its options replaced for a call."""
        options = method.options.updated(changes)
        self.check_group(method.name, options)
        options.check(f"{self.class_name}.{method.name}", is_stream=method.is_stream)
        headers = options.headers(is_stream=method.is_stream)
        if options.concurrency_group != method.options.concurrency_group:
            headers["group"] = options.concurrency_group
        elif method.headers is not None and "group" in method.headers:
            headers["group"] = method.headers["group"]
        return method._replace(options=options, headers=headers or None)

    def retried(self) -> dict[str, object]:
        """Returns the ``retry_exceptions`` of the methods that have them, by name."""
        return {
            name: method.options.retry_exceptions
            for name, method in self.methods.items()
            if method.options.retry_exceptions is not None
        }

    def retrying(self, exceptions_by_method: Mapping[str, object]) -> Interface:
        """Returns the interface with other ``retry_exceptions`` for some methods.

        None stands for those of the actor.
        """
        methods = dict(self.methods)
        for name, exceptions in exceptions_by_method.items():
            method = methods[name]
            options = replace(method.options, retry_exceptions=cast("bool", exceptions))
            methods[name] = _with_options(method, options)
        return self._replace(methods=methods)

    def check_group(self, method: str, options: CallOptions) -> None:
        """Makes sure that an actor has the concurrency group of a method."""
        group = options.concurrency_group
        if group is not None and group not in self.groups:
            defined = ", ".join(map(repr, self.groups)) or "none"
            raise ValueError(
                f"{self.class_name}.{method} is to run in the concurrency group "
                f"{group!r}, and the groups of {self.class_name} are: {defined}. They "
                f"are defined with @remote(concurrency_groups={{{group!r}: 2}})"
            )

    def grouped(self) -> dict[str, str]:
        """Returns the concurrency groups of the methods that have one, by name."""
        return {
            name: method.options.concurrency_group
            for name, method in self.methods.items()
            if method.options.concurrency_group is not None
        }


NO_METHODS = Interface("actor in a value", READY, {})
"""The interface of handles that only keep an actor alive for a value."""


def interface_of(cls: type) -> Interface:
    """Reads the interface of a class.

    Every callable that the class or one of its bases defines is a method, static and
    class methods too, except those of ``object``.
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
    name: str = getattr(function, "__name__", "")
    return _read(name, function, skip_self=False)


def signature_of(function: Callable[..., object]) -> inspect.Signature:
    """Reads the signature of a function that may have any annotations.

    From Python 3.14 on, annotations are evaluated when they are read (PEP 649). That
    fails for names that only type checkers import, and for classes that follow in the
    file. The annotations are strings then.

    Raises:
        TypeError: It is not callable, or has no signature.
        ValueError: It is written in C and has no signature.
    """
    if sys.version_info >= (3, 14):
        from annotationlib import Format  # noqa: PLC0415  # 3.14 has it

        try:
            return inspect.signature(function)
        except Exception:  # noqa: BLE001  # annotations are the user's code
            return inspect.signature(function, annotation_format=Format.STRING)
    return inspect.signature(function)


def _method(cls: type, name: str) -> Method:
    attribute = inspect.getattr_static(cls, name)
    function = getattr(cls, name)
    # A descriptor, such as a function, is called with the instance; others (a partial,
    # an object with __call__) are not. In Python 3.13 a partial is a descriptor that
    # warns only: from 3.14 on it is called with the instance.
    is_bound = hasattr(attribute, "__get__") and not (
        isinstance(attribute, functools.partial) and sys.version_info < (3, 14)
    )
    is_unbound = isinstance(attribute, (staticmethod, classmethod))
    method = _read(name, function, skip_self=is_bound and not is_unbound)
    options = cast("CallOptions", getattr(function, OPTIONS, _PLAIN))
    return _with_options(method, options)


def _with_options(method: Method, options: CallOptions) -> Method:
    headers = options.headers(is_stream=method.is_stream)
    return method._replace(options=options, headers=headers or None)


def is_generator(function: object) -> bool:
    return inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)


def _constructor(cls: type) -> Method:
    function: object = inspect.getattr_static(cls, "__init__")
    is_missing = function is _NO_CONSTRUCTOR
    if is_missing and cast("object", cls.__new__) is not object.__new__:
        function = cls.__new__
    return _read(cls.__name__, function, skip_self=True)


def _read(name: str, function: object, *, skip_self: bool) -> Method:
    if function is _NO_CONSTRUCTOR:
        return Method(name, False, (), 0, 0, (), (), 0, 0, False, True)  # noqa: FBT003  # the empty signature
    is_items = inspect.isasyncgenfunction(function)
    is_async = is_items or inspect.iscoroutinefunction(function)
    try:
        signature = signature_of(cast("Callable[..., object]", function))
    except (TypeError, ValueError):  # written in C: it checks its arguments itself
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
        # With a required keyword every call is checked in full.
        _UNBOUNDED if must else required,
        _UNBOUNDED if unbounded else len(positional),
        any(p.kind is _VAR_KEYWORD for p in parameters),
        is_stream=is_generator(function),
        docs=MethodDocs(function, signature.replace(parameters=parameters)),
    )


_POSITIONAL_ONLY = inspect.Parameter.POSITIONAL_ONLY
_KEYWORD_ONLY = inspect.Parameter.KEYWORD_ONLY
_VAR_POSITIONAL = inspect.Parameter.VAR_POSITIONAL
_VAR_KEYWORD = inspect.Parameter.VAR_KEYWORD
_BY_POSITION = (_POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def _missing(function: str, kind: str, names: list[str]) -> TypeError:
    *most, last = map(repr, names)
    text = last
    if most:
        text = f"{', '.join(most)}{',' if len(most) > 1 else ''} and {last}"
    return TypeError(
        f"{function}() missing {_count(len(names), f'required {kind} argument')}: "
        f"{text}"
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def class_of(source: object) -> type:
    """Returns the user's class, for the class or for its ActorClass."""
    return cast("type", getattr(source, "__wrapped__", source))


def find_method(instance: object, name: str) -> Callable[..., Any]:
    """Returns the function that a call of a method runs.

    A callable attribute of the instance replaces the method of the class, as in
    ``self.predict = torch.compile(self.predict)``. Another attribute of that name, as
    in ``self.value = 0``, does not.
    """
    attribute = getattr(instance, name)
    return attribute if callable(attribute) else bind_method(instance, name)


def bind_method(instance: object, name: str) -> Callable[..., Any]:
    """Binds a method of an instance's class, whatever attributes the instance has."""
    cls = type(instance)
    attribute: object = inspect.getattr_static(cls, name)
    bind: Any = getattr(cast("type", type(attribute)), "__get__", None)
    method = attribute if bind is None else bind(attribute, instance, cls)
    return cast("Callable[..., Any]", method)


def interface_of_source(source: object) -> Interface:
    """Returns the interface of a class, for the class or for its ActorClass."""
    if isinstance(source, type):
        return interface_of(source)
    return cast("Interface", source._interface)  # type: ignore[attr-defined]  # noqa: SLF001
