from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
from helpers.engine import FakeEngine

import actorlib
from actorlib._api.actor_handle import method_of
from actorlib._base.ids import ActorId
from actorlib._core.engine import HandlePin, PendingCalls, set_engine
from actorlib._options.actor_options import ActorOptions
from actorlib._options.call_options import CallOptions
from actorlib._options.interface import interface_of
from actorlib.exceptions import PendingCallsLimitExceeded, UnknownOptionError

if TYPE_CHECKING:
    from collections.abc import Iterator

ONE = ActorId(b"\x01")
GROUPS = {"io": 2, "compute": 4}


class Base:
    @actorlib.method(concurrency_group="io")
    def inherited(self) -> str:
        return "base"

    @actorlib.method(concurrency_group="io")
    def replaced(self) -> str:
        return "base"


class Model(Base):
    def replaced(self) -> str:
        return "own"

    def plain(self) -> int:
        return 1

    @actorlib.method
    def bare(self) -> int:
        return 2

    @actorlib.method()
    async def empty(self) -> int:
        return 3

    @actorlib.method(concurrency_group="compute")
    @staticmethod
    def outside(number: int) -> int:
        return number

    @staticmethod
    @actorlib.method(concurrency_group="compute")
    def inside(number: int) -> int:
        return number

    @classmethod
    @actorlib.method(concurrency_group="compute")
    def own(cls) -> str:
        return cls.__name__


class Plain:
    def ping(self) -> str:
        return "pong"


@pytest.fixture
async def engine() -> Iterator[FakeEngine]:
    engine = FakeEngine()
    set_engine(engine)
    yield engine  # type: ignore[misc]
    set_engine(None)


def handle(**options: Any) -> Any:
    return actorlib.remote(num_cpus=0, **options)(Plain).remote()


# The decorator.


def test_a_decorated_method_stays_what_it_is() -> None:
    model: Any = Model()

    assert model.bare() == 2
    assert model.inherited() == "base"
    assert Model.outside(4) == 4
    assert Model.inside(5) == 5
    assert model.own() == "Model"


def test_options_are_read_off_the_class_and_its_bases() -> None:
    face = interface_of(Model)

    assert face.grouped() == {
        "inherited": "io",
        "outside": "compute",
        "inside": "compute",
        "own": "compute",
    }
    assert face.methods["bare"].options == CallOptions()
    assert face.methods["empty"].is_async


@pytest.mark.parametrize("name", ["concurency_group", "num_gpus", "name"])
def test_an_unknown_option_is_refused(name: str) -> None:
    with pytest.raises(UnknownOptionError, match=f"{name}.*not"):
        actorlib.method(**{name: "io"})  # type: ignore[call-overload]


@pytest.mark.parametrize("given", [(1,), (int,), (Model.plain, Model.bare)])
def test_method_when_it_decorates_no_method_then_refused(given: Any) -> None:
    with pytest.raises(TypeError, match="@method takes"):
        actorlib.method(*given)


def test_method_when_it_is_given_a_method_and_options_then_refused() -> None:
    with pytest.raises(TypeError, match="either"):
        actorlib.method(Model.plain, concurrency_group="io")  # type: ignore[call-overload]


def test_typed_when_given_no_handle_then_refused() -> None:
    with pytest.raises(TypeError, match="handle"):
        actorlib.typed(Model())  # type: ignore[arg-type]


async def test_typed_when_given_a_handle_then_it_is_that(engine: FakeEngine) -> None:
    del engine
    actor = handle()

    assert actorlib.typed(actor) is actor


async def test_spawn_when_called_then_it_creates_an_actor(engine: FakeEngine) -> None:
    del engine

    spawned: object = actorlib.remote(concurrency_groups=GROUPS)(Model).spawn()

    assert isinstance(spawned, actorlib.ActorHandle)


# Options of one call.


def test_an_unknown_option_of_a_call_is_refused_at_once() -> None:
    face = interface_of(Model)
    hold = HandlePin(FakeEngine(loopless()), ONE, face)
    ping: Any = method_of(hold, face.methods["bare"])

    with pytest.raises(TypeError, match="num_cpus=1 is not an option of a method"):
        ping.options(num_cpus=1)


def loopless() -> Any:
    class Loop:
        pass

    return Loop()


def test_an_undefined_group_of_a_method_is_refused_with_the_class() -> None:
    with pytest.raises(ValueError, match=r"Model\.\w+ .*the groups of Model are: 'io'"):
        actorlib.remote(concurrency_groups={"io": 2})(Model)
    with pytest.raises(ValueError, match="none"):
        actorlib.remote(Model)
    made = actorlib.remote(concurrency_groups=GROUPS)(Model)
    with pytest.raises(ValueError, match="concurrency group 'compute'"):
        made.options(concurrency_groups={"io": 1})


def test_face_when_calls_have_groups_then_only_another_one_is_told() -> None:
    options = ActorOptions(concurrency_groups=GROUPS)
    face = interface_of(Model).with_actor_options(options)
    method = face.methods["inherited"]

    assert method.headers is None
    assert face.with_options(method, {}).headers is None
    assert face.with_options(method, {"concurrency_group": None}).headers is None
    assert face.with_options(method, {"concurrency_group": "io"}).headers is None
    moved = face.with_options(method, {"concurrency_group": "compute"})
    assert moved.headers == {"group": "compute"}
    assert face.with_options(moved, {"concurrency_group": "io"}).headers == {
        "group": "io"
    }


