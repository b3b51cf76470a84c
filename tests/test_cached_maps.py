"""``function.map(cache=DIR)``: what is loaded, what runs again, and what is refused."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from helpers.actors import AsyncCaller, Caller, Gate
from helpers.marks import USES_RUNTIME, in_memory
from helpers.terminal import Terminal
from helpers.turns import in_time

import actorlib
import actorlib.blocking.util
from actorlib._api.cache_folder import list_entries

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

pytestmark = [*in_memory(num_cpus=8), USES_RUNTIME]

RAN: list[Any] = []
"""What has run; the workers are threads of this process."""


@dataclass(frozen=True)
class Setting:
    rate: Any
    steps: int = 3


def train(setting: Any, scale: int = 1) -> Any:
    RAN.append(setting)
    if setting == "fail":
        raise ArithmeticError(setting)
    if isinstance(setting, str) and setting.startswith("gate "):
        actorlib.get(actorlib.get_actor("gate").wait.remote(setting))
    return [setting, scale]


trained: Any = actorlib.remote(num_cpus=0)(train)


@pytest.fixture(autouse=True)
def runs(tmp_path: Path) -> Iterator[Path]:
    RAN.clear()
    yield tmp_path / "runs"
    RAN.clear()


def ran() -> list[Any]:
    """What has run since the last look."""
    found = sorted(RAN, key=str)
    RAN.clear()
    return found


def files_in(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.pickle"))


def results_of(*settings: Any) -> list[Any]:
    return [[setting, 1] for setting in settings]


async def outcomes(results: Any) -> list[Any]:
    """The results, with the errors among them."""
    found: list[Any] = []
    while True:
        try:
            async for value in results:
                found.append(value)  # noqa: PERF401  # an error ends the loop
        except (ArithmeticError, TypeError) as error:
            found.append(error)
        else:
            return found


CHUNKS = pytest.mark.parametrize("chunksize", [1, 3, 100, "auto"])


@CHUNKS
async def test_map_when_run_again_then_only_what_is_missing_is_called(
    chunksize: Any, runs: Path
) -> None:
    options: Any = {"cache": runs, "chunksize": chunksize}

    assert await trained.map(range(5), **options) == results_of(*range(5))
    assert ran() == [0, 1, 2, 3, 4]
    assert len(files_in(runs)) == 5
    assert await trained.map(range(5), **options) == results_of(*range(5))
    assert ran() == []
    # Other items among those that are there, in their order and in any.
    mixed = [7, 0, 8, 9, 1, 2, 10]
    assert [each async for each in trained.map(mixed, **options)] == results_of(*mixed)
    assert ran() == [10, 7, 8, 9]
    found = await trained.map(range(12), ordered=False, **options)
    assert sorted(found) == results_of(*range(12))
    assert ran() == [11, 5, 6]
    # Equal values of another type are other items.
    assert await trained.map([True, 1.0, 1], **options) == [
        *results_of(True, 1.0),  # noqa: FBT003  # an item
        [1, 1],
    ]
    assert ran() == [1.0, True]


@CHUNKS
async def test_map_when_items_fail_then_they_alone_run_again(
    chunksize: Any, runs: Path
) -> None:
    options: Any = {"cache": runs, "chunksize": chunksize}
    items = ["a", "fail", "b", object(), "c", "fail"]
    kinds = (list, ArithmeticError, list, TypeError, list, ArithmeticError)

    for called in (["a", "b", "c", "fail", "fail"], ["fail", "fail"]):
        found = await outcomes(trained.map(items, **options))

        assert ran() == called
        assert list(map(isinstance, found, kinds)) == [True] * 6
        assert [found[0], found[2], found[4]] == results_of("a", "b", "c")
        assert found[1].__notes__ == ["in call 1 of a map, counted from 0"]
        assert found[5].__notes__ == ["in call 5 of a map, counted from 0"]
        assert "cannot identify item 3 of the map: setting is of the type" in str(
            found[3]
        )
    returned = await trained.map(items, on_error="return", **options)
    assert list(map(isinstance, returned, kinds)) == [True] * 6


async def test_map_when_an_item_cannot_be_identified_then_the_error_names_the_part(
    runs: Path,
) -> None:
    items = [Setting(1), Setting({"nets": [0, object()]})]

    first, second = await outcomes(trained.map(items, cache=runs))

    assert first == [Setting(1), 1]
    assert str(second).startswith(
        "cache= cannot identify item 1 of the map: setting.rate['nets'][1] is of the "
        "type object. An item may consist of None, bool,"
    )
    assert ran() == [Setting(1)]


async def test_map_when_defaults_or_other_arguments_differ_then_they_are_other_items(
    runs: Path,
) -> None:
    await trained.map([1, 2], cache=runs)
    ran()

    assert await trained.map([1, 2], [1, 2], cache=runs) == [[1, 1], [2, 2]]
    assert ran() == [2]


@pytest.mark.parametrize("chunksize", [1, 2])
async def test_map_when_a_later_result_is_there_first_then_it_is_kept_at_once(
    chunksize: int, runs: Path
) -> None:
    gate: Any = await Gate.options(name="gate").remote()
    items = [f"gate {name}" for name in "abcd"]
    results = trained.map(items, cache=runs, chunksize=chunksize)
    async with in_time():
        for item in items[2:]:
            await gate.open.remote(item)
        # No result is taken: the first one is not there.
        while len(files_in(runs)) < 2:  # noqa: ASYNC110  # a file is no event
            await asyncio.sleep(0)
        results.cancel()
        with contextlib.suppress(actorlib.exceptions.TaskCancelledError):
            await results
    ran()
    for item in items[:2]:
        await gate.open.remote(item)

    assert await trained.map(items, cache=runs) == results_of(*items)
    assert {*ran()} == {*items[:2]}


async def test_map_when_it_is_left_then_calls_that_go_on_are_kept(runs: Path) -> None:
    gate: Any = await Gate.options(name="gate").remote()
    async with in_time():
        async for _ in trained.map(["a", "gate b"], cache=runs):
            break
        await gate.open.remote("gate b")
        while len(files_in(runs)) < 2:  # noqa: ASYNC110  # a file is no event
            await asyncio.sleep(0)


async def test_map_when_the_caller_changes_a_result_then_the_file_does_not(
    runs: Path,
) -> None:
    for _ in range(2):
        (result,) = await trained.map(["a"], cache=runs)
        assert result == ["a", 1]
        result.append("changed")


async def test_map_when_items_are_endless_or_asynchronous_then_as_without_a_cache(
    runs: Path,
) -> None:
    taken: list[int] = []

    async def values() -> AsyncIterator[int]:
        for value in range(4):
            taken.append(value)
            yield value

    def endless() -> Iterator[int]:
        while not is_over:
            taken.append(len(taken))
            yield taken[-1]

    for expected in ([0, 1, 2, 3], []):
        assert await trained.map(values(), cache=runs) == results_of(*range(4))
        assert ran() == expected
    taken.clear()
    is_over = False
    results = trained.map(endless(), cache=runs, backpressure_size=2)
    assert [await anext(results) for _ in range(6)] == results_of(*range(6))
    assert len(taken) <= 8
    is_over = True
    assert await results == results_of(*taken[6:])


def map_here(folder: Path) -> list[Any]:
    first = trained.map(["a", "b"], cache=folder).get()
    return [first, list(trained.map(["a", "b", "c"], cache=folder, ordered=False))]


async def map_on_loop(folder: Path) -> list[Any]:
    first = await trained.map(["a", "b"], cache=folder)
    return [first, [each async for each in trained.map("abc", cache=folder)]]


async def test_map_when_in_methods_of_actors_then_with_and_without_a_loop(
    runs: Path,
) -> None:
    for caller, function, folder in (
        (Caller, map_here, runs / "plain"),
        (AsyncCaller, map_on_loop, runs / "async"),
    ):
        first, second = await caller.remote().run.remote(function, folder)

        assert first == results_of("a", "b")
        assert sorted(second) == results_of("a", "b", "c")
        assert ran() == ["a", "b", "c"]


async def test_map_when_two_use_one_folder_at_once_then_both_have_all(
    runs: Path,
) -> None:
    maps = (trained.map(range(20), cache=runs, chunksize=n) for n in (1, 7, 20))

    for results in await asyncio.gather(*(outcomes(each) for each in maps)):
        assert results == results_of(*range(20))
    assert len(files_in(runs)) == 20
    ran()
    assert await trained.map(range(20), cache=runs) == results_of(*range(20))
    assert ran() == []


async def test_map_when_a_file_is_damaged_then_its_item_runs_again_and_replaces_it(
    runs: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await trained.map("abc", cache=runs)
    damaged = files_in(runs)[1]
    damaged.write_bytes(damaged.read_bytes()[:-1])
    ran()

    assert await trained.map("abc", cache=runs) == results_of(*"abc")
    assert len(ran()) == 1
    assert [r.message for r in caplog.records if r.levelno >= logging.WARNING] == [
        f"the cached result {damaged} is damaged or incomplete: it is computed again"
    ]
    assert await trained.map("abc", cache=runs) == results_of(*"abc")
    assert ran() == []


def handle_or_array(kind: str) -> Any:
    if kind == "handle":
        return Gate.remote()
    return np.arange(50_000.0)


async def test_result_when_it_cannot_be_kept_then_it_is_returned_and_a_warning_says_so(
    runs: Path, caplog: pytest.LogCaptureFixture
) -> None:
    function: Any = actorlib.remote(num_cpus=0)(handle_or_array)

    found = await function.map(["handle", "array", "handle"], cache=runs)
    again = (await function.map(["array"], cache=runs))[0]

    assert await found[0].open.remote("x") is None
    warnings = [r.message for r in caplog.records if r.levelno >= logging.WARNING]
    assert len(warnings) == 1
    assert "cannot be kept" in warnings[0]
    assert "a handle can be pickled only in" in warnings[0]
    # A loaded array is like one that has arrived.
    assert (again == found[1]).all()
    assert again.flags.writeable == found[1].flags.writeable is False


async def test_version_when_given_then_it_takes_the_place_of_the_code(
    runs: Path,
) -> None:
    def first(x: int) -> int:
        return x + 1

    def second(x: int) -> int:
        return x + 2

    second.__qualname__ = first.__qualname__
    one, two = map(actorlib.remote(num_cpus=0), (first, second))
    for version, expected in ((None, 3), ("a", 2), (1, 2)):
        options: Any = {"cache": runs, "version": version}
        assert await one.map([1], **options) == [2]
        assert await two.map([1], **options) == [expected]
    assert await two.map([1], cache=runs, version="b") == [3]
    assert {"a", "1", "b"} < {row.version for row in list_entries(runs)}


DEFERRED = """
def scale(x: Missing, factor: int = 2) -> Later:
    return factor * x
