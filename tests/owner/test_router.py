"""The owner's end of one actor's calls: each gets an answer, whatever its answer is."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from actorlib._base.ids import ActorId
from actorlib._futures.flow_control import bounds_of
from actorlib._futures.object_ref import ObjectRef
from actorlib._futures.stream_reader import StreamReader
from actorlib._options.actor_options import ActorOptions
from actorlib._options.interface import interface_of
from actorlib._owner.actors.actor_record import ActorRecord
from actorlib._owner.calls.response_target import Clock
from actorlib._owner.calls.router import CallRouter
from actorlib._owner.objects.objects import ObjectTable
from actorlib._shm.running_calls import ALONE, CELLS, HIGHEST
from actorlib._wire.codec import FrameDecoder
from actorlib._wire.messages import (
    CALL,
    CALL_SCALARS,
    CALL_WITH,
    DIED,
    FAILURE,
    ITEM,
    RAISED,
    RESULT,
)
from actorlib._wire.serialization import dump, encode, encode_call
from actorlib.exceptions import (
    ActorDiedError,
    Exit,
    ProtocolError,
    SerializationError,
    TaskError,
)

if TYPE_CHECKING:
    from collections.abc import Collection

    from actorlib._wire.messages import Frame


class Sent:
    """A pipe that keeps what is sent."""

    def __init__(self) -> None:
        self.frames: list[Any] = []
        self.is_open = True
        self.is_turn_timed = False
        self.refused = 0

    def write(self, data: bytes) -> None:
        self.frames.append(data)

    def send(self, frame: Frame) -> None:
        self.frames.append(frame)


class Strict:
    """Counts loans, and knows one of them."""

    def __init__(self) -> None:
        self.held = 0

    def arrived(self, loans: Collection[Any], holder: int) -> None:
        del holder
        for loan in loans:
            if loan != b"known":
                raise ProtocolError(f"{loan!r} is nothing that is counted")
            self.held += 1

    def returned(self, loans: Collection[Any], holder: int) -> None:
        del holder
        self.held -= len(loans)


def died() -> ActorDiedError:
    return ActorDiedError("it is dead", exit=Exit(cause="crashed"))


class Called:
    """One call of an actor that is there."""

    def __init__(self, cls: type | None = None, **options: Any) -> None:
        loop = asyncio.get_running_loop()
        self.loans: Any = Strict()
        engine: Any = None  # nothing is sent inside of a value here
        objects = ObjectTable(engine, b"", self.loans)
        clock = Clock(loop)
        self.idle: list[bool] = []
        self.router = CallRouter(
            self.loans,
            objects,
            clock,
            record_of(cls or Plain, **options),
            died,
            died,
            lambda: self.idle.append(True),
        )
        self.channel: Any = Sent()
        self.open(1)
        self.ref: ObjectRef[Any] = ObjectRef(loop=loop)
        self.router.call(self.ref, "ping", encode(()), None)  # type: ignore[arg-type]  # it is small

    def open(self, number: int) -> None:
        session: Any = SimpleNamespace(
            channel=self.channel, number=number, cancel_children=lambda *_, **__: None
        )
        self.router.opened(session)


@pytest.fixture
async def called() -> Called:
    return Called()


class Explosive:
    """What raises no Exception when it is loaded."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _explode, ()


def _explode() -> None:
    raise asyncio.CancelledError("not yours")


async def test_settle_when_the_answer_has_loans_nobody_knows_then_its_end_answers(
    called: Called,
) -> None:
    answer = (RESULT, called.ref.call, (b"unknown",), encode(1))

    with pytest.raises(ProtocolError):
        called.router.settle(answer)
    assert not called.ref.done()
    called.router.over()

    with pytest.raises(ActorDiedError):
        await called.ref


@pytest.mark.parametrize("loans", [None, (b"known",)])
async def test_settle_when_the_value_cannot_be_loaded_then_the_call_says_so(
    called: Called, loans: tuple[bytes, ...] | None
) -> None:
    called.router.settle((RESULT, called.ref.call, loans, dump(Explosive())))

    with pytest.raises(SerializationError, match="CancelledError: not yours"):
        await called.ref
    assert called.loans.held == 0
    assert called.router.is_idle
    assert called.idle == [True]


@pytest.mark.parametrize("kind", [RAISED, DIED])
@pytest.mark.parametrize(
    "value", [5, "text", Explosive(), SystemExit(3), StopIteration(), ValueError]
)
async def test_settle_when_a_failure_brings_no_exception_then_the_call_fails(
    called: Called, kind: int, value: object
) -> None:
    payload = dump(value)
    called.router.settle(
        (FAILURE, called.ref.call, kind, "E: text", "Trace", "A.ping", None, payload)
    )

    with pytest.raises(TaskError, match=r"A\.ping raised E: text") as caught:
        await called.ref
    assert not isinstance(caught.value, SystemExit)


