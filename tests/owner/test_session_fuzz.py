"""Whatever one worker sends, all others and what they share go on as before.

Cases are made from the table of frames that rise: mostly fields of the right type with
values that mean something here (its own ids and those of others, numbers of calls that
are open, what was lent to it), among them fields, frames and bytes of no sense. The
runtime is one for all cases, so what one leaves behind is found by the next.

``--hypothesis-profile=thorough`` tries thousands of cases instead of fifty.
"""

from __future__ import annotations

import asyncio
import gc
import logging
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from helpers.actors import LIMIT
from helpers.invariants import (
    check_actors,
    check_ledger,
    check_references,
    check_requests,
)
from helpers.scripted import ScriptedWorker, be_polite, be_silent, scripted
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import actorlib
from actorlib._api.actor_handle import pin_of
from actorlib._base.ids import (
    ACTOR_KIND,
    BLOCK_KIND,
    GROUP_KIND,
    LINKED,
    OBJECT_KIND,
    kind_of,
    new_id,
)
from actorlib._core.engine import find_engine
from actorlib._options.actor_options import ActorOptions
from actorlib._options.function_options import FunctionOptions
from actorlib._options.group_spec import GroupId, GroupSpec
from actorlib._options.interface import interface_of_source
from actorlib._shm.layout import BLOCK_ID_STRUCT, SEGMENT_NAME_SIZE
from actorlib._wire.actor_config import ActorConfig
from actorlib._wire.codec import are_scalars, encode
from actorlib._wire.function_code import ADD_FUNCTION
from actorlib._wire.messages import (
    CALL,
    CALL_ACTOR,
    CALL_SCALARS,
    CALL_WITH,
    CREATE,
    END,
    FORCE_CANCEL,
    GROUP,
    LINK_BEGIN,
    OBJECT_ANNOUNCE,
    OBJECT_GET,
    OBJECT_PUT,
    REGISTER_FUNCTION,
    RESULT,
    RESULT_SCALAR,
    RUN,
    START,
    Frame,
)
from actorlib._wire.serialization import dump
from actorlib._wire.serialization import encode as payload_of
from actorlib._wire.worker_messages import FRAMES, check_frame

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import pytest
    from helpers.scripted import ScriptedLauncher

    from actorlib._owner.engine import LocalEngine
    from actorlib._wire.worker_messages import FieldType

_CASES = max(50, settings().max_examples)


@actorlib.remote
class Hostile:
    def work(self, value: Any = None) -> None: ...

    def count(self) -> Any:
        yield


@actorlib.remote
class Neighbour:
    def work(self, value: Any = None) -> None: ...

    def count(self) -> Any:
        yield


@actorlib.remote
def hostile(value: Any = None) -> Any:
    return value


class Is(NamedTuple):
    """A value that is known when the case runs."""

    of: str
    place: int = 0


def _ids(*names: str) -> st.SearchStrategy[Any]:
    return st.builds(Is, st.sampled_from(names), st.integers(0, 2))


