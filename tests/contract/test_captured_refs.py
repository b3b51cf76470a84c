"""Handles and refs that functions and classes mention where they are defined."""

from __future__ import annotations

import asyncio
import gc
from typing import TYPE_CHECKING, Any

import pytest
from helpers.actors import Counter, end_of

import actorlib

if TYPE_CHECKING:
    from collections.abc import Generator

    from helpers.callees import Callee
    from helpers.callers import Api

    Steps = Generator[Any, Any, Any]

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="module")]

KINDS = pytest.mark.parametrize("callee", ["function", "plain", "async"], indirect=True)


def capturing(counter: Any, ref: Any) -> list[Any]:
    """Definitions that mention a handle and a ref of those who define them."""

    class Captor:
        def use(self) -> list[int]:
            return actorlib.get([counter.add.remote(), ref])

    class AsyncCaptor:
        async def use(self) -> list[int]:
            refs: Any = counter.add.remote(), ref
            return await asyncio.gather(*refs)

    def use() -> list[int]:
        return actorlib.get([counter.add.remote(), ref])

    return [*map(actorlib.remote, (Captor, AsyncCaptor)), actorlib.remote(use)]


@pytest.mark.usefixtures("runtime")
async def test_definition_when_it_mentions_a_handle_and_a_ref_then_it_has_them(
    api: Api,
) -> None:
    counter = Counter.remote(1)
    ref = counter.add.remote()
    assert await api.get(ref) == 2
    plain, coroutine, function = capturing(counter, ref)

    assert await api.get(plain.remote().use.remote()) == [3, 2]
    assert await api.get(coroutine.remote().use.remote()) == [4, 2]
    assert await api.get(function.remote()) == [5, 2]
    assert await api.get(plain.remote().use.remote()) == [6, 2]


async def test_function_when_it_mentions_a_handle_and_a_ref_then_it_runs_with_them(
    api: Api, callee: Callee
) -> None:
    counter = Counter.remote(1)
    ref = counter.add.remote()

    def use() -> Generator[Any, Any, list[int]]:
        return (yield [ref, counter.add.remote()])

    # Calls of two callers have no order: on Ray the callee's may be the first.
    assert sorted(await api.get(callee.run(use))) == [2, 3]


def define() -> Steps:
    counter = Counter.remote(1)
    ref = counter.add.remote()
    yield ref
    plain, coroutine, function = capturing(counter, ref)
    return plain.remote(), coroutine.remote(), (yield function.remote())


@KINDS
async def test_definition_when_a_callee_makes_it_then_it_has_what_is_there(
    api: Api, callee: Callee
) -> None:
    plain, coroutine, values = await api.get(callee.run(define))
    assert values == [3, 2]
    await api.get(callee.run(gc.collect))  # what was defined there is gone

    assert await api.get(coroutine.use.remote()) == [4, 2]
    assert await api.get(plain.use.remote()) == [5, 2]


@pytest.mark.usefixtures("awaiting_api", "runtime")
async def test_definition_when_it_alone_has_a_handle_then_the_actor_lives_as_long(
    api: Api,
) -> None:
    counter = Counter.remote(1)
    ended = end_of(counter)
    captor, *others = capturing(counter, api.put(0))
    user = captor.remote()
    assert await api.get(user.use.remote()) == [2, 0]

    await api.kill(user)
    del counter, others, user
    gc.collect()
    user = captor.remote()
    assert await api.get(user.use.remote()) == [3, 0]

    del captor, user
    gc.collect()
    await ended
