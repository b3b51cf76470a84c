from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
from helpers.engine import FakeEngine

import actorlib
from actorlib._base.ids import ActorId
from actorlib._core.engine import HandlePin, PendingCalls, set_engine
from actorlib._options.actor_options import ActorOptions
from actorlib._options.call_options import CallOptions
from actorlib._options.interface import interface_of
from actorlib.exceptions import PendingCallsLimitExceeded

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


@pytest.mark.parametrize(
    ("args", "options", "words"),
    [
        ((1,), {}, "@method takes"),
        ((int,), {}, "@method takes"),
        ((Model.plain, Model.bare), {}, "@method takes"),
        ((Model.plain,), {"concurrency_group": "io"}, "either"),
    ],
)
def test_method_when_it_decorates_no_method_then_refused(
    args: tuple[Any, ...], options: dict[str, Any], words: str
) -> None:
    with pytest.raises(TypeError, match=words):
        actorlib.method(*args, **options)


async def test_typed_and_spawn_when_used_then_the_handle(engine: FakeEngine) -> None:
    actor = handle()

    assert actorlib.typed(actor) is actor
    with pytest.raises(TypeError, match="handle"):
        actorlib.typed(Model())  # type: ignore[arg-type]
    spawned: object = actorlib.remote(concurrency_groups=GROUPS)(Model).spawn()
    assert isinstance(spawned, actorlib.ActorHandle)
    assert len(engine.created) == 2
    with pytest.raises(TypeError, match="num_cpus=1 is not an option of a method"):
        actor.ping.options(num_cpus=1)


# Options of one call.


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


# Calls without an answer.


async def test_limit_when_calls_are_over_in_any_way_then_they_count_no_more(
    engine: FakeEngine,
) -> None:
    actor = handle(max_pending_calls=2)
    face = interface_of(Plain).with_actor_options(ActorOptions(max_pending_calls=2))
    copy: Any = actorlib.ActorHandle(HandlePin(engine, ONE, face))
    first, second = actor.ping.remote(), copy.ping.remote()
    for each in (actor, copy):  # all handles of a process count together
        with pytest.raises(PendingCallsLimitExceeded):
            each.ping.remote()
    first.set_result(1)
    third = actor.ping.remote()  # the loop has had no turn
    with pytest.raises(PendingCallsLimitExceeded):
        actor.ping.options(concurrency_group=None).remote()
    second.cancel()
    third.set_exception(ValueError)
    third.exception()
    refs = [actor.ping.remote(), actor.ping.remote()]
    assert len(engine.sent) == 5
    engine.release_if_unused(refs[0])
    del refs[0]
    actor.ping.remote()
    assert len(engine.cancelled) == 2


async def test_pending_when_a_call_was_not_made_then_it_does_not_count(
    engine: FakeEngine,
) -> None:
    pending = PendingCalls()
    for ref in (None, engine.new_ref(), None):
        assert pending.begin(ONE, 1)
        assert not pending.begin(ONE, 1)
        pending.made(ONE, ref)
        if ref is not None:
            assert not pending.begin(ONE, 1)
            ref.set_result(None)


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
