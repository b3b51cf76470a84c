"""Gives a forked child's event loop descriptors of its own.

After a fork, the parent's loop and the child's copy share one selector in the kernel. A
child that leaves by ``sys.exit`` closes its copy, which unregisters the parent's
descriptors too, its wake-up among them: no thread could wake the parent's loop again.
So the child gets a selector and wake-ups of its own under the same numbers. It watches
nothing else of what the parent watches.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import re
import select
import signal
import socket
from collections import deque
from typing import Any, cast


def detach_loop(loop: asyncio.AbstractEventLoop) -> None:
    """Gives a loop a selector of its own, in a forked child; harmless if it is closed.

    Args:
        loop: The copy of the parent's loop, asyncio's or uvloop's.
    """
    if loop.is_closed() or not hasattr(select, "epoll"):
        return  # kqueue's are not inherited
    with contextlib.suppress(ValueError):  # a thread that became the main one may
        signal.set_wakeup_fd(-1)
    own = select.epoll()
    try:
        shared = _selector_of(loop)
        for wakeup in _new_wakeups(loop, shared):
            own.register(wakeup, select.EPOLLIN)
        os.dup2(own.fileno(), shared, inheritable=False)
    finally:
        own.close()


def drop_callbacks(loop: asyncio.AbstractEventLoop) -> None:
    """Drops a loop's pending callbacks, in a forked child: the parent calls them."""
    # uvloop has no attribute for its queue.
    held = vars(loop).values() if hasattr(loop, "__dict__") else gc.get_referents(loop)
    for queue in held:
        if isinstance(queue, deque):
            cast("deque[object]", queue).clear()


def let_task_end(task: asyncio.Task[Any] | None) -> None:
    """Lets the task that runs end its loop by ``SystemExit``, in a forked child.

    asyncio forgets in a fork which loop and which task run. From Python 3.14 on a task
    then ends with a ``RuntimeError`` in place of ``SystemExit``, which does not stop
    the loop, and the child waits for ever. Harmless where this is not a fork.

    Args:
        task: The copy of the parent's task, in which this is called.
    """
    if task is None or asyncio._get_running_loop() is not None:  # noqa: SLF001  # the other one raises
        return
    loop = task.get_loop()
    asyncio._set_running_loop(loop)  # noqa: SLF001  # as a loop does
    if asyncio.current_task(loop) is None:
        asyncio.tasks._enter_task(loop, task)  # noqa: SLF001  # as a task does


def _selector_of(loop: asyncio.AbstractEventLoop) -> int:
    known: Any = loop
    if hasattr(known, "_get_backend_id"):  # uvloop
        return int(known._get_backend_id())  # noqa: SLF001  # nothing public tells
    return int(known._selector.fileno())  # noqa: SLF001  # likewise


def _new_wakeups(loop: asyncio.AbstractEventLoop, selector: int) -> list[int]:
    """Replaces what threads and signals wake a loop by; returns the ends it reads."""
    known: Any = loop
    if hasattr(known, "_ssock"):  # asyncio's
        read, write = known._ssock, known._csock  # noqa: SLF001  # likewise
        _replace(read, write)
        return [read.fileno()]
    # On the main thread uvloop has sockets too, for signals; a child gets none.
    pair = [held for held in gc.get_referents(loop) if isinstance(held, socket.socket)]
    if len(pair) == 2:
        _replace(*pair)
    events = [fd for fd in _watched(selector) if _is_event(fd)]
    for fd in events:
        fresh = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        os.dup2(fresh, fd, inheritable=False)
        os.close(fresh)
    return events


def _replace(one: socket.socket, other: socket.socket) -> None:
    """Puts a new pair of sockets behind the numbers of one."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)  # noqa: FBT003  # the socket API
        theirs.setblocking(False)  # noqa: FBT003
        os.dup2(ours.fileno(), one.fileno(), inheritable=False)
        os.dup2(theirs.fileno(), other.fileno(), inheritable=False)


def _watched(selector: int) -> list[int]:
    with open(f"/proc/self/fdinfo/{selector}", encoding="ascii") as told:  # noqa: PTH123  # a file of the kernel's
        return [int(fd) for fd in re.findall(r"(?m)^tfd: *(\d+)", told.read())]


def _is_event(fd: int) -> bool:
    with contextlib.suppress(OSError):
        link = os.readlink(f"/proc/self/fd/{fd}")  # noqa: PTH115  # no pathlib in workers
        return link == "anon_inode:[eventfd]"
    return False