async def test_settle_when_a_call_that_is_kept_still_waits_then_it_keeps_what_it_has(
    called: Called,
) -> None:
    router, loop = called.router, asyncio.get_running_loop()
    router.interrupted()
    called.loans.arrived([b"known"], 0)  # as whoever makes the call does
    ref: ObjectRef[Any] = ObjectRef(loop=loop)
    headers = {"retries": (2, True)}
    number = router.send(ref, "ping", [b"known"], encode(()), headers)

    router.settle((RESULT, number, None, encode(1)))  # which no honest worker does

    assert not ref.done()
    assert called.loans.held == 1
    assert len(router.calls) == 1
    router.over()
    assert called.loans.held == 0
    for lost in (called.ref, ref):
        with pytest.raises(ActorDiedError):
            await lost


async def test_fail_when_the_call_could_be_sent_again_then_the_owner_holds_nothing(
    called: Called,
) -> None:
    called.loans.arrived([b"known"], 0)  # as whoever makes the call does
    ref: ObjectRef[Any] = ObjectRef(loop=asyncio.get_running_loop())
    headers = {"retries": (2, True)}
    number = called.router.send(ref, "ping", [b"known"], encode(()), headers)
    assert called.loans.held == 2  # the worker and the owner

    called.router.fail(number)

    assert called.loans.held == 1
    with pytest.raises(ActorDiedError):
        await ref
    called.router.over()
    with pytest.raises(ActorDiedError):
        await called.ref


# Scalars in frames.


@pytest.mark.parametrize(
    "args", [(), (None, True, 0, -0.0, "a"), (-(2**63), 2**64 - 1), ("x",) * 16]
)
async def test_call_when_its_arguments_are_scalars_then_they_stand_in_the_frame(
    called: Called, args: tuple[object, ...]
) -> None:
    ref: ObjectRef[Any] = ObjectRef(loop=asyncio.get_running_loop())

    called.router.call(ref, "ping", args, None)

    [frame] = FrameDecoder().feed(called.channel.frames[-1])
    assert frame == (CALL_SCALARS, ref.call, "ping", *args)
    assert repr(frame[3:]) == repr(args)
    called.router.settle_scalar(ref.call, 5)
    assert await ref == 5


@pytest.mark.parametrize("headers", [{"name": "n"}, {"retries": (1, None)}])
async def test_call_when_something_is_said_of_it_then_scalars_are_its_payload(
    called: Called, headers: dict[str, object]
) -> None:
    ref: ObjectRef[Any] = ObjectRef(loop=asyncio.get_running_loop())

    called.router.call(ref, "ping", (1, "a"), headers)

    frame = called.channel.frames[-1]
    assert frame[0] in (CALL, CALL_WITH)
    assert frame[-1] == encode_call((1, "a"), {})
    called.router.settle_scalar(ref.call, 5)
    assert await ref == 5


@pytest.mark.parametrize("change", ["close", "drain", "interrupted", "over"])
async def test_call_when_the_actor_takes_none_then_one_of_scalars_fails(
    called: Called, change: str
) -> None:
    getattr(called.router, change)()
    sent = [*called.channel.frames]
    refs = [ObjectRef[Any](loop=asyncio.get_running_loop()) for _ in range(2)]

    called.router.call(refs[0], "ping", (1,), None)
    called.open(2)
    called.router.call(refs[1], "ping", (1,), None)

    assert isinstance(refs[0].exception(), ActorDiedError)
    if change == "interrupted":
        assert not refs[1].done()
        assert len(called.channel.frames) == len(sent) + 1
    else:
        assert isinstance(refs[1].exception(), ActorDiedError)
        assert called.channel.frames == sent
    if called.ref.done():
        assert isinstance(called.ref.exception(), ActorDiedError)


async def test_call_when_calls_are_kept_then_scalars_are_its_payload() -> None:
    called = Called(max_restarts=1, max_task_retries=1)
    ref: ObjectRef[Any] = ObjectRef(loop=asyncio.get_running_loop())

    called.router.call(ref, "ping", (1,), None)
    called.router.interrupted()
    called.open(2)

    first, again = [frame for frame in called.channel.frames if frame[1] == ref.call]
    assert first == again == (CALL, ref.call, "ping", None, encode_call((1,), {}))
    for kept in (called.ref, ref):
        called.router.settle_scalar(kept.call, "kept")
        assert await kept == "kept"
    assert called.router.is_idle
    assert not called.router.survives_restart


async def test_settle_scalar_when_nobody_waits_then_it_is_dropped(
    called: Called,
) -> None:
    number = called.ref.call
    called.ref.cancel()

    called.router.settle_scalar(number, 1)
    called.router.settle_scalar(number, 1)
    called.router.settle_scalar(-5, 1)

    assert called.ref.cancelled()
    assert called.router.is_idle


