"""Waits that would never end, and waits that only look like it."""

from __future__ import annotations

import asyncio
import signal
import threading
from typing import TYPE_CHECKING, Any

import pytest
from helpers.actors import Caller, Gate, Stop
from helpers.marks import in_memory

import actorlib
from actorlib.exceptions import DeadlineExceededError, DeadlockError, GetTimeoutError

if TYPE_CHECKING:
    from actorlib import ActorHandle


pytestmark = [*in_memory(), pytest.mark.usefixtures("same_loop_in_workers", "runtime")]


class Node:
    """Asks along a way of actors, the last of which may be itself."""

    def __init__(self) -> None:
        self._ran: list[str] = []

    def walk(self, way: list[ActorHandle[Any]]) -> str:
        """Asks the next one on the way, and waits."""
        self._ran.append("walk")
        if not way:
            return "there"
        return actorlib.get(way[0].walk.remote(way[1:]))

    def to_itself(self, method: str = "ping", **options: Any) -> Any:
        """Asks itself, and waits."""
        me = actorlib.get_runtime_context().current_actor
        return actorlib.get(getattr(me, method).options(**options).remote())

    def among_others(self, gate: ActorHandle[Any]) -> Any:
        """Waits for another one and for itself, in one go."""
        me = actorlib.get_runtime_context().current_actor
        return actorlib.get([gate.wait.remote(), me.ping.remote(), me.ping.remote()])

    def in_time(self) -> str:
        """Asks itself, and waits for a moment."""
        me = actorlib.get_runtime_context().current_actor
        try:
            actorlib.get(me.ping.remote(), timeout=0.3)
        except GetTimeoutError as error:
            return type(error).__name__
        return "nothing"

    def in_thread(self, place: Any) -> Any:
        """Has a thread of its own ask, and ends before the answer."""
        me = actorlib.get_runtime_context().current_actor
        ref = me.ping.remote()
        thread = threading.Thread(target=ref.get)
        thread.start()
        place.stop_here()
        return "done"

    def until_alarm(self, gate: ActorHandle[Any]) -> str:
        """Waits for what does not come, until a signal's handler raises."""

        def ring(*_: object) -> None:
            raise InterruptedError("rang")

        before = signal.signal(signal.SIGALRM, ring)
        signal.setitimer(signal.ITIMER_REAL, 0.4)
        try:
            actorlib.get(gate.wait.remote())
        except InterruptedError as error:
            return str(error)
        finally:
            signal.signal(signal.SIGALRM, before)
        return "nothing"

    def ping(self) -> str:
        """Answers."""
        self._ran.append("ping")
        return "pong"

    def ran(self) -> list[str]:
        """What has run."""
        return self._ran


class LoopedNode(Node):
    """The same, with an event loop."""

    async def ping_later(self) -> str:
        """Answers from the loop."""
        return "pong"

    async def walk_later(self, way: list[ActorHandle[Any]]) -> str:
        """Asks the next one, and does not block."""
        return await way[0].walk.remote(way[1:]) if way else "there"

    async def block(self) -> Any:
        """Blocks its own loop for what runs there."""
        me = actorlib.get_runtime_context().current_actor
        return me.ping_later.remote().get()


class Selfish:
    """Asks itself before it is there."""

    def __init__(self) -> None:
        actorlib.get(actorlib.get_runtime_context().current_actor.ping.remote())

    def ping(self) -> str:
        """Never runs."""
        return "pong"


SERIAL, LOOPED = actorlib.remote(Node), actorlib.remote(LoopedNode)
THREADED = actorlib.remote(max_concurrency=3)(Node)
both_loops = pytest.mark.usefixtures("on_both_loops")
each_single = pytest.mark.parametrize(
    "kind", [SERIAL, LOOPED], ids=["serial", "looped"]
)


@each_single
@both_loops
async def test_deadlock_when_an_actor_waits_for_itself_then_an_error_says_so(
    kind: Any,
) -> None:
    node = kind.remote()

    with pytest.raises(DeadlockError) as caught:
        await node.to_itself.remote()

    name = "LoopedNode" if kind is LOOPED else "Node"
    assert str(caught.value).startswith(
        f"{name}.to_itself waits for {name}.ping of the same actor, which cannot begin "
        f"before {name}.to_itself has ended: make one that waits async"
    )
    assert isinstance(caught.value, RuntimeError)
    assert await node.ran.remote() == []


