"""Code that forks the process of an actor or a function, and what the fork may do."""

from __future__ import annotations

import atexit
import multiprocessing
import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import actorlib

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from actorlib import ActorHandle

LEFT = 7
"""What a fork exits with that has done what it should."""


def come_back() -> int:
    return 1


def fail() -> int:
    raise LookupError("in the fork")


def leave() -> int:
    sys.exit(LEFT)


def run_a_program() -> int:
    assert subprocess.run(["true"], check=True).returncode == 0
    return leave()


def run_a_process() -> int:
    """Starts a process of multiprocessing, which is a fork of the fork."""
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    process = context.Process(target=queue.put, args=("here",))
    process.start()
    assert queue.get() == "here"
    process.join()
    assert process.exitcode == 0
    return leave()


def call_an_actor(handle: ActorHandle[Any]) -> int:
    """Is refused what is the worker's to do."""
    try:
        handle.pid.remote()
    except RuntimeError:
        return leave()
    return come_back()


def wait_for_an_answer(ref: Any) -> int:
    """Is refused an answer that goes to the worker."""
    for wait in (ref.get, lambda: actorlib.wait([ref], timeout=60).get()):
        try:
            wait()
        except RuntimeError:
            continue
        return come_back()
    return leave()


def wait_in_a_fork(handle: ActorHandle[Any]) -> int:
    """Has a fork wait for an answer that does not come before the fork has ended."""
    folder = Path(tempfile.mkdtemp())
    fifo = folder / "fifo"
    os.mkfifo(fifo)
    ref = handle.read.remote(str(fifo))
    pid = fork()
    if not pid:
        return wait_for_an_answer(ref)
    code = code_of(pid)
    fifo.write_text("go on", encoding="utf-8")
    actorlib.get(ref)
    fifo.unlink()
    folder.rmdir()
    return code


def sockets() -> set[str]:
    """The sockets that are open here, by names that hold for all processes."""
    links = {path.resolve().name for path in Path("/proc/self/fd").iterdir()}
    return {link for link in links if link.startswith("socket:")}


WAYS = {
    "return": (come_back, 0),
    "error": (fail, 1),
    "exit": (leave, LEFT),
    "subprocess": (run_a_program, LEFT),
    "multiprocessing": (run_a_process, LEFT),
}
"""What a fork does, and the exit code that this stands for."""


def fork() -> int:
    """As ``os.fork``; the worker may have more than one thread."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def code_of(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def fork_that(way: str) -> int:
    """Forks; gives the exit code of the fork."""
    pid = fork()
    return code_of(pid) if pid else WAYS[way][0]()


class _Forking:
    """Forks, and counts so that a call that was served twice is seen.

    Args:
        way: What a fork of the constructor does, if there is one.
        path: Where its end is noted.
    """

    def __init__(self, way: str = "", path: str = "") -> None:
        self.count = 0
        if path:
            atexit.register(note, path)
        self.code = fork_that(way) if way else 0

    def made(self) -> int:
        return self.code

    def pid(self) -> int:
        return os.getpid()

    def add(self) -> tuple[int, int]:
        self.count += 1
        return self.count, os.getpid()

    def fork(self, way: str) -> int:
        return fork_that(way)

    def call_in_fork(self, handle: ActorHandle[Any]) -> int:
        pid = fork()
        return code_of(pid) if pid else call_an_actor(handle)

    def read(self, path: str) -> str:
        return Path(path).read_text(encoding="utf-8")

    def wait_in_fork(self, handle: ActorHandle[Any]) -> int:
        return wait_in_a_fork(handle)

    def yield_in_fork(self) -> Iterator[int]:
        pid = fork()
        yield code_of(pid) if pid else 5

    def warned(self) -> int:
        """How often a script here sees what Python says of a fork beside threads."""
        said = "This process (pid=1) is multi-threaded, use of fork() may lead to ..."
        with warnings.catch_warnings(record=True) as seen:
            warnings.warn_explicit(said, DeprecationWarning, "script.py", 1, "__main__")
        return len(seen)

    def shared_sockets(self) -> int:
        before, pid = sockets(), fork()
        if not pid:
            sys.exit(len(sockets() & before))
        return code_of(pid)

    def call_often(self, handle: ActorHandle[Any], times: int) -> list[int]:
        return [actorlib.get(handle.add.remote())[0] for _ in range(times)]


def note(path: str) -> None:
    with open(path, "a") as file:  # noqa: PTH123  # in the actor
        file.write(f"{os.getpid()}\n")


Serial = actorlib.remote(_Forking)


@actorlib.remote(max_concurrency=2)
class Threaded(_Forking):
    pass


@actorlib.remote
class Looped(_Forking):
    async def fork_on_the_loop(self, way: str) -> int:
        pid = fork()
        if pid:
            return code_of(pid)
        if way == "await":
            import asyncio  # noqa: PLC0415  # what an async method has

            await asyncio.futures.Future(loop=self.loop)
        return WAYS[way][0]()

    async def meet(self) -> None:
        import asyncio  # noqa: PLC0415  # likewise

        self.loop = asyncio.get_running_loop()

    async def yield_on_the_loop(self) -> AsyncIterator[int]:
        pid = fork()
        yield code_of(pid) if pid else 5


@actorlib.remote
def function_that(way: str) -> int:
    return fork_that(way)


@actorlib.remote
def wait_in_fork(handle: ActorHandle[Any]) -> int:
    return wait_in_a_fork(handle)


@actorlib.remote
def same(number: int) -> int:
    return number
