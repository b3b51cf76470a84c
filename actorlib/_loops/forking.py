"""Detaches a forked child's event loop from its parent's descriptors.

After a fork, the parent's loop and the child's copy share one selector in the kernel. A
child that leaves by ``sys.exit`` closes its copy, which unregisters the parent's
descriptors too, including its wake-up: no thread could wake the parent's loop again.
So the child gets a separate selector and separate wake-ups under the same numbers. It
watches no other descriptor of the parent.
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
    """Replaces the selector of a loop, in a forked child; harmless if it is closed."""
    if loop.is_closed() or not hasattr(select, "epoll"):
        return  # kqueue descriptors are not inherited
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
    values = (
        vars(loop).values() if hasattr(loop, "__dict__") else gc.get_referents(loop)
    )
    for queue in values:
        if isinstance(queue, deque):
            cast("deque[object]", queue).clear()


def let_task_end(task: asyncio.Task[Any] | None) -> None:
    """Lets the running task end its loop by ``SystemExit``, in a forked child.

    asyncio forgets in a fork which loop and which task run. From Python 3.14 on a task
    then ends with a ``RuntimeError`` in place of ``SystemExit``, which does not stop
    the loop, and the child waits for ever. Harmless outside a fork.
    """
    if task is None or asyncio._get_running_loop() is not None:  # noqa: SLF001  # get_running_loop() raises
        return
    loop = task.get_loop()
    asyncio._set_running_loop(loop)  # noqa: SLF001  # as a loop does
    if asyncio.current_task(loop) is None:
        asyncio.tasks._enter_task(loop, task)  # noqa: SLF001  # as a task does


def _selector_of(loop: asyncio.AbstractEventLoop) -> int:
    any_loop: Any = loop
    if hasattr(any_loop, "_get_backend_id"):  # uvloop
        return int(any_loop._get_backend_id())  # noqa: SLF001  # no public way
    return int(any_loop._selector.fileno())  # noqa: SLF001  # no public way


def _new_wakeups(loop: asyncio.AbstractEventLoop, selector: int) -> list[int]:
    """Replaces the wake-ups of threads and signals; returns the ends that it reads."""
    any_loop: Any = loop
    if hasattr(any_loop, "_ssock"):  # asyncio
        read, write = any_loop._ssock, any_loop._csock  # noqa: SLF001  # no public way
        _replace(read, write)
        return [read.fileno()]
    # On the main thread uvloop has sockets too, for signals; a child gets none.
    pair = [each for each in gc.get_referents(loop) if isinstance(each, socket.socket)]
    if len(pair) == 2:
        _replace(*pair)
    events = [fd for fd in _watched(selector) if _is_event(fd)]
    for fd in events:
        fresh = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        os.dup2(fresh, fd, inheritable=False)
        os.close(fresh)
    return events


def _replace(one: socket.socket, other: socket.socket) -> None:
    """Puts a new pair of sockets behind the descriptors of an old one."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)  # noqa: FBT003  # the socket API
        theirs.setblocking(False)  # noqa: FBT003
        os.dup2(ours.fileno(), one.fileno(), inheritable=False)
        os.dup2(theirs.fileno(), other.fileno(), inheritable=False)


def _watched(selector: int) -> list[int]:
    with open(f"/proc/self/fdinfo/{selector}", encoding="ascii") as info:  # noqa: PTH123  # a file of the kernel
        return [int(fd) for fd in re.findall(r"(?m)^tfd: *(\d+)", info.read())]


def _is_event(fd: int) -> bool:
    with contextlib.suppress(OSError):
        link = os.readlink(f"/proc/self/fd/{fd}")  # noqa: PTH115  # no pathlib in workers
        return link == "anon_inode:[eventfd]"
    return False
