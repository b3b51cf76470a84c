from __future__ import annotations

import asyncio
import copy
import gc
import inspect
import pickle
from typing import TYPE_CHECKING, Any

import pytest
from helpers.engine import FakeEngine, Sent

from actorlib import ActorHandle, ActorMethod, ObjectRef
from actorlib._api.actor_handle import HandlePin, pin_of
from actorlib._base.ids import ActorId
from actorlib._core.engine import collecting_ids, set_engine
from actorlib._core.runtime_context import RuntimeContext
from actorlib._options.actor_options import ActorOptions
from actorlib._options.interface import BUILT_IN, interface_of
from actorlib.exceptions import ActorDiedError, Exit

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

    handle.add.remote(1, b=2, c=3)

    assert engine.sent == [Sent(ONE, "add", (1,), {"b": 2, "c": 3})]


async def test_call_when_a_parameter_is_called_self_then_it_can_be_named(
    engine: FakeEngine,
) -> None:
    handle_of(engine).echo.remote(self=3)

    assert engine.sent == [Sent(ONE, "echo", (), {"self": 3})]


async def test_call_when_made_then_a_ref_at_once(engine: FakeEngine) -> None:
    ref = handle_of(engine).ping.remote()

    assert isinstance(ref, ObjectRef)
    assert not ref.done()


async def test_call_when_made_several_times_then_in_order(engine: FakeEngine) -> None:
    handle = handle_of(engine)

    for times in range(3):
        handle.ping.remote(times)

    assert [sent.args for sent in engine.sent] == [(0,), (1,), (2,)]


