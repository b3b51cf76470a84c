"""Which of an actor's calls run, as it follows from what has no answer."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from helpers.actors import Counter, Echo, running

import actorlib
from actorlib._api.actor_handle import pin_of
from actorlib._core.engine import find_engine
from actorlib._options.actor_options import ActorOptions
from actorlib._options.interface import interface_of
from actorlib._owner.calls.call_table import UnderWay, with_states
from actorlib._owner.observation import inspection

if TYPE_CHECKING:
    from actorlib._rows.snapshot import CallState


class Plain:
    def a(self) -> None: ...

    @actorlib.method(concurrency_group="io")
    def b(self) -> None: ...


class Mixed(Plain):
    async def c(self) -> None:
        await asyncio.sleep(0)


class MixedGroup(Plain):
    @actorlib.method(concurrency_group="io")
    async def d(self) -> None:
        await asyncio.sleep(0)


def states(
    cls: type, methods: str, *, is_busy: bool = False, **options: Any
) -> list[CallState]:
    calls = [UnderWay(n, m, "sent", None, None, None) for n, m in enumerate(methods, 1)]
    given = ActorOptions(**options)
    found = with_states(calls, interface_of(cls), given, is_busy=is_busy)
    return [call.state for call in found]


Q, R = "queued", "running"
IO = {"concurrency_groups": {"io": 1}}


@pytest.mark.parametrize(
    ("cls", "methods", "options", "told"),
    [
        (Plain, "aaa", {}, [R, Q, Q]),
        (Plain, "aaa", {"max_concurrency": 2}, [R, R, Q]),
        (Plain, "abab", IO, [R, R, Q, Q]),
        (Mixed, "cacac", {}, [R, R, R, Q, R]),
        (Mixed, "ccac", {"max_concurrency": 1}, [R, Q, Q, Q]),
        (Mixed, "abcab", IO, [R, R, R, Q, Q]),
        (Mixed, "aac", {"max_concurrency": 2}, [R, Q, R]),
        (Mixed, "bbb", {"concurrency_groups": {"io": 2}}, [R, R, Q]),
        (MixedGroup, "bbdd", {"concurrency_groups": {"io": 3}}, [R, Q, R, R]),
    ],
)
def test_states_when_calls_were_sent_then_as_many_run_as_may(
    cls: type, methods: str, options: dict[str, Any], told: list[str]
) -> None:
    assert states(cls, methods, **options) == told


def test_states_when_the_actor_runs_what_came_over_a_link_then_all_wait() -> None:
    assert states(Plain, "aa", is_busy=True) == [Q, Q]


def test_states_when_a_call_was_moved_to_a_group_then_it_counts_there() -> None:
    face, options = interface_of(Plain), ActorOptions(concurrency_groups={"io": 1})
    moved = UnderWay(1, "a", "sent", None, {"group": "io"}, None)
    other = UnderWay(2, "b", "sent", None, None, None)

    found = with_states([moved, other], face, options)

    assert [call.state for call in found] == [R, Q]


def test_states_when_a_stream_waits_for_its_reader_then_the_next_runs() -> None:
    calls = [
        UnderWay(1, "a", "sent", None, None, None, gives_way=True),
        UnderWay(2, "a", "sent", None, None, None),
        UnderWay(0, "a", "pending_arguments", None, None, None),
    ]

    found = with_states(calls, interface_of(Plain), ActorOptions())

    assert [call.state for call in found] == [R, R, "pending_arguments"]


@actorlib.remote
def length(text: str) -> int:
    return len(text)


@pytest.mark.memory
async def test_calls_when_there_are_more_than_the_limit_then_the_rest_is_counted() -> (
    None
):
    async with running(num_gpus=0):
        engine: Any = find_engine()
        waiting = Echo.options(num_cpus=4).remote()
        await waiting
        late = Counter.options(num_cpus=1).remote(0)
        sent = [late.add.remote() for _ in range(30)]
        functions = [length.remote("ab") for _ in range(20)]
        late_id = pin_of(late).actor_id

        some, left_out = await engine.all_calls(0.0, 10)
        all_of_one, none_left = await engine.all_calls(0.5, 100, late_id)
        of_other, _ = await engine.all_calls(0.5, 100, pin_of(waiting).actor_id)

        assert (len(some.calls), left_out) == (10, 40)
        assert (len(all_of_one.calls), none_left) == (30, 0)
        assert {call.actor_id for call in all_of_one.calls} == {late_id.hex()}
        assert of_other.calls == []
        for ref in (*sent, *functions):
            ref.cancel()


@pytest.mark.memory
async def test_calls_when_some_are_answered_meanwhile_then_those_are_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(inspection, "_CALLS_AT_ONCE", 2)
    async with running(num_gpus=0):
        engine: Any = find_engine()
        busy = await Echo.options(num_cpus=4).remote()
        late = Counter.options(num_cpus=1).remote(0)
        sent = [late.add.remote() for _ in range(6)]
        # The first step of the listing runs in the next turn, and then this.
        listing = asyncio.ensure_future(engine.all_calls(0.0))
        asyncio.get_running_loop().call_soon(sent[4].cancel)

        found, left_out = await listing

        assert (len(found.calls), left_out) == (5, 0)
        del busy
        for ref in sent:
            ref.cancel()
