from __future__ import annotations

import copy
import gc
import inspect
import pickle
from typing import TYPE_CHECKING, Any

import pytest
from helpers.engine import FakeEngine, Sent

from actorlib import ActorHandle, ObjectRef
from actorlib._api.actor_handle import HandlePin, pin_of
from actorlib._base.ids import ActorId
from actorlib._core.engine import collecting_ids, set_engine
from actorlib._core.runtime_context import RuntimeContext
from actorlib._options.actor_options import ActorOptions
from actorlib._options.interface import interface_of
from actorlib.types import ActorMethod

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ONE, TWO = ActorId(b"\x01\xab"), ActorId(b"\x02\xcd")


class Model:
    size = 5

    def ping(self, times: int = 1) -> int:
        return times

    def add(self, a: int, /, b: int, *, c: int) -> int:
        return a + b + c

    async def later(self, *args: int) -> int:
        return sum(args)

    def echo(this, self: int) -> int:  # noqa: N805  # a name that users may choose
        return self

    def _private(self) -> None: ...


FACE = interface_of(Model)


@pytest.fixture
async def engine() -> FakeEngine:
    return FakeEngine()


@pytest.fixture
def running(engine: FakeEngine) -> Iterator[FakeEngine]:
    """The engine of this process."""
    set_engine(engine)
    yield engine
    set_engine(None)


@pytest.fixture
def no_collector() -> Iterator[None]:
    """What goes, goes because nobody holds it: no help by the garbage collector."""
    gc.disable()
    yield
    gc.enable()


def handle_of(engine: FakeEngine, actor: ActorId = ONE) -> ActorHandle[Model]:
    return ActorHandle(HandlePin(engine, actor, FACE))


# Calling.


async def test_call_when_made_then_the_engine_gets_it_as_it_was_written(
    engine: FakeEngine,
) -> None:
    handle = handle_of(engine)

    refs = [handle.add.remote(1, b=2, c=3), handle.ping.remote()]
    handle.echo.remote(self=3)  # a parameter that is called so

    assert engine.sent == [
        Sent(ONE, "add", (1,), {"b": 2, "c": 3}),
        Sent(ONE, "ping", (), {}),
        Sent(ONE, "echo", (), {"self": 3}),
    ]
    assert all(isinstance(ref, ObjectRef) and not ref.done() for ref in refs)


# Looking up.


async def test_attribute_when_it_is_a_method_then_the_same_actor_method_each_time(
    engine: FakeEngine,
) -> None:
    handle = handle_of(engine)

    assert isinstance(handle.ping, ActorMethod)
    assert isinstance(handle._private, ActorMethod)
    assert handle.ping is handle.ping
    assert repr(handle.ping) == "<method Model.ping>"
    assert (hasattr(handle, "ping"), hasattr(handle, "nope")) == (True, False)
    own = ["_private", "add", "echo", "later", "ping", "resume", "share", "suspend"]
    assert dir(handle) == own


async def test_attribute_when_it_is_set_then_refused(engine: FakeEngine) -> None:
    handle: Any = handle_of(engine)

    with pytest.raises(
        AttributeError, match=r"cannot be set on a handle.*of Model are"
    ):
        handle.size = 3
    with pytest.raises(AttributeError, match="cannot be set on a handle"):
        handle.ping = None
    with pytest.raises(AttributeError, match="cannot be set on a handle"):
        del handle.ping


@pytest.mark.parametrize(
    ("name", "offered"),
    [("nope", None), ("__len__", None), ("_nope", None), ("pnig", "ping")],
)
async def test_attribute_when_it_is_no_method_then_a_similar_one_is_offered(
    engine: FakeEngine, name: str, offered: str | None
) -> None:
    with pytest.raises(AttributeError, match=f"Model has no method '{name}'") as caught:
        getattr(handle_of(engine), name)

    assert ("did you mean" in str(caught.value)) is (offered is not None)
    assert offered is None or f"did you mean '{offered}'" in str(caught.value)


async def test_equality_when_compared_then_handles_of_one_actor_are_equal(
    engine: FakeEngine,
) -> None:
    left, right = handle_of(engine), handle_of(engine)

    assert repr(left) == "Actor(Model, 01ab)"
    assert left == right
    assert len({left, right}) == 1
    assert left != handle_of(engine, TWO)
    for other in (None, ONE, "Actor(Model, 01ab)", 1):
        assert left != other


# Holding.


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
async def test_copy_when_made_then_the_same_handle_or_a_method_that_calls(
    engine: FakeEngine, copied: Callable[[Any], Any]
) -> None:
    handle = handle_of(engine)

    assert copied(handle) is handle
    assert engine.holders[ONE] == 1
    copied(handle.ping).remote(3)
    assert engine.sent == [Sent(ONE, "ping", (3,), {})]


