"""What a worker sends that makes no sense ends its own session alone."""

from __future__ import annotations

import asyncio
import gc
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import cloudpickle
import pytest
from helpers.actors import LIMIT
from helpers.calls import raised
from helpers.invariants import check_ledger
from helpers.scripted import ScriptedWorker, be_silent, scripted

import actorlib
from actorlib._api.actor_handle import pin_of
from actorlib._base.ids import ACTOR_KIND, BLOCK_KIND, LINKED, OBJECT_KIND, new_id
from actorlib._core.engine import find_engine
from actorlib._options.actor_options import ActorOptions
from actorlib._options.interface import interface_of_source
from actorlib._processes.launcher import ProcessExit
from actorlib._shm.layout import BLOCK_ID_STRUCT
from actorlib._wire.codec import pack
from actorlib._wire.messages import (
    CALL,
    CALL_ACTOR,
    CALL_ACTOR_WITH,
    CALL_DEFERRED,
    CALL_SCALARS,
    CREATE,
    CREATE_ARGUMENTS,
    DIED,
    FAILURE,
    GROUP,
    ITEM,
    LINK_BEGIN,
    LINK_CANCEL,
    LINK_FENCE,
    OBJECT_ANNOUNCE,
    OBJECT_PUT,
    RAISED,
    READY,
    REGISTER_FUNCTION,
    RELEASE_REFS,
    RESULT,
    RESULT_SCALAR,
    RUN,
    START,
    Frame,
)
from actorlib._wire.serialization import dump, encode
from actorlib.exceptions import ActorDiedError, TaskError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from helpers.scripted import ScriptedLauncher

    from actorlib._owner.engine import LocalEngine

NOTHING = encode(None)


@actorlib.remote
class Hostile:
    def work(self) -> None: ...


@actorlib.remote
class Neighbour:
    def work(self, value: Any = None) -> None: ...


class Street:
    """A runtime with a hostile worker and a neighbour of its, on one GPU.

    Attributes:
        hostile: The actor.
        worker: Its worker, which says what the test has it say.
        neighbour: Another actor, which is polite.
        beside: Its worker.
        called: A call of the hostile one that has no answer.
    """

    def __init__(self, launcher: ScriptedLauncher) -> None:
        self.launcher = launcher
        self.neighbour = Neighbour.options(num_gpus=0.5).remote()
        self.hostile = Hostile.options(num_gpus=0.5).remote()
        self.called = self.hostile.work.remote()

    async def begin(self) -> None:
        await self.neighbour
        await self.hostile
        self.beside, self.worker = self.launcher.workers
        await self.round()

    @property
    def engine(self) -> LocalEngine:
        return cast("LocalEngine", find_engine())

    @property
    def call(self) -> int:
        """The number of the call that has no answer."""
        call: int = self.worker.frames[-1][1]
        return call

    @property
    def target(self) -> bytes:
        """The id of the neighbour."""
        return pin_of(self.neighbour).actor_id

    async def round(self) -> None:
        """Waits until what everybody has sent was served."""
        await self.neighbour.work.remote()
        await self.neighbour.work.remote()

    async def refuses(self, *frames: Frame) -> str:
        """Has the hostile one send frames; what its call fails with for them."""
        self.worker.put(b"".join(map(pack, frames)))
        error = await raised(asyncio.wait_for(self.called, LIMIT))
        assert isinstance(error, ActorDiedError)
        await self.is_quiet()
        return str(error)

    async def is_quiet(self) -> None:
        """Asserts that nobody but the hostile one is hurt, and that it is gone."""
        await self.round()
        assert self.worker.exited.done()
        assert not self.beside.exited.done()
        assert self.beside.error is None
        assert self.engine.available()["GPU"] == 0.5
        check_ledger(self.engine.actor_table.scheduler.ledger)


@pytest.fixture
async def street() -> AsyncGenerator[Street]:
    async with scripted(
        {"Hostile": be_silent}, num_cpus=4, num_gpus=1, object_store_memory=2**30
    ) as launcher:
        street = Street(launcher)
        await street.begin()
        yield street
        del street.hostile, street.neighbour, street.called
        gc.collect()


