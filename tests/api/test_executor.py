"""``actorlib.Executor``: ``concurrent.futures`` over remote functions."""

from __future__ import annotations

import asyncio
import os
import threading
from concurrent import futures
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio
from helpers.actors import running
from helpers.executed import (
    count_up_to,
    double,
    end_process,
    fail,
    gpus,
    is_imported,
    make_executor,
    wait_for,
)
from helpers.marks import USES_RUNTIME, in_processes
from helpers.program_runner import printed_by

import actorlib
from actorlib.exceptions import TaskUnschedulableError, WorkerCrashedError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from actorlib import Runtime

pytestmark = in_processes()

OPTIONS: Any = {"num_cpus": 2, "num_gpus": 1, "preload": ["helpers.executed"]}


@pytest.fixture(scope="module")
def runtime_options() -> Any:
    return OPTIONS


@pytest_asyncio.fixture(loop_scope="module")
async def executor(runtime: Runtime) -> AsyncIterator[actorlib.Executor]:
    del runtime
    async with actorlib.Executor() as executor:
        yield executor


async def started(path: Path, count: int) -> None:
    """Waits until so many processes wait for a file."""
    while len(list(path.parent.glob(f"{path.name}-*"))) < count:  # noqa: ASYNC110
        await asyncio.sleep(0)


async def test_submit_when_it_has_arguments_then_the_future_has_the_result(
    executor: actorlib.Executor,
) -> None:
    factor = 3
    future = executor.submit(double, 20, and_add=2)
    closure = executor.submit(lambda x: factor * x, 14)
    failing = executor.submit(fail, "no key")

    assert isinstance(future, futures.Future)
    assert await asyncio.wrap_future(future) == 42
    assert await asyncio.wrap_future(closure) == 42
    with pytest.raises(LookupError, match="no key"):
        await asyncio.wrap_future(failing)


@pytest.mark.parametrize(
    ("function", "args"),
    [
        pytest.param(double, (threading.Lock(),), id="argument"),
        pytest.param(threading.Lock, (), id="result"),
        pytest.param(count_up_to, (3,), id="generator"),
        pytest.param(double, (1, 2, 3), id="too many arguments"),
    ],
)
async def test_submit_when_it_cannot_be_sent_then_the_future_raises_type_error(
    executor: actorlib.Executor, function: Any, args: tuple[Any, ...]
) -> None:
    future = executor.submit(function, *args)

    with pytest.raises(TypeError):
        await asyncio.wrap_future(future)
    assert await asyncio.wrap_future(executor.submit(double, 1)) == 2


async def test_submit_when_the_process_dies_then_this_call_alone_fails(
    executor: actorlib.Executor,
) -> None:
    first, second = executor.submit(end_process), executor.submit(double, 1)

    with pytest.raises(WorkerCrashedError):
        await asyncio.wrap_future(first)
    assert await asyncio.wrap_future(second) == 2


async def test_submit_when_several_threads_do_then_each_gets_its_result(
    executor: actorlib.Executor,
) -> None:
    def submit(number: int) -> list[int]:
        every = [executor.submit(double, number * 100 + i) for i in range(20)]
        return [future.result(20) for future in every]

    results = await asyncio.gather(*(asyncio.to_thread(submit, n) for n in range(4)))

    assert results == [[2 * (n * 100 + i) for i in range(20)] for n in range(4)]


async def test_loop_when_it_is_given_the_executor_then_it_runs_there(
    executor: actorlib.Executor,
) -> None:
    pid = await asyncio.get_running_loop().run_in_executor(executor, os.getpid)

    assert pid != os.getpid()


@USES_RUNTIME
async def test_calls_when_more_are_submitted_then_as_many_run_as_max_workers(
    tmp_path: Path,
) -> None:
    path = tmp_path / "go"
    async with actorlib.Executor(max_workers=1) as executor:
        one = executor.submit(wait_for, str(path))
        other = executor.submit(double, 1)
        await started(path, 1)

        assert one.running()
        assert not one.cancel()
        assert not other.running()
        assert other.cancel()
        path.touch()
        assert await asyncio.wrap_future(one) == str(path)
    assert other.cancelled()


@USES_RUNTIME
async def test_executor_when_it_asks_for_a_device_or_module_then_calls_have_it() -> (
    None
):
    async with actorlib.Executor(num_gpus=0.5, preload=["colorsys"]) as executor:
        assert await asyncio.wrap_future(executor.submit(gpus)) == [0]
        assert await asyncio.wrap_future(executor.submit(is_imported, "colorsys"))
    async with actorlib.Executor(num_gpus=4) as executor:
        with pytest.raises(TaskUnschedulableError):
            await asyncio.wrap_future(executor.submit(double, 1))


