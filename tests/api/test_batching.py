"""Calls are gathered into one, and each caller has its own result."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from helpers.calls import raised

import actorlib
from actorlib.exceptions import ActorDiedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from actorlib._options.runtime_options import RuntimeKeywords

pytestmark = pytest.mark.memory


@pytest.fixture(scope="module")
def runtime_options() -> RuntimeKeywords:
    return {"num_cpus": 2}


class Model:
    """Doubles what it is given, and remembers how it was given that."""

    def __init__(self) -> None:
        self.batches: list[list[Any]] = []
        self.begun = asyncio.Event()
        self.go = asyncio.Event()

    @actorlib.batch(max_size=4, wait=1000)
    async def when_full(self, items: list[int]) -> list[Any]:
        self.batches.append(items)
        return [ValueError(n) if n < 0 else 2 * n for n in items]

    @actorlib.batch(max_size=4, wait=0.01)
    def plain(self, items: list[int]) -> list[int]:
        self.batches.append(items)
        if 13 in items:
            raise LookupError("unlucky")
        return items[: 2 if 7 in items else None]

    @actorlib.batch(max_size=4, wait=0)
    async def slow(self, items: list[int]) -> list[int]:
        self.batches.append(items)
        self.begun.set()
        await self.go.wait()
        return items

    def seen(self) -> list[list[Any]]:
        return self.batches

    async def let_go(self) -> None:
        self.go.set()


async def test_batch_when_it_is_full_then_it_begins_and_each_has_its_own() -> None:
    model = Model()

    found = await asyncio.gather(
        *map(model.when_full, [1, -2, 3, 4, 5, 6, 7, 8]), return_exceptions=True
    )

    assert model.batches == [[1, -2, 3, 4], [5, 6, 7, 8]]
    assert [found[0], *found[2:]] == [2, 6, 8, 10, 12, 14, 16]
    assert isinstance(found[1], ValueError)


async def test_batch_when_nobody_else_comes_then_it_begins_after_the_wait() -> None:
    model = Model()

    assert await asyncio.gather(model.plain(1), model.plain(2)) == [1, 2]
    assert await model.plain(3) == 3
    assert model.batches == [[1, 2], [3]]


async def test_batch_when_one_runs_then_what_comes_is_the_next() -> None:
    model = Model()
    first = asyncio.create_task(model.slow(0))
    await model.begun.wait()
    later = [asyncio.create_task(model.slow(n)) for n in range(1, 7)]
    for _ in range(3):
        await asyncio.sleep(0)
    later[0].cancel()
    await model.let_go()

    assert [await first, *await asyncio.gather(*later[1:])] == [0, 2, 3, 4, 5, 6]
    assert later[0].cancelled()
    assert model.batches == [[0], [2, 3, 4, 5], [6]]


class Incomparable:
    """Refuses to be compared, as arrays do."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        raise ValueError("ambiguous")


async def test_batch_when_an_item_cannot_be_compared_then_its_call_can_be_left() -> (
    None
):
    model = Model()
    given: list[Any] = [Incomparable() for _ in range(3)]
    calls = [asyncio.create_task(model.slow(item)) for item in given]
    await asyncio.sleep(0)
    calls[1].cancel()
    await model.let_go()

    assert [await calls[0], await calls[2]] == [given[0], given[2]]
    assert calls[1].cancelled()
    assert [item for batch in model.batches for item in batch] == [given[0], given[2]]


class Careful(Model):
    """Overrides a method, and calls what it overrides."""

    @actorlib.batch(max_size=4, wait=0)
    async def plain(self, items: list[int]) -> list[int]:
        below = super().plain
        return await asyncio.gather(*(below(n + 1) for n in items))


async def test_batch_when_it_overrides_one_then_it_may_call_that() -> None:
    model = Careful()
    async with asyncio.timeout(5):
        assert await asyncio.gather(model.plain(1), model.plain(2)) == [2, 3]
    assert model.batches == [[2, 3]]


async def test_batch_when_all_of_it_fails_then_every_caller_is_told() -> None:
    model = Model()

    for error in await asyncio.gather(
        *map(model.plain, [1, 13]), return_exceptions=True
    ):
        assert isinstance(error, LookupError)
    for error in await asyncio.gather(
        *map(model.plain, [7, 8, 9]), return_exceptions=True
    ):
        assert isinstance(error, ValueError)
        assert "Model.plain() has returned 2 results for 3 items" in str(error)
    assert await model.plain(5) == 5


@pytest.mark.usefixtures("runtime")
@pytest.mark.asyncio(loop_scope="module")
async def test_batch_when_called_from_elsewhere_then_calls_are_gathered() -> None:
    model = actorlib.remote(Model).remote()

    refs = [model.when_full.remote(n) for n in (1, -2, 3, 4)]

    assert [await refs[0], await refs[2], await refs[3]] == [2, 6, 8]
    assert isinstance(await raised(refs[1]), ValueError)
    assert await model.seen.remote() == [[1, -2, 3, 4]]


@actorlib.remote
class Leaving:
    """Ends itself."""

    @actorlib.batch(max_size=2)
    def leave(self, codes: list[int]) -> list[int]:
        raise SystemExit(codes[0])


@pytest.mark.usefixtures("runtime")
@pytest.mark.asyncio(loop_scope="module")
async def test_batch_when_it_ends_the_actor_then_each_caller_is_told() -> None:
    leaving = Leaving.remote()
    for ref in [leaving.leave.remote(7) for _ in range(2)]:
        error = await raised(ref)
        assert isinstance(error, ActorDiedError)
        assert error.exit.code == 7


def no_list(self: object) -> None: ...


def items(_: object, given: list[int]) -> Any:
    yield from given


@pytest.mark.parametrize("decorated", [3, Model, no_list, items])
def test_batch_when_it_decorates_something_else_then_refused(decorated: Any) -> None:
    with pytest.raises(TypeError, match="@batch"):
        actorlib.batch()(decorated)


@pytest.mark.parametrize(
    "make",
    [
        lambda: actorlib.batch(max_size=0),
        lambda: actorlib.batch(wait=-1),
        lambda: actorlib.batch(wait=float("nan")),
    ],
)
def test_batch_when_an_option_makes_no_sense_then_refused(
    make: Callable[[], object],
) -> None:
    with pytest.raises(ValueError, match="takes a"):
        make()
