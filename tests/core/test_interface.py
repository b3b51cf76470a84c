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
def test_check_when_a_call_has_no_keywords_then_it_accepts_what_is_within_the_bounds(
    parameters: str, nargs: int
) -> None:
    method = method_of(parameters)

    is_within = method.low <= nargs <= method.high

    assert (refusal(lambda: method.check(nargs, {})) is None) == is_within


# The same words.


REFUSED = [
    *(("", 1, ""), ("", 3, ""), ("a", 2, ""), ("a, b", 3, ""), ("a, b=0", 3, "")),
    *(("a=0", 2, ""), ("a=0, b=0", 5, ""), ("a, /", 2, ""), ("*args, g", 2, "")),
    *(("a", 0, ""), ("a, b", 0, ""), ("a, b", 1, ""), ("a, b, c", 0, "")),
    *(("a, b, c, d", 0, ""), ("a, /, b", 0, "b"), ("a, b", 0, "b"), ("a, /", 0, "a")),
    *(("a", 0, "z"), ("a", 1, "z"), ("", 0, "z"), ("a", 1, "a"), ("a, b=0", 2, "b")),
    *(("a, *args", 2, "a"), ("*, g", 0, ""), ("*, g, h", 0, ""), ("*, g, h=0", 0, "h")),
]
"""Parameters, and a call that does not fit: the number of arguments, and names."""


def test_check_when_it_refuses_then_in_the_words_of_python() -> None:
    for parameters, nargs, names in REFUSED:
        function, method = plain(parameters), method_of(parameters)
        kwargs = dict.fromkeys(names)

        theirs = refusal(lambda: function(*range(nargs), **kwargs))  # noqa: B023  # at once
        ours = refusal(lambda: method.check(nargs, kwargs))  # noqa: B023  # at once

        assert theirs is not None
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


def test_interface_when_the_class_or_a_base_defines_them_then_methods_alone_are_there(
    face: Interface,
) -> None:
    class Bare:
        pass

    names = (
        "inherited overridden later still made cached shorthand __getitem__ __init__"
    )
    assert face.methods.keys() == {*names.split()}
    assert all(name == method.name for name, method in face.methods.items())
    assert interface_of(Bare).methods == {}


def test_interface_when_a_method_is_async_then_it_and_the_actor_are(
    face: Interface,
) -> None:
    class Plain(Sample):
        def later(self, a: int) -> int:  # type: ignore[override]
            return a

    assert {name for name, method in face.methods.items() if method.is_async} == {
        "later"
    }
    are_async = [interface_of(cls).is_async for cls in (Sample, Base, Plain)]
    assert are_async == [True, False, False]


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


class Left:
    def ping(self, a: int) -> None: ...


class Right:
    def ping(self) -> None: ...


class Both(Left, Right):
    pass


class Wrapped:
    @functools.wraps(Sample.overridden)
    def ping(self, *args: object) -> None: ...

    pong = functools.partialmethod(Sample.overridden, 1)


@pytest.mark.parametrize(
    ("cls", "name", "parameters"),
    [
        # Without self and cls, where there is one.
        *((Sample, n, "a") for n in ("later", "still", "made", "cached", "shorthand")),
        (Sample, "overridden", "a b"),
        (Both, "ping", "a"),
        (Wrapped, "ping", "a b"),
        (Wrapped, "pong", "b"),
    ],
)
def test_interface_when_a_signature_comes_from_elsewhere_then_as_python_calls_it(
    cls: type, name: str, parameters: str
) -> None:
    assert interface_of(cls).methods[name].positional == (*parameters.split(),)


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


def test_constructor_when_there_is_init_then_it_is_read_and_the_class_is_named() -> (
    None
):
    constructor = interface_of(Sample).constructor

    assert constructor.positional == ("size",)
    assert constructor.keywords == ("name",)
    with pytest.raises(TypeError, match=r"^Sample\(\) missing 1 required"):
        constructor.check(0, {})


def test_constructor_when_there_is_none_then_it_takes_nothing() -> None:
    class Bare:
        pass

    constructor = interface_of(Bare).constructor
    theirs = refusal(lambda: Bare(1))  # type: ignore[call-arg]

    constructor.check(0, {})
    assert refusal(lambda: constructor.check(1, {})) == theirs


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
def test_constructor_when_made_in_any_way_then_it_takes_what_the_class_takes(
    cls: Any,
) -> None:
    constructor = interface_of(cls).constructor

    for nargs in range(4):
        theirs = refusal(lambda: cls(*range(nargs)))  # noqa: B023  # called at once
        ours = refusal(lambda: constructor.check(nargs, {}))  # noqa: B023  # at once

        assert (ours is None) == (theirs is None), nargs


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
