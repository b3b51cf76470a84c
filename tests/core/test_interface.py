"""The judge of ``Method.check`` is Python itself: every call is also made for real.

``inspect.Signature.bind`` is no judge: before 3.12.4 it refuses what Python accepts, a
name taken by position alone that is also given to ``**more``.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import pickle
import re
import sys
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Self, TypeVar

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from actorlib._base.ids import ActorId
from actorlib._options.callee import BoundMethod
from actorlib._options.hooks import hooks_of
from actorlib._options.interface import Interface, Method, interface_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

T = TypeVar("T")


class Call(NamedTuple):
    nargs: int
    names: frozenset[str]

    @property
    def kwargs(self) -> dict[str, object]:
        return dict.fromkeys(sorted(self.names))


@st.composite
def signatures(draw: st.DrawFn) -> str:
    """The parameters of a method behind ``self``, for example ``a, /, b=0, *, c``."""
    kinds = [
        draw(st.lists(st.booleans(), max_size=3)),  # a, b, c by position alone
        draw(st.lists(st.booleans(), max_size=3)),  # d, e, f by position or name
        draw(st.lists(st.booleans(), max_size=2)),  # g, h by name alone
    ]
    names = iter("abcdefgh")
    has_default = False
    by_position: list[str] = []
    for kind in kinds[:2]:
        for default in kind:
            has_default = has_default or default
            by_position.append(next(names) + ("=0" if has_default else ""))
        if kind is kinds[0] and kind:
            by_position.append("/")
    by_name = [next(names) + ("=0" if default else "") for default in kinds[2]]
    rest = draw(st.sampled_from([[], ["*args"]]))
    if by_name and not rest:
        rest = ["*"]
    more = draw(st.sampled_from([[], ["**more"]]))
    return ", ".join([*by_position, *rest, *by_name, *more])


calls = st.builds(
    Call, st.integers(0, 7), st.frozensets(st.sampled_from([*"abcdefghz"]), max_size=5)
)


def plain(parameters: str) -> Callable[..., None]:
    """A function called ``ping`` with these parameters."""
    made: dict[str, Callable[..., None]] = {}
    exec(f"def ping({parameters}): pass", made)
    return made["ping"]


def method_of(parameters: str) -> Method:
    """The method ``ping(self, ...)`` of an actor class with these parameters."""
    separator = ", " if parameters else ""
    # A parameter by position alone makes self one too.
    cls = type("Actor", (), {"ping": plain(f"self{separator}{parameters}")})
    return interface_of(cls).methods["ping"]


def refusal(call: Callable[[], object]) -> str | None:
    """What a TypeError says; Python's own guesses at a misspelling left out."""
    try:
        call()
    except TypeError as error:
        return re.sub(r"\. Did you mean .*", "", str(error))
    return None


# The same judgement.


@given(signatures(), calls)
@example("a", Call(0, frozenset("a")))
@example("a, /", Call(0, frozenset("a")))
@example("a, /, **more", Call(1, frozenset("a")))
@example("a=0, *args", Call(3, frozenset("a")))
@example("*, g", Call(0, frozenset()))
def test_check_when_compared_with_python_then_it_accepts_exactly_the_same(
    parameters: str, call: Call
) -> None:
    function, method = plain(parameters), method_of(parameters)

    theirs = refusal(lambda: function(*range(call.nargs), **call.kwargs))
    ours = refusal(lambda: method.check(call.nargs, call.kwargs))

    assert (ours is None) == (theirs is None), (ours, theirs)


@given(signatures(), st.integers(0, 9))
def test_bounds_when_a_call_has_no_keywords_and_is_within_then_check_accepts(
    parameters: str, nargs: int
) -> None:
    method = method_of(parameters)

    if method.low <= nargs <= method.high:
        method.check(nargs, {})


@given(signatures(), st.integers(0, 9))
def test_bounds_when_a_call_has_no_keywords_and_is_beyond_then_check_refuses(
    parameters: str, nargs: int
) -> None:
    method = method_of(parameters)

    if not method.low <= nargs <= method.high:
        with pytest.raises(TypeError):
            method.check(nargs, {})


# The same words.


@pytest.mark.parametrize(
    ("parameters", "nargs", "names"),
    [
        ("", 1, ""),
        ("", 3, ""),
        ("a", 2, ""),
        ("a, b", 3, ""),
        ("a, b=0", 3, ""),
        ("a=0", 2, ""),
        ("a=0, b=0", 5, ""),
        ("a, /", 2, ""),
        ("a", 0, ""),
        ("a, b", 0, ""),
        ("a, b", 1, ""),
        ("a, b, c", 0, ""),
        ("a, b, c, d", 0, ""),
        ("a, /, b", 0, "b"),
        ("a, b", 0, "b"),
        ("a", 0, "z"),
        ("a", 1, "z"),
        ("", 0, "z"),
        ("a", 1, "a"),
        ("a, b=0", 2, "b"),
        ("a, *args", 2, "a"),
        ("*, g", 0, ""),
        ("*, g, h", 0, ""),
        ("*, g, h=0", 0, "h"),
        ("*args, g", 2, ""),
        ("a, /", 0, "a"),
    ],
)
def test_check_when_it_refuses_then_in_the_words_of_python(
    parameters: str, nargs: int, names: str
) -> None:
    function, method = plain(parameters), method_of(parameters)
    kwargs = dict.fromkeys(names)

    theirs = refusal(lambda: function(*range(nargs), **kwargs))
    ours = refusal(lambda: method.check(nargs, kwargs))

    assert ours is not None
    assert ours == theirs