@pytest.mark.parametrize(
    ("frame", "what"),
    [
        ((), "something else than a frame"),
        ((START, 1), "no worker sends START"),
        ((RESULT, 1), "values to unpack"),
        ((RESULT, "1", None, b""), "'call'"),
        ((RESULT, 1, (b"?",), b""), "'borrowed'"),
        ((RESULT, 1, None, "text"), "'value'"),
        ((RESULT_SCALAR, 1), "values to unpack"),
        ((RESULT_SCALAR, 1, 2, 3), "too many values"),
        ((RESULT_SCALAR, "1", 2), "'call'"),
        ((RESULT_SCALAR, True, 2), "'call'"),
        ((RESULT_SCALAR, 1, b"bytes"), "'value'"),
        ((CALL_SCALARS, 1, "work"), "no worker sends CALL_SCALARS"),
        ((FAILURE, 1, RAISED, "", 5, "", None, b""), "'traceback'"),
        ((ITEM, 1, -1, None, b""), "'index'"),
        ((ITEM, 1, 0, None, b""), "an item of call 1, which is not a stream"),
        ((OBJECT_ANNOUNCE, 5, 0), "'object'"),
        ((OBJECT_PUT, bytes(16), True, None, b""), "'object'"),
        ((CALL_DEFERRED, 1, 0, b"", (1.0, 2.0), "f"), "'deadline'"),
        ((RELEASE_REFS, new_id(bytes(8), ACTOR_KIND, 1), 1), "gives back 1 references"),
        ((RUN, 1, 0, 7, b"", None, None, b""), "function 7 .* was never registered"),
        ((GROUP, 1, "reserve", b"?"), "instead of GroupSpec"),
        ((GROUP, 1, "reserve", b"\x80\x05c"), "cannot be loaded"),
        ((LINK_CANCEL, 1, 5, False), "it drops call 5 of session 1"),
    ],
)
async def test_frame_when_it_makes_no_sense_then_its_session_ends_and_says_why(
    street: Street, frame: Frame, what: str
) -> None:
    if frame[:2] == (ITEM, 1):
        frame = (ITEM, street.call, *frame[2:])
    with pytest.raises(AssertionError, match=what):  # as it shows the whole text
        raise AssertionError(await street.refuses(frame))


async def test_announced_object_when_it_is_no_id_then_others_restart_as_ever(
    street: Street,
) -> None:
    steady = Hostile.options(max_restarts=-1).remote()
    await steady
    await street.refuses((OBJECT_ANNOUNCE, 5, 0))
    called = steady.work.remote()
    street.launcher.workers[2].kill()
    await raised(called)
    await asyncio.wait_for(steady, LIMIT)
    assert len(street.launcher.workers) == 4


@pytest.mark.parametrize("kind", [RAISED, DIED])
async def test_constructor_when_it_fails_with_no_exception_then_the_share_is_back(
    street: Street, kind: int
) -> None:
    def fail(worker: ScriptedWorker, frame: Frame) -> None:
        if frame[0] == START:
            worker.send((FAILURE, 0, kind, "5", "", "", None, dump(5)))
            worker.leave(ProcessExit(code=1))

    street.launcher.behaviours["Hostile"] = fail
    broken = Hostile.options(num_cpus=2).remote()
    assert isinstance(await raised(asyncio.wait_for(broken, LIMIT)), ActorDiedError)
    await asyncio.wait_for(actorlib.kill(broken), LIMIT)
    assert street.engine.available()["CPU"] == 4


@pytest.mark.parametrize(
    ("method", "headers", "what"),
    [
        (b"work", None, "'method' in CALL_ACTOR is a text, not b'work' (bytes)"),
        ("work", {"deadline": (1.0,)}, "'headers' in CALL_ACTOR_WITH"),
        ("work", {"batch": 1}, "'headers' in CALL_ACTOR_WITH"),
        ("work", {"x": 1}, "'headers' in CALL_ACTOR_WITH"),
    ],
)
async def test_call_when_a_worker_makes_it_wrongly_then_its_target_lives(
    street: Street, method: Any, headers: dict[str, Any] | None, what: str
) -> None:
    kind = CALL_ACTOR if headers is None else CALL_ACTOR_WITH
    more = () if headers is None else (headers,)
    frame = (kind, 1, 0, street.target, method, None, *more, NOTHING)
    assert what in await street.refuses(frame)


async def test_block_when_it_is_anothers_and_was_not_lent_then_its_maker_keeps_it(
    street: Street,
) -> None:
    segment = new_id(street.beside.prefix, BLOCK_KIND, 1)
    before = len(street.beside.frames)
    told = await street.refuses(
        (
            CALL_ACTOR,
            1,
            0,
            street.target,
            "work",
            (BLOCK_ID_STRUCT.pack(segment, 0),),
            NOTHING,
        )
    )
    assert "it lends block" in told
    assert {frame[0] for frame in street.beside.frames[before:]} <= {CALL_SCALARS}


async def test_link_when_there_is_none_then_nobody_is_told_of_it(
    street: Street,
) -> None:
    before = len(street.beside.frames)
    session = street.beside.session
    call = street.worker.session * LINKED + 1
    street.worker.send(
        (LINK_BEGIN, session),
        (LINK_FENCE, session),
        (LINK_CANCEL, session, call, True),
    )
    await street.round()
    assert not street.worker.exited.done()
    assert {frame[0] for frame in street.beside.frames[before:]} <= {CALL_SCALARS}


@pytest.mark.parametrize("error", [5, "unloadable"])
async def test_object_when_its_error_is_none_that_loads_then_who_waits_is_told(
    street: Street, error: Any
) -> None:
    mine = new_id(street.worker.prefix, OBJECT_KIND, 1)
    street.worker.send((OBJECT_ANNOUNCE, mine, 0))
    await street.round()
    wanted = street.engine.actor_table.objects.borrow(cast("Any", mine))
    waiting = asyncio.ensure_future(_awaited(wanted))
    told = dump(_UnloadableError() if error == "unloadable" else error)
    street.worker.send((OBJECT_PUT, mine, False, None, told))
    assert isinstance(await raised(waiting), TaskError)
    assert not street.worker.exited.done()


