"""What a worker writes of its tasks, while one of them runs and others wait."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from typing import Any

from actorlib._features.stacks.worker_tasks import write_tasks


def written(stack: Any) -> dict[str, dict[str, Any]]:
    """The tasks that are written, by name."""
    reader, writer = os.pipe()
    try:
        write_tasks(writer, stack)
        told = json.loads(os.read(reader, 1 << 16))
    finally:
        os.close(reader)
        os.close(writer)
    assert (told["pid"], told["left_out"]) == (os.getpid(), 0)
    return {task["name"]: task for task in told["tasks"]}


def functions(task: Any) -> list[str]:
    return [function for _, _, function in task["frames"]]


def test_tasks_when_one_runs_then_what_it_has_called_and_what_others_await() -> None:
    async def wait(event: asyncio.Event) -> None:
        await event.wait()

    def look() -> dict[str, dict[str, Any]]:
        return written(sys._getframe())

    async def main() -> dict[str, dict[str, Any]]:
        event = asyncio.Event()
        waiter = asyncio.create_task(wait(event), name="waits")
        await asyncio.sleep(0)
        asyncio.current_task().set_name("runs")  # type: ignore[union-attr]  # there is one
        told = look()
        event.set()
        await waiter
        return told

    told = asyncio.run(main())

    assert functions(told["runs"]) == ["main", "look"]
    assert functions(told["waits"]) == ["wait", "wait"]
    assert (told["runs"]["is_running"], told["waits"]["is_running"]) == (True, False)
    assert told["waits"]["coroutine"].endswith("wait")
    assert (told["waits"]["method"], told["waits"]["call"]) == ("", "")


def test_tasks_when_a_loop_runs_on_another_thread_then_those_too() -> None:
    began, may_end = threading.Event(), threading.Event()

    async def main() -> None:
        asyncio.current_task().set_name("afar")  # type: ignore[union-attr]  # there is one
        began.set()
        may_end.wait()

    thread = threading.Thread(target=lambda: asyncio.run(main()))
    thread.start()
    began.wait()
    told = written(None)
    may_end.set()
    thread.join()

    assert functions(told["afar"]) == ["main"]
    assert told["afar"]["is_running"]


def test_tasks_when_no_loop_runs_then_none() -> None:
    assert written(None) == {}