# What is a method.


class Base:
    registry: Mapping[str, int] = {}
    helper = dict

    def inherited(self) -> None: ...

    def overridden(self, a: int) -> None: ...

    def taken_away(self) -> None: ...

    def __getitem__(self, key: str) -> str:
        return key


class Sample(Base):
    """One of everything."""

    limit = 5
    taken_away = None  # type: ignore[assignment]

    class Inner:
        pass

    def __init__(self, size: int, *, name: str = "") -> None:
        self.size = size
        self.name = name

    def overridden(self, a: int, b: int = 0) -> None: ...

    async def later(self, a: int) -> int:
        return a

    @property
    def shown(self) -> int:
        return self.size

    @functools.cached_property
    def kept(self) -> int:
        return self.size

    @staticmethod
    def still(a: int) -> int:
        return a

    @classmethod
    def made(cls, a: int) -> Sample:
        return cls(a)

    @functools.lru_cache(maxsize=1)  # noqa: B019  # what users do
    def cached(self, a: int) -> int:
        return a

    shorthand = lambda _, a: a  # noqa: E731  # what users do


@pytest.fixture
def face() -> Interface:
    return interface_of(Sample)


@pytest.mark.parametrize(
    "name",
    ["inherited", "overridden", "later", "still", "made", "cached", "shorthand"],
)
def test_interface_when_the_class_or_a_base_defines_it_then_it_is_a_method(
    face: Interface, name: str
) -> None:
    assert face.methods[name].name == name


@pytest.mark.parametrize(
    "name", ["limit", "registry", "helper", "Inner", "shown", "kept", "taken_away"]
)
def test_interface_when_an_attribute_is_no_method_then_it_is_not_there(
    face: Interface, name: str
) -> None:
    assert name not in face.methods


def test_interface_when_object_alone_defines_it_then_it_is_not_there() -> None:
    class Bare:
        pass

    assert interface_of(Bare).methods == {}


def test_interface_when_a_base_defines_a_special_method_then_it_is_there(
    face: Interface,
) -> None:
    assert "__getitem__" in face.methods


def test_interface_when_overridden_then_the_signature_is_the_last_one(
    face: Interface,
) -> None:
    assert face.methods["overridden"].positional == ("a", "b")


@pytest.mark.parametrize("name", ["later", "still", "made", "cached", "shorthand"])
def test_interface_when_a_method_takes_one_argument_then_self_and_cls_do_not_count(
    face: Interface, name: str
) -> None:
    assert (face.methods[name].low, face.methods[name].high) == (1, 1)


@pytest.mark.parametrize(("name", "is_async"), [("later", True), ("still", False)])
def test_interface_when_a_method_is_async_then_it_says_so(
    face: Interface, name: str, *, is_async: bool
) -> None:
    assert face.methods[name].is_async is is_async


def test_interface_when_one_method_is_async_then_the_actor_is(face: Interface) -> None:
    assert face.is_async


def test_interface_when_no_method_is_async_then_the_actor_is_not() -> None:
    assert not interface_of(Base).is_async


def test_interface_when_async_is_overridden_by_plain_then_it_is_not_async() -> None:
    class Plain(Sample):
        def later(self, a: int) -> int:  # type: ignore[override]
            return a

    assert not interface_of(Plain).is_async


def test_interface_when_pickled_then_equal_but_for_the_functions_themselves(
    face: Interface,
) -> None:
    without = face._replace(
        constructor=face.constructor._replace(docs=None),
        methods={n: m._replace(docs=None) for n, m in face.methods.items()},
    )

    travelled = pickle.loads(pickle.dumps(face))

    assert travelled == without
    assert travelled != face


def test_method_when_it_is_on_an_actor_then_its_text_says_so(face: Interface) -> None:
    method = face.methods["later"]
    actor = ActorId(bytes(16))

    assert str(BoundMethod(actor, face, "s1", method)) == "Sample.later of 's1'"
    assert str(BoundMethod(actor, face, None, method)) == "Sample.later"


def test_interface_when_a_name_of_two_bases_then_the_one_python_would_call() -> None:
    class Left:
        def ping(self, a: int) -> None: ...

    class Right:
        def ping(self) -> None: ...

    class Both(Left, Right):
        pass

    assert interface_of(Both).methods["ping"].positional == ("a",)


