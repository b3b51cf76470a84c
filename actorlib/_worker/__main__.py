"""Runs a worker from its first frame to its exit code, forked or spawned.

A spawned worker is ``python -m actorlib._worker FD``, where FD is the inherited
descriptor of its end of the pipe. In a forked worker the template calls ``run_worker``.
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
    from asyncio import AbstractEventLoop
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
"""Modules that a worker imports when it needs them."""


def import_parts() -> None:
    """Imports the modules that only some workers need; the template does so ahead."""
    for name in PARTS:
        importlib.import_module(name)
    import_features()


class WarmWorker:
    """Holds the memory and the decoder that a worker begins with.

    The template creates one for all its forks. A rehearsal of the template shows no
    title.
    """

    def __init__(self, title: ProcessTitle | None = None) -> None:
        self.title = title
        self.sharing = SegmentSharing(SharedMemory())
        self.decoder = FrameDecoder(self.sharing)


def run_worker(sock: socket.socket, warm: WarmWorker) -> NoReturn:
    """Serves one actor until it ends, then exits the process."""
    exit_process(exit_code_of(lambda: serve(sock, warm)))


def exit_code_of(serve: Callable[[], None]) -> int:
    """Runs a worker until it ends; returns the exit code."""
    try:
        serve()
    except EOFError:
        return 0  # the owner is gone
    except SystemExit as error:
        return code_of(error)
    except BaseException:  # noqa: BLE001  # the last frame of the actor
        traceback.print_exc()
        return 1
    return 0


def flush_each_line() -> None:
    """Flushes output line by line, and enables Python tracebacks of segfaults.

    The owner shows output by lines, and reports the last lines of an actor that died.
    """
    with contextlib.suppress(AttributeError, ValueError):
        sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # pyright: ignore  # noqa: PGH003  # a plain text stream
    with contextlib.suppress(RuntimeError, ValueError, OSError):
        faulthandler.enable()


def serve(sock: socket.socket, warm: WarmWorker) -> None:
    """Serves one actor until it ends; no other worker of this process uses ``warm``."""
    try:
        _run_actor(BlockingChannel(sock, warm.sharing, warm.decoder), warm.title)
    finally:
        warm.sharing.close()


def _run_actor(pipe: BlockingChannel, title: ProcessTitle | None) -> None:
    start = read_start(pipe.receive_first()[0])
    # actorlib is imported first: the actor's ``sys.path`` may have files of the same
    # names.
    serve = serve_function_of(start.config)
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


def serve_function_of(
    config: ActorConfig, make_loop: Callable[[], AbstractEventLoop] | None = None
) -> Callable[[Start, BlockingChannel], None]:
    """Returns the ``serve`` function of the executor of a worker.

    The function raises the reason of the worker's end: EOFError if the owner is gone,
    SystemExit if the constructor raised, which the owner knows, or an error of the
    user's code that is not an ``Exception``.

    ``make_loop`` creates its event loop if it needs one; None for the usual loop.
    """
    if config.runs_functions and not config.is_async:
        from actorlib._worker.executors import task_executor  # noqa: PLC0415  # on demand

        return task_executor.serve
    if config.is_async:
        from actorlib._loops.loop_thread import new_loop  # noqa: PLC0415  # on demand
        from actorlib._worker.executors import async_executor, async_functions  # noqa: PLC0415  # serial actors never load them

        serve_all = (async_functions if config.runs_functions else async_executor).serve
        make_loop = make_loop or new_loop
        return lambda start, pipe: serve_all(start, pipe, make_loop())
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