@pytest.mark.parametrize(
    ("name", "args", "kwargs"),
    [
        ("ping", (1, 2), {}),
        ("ping", (), {"tiems": 1}),
        ("ping", (1,), {"times": 1}),
        ("add", (1, 2), {}),
        ("add", (), {"a": 1, "b": 2, "c": 3}),
        ("later", (), {"a": 1}),
    ],
)
async def test_call_when_arguments_do_not_fit_then_type_error_and_nothing_is_sent(
    engine: FakeEngine, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    method = getattr(handle_of(engine), name)

    with pytest.raises(TypeError, match=rf"^{name}\(\)"):
        method.remote(*args, **kwargs)

    assert engine.sent == []


async def test_call_when_without_remote_then_type_error_says_how_to_write_it(
    engine: FakeEngine,
) -> None:
    with pytest.raises(TypeError, match=r"\.ping\.remote\("):
        handle_of(engine).ping(1)


# Looking up.


async def test_attribute_when_it_is_a_method_then_an_actor_method(
    engine: FakeEngine,
) -> None:
    assert isinstance(handle_of(engine).ping, ActorMethod)


async def test_attribute_when_it_is_set_then_refused(engine: FakeEngine) -> None:
    handle: Any = ActorHandle(HandlePin(engine, ActorId(b"it"), FACE))

    with pytest.raises(
        AttributeError, match=r"cannot be set on a handle.*of Model are"
    ):
        handle.size = 3
    with pytest.raises(AttributeError, match="cannot be set on a handle"):
        handle.ping = None
    with pytest.raises(AttributeError, match="cannot be set on a handle"):
        del handle.ping


async def test_attribute_when_read_again_then_the_same_object(
    engine: FakeEngine,
) -> None:
    handle = handle_of(engine)

    assert handle.ping is handle.ping


async def test_attribute_when_private_then_it_is_a_method_too(
    engine: FakeEngine,
) -> None:
    assert isinstance(handle_of(engine)._private, ActorMethod)


@pytest.mark.parametrize("name", ["nope", "__len__", "_nope"])
async def test_attribute_when_it_is_no_method_then_attribute_error_names_both(
    engine: FakeEngine, name: str
) -> None:
    with pytest.raises(AttributeError, match=f"Model has no method '{name}'"):
        getattr(handle_of(engine), name)


async def test_attribute_when_misspelt_then_the_right_one_is_offered(
    engine: FakeEngine,
) -> None:
    with pytest.raises(AttributeError, match="did you mean 'ping'"):
        handle_of(engine).pnig  # noqa: B018  # reading it is the test


async def test_attribute_when_nothing_is_near_then_nothing_is_offered(
    engine: FakeEngine,
) -> None:
    with pytest.raises(AttributeError) as caught:
        handle_of(engine).zzzzzz  # noqa: B018  # reading it is the test

    assert "did you mean" not in str(caught.value)


async def test_attribute_when_asked_whether_it_is_there_then_the_truth(
    engine: FakeEngine,
) -> None:
    handle = handle_of(engine)

    assert (hasattr(handle, "ping"), hasattr(handle, "nope")) == (True, False)


# Showing and comparing.


async def test_dir_when_asked_then_the_methods_of_the_class(
    engine: FakeEngine,
) -> None:
    own = ["_private", "add", "echo", "later", "ping"]
    assert dir(handle_of(engine)) == sorted([*BUILT_IN, *own])


async def test_repr_when_a_handle_then_class_and_id(engine: FakeEngine) -> None:
    assert repr(handle_of(engine)) == "Actor(Model, 01ab)"


async def test_repr_when_a_method_then_class_and_name(engine: FakeEngine) -> None:
    assert repr(handle_of(engine).ping) == "<method Model.ping>"


async def test_equality_when_of_one_actor_then_equal_with_one_hash(
    engine: FakeEngine,
) -> None:
    left, right = handle_of(engine), handle_of(engine)

    assert left == right
    assert len({left, right}) == 1


async def test_equality_when_of_two_actors_then_different(engine: FakeEngine) -> None:
    assert handle_of(engine) != handle_of(engine, TWO)


@pytest.mark.parametrize("other", [None, ONE, "Actor(Model, 01ab)", 1])
async def test_equality_when_compared_with_something_else_then_different(
    engine: FakeEngine, other: object
) -> None:
    assert handle_of(engine) != other


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
async def test_copy_when_a_handle_then_the_same_and_no_further_holder(
    engine: FakeEngine, copied: Callable[[object], object]
) -> None:
    handle = handle_of(engine)

    assert copied(handle) is handle
    assert engine.holders[ONE] == 1


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
async def test_copy_when_a_method_then_it_still_calls(
    engine: FakeEngine, copied: Callable[[Any], Any]
) -> None:
    method = copied(handle_of(engine).ping)

    method.remote(3)

    assert engine.sent == [Sent(ONE, "ping", (3,), {})]


# Holding.


@pytest.mark.usefixtures("no_collector")
async def test_hold_when_the_handle_goes_then_it_is_released_at_once(
    engine: FakeEngine,
) -> None:
    handle = handle_of(engine)
    handle.ping.remote()
    assert engine.holders == {ONE: 1}

    del handle

    assert engine.holders == {}


@pytest.mark.usefixtures("no_collector")
async def test_hold_when_a_method_is_kept_then_the_actor_is(engine: FakeEngine) -> None:
    method = handle_of(engine).ping
    assert engine.holders == {ONE: 1}

    del method

    assert engine.holders == {}


@pytest.mark.usefixtures("no_collector")
async def test_hold_when_two_handles_of_one_actor_then_each_counts(
    engine: FakeEngine,
) -> None:
    left, right = handle_of(engine), handle_of(engine)
    assert engine.holders == {ONE: 2}

    del left
    assert engine.holders == {ONE: 1}

    del right
    assert engine.holders == {}


@pytest.mark.usefixtures("no_collector")
async def test_hold_when_a_misspelt_method_was_asked_for_then_released_all_the_same(
    engine: FakeEngine,
) -> None:
    handle = handle_of(engine)
    assert not hasattr(handle, "pnig")

    del handle

    assert engine.holders == {}


# Being ready, and the end.


async def test_await_when_the_actor_is_ready_then_the_handle(
    engine: FakeEngine,
) -> None:
    handle = handle_of(engine)

    assert await handle is handle


async def test_await_when_the_actor_died_then_raises_why(engine: FakeEngine) -> None:
    never = asyncio.get_running_loop().create_future()
    never.set_exception(ActorDiedError("no", exit=Exit(cause="failed to start")))
    engine.readiness[ONE] = never

    with pytest.raises(ActorDiedError):
        await handle_of(engine)


async def test_block_when_entered_then_gives_the_handle(engine: FakeEngine) -> None:
    handle = handle_of(engine)

    async with handle as entered:
        assert entered is handle


async def test_block_when_left_then_the_actor_is_ended(engine: FakeEngine) -> None:
    async with handle_of(engine):
        assert engine.ended == []

    assert engine.ended == [(ONE, "end")]


async def test_block_when_left_by_an_exception_then_the_actor_is_killed(
    engine: FakeEngine,
) -> None:
    with pytest.raises(KeyError):
        async with handle_of(engine):
            raise KeyError

    assert engine.ended == [(ONE, "kill")]


# Travelling.


@pytest.mark.parametrize(
    "wrap", [lambda h: h, lambda h: [h], lambda h: {"a": h}, lambda h: h.ping]
)
async def test_pickle_when_it_does_not_travel_then_type_error_says_how_it_does(
    engine: FakeEngine, wrap: Callable[[Any], object]
) -> None:
    with pytest.raises(TypeError, match="argument or a result"):
        pickle.dumps(wrap(handle_of(engine)))


async def test_pickle_when_it_travels_then_its_actor_is_noted(
    engine: FakeEngine,
) -> None:
    one, two = handle_of(engine), handle_of(engine, TWO)

    with collecting_ids(engine) as found:
        pickle.dumps([one, {"a": two}])

    assert found == [ONE, TWO]


async def test_pickle_when_one_handle_is_there_twice_then_noted_once(
    engine: FakeEngine,
) -> None:
    handle = handle_of(engine)

    with collecting_ids(engine) as found:
        pickle.dumps([handle, handle])

    assert found == [ONE]


async def test_pickle_when_it_belongs_to_another_engine_then_value_error(
    engine: FakeEngine,
) -> None:
    handle = handle_of(engine)
    other = FakeEngine()
    other.context = RuntimeContext(job_id="another")

    with collecting_ids(other), pytest.raises(ValueError, match="another runtime"):
        pickle.dumps(handle)


async def test_pickle_when_of_another_engine_of_the_runtime_then_it_travels(
    engine: FakeEngine,
) -> None:
    with collecting_ids(FakeEngine()) as found:
        pickle.dumps(handle_of(engine))

    assert found == [ONE]


async def test_collecting_when_it_is_over_then_handles_do_not_travel_any_more(
    engine: FakeEngine,
) -> None:
    with collecting_ids(engine):
        pass

    with pytest.raises(TypeError):
        pickle.dumps(handle_of(engine))


async def test_collecting_when_one_is_inside_another_then_each_has_its_own(
    engine: FakeEngine,
) -> None:
    one, two = handle_of(engine), handle_of(engine, TWO)

    with collecting_ids(engine) as outer:
        with collecting_ids(engine) as inner:
            pickle.dumps(two)
        pickle.dumps(one)

    assert (outer, inner) == ([ONE], [TWO])


async def test_load_when_it_travelled_then_it_is_of_this_process_and_one_more_holder(
    running: FakeEngine,
) -> None:
    handle = handle_of(running)
    with collecting_ids(running):
        data = pickle.dumps(handle)

    loaded = pickle.loads(data)

    assert loaded == handle
    assert pin_of(loaded).engine is running
    assert running.holders == {ONE: 2}


async def test_load_when_it_travelled_then_it_knows_its_methods(
    running: FakeEngine,
) -> None:
    with collecting_ids(running):
        data = pickle.dumps(handle_of(running))

    loaded = pickle.loads(data)

    with pytest.raises(AttributeError, match="did you mean 'ping'"):
        loaded.pnig  # noqa: B018  # reading it is the test


async def test_load_when_a_method_travelled_then_it_calls(running: FakeEngine) -> None:
    with collecting_ids(running) as found:
        data = pickle.dumps(handle_of(running).ping)

    pickle.loads(data).remote(3)

    assert found == [ONE]
    assert running.sent == [Sent(ONE, "ping", (3,), {})]


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