_GARBAGE = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 2**64 - 1)
    | st.floats()
    | st.text(max_size=3)
    | st.binary(max_size=20)
    | _ids("own actor", "own object", "neighbour"),
    lambda inner: (
        st.tuples(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner)
    ),
    max_leaves=4,
)
_ACTORS = _ids("own actor", "neighbour", "itself", "nobody")
_OBJECTS = _ids("own object", "neighbour's object", "owner's object", "nothing")
_CALLS = st.integers(1, 4)
_RUNNING = _ids("open call", "open stream", "link call") | st.integers(0, 4)
_LOANS = st.none() | st.lists(
    _ACTORS | _OBJECTS | _ids("own block", "neighbour's block", "lent block"),
    max_size=3,
).map(tuple)
_PAYLOADS = st.sampled_from(
    [
        payload_of(None),
        payload_of([1, 2]),
        payload_of(((1,), {})),
        dump(ValueError("an error")),
        dump(5),
        b"",
        b"\x80\x05nonsense",
        [bytearray(b"\x80\x05N."), bytearray(9)],
        [bytearray(70_000)],
    ]
)
_SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=3)
)
_DEADLINES = st.tuples(
    st.sampled_from([0, 1e9, 2**60]), st.sampled_from([0.5, 3]), st.text(max_size=2)
)
_SAID = st.none() | st.fixed_dictionaries(
    {},
    optional={
        "batch": st.tuples(st.integers(1, 3), st.booleans()),
        "deadline": _DEADLINES,
        "detach": st.just(True),  # noqa: FBT003  # what it may be
        "group": st.text(max_size=2),
        "name": st.text(max_size=2),
        "retries": st.tuples(
            st.none() | st.integers(-1, 2),
            st.none() | st.booleans() | st.sampled_from([dump((ValueError,)), b"?"]),
        ),
        "stream": st.integers(-1, 3),
        "variables": st.dictionaries(st.text(max_size=2), st.binary(max_size=3)),
    },
)
_TEXTS = st.sampled_from(["work", "count", ADD_FUNCTION, "", "1:hostile", "__init__"])
# By the type of one field that has it.
_VALUES: dict[FieldType, st.SearchStrategy[Any]] = {
    FRAMES[CALL_ACTOR]["call"]: _CALLS,
    FRAMES[CREATE]["call"]: st.just(0) | _CALLS,
    FRAMES[RESULT]["call"]: _RUNNING,
    FRAMES[CALL_ACTOR]["parent"]: _RUNNING,
    FRAMES[REGISTER_FUNCTION]["function"]: st.integers(0, 5)
    | st.sampled_from([2**32, 2**63 - 1]),
    FRAMES[LINK_BEGIN]["session"]: _ids("session", "neighbour's session")
    | st.integers(0, 3),
    FRAMES[CALL_ACTOR]["method"]: _TEXTS,
    FRAMES[FORCE_CANCEL]["recursive"]: st.booleans(),
    FRAMES[RESULT]["value"]: _PAYLOADS,
    FRAMES[RESULT_SCALAR]["value"]: _SCALARS,
    FRAMES[RESULT]["borrowed"]: _LOANS,
    FRAMES[CALL_ACTOR]["actor"]: _ACTORS,
    FRAMES[OBJECT_GET]["object"]: _OBJECTS,
    FRAMES[CREATE]["actor"]: _ids("own actor", "own actor", "neighbour"),
    FRAMES[OBJECT_PUT]["object"]: _ids(
        "own object", "own object", "neighbour's object"
    ),
    FRAMES[RUN]["headers"]: _SAID,
}
_BY_NAME: dict[tuple[int, str], st.SearchStrategy[Any]] = {
    (CREATE, "class"): st.just(dump(Neighbour.__wrapped__)),
    (CREATE, "options"): _ids("options", "named options", "bad options"),
    (RUN, "options"): _ids("function", "bad function"),
    (RUN, "function"): st.just(1),
    (REGISTER_FUNCTION, "function"): st.just(1),
    (REGISTER_FUNCTION, "source"): st.just(dump(abs)),
    (GROUP, "about"): _ids("group", "group id", "group name", "group question"),
    # What it ends by name is ended: that is no harm that it does by nonsense.
    (END, "actor"): _ids("own actor", "itself", "nobody"),
}
_BY_TEXT: dict[str, st.SearchStrategy[Any]] = {
    "kind": st.integers(0, 3),
    "thread": st.integers(0, 1),
    "manner": st.integers(0, 2),
    "reference": _ACTORS | _OBJECTS | _ids("lent block", "own block"),
    "count": st.integers(-1, 3),
    "name": _TEXTS,
    "namespace": st.none() | st.just("default"),
    "operation": st.sampled_from(["find", "infos", "ready", "remove", "reserve"]),
    "seconds": st.sampled_from([0, 1e-6, 1.0, 1e300]),
    "created": st.sampled_from([0, 1.5e9, 2**37]),
    "level": st.sampled_from([0, 10, 30, 2**62]),
    "attributes": st.sampled_from(
        [{}, {"lineno": "1", "user": ({"a": None},)}, {"msg": {"a": 1}, "_name": ""}]
    ),
    "traceback": st.none() | _TEXTS,
    "deadline": st.none() | _DEADLINES,
    "calls": st.none() | st.lists(_RUNNING, max_size=2).map(tuple),
    "methods": st.lists(_TEXTS, max_size=2).map(tuple),
    "nothing": st.just(0),
    "actor": _ACTORS | st.just(b""),
    "about": _PAYLOADS,
    "class": _PAYLOADS,
    "source": _PAYLOADS,
    "options": _PAYLOADS,
}