@pytest.mark.usefixtures("no_collector")
async def test_hold_when_the_last_handle_or_method_goes_then_released_at_once(
    engine: FakeEngine,
) -> None:
    left, right = handle_of(engine), handle_of(engine)
    left.ping.remote()
    assert not hasattr(left, "pnig")
    assert engine.holders == {ONE: 2}

    del left
    assert engine.holders == {ONE: 1}
    method = right.ping
    del right
    assert engine.holders == {ONE: 1}
    del method
    assert engine.holders == {}


# Being ready, and the end.


# Travelling.


async def test_pickle_when_handles_travel_then_each_is_noted_once_by_the_innermost(
    engine: FakeEngine,
) -> None:
    one, two = handle_of(engine), handle_of(engine, TWO)

    with collecting_ids(engine) as outer:
        with collecting_ids(FakeEngine()) as inner:  # of the same runtime
            pickle.dumps(two)
        pickle.dumps([one, {"a": two}, one])

    assert (outer, inner) == ([ONE, TWO], [TWO])


async def test_pickle_when_it_belongs_to_another_engine_then_value_error(
    engine: FakeEngine,
) -> None:
    other = FakeEngine()
    other.context = RuntimeContext(job_id="another")

    with collecting_ids(other), pytest.raises(ValueError, match="another runtime"):
        pickle.dumps(handle_of(engine))


async def test_load_when_it_travelled_then_it_is_of_this_process_and_one_more_holder(
    running: FakeEngine,
) -> None:
    handle = handle_of(running)
    with collecting_ids(running) as found:
        data = pickle.dumps([handle, handle.ping])

    loaded, method = pickle.loads(data)

    assert loaded == handle
    assert pin_of(loaded).engine is running
    assert running.holders == {ONE: 3}
    assert set(found) == {ONE}
    method.remote(3)
    assert running.sent == [Sent(ONE, "ping", (3,), {})]
    with pytest.raises(AttributeError, match="did you mean 'ping'"):
        loaded.pnig  # noqa: B018  # reading it is the test


async def test_load_when_no_runtime_is_there_then_runtime_error(
    engine: FakeEngine,
) -> None:
    with collecting_ids(engine):
        data = pickle.dumps(handle_of(engine))

    with pytest.raises(RuntimeError, match="no runtime is running"):
        pickle.loads(data)


# What notebooks and editors ask.


class Documented:
    def predict(self, data: list[int], /, top: int = 3, *, raw: bool = False) -> str:
        """Says what it is."""
        raise NotImplementedError

    @staticmethod
    def version() -> int:
        raise NotImplementedError

    def items(self, count: int, among: object = pickle) -> Iterator[int]:
        """Yields so many."""
        yield from range(count) if among else ()


@pytest.mark.parametrize("options", [{}, {"max_pending_calls": 5}])
async def test_method_when_looked_at_then_it_is_as_it_was_written(
    engine: FakeEngine, options: Any
) -> None:
    face = interface_of(Documented).with_actor_options(ActorOptions(**options))
    handle: Any = ActorHandle(HandlePin(engine, ONE, face))
    own = "(data: 'list[int]', /, top: 'int' = 3, *, raw: 'bool' = False) -> 'str'"

    assert str(inspect.signature(handle.predict.remote)) == own
    assert str(inspect.signature(handle.predict)) == own
    assert inspect.getdoc(handle.predict) == "Says what it is."
    assert inspect.getdoc(handle.predict.remote) == "Says what it is."
    assert str(inspect.signature(handle.version.remote)) == "() -> 'int'"
    assert inspect.getdoc(handle.items) == "Yields so many."
    shown = str(inspect.signature(handle.items.remote))
    assert shown == "(count: 'int', among: 'object' = Ellipsis) -> 'Iterator[int]'"
    changed = handle.predict.options(name="p")
    assert str(inspect.signature(changed.remote)) == own
    assert isinstance(handle.predict, ActorMethod)
    assert str(inspect.signature(ActorMethod.remote)).startswith("(self, /, *args")
    with pytest.raises(TypeError, match="missing 1 required"):
        handle.predict.remote()


async def test_method_when_its_handle_has_travelled_then_it_is_any_method(
    engine: FakeEngine,
) -> None:
    face = pickle.loads(pickle.dumps(interface_of(Documented)))
    handle: Any = ActorHandle(HandlePin(engine, ONE, face))

    assert type(handle.predict) is ActorMethod