@each_single
async def test_deadlock_when_it_waits_for_several_then_the_first_that_never_comes(
    kind: Any,
) -> None:
    node, gate = kind.remote(), Gate.remote()
    ref = node.among_others.remote(gate)
    await gate.reached.remote()

    await gate.open.remote()

    with pytest.raises(DeadlockError, match=r"Node\.among_others waits for \w+\.ping"):
        await ref


@each_single
async def test_deadlock_when_two_wait_for_one_another_then_the_one_that_closes_it(
    kind: Any,
) -> None:
    first, second = kind.remote(), SERIAL.remote()

    with pytest.raises(DeadlockError, match=r"Node\.walk \(pid \d+\) waits for"):
        await first.walk.remote([second, first])

    assert await first.ran.remote() == ["walk"]
    assert await second.ran.remote() == ["walk"]


async def test_deadlock_when_the_constructor_waits_for_itself_then_it_raises() -> None:
    selfish = actorlib.remote(Selfish).remote()

    with pytest.raises(actorlib.exceptions.ActorDiedError) as caught:
        await selfish

    assert isinstance(caught.value.__cause__, DeadlockError)
    assert "Selfish.__init__ waits for Selfish.ping" in str(caught.value.__cause__)


@both_loops
async def test_deadlock_when_an_async_method_blocks_its_loop_then_an_error() -> None:
    node = LOOPED.remote()

    with pytest.raises(DeadlockError, match=r"LoopedNode\.block waits"):
        await node.block.remote()

    assert await node.ping_later.remote() == "pong"


@both_loops
async def test_deadlock_when_a_plain_method_waits_for_its_loop_then_an_error() -> None:
    node = LOOPED.remote()

    with pytest.raises(DeadlockError, match=r"to_itself waits for .*ping_later"):
        await node.to_itself.remote("ping_later")

    assert await node.ping_later.remote() == "pong"


# What only looks like one.


async def test_wait_when_another_thread_can_run_it_then_it_ends() -> None:
    node = THREADED.remote()

    assert await node.to_itself.remote() == "pong"


@both_loops
@pytest.mark.parametrize("kind", [THREADED, LOOPED], ids=["threaded", "looped"])
async def test_wait_when_the_way_goes_through_one_that_has_room_then_it_ends(
    kind: Any,
) -> None:
    first, second = kind.remote(), SERIAL.remote()
    walk = first.walk_later if kind is LOOPED else first.walk

    assert await walk.remote([second, first]) == "there"


async def test_wait_when_it_has_a_timeout_then_that_ends_it() -> None:
    node = SERIAL.remote()

    assert await node.in_time.remote() == "GetTimeoutError"
    assert await node.ran.remote() == ["ping"]


async def test_wait_when_the_call_has_a_deadline_then_that_ends_it() -> None:
    node = await SERIAL.remote()

    with pytest.raises(DeadlineExceededError, match=r"Node\.ping"):
        await node.to_itself.remote(timeout=0.3)

    assert await node.ran.remote() == []


async def test_wait_when_a_thread_of_the_user_s_waits_then_it_ends(stop: Stop) -> None:
    node = SERIAL.remote()
    ref = node.in_thread.remote(stop.place)
    await stop.reached()

    stop.release()

    assert await ref == "done"
    assert await node.ran.remote() == ["ping"]


async def test_wait_when_it_is_long_and_ends_then_nothing_is_said() -> None:
    caller, gate = Caller.remote(), Gate.remote()
    ref = caller.call.remote(gate, "wait")
    other = Caller.remote()
    second = other.call.remote(caller, "call", gate, "wait")
    await gate.reached.remote()

    with pytest.raises(GetTimeoutError):
        await Caller.remote().run.remote(_wait_a_moment, gate)
    await gate.open.remote()

    assert await asyncio.gather(ref, second) == ["", ""]


def _wait_a_moment(gate: ActorHandle[Any]) -> None:
    actorlib.get(gate.wait.remote("never"), timeout=0.3)


@pytest.mark.process
async def test_wait_when_a_signal_s_handler_ends_it_then_it_closes_no_circle() -> None:
    node, gate, other = SERIAL.remote(), Gate.remote(), SERIAL.remote()

    assert await node.until_alarm.remote(gate) == "rang"
    assert await other.walk.remote([node]) == "there"