def _field(kind: int, name: str, what: FieldType) -> st.SearchStrategy[Any]:
    if (kind, name) in _BY_NAME:
        return _BY_NAME[kind, name]
    return _VALUES[what] if what in _VALUES else _BY_TEXT.get(name, _GARBAGE)


_GOOD = st.sampled_from(sorted(FRAMES)).flatmap(
    lambda kind: st.tuples(
        st.just(kind),
        *(_field(kind, *field) for field in FRAMES[kind].items()),
    )
)


@st.composite
def _bad(draw: Any) -> Any:
    frame = list(draw(_GOOD))
    place = draw(st.integers(0, len(frame)))
    if draw(st.booleans()):
        frame.insert(place, draw(_GARBAGE))
    elif place < len(frame):
        frame[place] = draw(_GARBAGE)
    else:
        frame.pop()
    return tuple(frame)


_TABLES = st.sampled_from(
    [
        ({"share": Is("own segment"), "size": 4096},),
        ({"share": Is("neighbour's segment"), "size": 4096},),
        ({"free": Is("own block")},),
        ({"gone": Is("own segment")},),
        ({"sweep": True},),
        ({"link": 1},),
        ({"slot": 1, "limit": 1, "settings": (1, True)},),
        ({"borrowed": (Is("neighbour"),), "at": 2},),
        (RESULT, Is("open call"), (Is("own block"),), {Is("own block"): ()}),
        (RESULT, Is("open call"), (Is("own block"),), {Is("own segment"): (9,)}),
        (RESULT, Is("open call"), (Is("lent block"),), {Is("lent block"): (9,)}),
        (RESULT, Is("open call"), (Is("lent block"),), {Is("lent segment"): (9,)}),
    ]
)
_MOVES = st.one_of(
    _GOOD,
    _GOOD,
    _GOOD,
    _bad(),
    _TABLES,
    st.binary(min_size=1, max_size=12),
    st.sampled_from(["call", "stream", "cancel", "ask", "kill", "restart", "crash"]),
)
_CASE = st.lists(_MOVES, min_size=1, max_size=12)