async def test_load_when_a_call_is_given_up_then_it_counts_until_it_ends(
    called: Called,
) -> None:
    called.ref.cancel()

    assert called.router.is_idle
    assert called.router.load == 2
    called.router.settle_scalar(called.ref.call, 1)
    assert called.router.load == 0


async def test_settle_scalar_when_calls_are_left_then_it_is_not_idle(
    called: Called,
) -> None:
    ref: ObjectRef[Any] = ObjectRef(loop=asyncio.get_running_loop())
    called.router.call(ref, "ping", (), None)

    called.router.settle_scalar(ref.call, 1)
    assert called.idle == []
    called.router.settle_scalar(called.ref.call, 2)

    assert called.idle == [True]
    assert (await called.ref, await ref) == (2, 1)


# What has not begun, as far as the owner knows.


async def test_queue_when_a_stream_is_paused_then_the_call_behind_the_next_waits(
    called: Called,
) -> None:
    called.router.settle_scalar(called.ref.call, None)
    loop = asyncio.get_running_loop()
    stream = StreamReader(loop, called.router, bounds_of(0))
    called.router.call(stream, "ping", (), None)
    refs = [ObjectRef[Any](loop=loop) for _ in range(2)]
    for ref in refs:
        called.router.call(ref, "ping", (), None)

    assert called.router.queue() == (refs[0].call, refs[1].call)
    called.router.item((ITEM, stream.call, 0, None, encode(1)))
    assert called.router.queue() == (refs[1].call, refs[1].call)


@pytest.mark.parametrize(
    ("options", "oldest"),
    [({}, 2), ({"max_concurrency": 2}, 3), ({"max_concurrency": 3}, 0)],
)
async def test_queue_when_a_call_was_given_up_then_it_has_its_place_until_its_end(
    options: dict[str, int], oldest: int
) -> None:
    called = Called(**options)
    called.ref.cancel()
    refs = [ObjectRef[Any](loop=asyncio.get_running_loop()) for _ in range(2)]
    for ref in refs:
        called.router.call(ref, "ping", (), None)

    assert called.router.queue() == (oldest, 3)
    called.router.settle_scalar(called.ref.call, None)
    assert called.router.queue() == (0 if options else 3, 3)


# What ran when the process ended.


async def test_under_way_when_a_call_was_given_up_then_unknown_until_its_end(
    called: Called,
) -> None:
    called.ref.cancel()
    assert called.router.under_way() is None

    called.router.settle_scalar(called.ref.call, None)

    assert called.router.under_way() == ()


class Plain:
    def ping(self) -> None: ...

    def crash(self) -> None: ...


class Mixed(Plain):
    async def sleep(self) -> None: ...


def record_of(cls: type, **options: Any) -> ActorRecord:
    return ActorRecord(
        id=ActorId(b"a"), interface=interface_of(cls), options=ActorOptions(**options)
    )


def send(called: Called, methods: list[str]) -> list[int]:
    called.router.settle((RESULT, called.ref.call, None, encode(None)))
    loop = asyncio.get_running_loop()
    refs: list[ObjectRef[Any]] = [ObjectRef(loop=loop) for _ in methods]
    for ref, method in zip(refs, methods, strict=True):
        called.router.call(ref, method, encode(()), None)  # type: ignore[arg-type]  # it is small
    return [ref.call for ref in refs]


@pytest.mark.parametrize(
    ("cls", "options", "sent", "ran"),
    [
        (Plain, {}, [], ()),
        (Plain, {}, ["ping", "crash"], ("ping",)),
        (Plain, {"max_concurrency": 3}, ["ping"] * 5, ("ping",) * 3),
        (Mixed, {}, ["sleep", "ping", "crash", "sleep"], ("sleep", "ping", "sleep")),
    ],
)
async def test_under_way_when_nothing_is_noted_then_those_that_may_run_at_once(
    cls: type, options: dict[str, int], sent: list[str], ran: tuple[str, ...]
) -> None:
    called = Called(cls, **options)
    send(called, sent)

    assert called.router.under_way() == ran


async def test_under_way_when_calls_were_refused_then_they_have_not_run() -> None:
    called = Called(Mixed)
    send(called, ["sleep", "sleep", "sleep"])
    called.channel.refused = 2

    assert called.router.under_way() == ("sleep",)


@pytest.mark.parametrize(("place", "ran"), [(0, ("ping",)), (1, ("crash",))])
async def test_under_way_when_the_process_has_noted_it_then_what_ran(
    place: int, ran: tuple[str, ...]
) -> None:
    called = Called(max_restarts=1, max_task_retries=1)
    numbers = send(called, ["ping", "crash"])
    cells = [0] * CELLS
    cells[ALONE] = cells[HIGHEST] = numbers[place]

    called.router.note_cells(cells)

    assert called.router.under_way() == ran