def test_interface_when_a_method_is_wrapped_then_the_signature_is_the_wrapped_one() -> (
    None
):
    def loud(function: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(function)
        def wrapper(*args: object, **kwargs: object) -> None:
            function(*args, **kwargs)

        return wrapper

    class Wrapped:
        @loud
        def ping(self, a: int, b: int) -> None: ...

    assert interface_of(Wrapped).methods["ping"].positional == ("a", "b")


def test_interface_when_a_method_is_partial_then_what_is_given_does_not_count() -> None:
    class Partial:
        def ping(self, a: int, b: int) -> None: ...

        pong = functools.partialmethod(ping, 1)

    assert interface_of(Partial).methods["pong"].positional == ("b",)


def test_interface_when_a_method_is_a_partial_then_as_its_python_binds_it() -> None:
    cls = type("Partial", (), {"ping": functools.partial(lambda a, b: (a, b))})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # it takes no self before 3.14
        bound = cls().ping

    method = interface_of(cls).methods["ping"]

    assert method.positional == tuple(inspect.signature(bound).parameters)


DEFERRED = """
import actorlib

class Deferred:
    def __init__(self, size: Missing) -> None: ...

    def ping(self, a: int, b: Missing = 2) -> Later: ...

    @actorlib.close
    def leave(self, why: Missing = None) -> Later: ...

    @actorlib.batch()
    async def many(self, items: list[Later]) -> list[Later]: ...
"""


@pytest.mark.skipif(sys.version_info < (3, 14), reason="evaluates annotations at once")
def test_interface_when_annotations_cannot_be_evaluated_then_they_are_strings() -> None:
    names: dict[str, Any] = {"__name__": __name__}
    exec(compile(DEFERRED, "<deferred>", "exec", dont_inherit=True), names)

    cls = names["Deferred"]
    interface = interface_of(cls)

    assert hooks_of(cls).close == "leave"
    assert interface.constructor.positional == ("size",)
    ping = interface.methods["ping"]
    assert (ping.positional, ping.required) == (("a", "b"), 1)
    assert ping.docs is not None
    assert ping.docs.signature.return_annotation == "Later"
    assert ping.docs.signature.parameters["a"].annotation == "int"
    assert interface.methods["many"].positional == ("items",)


class Shout:
    """A callable that is no function: Python passes it no ``self``."""

    def __call__(self, text: str) -> str:
        return text.upper()


class Holder:
    shout = Shout()
    size = len


@pytest.mark.parametrize("name", ["shout", "size"])
def test_interface_when_a_callable_is_not_bound_by_python_then_it_has_no_self(
    name: str,
) -> None:
    getattr(Holder(), name)("a")

    interface_of(Holder).methods[name].check(1, {})


# Constructors.


def test_constructor_when_there_is_init_then_it_is_read_from_there() -> None:
    constructor = interface_of(Sample).constructor

    assert constructor.positional == ("size",)
    assert constructor.keywords == ("name",)


def test_constructor_when_it_refuses_then_it_speaks_of_the_class() -> None:
    with pytest.raises(TypeError, match=r"^Sample\(\) missing 1 required"):
        interface_of(Sample).constructor.check(0, {})


def test_constructor_when_there_is_none_then_it_takes_nothing() -> None:
    class Bare:
        pass

    constructor = interface_of(Bare).constructor
    constructor.check(0, {})

    with pytest.raises(TypeError):
        constructor.check(1, {})


def test_constructor_when_there_is_none_then_it_refuses_in_the_words_of_python() -> (
    None
):
    class Bare:
        pass

    theirs = refusal(lambda: Bare(1))  # type: ignore[call-arg]

    assert refusal(lambda: interface_of(Bare).constructor.check(1, {})) == theirs


@dataclass
class Point:
    x: int
    y: int = 0


class Pair(NamedTuple):
    left: int
    right: int = 0


class New:
    def __new__(cls, a: int, b: int = 0) -> Self:
        del a, b
        return super().__new__(cls)


class Grown(New):
    pass


class Box(Generic[T]):
    def __init__(self, a: T, b: int = 0) -> None: ...


@pytest.mark.parametrize("cls", [Point, Pair, New, Grown, Box])
@pytest.mark.parametrize("nargs", range(4))
def test_constructor_when_made_in_any_way_then_it_takes_what_the_class_takes(
    cls: Callable[..., object], nargs: int
) -> None:
    theirs = refusal(lambda: cls(*range(nargs)))
    ours = refusal(
        lambda: interface_of(cls).constructor.check(nargs, {})  # type: ignore[arg-type]
    )

    assert (ours is None) == (theirs is None)


@pytest.mark.parametrize("base", [dict, list, Exception, tuple, str, int])
def test_constructor_when_the_base_is_written_in_c_then_one_argument_is_taken(
    base: type,
) -> None:
    cls = type("Derived", (base,), {})

    interface_of(cls).constructor.check(1, {})


def test_interface_when_a_signature_cannot_be_read_then_anything_goes() -> None:
    class Unreadable:
        update = dict.update  # C code without a signature

    method = interface_of(Unreadable).methods["update"]

    method.check(9, {"anything": 1})


@pytest.mark.skipif(sys.version_info < (3, 12), reason="the marker is newer")
def test_interface_when_a_method_is_marked_as_async_then_it_says_so() -> None:
    def ping(self: object) -> object:
        return asyncio.sleep(0, self)

    cls = type("Marked", (), {"ping": inspect.markcoroutinefunction(ping)})

    assert interface_of(cls).methods["ping"].is_async
