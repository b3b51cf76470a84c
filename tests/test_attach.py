"""Clients of a runtime: programs that are attached to it by its name.

That a client can do what every engine can, the contract suites say (``thorough``).
Here is what is its own: who finds whom, and what ends with whom.
"""

from __future__ import annotations

import asyncio
import os
import signal
from typing import TYPE_CHECKING

import pytest
from helpers.actors import Cleaner, Counter, Echo, Gate, end_of, running
from helpers.attached import named_owner, new_name
from helpers.calls import raised
from helpers.owners import Owner

import actorlib
import actorlib.blocking as ray
from actorlib._queries.client import ask_loop, find_runtimes
from actorlib.exceptions import (
    ActorHandleNotFoundError,
    ActorNotFoundError,
    RuntimeAlreadyExistsError,
    RuntimeLostError,
    RuntimeNotFoundError,
    UnsupportedOptionError,
)

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.process


async def test_client_when_attached_then_the_runtime_serves_it_until_it_ends() -> None:
    name = new_name()
    with named_owner(name) as owner:
        with pytest.raises(RuntimeAlreadyExistsError, match=f"pid {owner.pid} "):
            await actorlib.init(name=name, num_cpus=1)
        with pytest.raises(RuntimeNotFoundError, match=f"there .*{name!r}"):
            await actorlib.attach(f"{name}x")
        assert await asyncio.to_thread(_script, name) == [7, 8]
        async with actorlib.attach(name):
            kept = await Counter.options(name="kept", lifetime="detached").remote(1)
            ending = await Echo.options(name="ending").remote()
            assert await ending.echo.remote(1) == 1
        with pytest.raises(ActorHandleNotFoundError, match=f"detached from .*{name}"):
            kept.add.remote()

        async with actorlib.attach(name) as runtime:
            found = actorlib.get_actor("kept")
            assert [await found.add.remote() for _ in range(20)] == [*range(2, 22)]
            with pytest.raises(ActorNotFoundError, match="'ending'"):
                actorlib.get_actor("ending")

            large = bytes(8_000_000)
            echo = Echo.remote()
            assert await echo.echo.remote(actorlib.put(large)) == large
            store = runtime.snapshot().object_store
            assert store.live + store.warm >= len(large)
            assert await asyncio.to_thread(lambda: found.add.remote().get(5)) == 22

            [server] = find_runtimes(owner.pid)
            told = await asyncio.to_thread(ask_loop, server, "status")
            assert told.snapshot.name == runtime.snapshot().name == name
            assert [client.pid for client in told.snapshot.clients] == [os.getpid()]
            with pytest.raises(UnsupportedOptionError, match=str(owner.pid)):
                runtime.logs()

            waiting = Cleaner.remote().work.remote()
            await asyncio.sleep(0)  # it is sent
            owner.signal(signal.SIGKILL)
            lost = await raised(waiting)
            assert isinstance(lost, RuntimeLostError)
            assert name in str(lost)
            with pytest.raises(RuntimeLostError):
                found.add.remote()
            with pytest.raises(RuntimeLostError):
                runtime.snapshot()


def _script(name: str) -> list[int]:
    """What a script without an event loop does, twice as if it was two."""
    with ray.init(address=name):
        made = Counter.options(name="scripts", lifetime="detached").remote(6)
        first = ray.get(made.add.remote())
    with ray.init(address=name, namespace="default"):
        found = ray.get_actor("scripts")
        second = ray.get(found.add.remote())
        ray.kill(found)
    return [first, second]


_CLIENT = """
    import asyncio, os, sys
    import actorlib
    from helpers.actors import Counter, Echo
    from helpers.owners import tell

    async def main():
        async with actorlib.attach(sys.argv[1], namespace="its own"):
            counter = await Counter.options(name="mine", num_gpus=1).remote(0)
            kept = await Counter.options(name="kept", lifetime="detached").remote(0)
            held = actorlib.get_actor("held", "default")
            await held.echo.remote(1)
            tell(actorlib.list_named_actors())
            await asyncio.Event().wait()

    actorlib.run(main())
"""


async def test_client_when_it_is_killed_then_what_it_made_ends(tmp_path: Path) -> None:
    name = new_name()
    async with running(name=name, num_gpus=1) as runtime:
        held = await Echo.options(name="held").remote()
        ended = end_of(held)
        with Owner(_CLIENT, name, folder=tmp_path) as client:
            told = await asyncio.to_thread(client.told)
            assert told == ["mine", "kept"]
            assert [found.pid for found in runtime.snapshot().clients] == [client.pid]
            del held  # the client has it
            mine = end_of(actorlib.get_actor("mine", "its own"))
            client.signal(signal.SIGKILL)
            await mine
            await ended
        assert runtime.snapshot().clients == ()
        assert runtime.available_resources()["GPU"] == 1
        assert await actorlib.get_actor("kept", "its own").add.remote() == 1


_HEAD = """
import asyncio, sys
import actorlib
import actorlib.blocking as ray
from helpers.actors import Echo, Gate
from helpers.owners import listen, tell

@actorlib.remote
class Source:
    async def ping(self):
        pass

    async def items(self, gate, place=""):
        yield 1
        yield await gate.wait.remote(place)

    async def hand_over(self, gate):
        return [gate.wait.remote()]

@actorlib.remote(num_cpus=1)
def wait_for(gate, place=""):
    return ray.get(gate.wait.remote(place))

async def read(stream):
    return [await item async for item in stream]
"""