class Street:
    """One runtime: a worker that says anything, and a neighbour that must not mind."""

    def __init__(self, launcher: ScriptedLauncher) -> None:
        self.launcher = launcher
        self.engine = cast("LocalEngine", find_engine())
        self.actor_table: Any = self.engine.actor_table
        self.neighbour = Neighbour.options(num_gpus=0.5).remote()
        self.refs: list[Any] = []
        self.failed: list[dict[str, Any]] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: self._note(context))
        self.large = actorlib.put(bytes(300_000))
        self.small = actorlib.put("small")
        self._known: dict[str, Callable[[int], Any]] = {}

    def _note(self, context: dict[str, Any]) -> None:
        if "never retrieved" not in context["message"]:  # of an item that nobody took
            self.failed.append(context)

    async def begin(self) -> None:
        await self.neighbour
        self.beside = self.launcher.workers[-1]
        # One object of the neighbour's, and a call of its that nobody answers.
        name = new_id(self.beside.prefix, OBJECT_KIND, 0)
        self.beside.send((OBJECT_ANNOUNCE, name, 0))
        await self.neighbour.work.remote(1)

    async def try_actor(self, case: list[Any]) -> None:
        """One case of an actor."""
        actor = Hostile.options(num_gpus=0.5, max_restarts=1).remote()
        await actor
        worker = self.launcher.workers[-1]
        self.refs = [actor.work.remote([self.large, self.small])]
        stream = actor.count.remote()
        self.refs.append(stream.completed())
        await self.neighbour.work.remote()
        life = self.actor_table.by_id[pin_of(actor).actor_id]
        await self.act(case, worker, life, actor)
        del stream, actor
        await self.clear(life)

    async def try_function(self, case: list[Any]) -> None:
        """One case of a worker that runs a function."""
        known = len(self.launcher.workers)
        self.refs = [hostile.options(num_cpus=2).remote([self.large, self.small])]
        while len(self.launcher.workers) == known or not any(
            frame[0] in (CALL, CALL_WITH) and frame[2] != ADD_FUNCTION
            for frame in self.launcher.workers[-1].frames
        ):
            await self.neighbour.work.remote()
        worker = self.launcher.workers[-1]
        life = self.actor_table.by_id[worker.config.actor_id]
        await self.act(case, worker, life, None)
        actorlib.cancel(self.refs[0], force=True)
        await self.clear(life)

    async def act(
        self, case: list[Any], worker: ScriptedWorker, life: Any, actor: Any
    ) -> None:
        """Has the worker send what a case says."""
        self.know(worker)
        for move in case:
            if isinstance(move, bytes):
                worker.put(move)
            elif isinstance(move, str):
                self.do(move, worker, life, actor)
            else:
                self.send(worker, self.known(move))
        await self.neighbour.work.remote()
        await self.neighbour.work.remote()

    def send(self, worker: ScriptedWorker, frame: Frame) -> None:
        try:
            data = encode(frame)
        except (TypeError, ValueError, OverflowError, IndexError):
            return  # no bytes are such a frame
        for piece in [data] if isinstance(data, bytes) else data:
            worker.put(bytes(piece))

    def do(self, move: str, worker: ScriptedWorker, life: Any, actor: Any) -> None:
        """Has somebody else do something meanwhile."""
        target = life.record.id
        if move == "cancel":
            self.refs[0].cancel()
        elif move == "kill":
            life.kill("the case says so")
        elif move == "crash":
            worker.kill()
        elif move == "restart":
            life.interrupt("the case says so").add_done_callback(_look)
        elif actor is None:
            return
        elif move == "ask":
            self.beside.send(
                (CALL_ACTOR, 900 + len(self.refs), 0, target, "work", None, b"")
            )
        elif life.record.exit is None:
            ref = actor.work.remote() if move == "call" else actor.count.remote()
            self.refs.append(ref if move == "call" else ref.completed())

    def known(self, value: Any) -> Any:
        """A value with what is known now in the place of its names."""
        if isinstance(value, Is):
            return self._known[value.of](value.place)
        if isinstance(value, tuple | list):
            return type(value)(map(self.known, value))
        if isinstance(value, dict):
            return {
                self.known(name): self.known(inner) for name, inner in value.items()
            }
        return value

    def know(self, worker: ScriptedWorker) -> None:
        """What the names in a case stand for."""
        own, other = worker.prefix, self.beside.prefix
        kinds = (CALL, CALL_SCALARS, CALL_WITH)
        calls = [f[1] for f in worker.frames if f[0] in kinds] or [1]
        lent = [
            loan
            for frame in worker.frames
            for loan in (frame[3] if frame[0] == CALL else None) or ()
        ]
        blocks = [loan for loan in lent if kind_of(loan) == BLOCK_KIND] or [
            BLOCK_ID_STRUCT.pack(new_id(bytes(8), BLOCK_KIND, 0), 0)
        ]
        objects = [loan for loan in lent if kind_of(loan) == OBJECT_KIND] or [
            new_id(bytes(8), OBJECT_KIND, 0)
        ]
        segments = [new_id(prefix, BLOCK_KIND, 0) for prefix in (own, other)]
        group = new_id(own, GROUP_KIND, 1)
        self._known = {
            "own actor": lambda n: new_id(own, ACTOR_KIND, n),
            "neighbour": lambda _: pin_of(self.neighbour).actor_id,
            "itself": lambda _: worker.config.actor_id,
            "nobody": lambda n: new_id(bytes([n]) * 8, ACTOR_KIND, n),
            "own object": lambda n: new_id(own, OBJECT_KIND, n),
            "neighbour's object": lambda _: new_id(other, OBJECT_KIND, 0),
            "owner's object": lambda n: objects[n % len(objects)],
            "nothing": lambda n: new_id(bytes([n]) * 8, OBJECT_KIND, n),
            "own block": lambda n: BLOCK_ID_STRUCT.pack(segments[0], n * 4096),
            "neighbour's block": lambda n: BLOCK_ID_STRUCT.pack(segments[1], n * 4096),
            "lent block": lambda n: blocks[n % len(blocks)],
            "own segment": lambda _: segments[0],
            "neighbour's segment": lambda _: segments[1],
            "lent segment": lambda _: blocks[0][:SEGMENT_NAME_SIZE],
            "open call": lambda _: calls[0],
            "open stream": lambda _: calls[-1],
            "link call": lambda n: self.beside.session * LINKED + n,
            "session": lambda _: worker.session,
            "neighbour's session": lambda _: self.beside.session,
            "options": lambda _: _face(),
            "named options": lambda _: _face(name="taken", get_if_exists=True),
            "bad options": lambda _: dump((1, 2, 3)),
            "function": lambda _: dump(
                ("f", FunctionOptions(), dump(None), False)  # no stream
            ),
            "bad function": lambda _: dump(("f", None, b"", False)),
            "group": lambda _: dump(_group(GroupId(group))),
            "group id": lambda _: dump(group),
            "group name": lambda _: dump("group"),
            "group question": lambda _: dump((group, dump(1))),
        }

    async def clear(self, life: Any) -> None:
        """Ends what a case has begun; nothing of it may be left."""
        ended = asyncio.shield(life.ended)
        life.kill("the case is over")
        made = [other for other in self.actor_table if other.record.id != self.target]
        for other in made:
            other.kill("the case is over")
        await asyncio.wait_for(ended, LIMIT)
        for other in made:
            await asyncio.wait_for(asyncio.shield(other.ended), LIMIT)
        refs, self.refs = self.refs, []
        for ref in refs:
            _, waiting = await asyncio.wait([ref], timeout=LIMIT)
            assert not waiting, "a call has no answer"
            _look(ref)
        del refs, ref, life, made, ended
        await self.is_as_before()

    @property
    def target(self) -> bytes:
        return pin_of(self.neighbour).actor_id

    async def is_as_before(self) -> None:
        """Asserts that nobody is hurt and nothing is left."""
        table, session = self.actor_table, self.beside.session
        for _ in range(3):
            await self.neighbour.work.remote()
        assert not self.beside.exited.done(), self.beside.error
        _check_served(self.beside.frames)
        self.beside.frames[1:] = []
        check_ledger(self.engine.actor_table.scheduler.ledger)
        check_actors(table)
        assert self.engine.available() == self.free
        assert self.engine.snapshot().waiting == ()
        assert not list(table.groups)
        if set(table.by_id) != {self.target}:
            gc.collect()
            await self.neighbour.work.remote()
        assert set(table.by_id) == {self.target}
        check_requests(self.engine.requests, session)
        check_references(table, session)
        owner = self.large.object_id[:8]
        theirs = [kept for kept in table.objects.kept() if kept.object_id[:8] != owner]
        assert {kept.object_id[:8] for kept in theirs} == {self.beside.prefix}
        assert not any(kept.is_filled for kept in theirs)
        assert not self.failed, self.failed

    @property
    def free(self) -> dict[str, float]:
        total = self.engine.total()
        return {**total, "GPU": total["GPU"] - 0.5}