"""


@pytest.mark.skipif(sys.version_info < (3, 14), reason="evaluates annotations at once")
async def test_map_when_annotations_cannot_be_evaluated_then_as_any_other(
    runs: Path,
) -> None:
    names: dict[str, Any] = {"__name__": __name__}
    exec(compile(DEFERRED, "<deferred>", "exec", dont_inherit=True), names)
    function: Any = actorlib.remote(num_cpus=0)(names["scale"])

    for _ in range(2):
        assert await function.map([1, 2], cache=runs) == [2, 4]


async def test_number_of_loaded_results_when_a_map_ends_then_it_is_logged_once(
    runs: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    await trained.map("ab", cache=runs)
    results = trained.map("abc", cache=runs)
    assert await results == results_of(*"abc")
    await results.aclose()
    await trained.map("", cache=runs)

    start = f"test_cached_maps.train: results loaded from {runs}:"
    assert [record.message for record in caplog.records] == [
        f"{start} 0; calls made: 2",
        f"{start} 2; calls made: 1",
    ]


async def test_progress_when_results_are_loaded_then_it_shows_how_many(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await trained.map("ab", cache=runs)
    gate: Any = await Gate.options(name="gate").remote()
    terminal = Terminal.of(monkeypatch)
    results = trained.map(["a", "b", "gate c"], cache=runs, progress="trials")
    async with in_time():
        waiting = asyncio.ensure_future(outcomes(results))
        await asyncio.sleep(5)  # the loop jumps over it
        assert re.search(r"trials \(2 loaded\).*0/1", terminal.getvalue())
        await gate.open.remote("gate c")
        assert await waiting == results_of("a", "b", "gate c")


async def test_map_unordered_when_it_has_a_cache_then_for_functions(runs: Path) -> None:
    for fn in (trained, trained.remote):
        found = await actorlib.map_unordered(fn, "ab", cache=runs)
        assert sorted(found) == results_of("a", "b")
    assert ran() == ["a", "b"]
    blocking = actorlib.blocking.util.map_unordered
    with pytest.raises(TypeError, match="a remote function that is passed directly"):
        actorlib.map_unordered(lambda x: trained.remote([x]), "ab", cache=runs)
    with pytest.raises(ValueError, match="cache and yield_obj_refs exclude"):
        blocking(trained, "ab", cache=runs, yield_obj_refs=True)


def outer(captured: Any) -> Any:
    def inner(x: Any) -> Any:
        return captured, x

    return actorlib.remote(inner)


async def test_map_when_a_cache_is_misused_then_it_fails_at_the_call(
    runs: Path,
) -> None:
    method: Any = Gate.remote().wait
    (runs.parent / "file").touch()
    for call, error, match in (
        (lambda: method.map("a", cache=runs), TypeError, "is for maps of functions"),
        (
            lambda: actorlib.map_unordered(method, "a", cache=runs),
            TypeError,
            "the result of wait also depends on the state of its actor",
        ),
        (lambda: trained.map("a", cache=3), TypeError, "cache takes the path of"),
        (lambda: trained.map("a", version="1"), ValueError, "set cache=, the folder"),
        (lambda: trained.map("a", cache=runs, version=1.5), TypeError, "version takes"),
        (
            lambda: trained.map("a", cache=runs, version=True),
            TypeError,
            "version takes",
        ),
        (lambda: trained.map("a", cache=runs, version=""), ValueError, "version takes"),
        (
            lambda: trained.map("a", cache=runs.parent / "file"),
            NotADirectoryError,
            "file is not a folder",
        ),
        (
            lambda: actorlib.remote(lambda x: x).map("a", cache=runs),
            TypeError,
            "write it with def",
        ),
        (
            lambda: outer([1, object()]).map("a", cache=runs),
            TypeError,
            r"it uses captured\[1\] of the function around it, which is of the type",
        ),
    ):
        with pytest.raises(error, match=match):
            call()
    assert await outer([1, object()]).map("a", cache=runs, version="1")