@pytest.mark.parametrize(
    ("chunksize", "buffersize"), [(1, None), (1, 1), (3, 4), (100, None), (3, 1)]
)
async def test_map_when_it_is_read_then_results_come_in_order(
    executor: actorlib.Executor, chunksize: int, buffersize: int | None
) -> None:
    sizes: Any = {"chunksize": chunksize, "buffersize": buffersize}

    def read() -> list[int]:
        return list(executor.map(pow, range(10), [2] * 20, **sizes))

    failing = executor.map(divmod, [7, 7, 7], [2, 0, 1], **sizes)

    assert await asyncio.to_thread(read) == [n * n for n in range(10)]
    assert chunksize > 1 or await asyncio.to_thread(next, failing) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        await asyncio.to_thread(list, failing)


async def test_map_when_its_sizes_are_given_then_it_reads_no_further(
    executor: actorlib.Executor,
) -> None:
    read = 0

    def numbers() -> Iterator[int]:
        nonlocal read
        for read in range(1, 101):  # noqa: UP028  # read counts
            yield read

    for name in ("chunksize", "buffersize"):
        with pytest.raises(ValueError, match=name):
            executor.map(double, [1], **{name: 0})  # type: ignore[arg-type]
    results = executor.map(double, numbers(), buffersize=5)
    assert read == 5
    assert await asyncio.to_thread(next, results) == 2
    assert read == 6
    results.close()  # type: ignore[attr-defined]


async def test_map_when_a_result_is_late_then_it_raises(
    executor: actorlib.Executor, tmp_path: Path
) -> None:
    path = tmp_path / "go"
    results = executor.map(wait_for, [str(path)], timeout=0.01)

    with pytest.raises(TimeoutError):
        await asyncio.to_thread(next, results)
    path.touch()


@USES_RUNTIME
async def test_shutdown_when_futures_are_to_be_cancelled_then_waiting_ones_are(
    tmp_path: Path,
) -> None:
    path = tmp_path / "go"
    executor = actorlib.Executor(max_workers=1)
    running_one = executor.submit(wait_for, str(path))
    waiting = [executor.submit(double, number) for number in range(3)]
    await started(path, 1)

    executor.shutdown(wait=False, cancel_futures=True)

    assert all(future.cancelled() for future in waiting)
    path.touch()
    assert await asyncio.wrap_future(running_one) == str(path)


@USES_RUNTIME
async def test_shutdown_when_the_loop_is_here_then_it_does_not_wait_for_itself(
    tmp_path: Path,
) -> None:
    path = tmp_path / "go"
    executor = actorlib.Executor()
    future = executor.submit(wait_for, str(path))

    with pytest.raises(RuntimeError, match="async with"):
        executor.shutdown()
    path.touch()
    await asyncio.to_thread(executor.shutdown)
    assert future.done()


@USES_RUNTIME
async def test_submit_when_it_was_shut_down_then_it_refuses() -> None:
    executor = actorlib.Executor()
    executor.shutdown()

    with pytest.raises(RuntimeError, match="after shutdown"):
        executor.submit(double, 1)
    with pytest.raises(RuntimeError, match="after shutdown"):
        executor.map(double, [1])


async def test_runtime_when_it_ends_then_futures_fail_and_submit_refuses(
    tmp_path: Path,
) -> None:
    async with running(**OPTIONS):
        executor = actorlib.Executor(max_workers=1)
        future = executor.submit(wait_for, str(tmp_path / "never"))
        waiting = executor.submit(double, 1)
        await started(tmp_path / "never", 1)

    assert future.exception(10) is not None
    assert waiting.exception(10) is not None
    with pytest.raises(RuntimeError, match="runtime of this executor"):
        executor.submit(double, 1)


async def test_executor_when_made_in_a_worker_then_it_refuses(
    executor: actorlib.Executor,
) -> None:
    with pytest.raises(RuntimeError, match="belongs to the program"):
        await asyncio.wrap_future(executor.submit(make_executor))


@USES_RUNTIME
@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"max_workers": 0}, ValueError),
        ({"max_workers": 1.5}, TypeError),
        ({"preload": "torch"}, TypeError),
        ({"num_gpu": 1}, (TypeError, ValueError)),
    ],
)
async def test_options_when_they_are_wrong_then_they_are_refused(
    options: Any, error: Any
) -> None:
    with pytest.raises(error):
        actorlib.Executor(**options)


async def test_executor_when_no_runtime_runs_then_a_coroutine_is_told() -> None:
    with pytest.raises(RuntimeError, match=r"actorlib\.init\(\)"):
        actorlib.Executor()


async def test_executor_when_a_script_has_no_runtime_then_it_starts_one() -> None:
    printed = await asyncio.to_thread(
        printed_by,
        """
        import actorlib

        with actorlib.Executor(num_cpus=1, max_workers=2) as executor:
            print(executor.submit(pow, 2, 10).result())
            print(list(executor.map(lambda x: x + 1, range(5), chunksize=2)))

        executor = actorlib.Executor(max_workers=1)
        for number in range(3):  # the program waits for its calls before it ends
            executor.submit(pow, number, 2).add_done_callback(
                lambda future: print(future.result(), flush=True)
            )
        """,
    )

    first, second, *others = printed.splitlines()
    assert (first, second) == ("1024", "[1, 2, 3, 4, 5]")
    assert sorted(others) == ["0", "1", "4"]