def _look(future: Any) -> None:
    if future.done() and not future.cancelled():
        future.exception()


def _face(**options: Any) -> bytes:
    return dump(
        (interface_of_source(Neighbour), ActorOptions(**options), dump((False, {})))
    )


def _group(number: GroupId) -> GroupSpec:
    made = GroupSpec(bundles=({"CPU": 1},), strategy="PACK", name="group")
    object.__setattr__(made, "id", number)
    return made


def _check_served(frames: Iterable[Frame]) -> None:
    """Asserts that what came to a worker is what workers are sent."""
    for frame in frames:
        if frame[0] in (CALL, CALL_WITH):
            _, number, method, loans, *said, payload = frame
            assert type(number) is int
            assert type(method) is str
            headers = said[0] if said else None
            check_frame((RUN, 1, 0, 0, b"", headers, loans, payload), bytes(8))
        elif frame[0] == CALL_SCALARS:
            _, number, method, *args = frame
            assert type(number) is int
            assert type(method) is str
            assert are_scalars(tuple(args))
        else:
            assert frame[0] != START or ActorConfig(**frame[1])


def _behave_as(kinds: set[ScriptedWorker]) -> Callable[..., None]:
    def behave(worker: ScriptedWorker, frame: Frame) -> None:
        if frame[0] == CALL and frame[2] != ADD_FUNCTION:
            kinds.add(worker)
        (be_silent if worker in kinds else be_polite)(worker, frame)

    return behave