# What an actor's options mean.


@pytest.mark.parametrize(
    ("options", "is_async", "expected"),
    [
        ({}, False, {}),
        ({}, True, {}),
        ({"max_concurrency": 0}, True, {}),
        ({"max_concurrency": 1}, False, {}),
        ({"max_concurrency": 1}, True, {"": 1}),
        ({"max_concurrency": 5}, False, {"": 5}),
        ({"max_concurrency": 1000}, True, {}),
        ({"concurrency_groups": {}}, False, {}),
        ({"concurrency_groups": {"io": 2}}, False, {"": 1, "io": 2}),
        ({"concurrency_groups": {"io": 2}}, True, {"": 1000, "io": 2}),
        (
            {"concurrency_groups": {"io": 2}, "max_concurrency": 3},
            True,
            {"": 3, "io": 2},
        ),
    ],
)
def test_limits_when_asked_then_by_group_and_nothing_for_the_default(
    options: dict[str, Any], is_async: Any, expected: dict[str, int]
) -> None:
    assert ActorOptions(**options).limits(is_async=is_async) == expected


@pytest.mark.parametrize(
    ("cls", "options", "keeps_order"),
    [
        (Plain, {}, True),
        (Plain, {"max_concurrency": 1}, True),
        (Plain, {"allow_out_of_order_execution": False}, True),
        (Plain, {"allow_out_of_order_execution": True}, False),
        (Plain, {"max_concurrency": 2}, False),
        (Plain, {"concurrency_groups": GROUPS}, False),
        (Model, {"concurrency_groups": GROUPS}, False),
    ],
)
def test_face_when_several_calls_run_at_once_then_it_keeps_no_order(
    cls: type, options: dict[str, Any], keeps_order: Any
) -> None:
    face = interface_of(cls).with_actor_options(ActorOptions(**options))

    assert {method.keeps_order for method in face.methods.values()} == {keeps_order}


@pytest.mark.parametrize(
    "options", [{"max_concurrency": 2}, {"concurrency_groups": GROUPS}]
)
def test_order_when_it_cannot_be_kept_then_refused_with_the_class(
    options: dict[str, Any],
) -> None:
    with pytest.raises(ValueError, match="allow_out_of_order_execution=False"):
        actorlib.remote(allow_out_of_order_execution=False, **options)(Plain)
    made = actorlib.remote(**options)(Plain)
    with pytest.raises(ValueError, match="order"):
        made.options(allow_out_of_order_execution=False)


def test_groups_when_the_users_dict_changes_then_the_options_do_not() -> None:
    groups = {"io": 2}
    options = ActorOptions(concurrency_groups=groups)
    groups["io"] = 3

    assert options.concurrency_groups == {"io": 2}


# Calls without an answer.


async def test_the_limit_is_counted_in_values(engine: FakeEngine) -> None:
    actor = handle(max_pending_calls=2)
    first, second = actor.ping.remote(), actor.ping.remote()
    with pytest.raises(PendingCallsLimitExceeded):
        actor.ping.remote()
    first.set_result(1)
    third = actor.ping.remote()  # the loop has had no turn
    with pytest.raises(PendingCallsLimitExceeded):
        actor.ping.options(concurrency_group=None).remote()
    second.cancel()
    third.set_exception(ValueError)
    third.exception()
    assert len([actor.ping.remote(), actor.ping.remote()]) == 2
    assert len(engine.sent) == 5


async def test_handles_of_one_process_count_together(
    engine: FakeEngine,
) -> None:
    actor = handle(max_pending_calls=1)
    face = interface_of(Plain).with_actor_options(ActorOptions(max_pending_calls=1))
    copy: Any = actorlib.ActorHandle(HandlePin(engine, ActorId(b"\x01"), face))
    ref = actor.ping.remote()
    with pytest.raises(PendingCallsLimitExceeded):
        copy.ping.remote()
    ref.set_result(1)
    copy.ping.remote()


async def test_a_ref_that_is_gone_counts_no_more(engine: FakeEngine) -> None:
    actor = handle(max_pending_calls=1)
    ref = actor.ping.remote()
    engine.release_if_unused(ref)
    del ref
    actor.ping.remote()
    assert len(engine.cancelled) == 1


async def test_pending_when_every_call_is_done_then_nothing_is_kept(
    engine: FakeEngine,
) -> None:
    pending = PendingCalls()
    assert pending.begin(ONE, 1)
    assert not pending.begin(ONE, 1)
    pending.made(ONE, None)
    assert pending.begin(ONE, 1)
    ref = engine.new_ref()
    pending.made(ONE, ref)
    assert not pending.begin(ONE, 1)
    ref.set_result(None)
    assert pending.begin(ONE, 1)
    pending.made(ONE, None)
    assert not pending._refs
    assert not pending._begun


async def test_pending_when_many_threads_begin_then_never_more_than_the_limit() -> None:
    pending, begun = PendingCalls(), []

    def begin() -> None:
        begun.extend(n for n in range(200) if pending.begin(ONE, 100))

    threads = [threading.Thread(target=begin) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(begun) == 100
