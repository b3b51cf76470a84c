"""Calls between two actors that go over a link of their own: as by way of the owner."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from helpers.actors import (
    AsyncCaller,
    Caller,
    Echo,
    Gate,
    Keeper,
    Log,
    MixedLog,
    Place,
    Stop,
    Target,
    end_of,
)
from helpers.marks import USES_RUNTIME, in_processes
from helpers.rare_cases import rarely

import actorlib
from actorlib._api.actor_handle import pin_of
from actorlib._core.engine import find_engine
from actorlib.exceptions import (
    ActorDiedError,
    ActorUnavailableError,
    DeadlockError,
    TaskCancelledError,
)

if TYPE_CHECKING:
    from collections.abc import Generator

    from actorlib import ActorHandle, Runtime

pytestmark = [*in_processes(), USES_RUNTIME]

ENOUGH = 12
"""Calls after which two actors have a link, and use it."""


def came_by_the_owner(actor: ActorHandle[Any]) -> int:
    """How many calls of an actor the owner has seen."""
    engine: Any = find_engine()
    life = engine.actor_table.by_id.get(pin_of(actor).actor_id)
    return int(life.router.calls.made)


def calls_of_all_sorts(other: Any, number: int, *, keeps_order: bool) -> Generator[Any]:
    """Makes calls that go by either way.

    A call that waits for an argument is passed by others if it may be.
    """
    ref = None
    for place in range(number):
        if place and place % 7 == 0:
            ref = other.note.remote([place, other])
        elif place and place % 11 == 0 and keeps_order:
            ref = other.note.remote(ref)
        else:
            ref = other.note.remote(place)
        yield ref


@actorlib.remote
class Talker:
    """Calls another actor from plain methods."""

    def meet(self, other: ActorHandle[Any]) -> None:
        """Calls it until there is a link, and keeps its handle."""
        self._other = other
        for _ in range(ENOUGH):
            actorlib.get(other.__ray_ready__.remote())

    def ask(self, method: str, *args: Any) -> Any:
        """Calls a method and waits for the answer."""
        return actorlib.get(getattr(self._other, method).remote(*args))

    def tell(self, method: str, *args: Any) -> None:
        """Calls a method and does not wait."""
        self._ref = getattr(self._other, method).remote(*args)

    def told(self) -> Any:
        """Waits for the answer of that."""
        return actorlib.get(self._ref)

    def cancel(self) -> None:
        """Cancels it."""
        self._ref.cancel()

    def run(self, work: Any, *args: Any) -> Any:
        """Calls a function, here and with the other actor."""
        return work(self._other, *args)

    def drop(self) -> None:
        """Lets go of the handle."""
        del self._other

    def mixed(self, number: int, *, keeps_order: bool) -> list[Any]:
        """Makes calls of all sorts, and gives what was noted."""
        calls = calls_of_all_sorts(self._other, number, keeps_order=keeps_order)
        actorlib.get(list(calls))
        return [_number_of(value) for value in actorlib.get(self._other.seen.remote())]

    def many(self, number: int) -> bool:
        """Makes many calls at once, and says whether each has its own answer."""
        made = list(range(number))
        return bool(actorlib.get([self._other.echo.remote(n) for n in made]) == made)


@actorlib.remote
class AsyncTalker:
    """The same from ``async def`` methods."""

    async def meet(self, other: ActorHandle[Any]) -> None:
        self._other = other
        for _ in range(ENOUGH):
            await other.__ray_ready__.remote()

    async def ask(self, method: str, *args: Any) -> Any:
        return await getattr(self._other, method).remote(*args)

    async def mixed(self, number: int, *, keeps_order: bool) -> list[Any]:
        refs: list[Any] = []
        for ref in calls_of_all_sorts(self._other, number, keeps_order=keeps_order):
            refs.append(ref)
            if len(refs) % 13 == 0:
                await asyncio.sleep(0)
        await asyncio.gather(*refs)
        return [_number_of(value) for value in await self._other.seen.remote()]

    async def many(self, number: int) -> bool:
        made = list(range(number))
        got = await asyncio.gather(*[self._other.echo.remote(n) for n in made])
        return got == made

    async def greet(self, others: list[ActorHandle[Any]]) -> int:
        """Calls many others, often; gives the number of answers."""
        answers: list[Any] = []
        for _ in range(ENOUGH):
            answers += await asyncio.gather(*[o.__ray_ready__.remote() for o in others])
        return len(answers)

    async def block(self, method: str, *args: Any) -> Any:
        """Blocks the loop until the answer is there."""
        return actorlib.get(getattr(self._other, method).remote(*args))


def _number_of(value: Any) -> Any:
    return value[0] if isinstance(value, list) else value


@actorlib.remote
class AsyncEcho:
    """Gives back what it is given."""

    async def echo(self, value: Any) -> Any:
        return value


@actorlib.remote
class AsyncLog(Log):
    """Writes down what is called, on a loop."""

    async def note(self, value: Any) -> Any:
        self._seen.append(value)
        return value

    async def seen(self) -> list[Any]:
        return self._seen


@actorlib.remote
class Server:
    """An actor to be ended, and to be waited for."""

    def pid(self) -> int:
        return os.getpid()

    def stop(self, place: Place) -> str:
        place.stop_here()
        return "went on"

    def handle(self) -> Any:
        self._kept = Target.remote()
        return self._kept

    def ref(self) -> list[Any]:
        return [actorlib.put("kept")]

    def array(self, number: int) -> Any:
        """A large array."""
        return np.full(number, 7.0)

    def fail(self, error: BaseException) -> None:
        raise error

    def keep(self, other: ActorHandle[Any]) -> None:
        self._other = other
        for _ in range(ENOUGH):
            actorlib.get(other.__ray_ready__.remote())

    def leave(self) -> None:
        actorlib.exit_actor()

    def count(self, number: int) -> Generator[int]:
        yield from range(number)

    def ask_back(self) -> Any:
        return actorlib.get(self._other.ask.remote("pid"))


EXPECTED: list[int] = []
for _place in range(500):
    passed_on = _place and _place % 11 == 0 and _place % 7
    EXPECTED.append(EXPECTED[-1] if passed_on else _place)

TALKERS = pytest.mark.parametrize(
    "talker", [Talker, AsyncTalker], ids=["plain", "async"]
)


@pytest.mark.parametrize(
    ("talker", "echo"),
    [
        (Talker, Echo),
        (AsyncTalker, AsyncEcho),
        *rarely((Talker, Echo.options(max_concurrency=4)), (AsyncTalker, Echo)),
    ],
    ids=["plain-serial", "async-looped", "plain-threaded", "async-serial"],
)
async def test_calls_when_two_actors_have_met_then_the_owner_sees_none(
    talker: Any, echo: Any
) -> None:
    one, other = talker.remote(), echo.remote()
    await one.meet.remote(other)
    seen = came_by_the_owner(other)

    answers = [await one.ask.remote("echo", n) for n in range(20)]

    assert answers == list(range(20))
    assert came_by_the_owner(other) == seen < ENOUGH
    assert await one.many.remote(3_000)
    assert await one.many.remote(1_000)
    if talker is AsyncTalker:  # links are read in the place of a blocked loop
        assert await one.block.remote("echo", 5) == 5


@pytest.mark.parametrize(
    ("talker", "log"),
    [
        (Talker, Log),
        (AsyncTalker, MixedLog),
        *rarely((AsyncTalker, Log), (Talker, AsyncLog)),
    ],
)
async def test_order_when_calls_go_both_ways_then_it_is_that_of_the_caller(
    talker: Any, log: Any
) -> None:
    made = log if log is AsyncLog else actorlib.remote(log)
    one, other = talker.remote(), made.remote()

    await one.meet.remote(other)

    noted = await one.mixed.remote(500, keeps_order=log is Log)
    assert noted == (EXPECTED if log is Log else list(range(500)))


async def test_answer_when_it_depends_on_a_later_call_by_the_owner_then_it_comes() -> (
    None
):
    one, gate = Talker.remote(), Gate.remote()
    await one.meet.remote(gate)

    def wait_then_open(gate: Any) -> Any:
        ref = gate.wait.remote("here")
        gate.open.remote("x" * 70_000)  # by way of the owner, and so the next
        gate.open.remote("here")
        return actorlib.get(ref)

    assert await one.run.remote(wait_then_open) == "here"


async def test_values_and_errors_when_they_go_over_a_link_then_they_arrive() -> None:
    one, other = Talker.remote(), Server.remote()
    await one.meet.remote(other)

    def read(other: Any) -> list[Any]:
        first = other.pid.remote()
        items = [actorlib.get(ref) for ref in other.count.remote(100)]
        return [actorlib.get(first), *items]

    target = await one.ask.remote("handle")
    (ref,) = await one.ask.remote("ref")
    array = await one.ask.remote("array", 100_000)

    assert await target.ping.remote() > 0
    assert await ref == "kept"
    assert array.sum() == 700_000
    assert (await one.run.remote(read))[1:] == list(range(100))
    with pytest.raises(KeyError, match="nothing") as caught:
        await one.ask.remote("fail", KeyError("nothing"))
    assert "Server.fail" in str(caught.value.__cause__)


async def test_deadlock_or_exit_when_over_links_then_the_caller_is_told() -> None:
    one, other = Talker.remote(), Server.remote()
    await one.meet.remote(other)
    await other.keep.remote(one)

    with pytest.raises(DeadlockError, match=r"Talker\.ask"):
        await one.ask.remote("ask_back")
    assert await one.ask.remote("pid") == await other.pid.remote()
    with pytest.raises(ActorDiedError, match="it left by exit_actor"):
        await one.ask.remote("leave")


@TALKERS
@pytest.mark.parametrize("meets", [True, *rarely((False,))])
async def test_end_when_it_is_killed_in_a_call_then_it_is_said_as_ever(
    stop: Stop, talker: Any, *, meets: bool
) -> None:
    one, other = talker.remote(), Server.remote()
    if meets:
        await one.meet.remote(other)
    else:
        await one.__ray_call__.remote(
            lambda self, it: setattr(self, "_other", it), other
        )
    pid = await other.pid.remote()
    ref = one.ask.remote("stop", stop.place)
    await stop.reached()

    os.kill(pid, signal.SIGKILL)

    with pytest.raises(ActorDiedError) as caught:
        await ref
    how = caught.value.exit
    assert (how.cause, how.signal, how.method, how.pid) == ("crashed", 9, "stop", pid)
    assert str(caught.value.cause).startswith(
        f"Server (pid {pid}) is dead: a signal ended"
    )
    with pytest.raises(ActorDiedError):
        await one.ask.remote("pid")


async def test_restart_when_a_call_is_on_a_link_then_it_fails_and_the_next_goes(
    stop: Stop,
) -> None:
    one, other = Talker.remote(), Server.options(max_restarts=1).remote()
    await one.meet.remote(other)
    pid = await other.pid.remote()
    ref = one.ask.remote("stop", stop.place)
    await stop.reached()

    os.kill(pid, signal.SIGKILL)

    with pytest.raises(ActorUnavailableError) as caught:
        await ref
    assert caught.value.exit.method == "stop"
    await other
    await one.meet.remote(other)
    seen = came_by_the_owner(other)
    assert await one.ask.remote("pid") != pid
    assert came_by_the_owner(other) == seen


async def test_answers_when_they_were_given_before_the_end_then_they_arrive(
    runtime: Runtime, stop: Stop
) -> None:
    one, other = Talker.remote(), Server.remote()
    await one.meet.remote(other)

    def ask_then_stop(other: Any, place: Place) -> int:
        refs = [other.pid.remote() for _ in range(50)]
        other.stop.remote(place)
        place.stop_here()
        return len({*actorlib.get(refs)})

    ref = one.run.remote(ask_then_stop, stop.place)
    await stop.reached()
    await stop.reached()
    (info,) = [a for a in runtime.snapshot().actors if a.class_name == "Server"]
    over = end_of(other)
    os.kill(info.pid, signal.SIGKILL)
    await over
    stop.release()
    stop.release()

    assert await ref == 1


async def test_cancel_when_calls_go_over_links_then_it_reaches_the_last(
    stop: Stop,
) -> None:
    one, front, gate = Talker.remote(), AsyncTalker.remote(), Gate.remote()
    await one.meet.remote(gate)

    def ask_then_stop(gate: Any, place: Place) -> None:
        ref = gate.wait.remote("busy")
        place.stop_here()
        actorlib.get(ref)

    # By the one who made the call.
    await one.tell.remote("wait", "own")
    await gate.reached.remote("own")
    await one.cancel.remote()
    await gate.wait.remote("own")
    # By the owner, with the call that made it.
    await front.meet.remote(gate)
    for talker in (one, front):
        asked = talker.ask.remote("wait", f"{talker}")
        await gate.reached.remote(f"{talker}")
        asked.cancel()
        await gate.wait.remote(f"{talker}")
        with pytest.raises(TaskCancelledError):
            await asked
    # By the owner, as the caller is busy.
    busy = one.run.remote(ask_then_stop, stop.place)
    await stop.reached()
    await gate.reached.remote("busy")
    busy.cancel()
    await gate.wait.remote("busy")
    stop.release()
    # By the owner, over two links.
    await front.meet.remote(one)
    chain = front.ask.remote("ask", "wait", "chain")
    await gate.reached.remote("chain")
    chain.cancel()
    await gate.wait.remote("chain")

    left = ["own", f"{one}", f"{front}", "busy", "chain"]
    assert await gate.left.remote() == left
    await one.ask.remote("open", "there")


async def test_cancel_when_a_call_waits_in_a_busy_actor_then_it_is_not_run(
    stop: Stop,
) -> None:
    one, log = Talker.remote(), actorlib.remote(Log).remote()
    await one.meet.remote(log)
    busy = log.stop.remote(stop.place, 1)
    await stop.reached()
    await one.tell.remote("note", 2)

    await one.cancel.remote()
    stop.release()
    await busy

    assert await one.ask.remote("seen") == [1]


async def test_last_handle_when_it_is_dropped_in_a_call_then_the_call_is_served(
    stop: Stop,
) -> None:
    one = Talker.remote()
    other = Server.remote()
    await one.meet.remote(other)
    over = end_of(other)
    del other
    await one.tell.remote("stop", stop.place)
    await stop.reached()
    await one.drop.remote()
    await one.__ray_ready__.remote()

    stop.release()

    assert await one.told.remote() == "went on"
    await over


async def test_end_when_a_call_runs_over_a_link_then_it_is_served_first(
    stop: Stop,
) -> None:
    one, other = Talker.remote(), Server.remote()
    await one.meet.remote(other)
    over = end_of(other)
    await one.tell.remote("stop", stop.place)
    await stop.reached()

    ending = other.__ray_terminate__.remote()
    with pytest.raises(ActorDiedError):
        await other.pid.remote()
    stop.release()

    assert await one.told.remote() == "went on"
    await ending
    await over
    with pytest.raises(ActorDiedError):
        await one.ask.remote("pid")


async def test_end_when_the_caller_asks_for_it_then_it_is_behind_its_calls() -> None:
    one, log = Talker.remote(), actorlib.remote(Log).remote()
    await one.meet.remote(log)

    def note_then_end(log: Any) -> list[int]:
        refs = [log.note.remote(place) for place in range(100)]
        log.__ray_terminate__.remote()
        return list(actorlib.get(refs))

    assert await one.run.remote(note_then_end) == list(range(100))


async def test_end_when_the_caller_is_gone_then_its_calls_are_served(
    stop: Stop,
) -> None:
    one, log = Talker.remote(), actorlib.remote(Log).remote()
    await one.meet.remote(log)
    busy = log.stop.remote(stop.place, 1)
    await stop.reached()
    for place in (2, 3):
        await one.tell.remote("note", place)
    pid = await one.__ray_call__.remote(lambda _: os.getpid())
    over = end_of(one)

    os.kill(pid, signal.SIGKILL)
    await over
    stop.release()
    await busy

    assert await log.seen.remote() == [1, 2, 3]


async def test_links_when_two_call_one_another_then_there_is_one_each_way() -> None:
    one, other = AsyncTalker.remote(), AsyncTalker.remote()
    await asyncio.gather(one.meet.remote(other), other.meet.remote(one))

    first = one.ask.remote("ask", "ask", "__ray_ready__")

    assert await first


async def test_links_when_all_call_all_then_every_answer_is_there() -> None:
    actors = [AsyncTalker.options(num_cpus=0).remote() for _ in range(6)]

    counts = await asyncio.gather(*[a.greet.remote(actors) for a in actors])

    assert counts == [len(actors) * ENOUGH] * len(actors)


async def test_links_when_handles_come_and_go_then_there_is_one_each_time() -> None:
    one, other = Caller.remote(), Echo.remote()

    def meet(handle: ActorHandle[Any]) -> None:
        for _ in range(ENOUGH):
            actorlib.get(handle.echo.remote(1))

    for _ in range(70):
        await one.run.remote(meet, other)
    before = came_by_the_owner(other)
    await one.run.remote(meet, other)

    assert came_by_the_owner(other) - before < ENOUGH


async def test_variables_and_names_when_calls_go_over_a_link_then_they_travel() -> None:
    one, keeper = AsyncCaller.remote(), Keeper.remote()

    async def keep_named(other: Any) -> str:
        for _ in range(ENOUGH):
            await other.kept.remote()
        named = other.kept.options(name="told")
        await named.remote()
        return str(await other.__ray_call__.remote(lambda _: os.getpid()))

    assert int(await one.run.remote(keep_named, keeper)) == await keeper.pid.remote()


# Calls over links, for who looks on.


async def test_calls_when_over_a_link_then_who_asks_is_told(runtime: Runtime) -> None:
    front, busy, server = AsyncTalker.remote(), Talker.remote(), Server.remote()
    await asyncio.gather(front.meet.remote(server), busy.meet.remote(server))
    with Stop() as stop, Stop() as own:
        answer = front.ask.remote("stop", stop.place)
        await stop.reached()
        held = busy.run.remote(lambda _, place: place.stop_here(), own.place)
        await own.reached()

        found = await runtime.all_calls(patience=0.05)

        over = [call for call in found.calls if call.class_name == "Server"]
        assert [(call.method, call.state, call.age) for call in over] == [
            ("stop", "running", None)
        ]
        assert over[0].caller == f"AsyncTalker.ask (pid {living_pid(runtime, front)})"
        assert len(over[0].task_id) == 32
        assert found.silent == (f"Talker (pid {living_pid(runtime, busy)})",)
        assert not [c for c in runtime.calls() if c.class_name == "Server"]
        own.release()
        stop.release()
    assert await answer == "went on"
    await held
    assert await runtime.all_calls() == ([], ())


def living_pid(runtime: Runtime, actor: ActorHandle[Any]) -> int | None:
    wanted = pin_of(actor).actor_id.hex()
    return next(a.pid for a in runtime.snapshot().actors if a.actor_id == wanted)


# Threads that share a link.


@actorlib.remote
class Dropper:
    """Lets the last handle of an actor go while another thread sends a call."""

    def drop(self, handles: list[ActorHandle[Any]]) -> bool:
        """Whether letting it go waits for nothing that the other thread has."""
        actorlib.get(handles[0].echo.remote(1))
        sending, dropped = threading.Event(), threading.Event()
        waits: list[bool] = []
        sender = threading.Thread(target=self._send, args=(sending, dropped, waits))
        sender.start()
        sending.wait()
        handles.clear()
        dropped.set()
        sender.join()
        return waits == [True]

    def _send(
        self, sending: threading.Event, dropped: threading.Event, waits: list[bool]
    ) -> None:
        engine: Any = find_engine()
        with engine.sender.lock:
            sending.set()
            waits.append(dropped.wait(10.0))


async def test_last_handle_when_another_thread_sends_a_call_then_it_does_not_wait() -> (
    None
):
    assert await Dropper.remote().drop.remote([Echo.remote()])