async def _street(street: list[Street], done: asyncio.Event) -> None:
    async with scripted(
        {"Hostile": be_silent, "function": _behave_as(set())},
        num_cpus=4,
        num_gpus=1,
        object_store_memory=2**30,
    ) as launcher:
        made = Street(launcher)
        await made.begin()
        street.append(made)
        await done.wait()
        made.large = made.small = None
        del made.neighbour


class Streets:
    """One runtime after the other: another one when a case has failed."""

    def __init__(self, runner: asyncio.Runner) -> None:
        self._runner = runner
        self._street: list[Street] = []
        self._done = asyncio.Event()
        self._supervisors: asyncio.Task[None] | None = None

    def attempt(self, name: str, case: list[Any]) -> None:
        """Tries one case."""
        if self._supervisors is None:
            self._runner.run(self._open())
        try:
            self._runner.run(getattr(self._street[0], name)(case))
        except BaseException:
            self.close()
            raise

    async def _open(self) -> None:
        self._done = asyncio.Event()
        self._supervisors = asyncio.ensure_future(_street(self._street, self._done))
        while not self._street:
            await asyncio.sleep(0)
            assert not self._supervisors.done(), self._supervisors.result()

    def close(self) -> None:
        """Ends the runtime, which takes it no longer than ever."""
        living, self._supervisors = self._supervisors, None
        self._street.clear()
        if living is not None:
            self._done.set()
            self._runner.run(_ended(living))


async def _ended(living: asyncio.Task[None]) -> None:
    await asyncio.wait_for(living, LIMIT)


def _fuzz(attempt: str) -> None:
    """Tries cases, and ends the runtime that they were tried in."""
    with asyncio.Runner() as runner:
        streets = Streets(runner)

        @settings(
            max_examples=_CASES,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        )
        @given(_CASE)
        def tried(case: list[Any]) -> None:
            streets.attempt(attempt, case)

        try:
            tried()
        finally:
            streets.close()


def _own(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """The program's own records: workers may log whatever they like."""
    return [record for record in caplog.records if not hasattr(record, "actor_id")]


def test_actor_when_it_sends_anything_then_nobody_else_is_touched(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.ERROR, "actorlib")
    _fuzz("try_actor")
    assert not _own(caplog)


def test_function_when_its_worker_sends_anything_then_nobody_else_is_touched(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.ERROR, "actorlib")
    _fuzz("try_function")
    assert not _own(caplog)