async def _awaited(ref: Any) -> Any:
    return await ref


class _UnloadableError(Exception):
    def __reduce__(self) -> Any:
        return _leave, ()


def _leave() -> None:
    raise SystemExit


def _face(**changes: Any) -> bytes:
    interface = interface_of_source(Neighbour)
    options = ActorOptions()
    for name, value in changes.items():
        object.__setattr__(options, name, value)
    return dump((interface, options, dump((False, {}))))


async def test_made_actor_when_its_options_make_no_sense_then_it_is_never_born(
    street: Street,
) -> None:
    mine = new_id(street.worker.prefix, ACTOR_KIND, 1)
    told = await street.refuses((CREATE, 0, mine, None, b"", _face(num_gpus="all")))
    assert "invalid options" in told
    assert len(street.engine.actor_table.by_id) == 2


async def test_made_actor_when_it_is_made_twice_then_it_is_refused(
    street: Street,
) -> None:
    mine = new_id(street.worker.prefix, ACTOR_KIND, 1)
    made = (CREATE, 0, mine, None, b"", _face())
    assert "is made a second time" in await street.refuses(made, made)


async def test_made_actor_when_what_was_refused_held_it_then_nothing_holds_it(
    street: Street,
) -> None:
    mine = new_id(street.worker.prefix, ACTOR_KIND, 1)
    life = street.engine.actor_table.by_id[pin_of(street.hostile).actor_id]
    await street.refuses(
        (CREATE, 0, mine, None, b"", _face()), (CREATE, 0, mine, (mine,), b"", _face())
    )
    await street.round()
    assert life.died().__cause__ is not None  # it is kept, and with its lines
    assert cast("Any", life.died().__cause__).__traceback__ is not None
    assert mine not in street.engine.actor_table.by_id


@pytest.mark.parametrize("error", [5, StopIteration(), asyncio.CancelledError()])
async def test_made_actor_when_its_arguments_fail_with_anything_then_it_is_dead(
    street: Street, error: Any
) -> None:
    mine = new_id(street.worker.prefix, ACTOR_KIND, 1)
    street.worker.send((CREATE, 0, mine, None, b"", _face()))
    await street.round()
    life = street.engine.actor_table.by_id[cast("Any", mine)]
    ended = asyncio.shield(life.ended)
    street.worker.send((CREATE_ARGUMENTS, mine, False, None, dump(error)))
    await asyncio.wait_for(ended, LIMIT)
    assert isinstance(life.died(), ActorDiedError)
    assert not street.worker.exited.done()


async def test_function_when_its_face_makes_no_sense_then_nobody_is_hired(
    street: Street,
) -> None:
    told = await street.refuses(
        (REGISTER_FUNCTION, 1, "f", None, b""),
        (RUN, 1, 0, 1, dump(("f", None, b"", False)), None, None, NOTHING),
    )
    assert "instead of str, FunctionOptions, bytes, bool" in told
    assert len(street.launcher.workers) == 2


async def test_group_when_its_id_is_anothers_then_it_is_refused(
    street: Street,
) -> None:
    spec = actorlib.placement_group([{"CPU": 1}])
    taken = replace(spec._spec, id=spec._spec.id)
    told = await street.refuses((GROUP, 1, "reserve", cloudpickle.dumps(taken)))
    assert "a worker's group has the id" in told


async def test_ready_when_it_is_said_twice_then_it_is_passed_over(
    street: Street,
) -> None:
    street.worker.send(
        (READY, "", 7), (READY, "", 7), (RESULT, street.call, None, NOTHING)
    )
    assert await street.called is None


@pytest.mark.parametrize("value", [None, True, -(2**63), 2**64 - 1, -0.0, "text"])
async def test_scalar_when_a_worker_asked_for_it_then_it_gets_a_result(
    street: Street, value: object
) -> None:
    target = pin_of(street.hostile).actor_id
    street.beside.send((CALL_ACTOR, 5, 0, target, "work", None, NOTHING))
    await street.round()
    asked = street.worker.frames[-1]
    street.worker.send((RESULT_SCALAR, asked[1], value))
    await street.round()
    [answer] = [frame for frame in street.beside.frames if frame[0] == RESULT]
    assert asked[0] == CALL
    assert answer == (RESULT, 5, None, encode(value))


async def test_scalar_when_its_call_is_unknown_then_it_is_passed_over(
    street: Street,
) -> None:
    call = street.call
    street.worker.send(
        (RESULT_SCALAR, 999, 1), (RESULT_SCALAR, -1, 1), (RESULT_SCALAR, call, 7)
    )
    street.worker.send((RESULT_SCALAR, call, 8))
    assert await street.called == 7
