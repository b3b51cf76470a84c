"""Runs a worker from its first frame to its exit code, forked or spawned.

Spawned, it is ``python -m actorlib._worker FD`` with one end of the pipe as the
inherited descriptor FD. Forked, the template calls ``run_worker`` in the child.
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import os
import socket
import sys
import traceback
from typing import TYPE_CHECKING, NoReturn

from actorlib._shm.memory import SharedMemory
from actorlib._wire.blocking_channel import BlockingChannel
from actorlib._wire.codec import FrameDecoder
from actorlib._wire.fd_passing import SegmentSharing
from actorlib._worker.features import (
    attach_to_process_and_forks,
    load_features,
    refusal,
)
from actorlib._worker.features import import_parts as import_features
from actorlib._worker.os_process import ProcessTitle, code_of, exit_process
from actorlib._worker.startup import prepare, read_start
from actorlib.exceptions import EnforcementRefused

if TYPE_CHECKING:
    from collections.abc import Callable

    from actorlib._wire.actor_config import ActorConfig
    from actorlib._worker.startup import Start


PARTS = (
    "ssl",  # in small steps: asyncio takes the longest
    "subprocess",
    "asyncio",
    "actorlib._core.runtime_context",
    "actorlib._wire.batches",
    "actorlib._worker.requests.actor_calls",
    "actorlib._worker.requests.actor_creation",
    "actorlib._worker.links.incoming_links",
    "actorlib._worker.requests.objects",
    "actorlib._worker.links.outgoing_links",
    "actorlib._worker.requests.pending",
    "actorlib._worker.requests.placement_groups",
    "actorlib._worker.requests.task_calls",
)
"""What workers import when something asks for it."""


def import_parts() -> None:
    """Imports what only some workers need: in the template, and where it is time."""
    for name in PARTS:
        importlib.import_module(name)
    import_features()


class WarmWorker:
    """Holds what a worker begins with; the template makes one, for all its forks.

    Args:
        title: Shows what the process is; None where it is another's, as in rehearsals.
    """

    def __init__(self, title: ProcessTitle | None = None) -> None:
        self.title = title
        self.sharing = SegmentSharing(SharedMemory())
        self.decoder = FrameDecoder(self.sharing)


def run_worker(sock: socket.socket, warm: WarmWorker) -> NoReturn:
    """Serves one actor to its end and leaves the process.

    Args:
        sock: The worker's end of the pipe.
        warm: What no other worker of this process has begun with.
    """
    exit_process(exit_code_of(lambda: serve(sock, warm)))


def exit_code_of(serve: Callable[[], None]) -> int:
    """Serves one actor to its end; gives the exit code of the worker.

    Args:
        serve: Serves it.
    """
    try:
        serve()
    except EOFError:
        return 0  # the owner is gone: nobody is left to be told anything
    except SystemExit as error:
        return code_of(error)
    except BaseException:  # noqa: BLE001  # the last frame of the actor
        traceback.print_exc()
        return 1
    return 0


def flush_each_line() -> None:
    """Makes output appear line by line, and a segfault leave a Python traceback.

    Lines are what the owner shows, and what an actor's last words are made of.
    """
    with contextlib.suppress(AttributeError, ValueError):
        sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # pyright: ignore  # noqa: PGH003  # a plain text stream
    with contextlib.suppress(RuntimeError, ValueError, OSError):
        faulthandler.enable()


def serve(sock: socket.socket, warm: WarmWorker) -> None:
    """Serves one actor to its end.

    Args:
        sock: The worker's end of the pipe.
        warm: What no other worker of this process has begun with.

    Raises:
        BaseException: What ended it; EOFError if that was the owner's end.
    """
    try:
        _run_actor(BlockingChannel(sock, warm.sharing, warm.decoder), warm.title)
    finally:
        warm.sharing.close()


def _run_actor(pipe: BlockingChannel, title: ProcessTitle | None) -> None:
    start = read_start(pipe.receive_first()[0])
    # Ours is imported first: the actor's ``sys.path`` may have files of the same names.
    serve = _executor_of(start.config)
    if list(start.config.path) != sys.path:
        import_parts()
    features = load_features(start.config.features)
    prepare(start)
    if title is not None:
        title.show(f"actorlib: {start.label}")
    try:
        for prepare_feature in features:
            prepare_feature()
    except EnforcementRefused as error:
        pipe.send(refusal(error, f"{start.label}()"))
        raise SystemExit(1) from error
    serve(start, pipe)


def _executor_of(config: ActorConfig) -> Callable[[Start, BlockingChannel], None]:
    """Gives what serves an actor, with its modules imported."""
    if config.runs_functions:
        from actorlib._worker.executors import task_executor  # noqa: PLC0415  # likewise

        return task_executor.serve
    if config.is_async:
        from actorlib._loops.loop_thread import new_loop  # noqa: PLC0415  # likewise
        from actorlib._worker.executors import async_executor  # noqa: PLC0415  # serial actors never load it

        return lambda start, pipe: async_executor.serve(start, pipe, new_loop())
    if config.limits:
        from actorlib._worker.executors import threaded_executor  # noqa: PLC0415

        return threaded_executor.serve
    from actorlib._worker.executors import serial_executor  # noqa: PLC0415

    return serial_executor.serve


if __name__ == "__main__":
    flush_each_line()
    attach_to_process_and_forks()
    os.set_inheritable(int(sys.argv[1]), False)  # noqa: FBT003  # the os API
    run_worker(socket.socket(fileno=int(sys.argv[1])), WarmWorker(ProcessTitle()))