_BUSY_CLIENT = f"""{_HEAD}
@actorlib.remote
class Serial:
    def wait_for(self, gate):
        ray.get(gate.wait.remote())

    def ping(self):
        pass

async def main():
    async with actorlib.attach(sys.argv[1]):
        gate = actorlib.get_actor("gate")
        serial = await Serial.options(num_cpus=1).remote()
        source = await Source.remote()
        late = Serial.options(num_cpus=4).remote()
        stream = source.items.remote(gate)
        assert await (await anext(stream)) == 1
        for _ in range(20):  # from now on over a link
            await source.ping.remote()
        [borrowed] = await source.hand_over.remote(gate)
        running = serial.wait_for.remote(gate)
        calls = {{
            "running": running,
            "queued": serial.ping.remote(),
            "deferred": Echo.remote().echo.remote(running),
            "running function": wait_for.remote(gate),
            "waiting function": wait_for.options(num_cpus=4).remote(gate),
            "linked": gate.wait.remote("linked"),
            "borrowed": borrowed,
            "stream": read(stream),
            "get": asyncio.to_thread(ray.get, gate.wait.remote()),
            "wait": asyncio.to_thread(late.ping.remote().get),
            "creation": asyncio.ensure_future(late),
            "call of a creation": late.ping.remote(),
        }}
        gathered = asyncio.gather(*calls.values(), return_exceptions=True)
        await gate.reached.remote("linked")
        tell("ready")
        errors = await gathered
        tell({{call: type(e).__name__ for call, e in zip(calls, errors)}})
        try:
            gate.wait.remote()
        except Exception as error:
            tell(type(error).__name__)

actorlib.run(main())
"""

_BUSY_SCRIPT = """
    import sys
    import actorlib.blocking as ray
    from helpers.owners import tell

    ray.init(address=sys.argv[1], namespace="default")
    gate = ray.get_actor("gate")
    ref = gate.wait.remote("script")
    others = [gate.wait.remote() for _ in range(9)]
    done, pending = ray.wait([ref], timeout=0)
    assert (done, pending) == ([], [ref])
    tell("ready")
    [done], _ = ray.wait([ref])
    for failed in (done, *others):
        try:
            ray.get(failed)
        except Exception as error:
            tell(type(error).__name__)
"""


@pytest.mark.slow
async def test_client_when_the_runtime_is_shut_down_then_its_calls_tell_of_that(
    tmp_path: Path,
) -> None:
    name = new_name()
    async with running(name=name, grace=0.1) as runtime:
        gate = await Gate.options(name="gate").remote()
        with (
            Owner(_BUSY_CLIENT, name, folder=tmp_path) as client,
            Owner(_BUSY_SCRIPT, name, folder=tmp_path) as script,
        ):
            assert await asyncio.to_thread(client.told) == "ready"
            assert await asyncio.to_thread(script.told) == "ready"
            await gate.reached.remote("script")
            await runtime.shutdown()
            errors = await asyncio.to_thread(client.told)
            assert {*errors.values()} == {"RuntimeLostError"}, errors
            assert await asyncio.to_thread(client.told) == "RuntimeLostError"
            lost = [await asyncio.to_thread(script.told) for _ in range(10)]
            assert {*lost} == {"RuntimeLostError"}
            assert (client.end(), script.end()) == (0, 0)


_DRAINED_CLIENT = f"""{_HEAD}
@actorlib.remote
def large():
    return bytes(50_000)

async def main():
    async with actorlib.attach(sys.argv[1]):
        gate = actorlib.get_actor("gate")
        for _ in range(20):  # from now on over a link
            await gate.left.remote()
        running = gate.wait.remote("linked")
        calls = [
            running,
            wait_for.remote(gate, "function"),
            Echo.remote().echo.remote(running),
            read(Source.remote().items.remote(gate, "stream")),
        ]
        gathered = asyncio.gather(*calls)
        for place in "linked", "function", "stream":
            await gate.reached.remote(place)
        tell("ready")
        await asyncio.to_thread(listen)
        for place in "linked", "function", "stream":
            await gate.open.remote(place)
        tell(await gathered)
        many = [large.remote() for _ in range(200)]
        await asyncio.sleep(0)  # they are sent
        actorlib.get_actor("gate")  # and read
        tell("ready")
        listen()  # and reads nothing
        tell(sum(map(len, await asyncio.gather(*many))))

actorlib.run(main())
"""


@pytest.mark.slow
async def test_drain_when_clients_have_calls_then_they_are_finished(
    tmp_path: Path,
) -> None:
    name = new_name()
    async with running(name=name, grace=5) as runtime:
        gate = await Gate.options(name="gate").remote()
        with Owner(_DRAINED_CLIENT, name, folder=tmp_path) as client:
            assert await asyncio.to_thread(client.told) == "ready"
            left = await runtime.drain(timeout=0.001)
            assert {call.method for call in left} >= {"wait", "wait_for", "items"}
            by_clients = [call for call in left if call.caller.startswith("client")]
            assert sorted(call.name for call in by_clients) == [
                "Gate.wait",
                "Source.items",
                "wait_for",
            ]

            draining = asyncio.create_task(runtime.drain())
            client.go_on()
            assert await asyncio.to_thread(client.told) == [
                "linked",
                "function",
                "linked",
                [1, "stream"],
            ]
            assert await draining == []

            assert await asyncio.to_thread(client.told) == "ready"
            assert await runtime.drain() == []
            client.go_on()
            await runtime.shutdown()
            assert await asyncio.to_thread(client.told) == 200 * 50_000
            assert client.end() == 0
    del gate
