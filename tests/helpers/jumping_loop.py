"""An event loop for tests whose clock jumps over the time in which nothing happens.

Time goes on as it does elsewhere, but for this: when the loop has nothing to do before
its next timer, no thread of this process works, and nothing is under way between them,
the clock is set to that timer. So a backoff of a minute takes a test no time, and what
a thread does takes the time that it takes: whoever would have been first is first.

Guarantees: the clock never jumps while a thread runs, waits for the interpreter's lock,
or waits for anything but another thread of this process or a loop of this kind, nor
while this process has a child. What
cannot be seen to be at rest is at work, and then time passes as it does.

How it is known: Linux says of every thread whether it sleeps and how often it has gone
to sleep. All slept, twice in a row and as often as before, so none ran in between, and
none waited for the interpreter's lock, which is offered with each look. Then the line
of Python where each of them stands says what it waits for.

Ways rejected: to count what is under way at each place where a thread is given work, as
one forgotten place makes tests fail at random; and a clock that stands still between
jumps, as the code that is tested measures its own work.
"""

from __future__ import annotations

import asyncio
import os
import selectors
import sys
import threading
import time
import weakref
from typing import TYPE_CHECKING, Any, final

from actorlib._worker.executors.loop_watchdog import WatchThread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import FrameType

_FIRST_LOOK = 0.0005
_LAST_LOOK = 0.008
_real = time.monotonic
_skipped = 0.0
_loops: dict[int, weakref.ref[JumpingLoop]] = {}
"""By id: threads make loops while others look at all, which a WeakSet does not bear."""
_left_alone: weakref.WeakSet[threading.Thread] = weakref.WeakSet()
"""Threads that may wait for ever: their worker is dead."""


def now() -> float:
    """The time, with all that was jumped over; what ``time.monotonic`` says here."""
    return _real() + _skipped


def leave_alone(threads: Iterable[threading.Thread]) -> None:
    """Does not ask any more what these threads wait for, if they do."""
    for thread in threads:
        _left_alone.add(thread)


@final
class JumpingLoop(asyncio.SelectorEventLoop):
    """Asyncio's own loop with that clock.

    While the first of them is open ``time.monotonic`` is that clock too.

    Args:
        is_of_test: Whether it is the test's, which decides when to jump; else it is one
            of a worker, which only says until when it rests.
    """

    def __init__(self, *, is_of_test: bool = True) -> None:
        # What is there now is not the test's, or rests until the test asks something.
        self._strangers = set(threading.enumerate()) if is_of_test else None
        selector = _RestingSelector()
        super().__init__(selector)
        selector.loop = weakref.ref(self)
        self.rests_until: float | None = None
        _loops[id(self)] = weakref.ref(self)
        time.monotonic = now

    def time(self) -> float:
        """The time of that clock."""
        return now()

    def close(self) -> None:
        """Closes it; see asyncio."""
        super().close()
        _loops.pop(id(self), None)
        if not any(loop.is_of_test for loop in _living_loops()):
            time.monotonic = _real

    @property
    def is_of_test(self) -> bool:
        """Whether it decides when to jump."""
        return self._strangers is not None

    def wake(self) -> None:
        """Has it look at the clock again; from any thread."""
        if not self.is_closed():
            self._write_to_self()  # type: ignore[attr-defined]

    def rest(
        self, poll: Callable[[float | None], list[Any]], due: float | None
    ) -> list[Any]:
        """Waits for what comes, or until a time of the clock, which may be jumped to.

        Args:
            poll: Waits for so many real seconds.
            due: The time; None for never.
        """
        if not self.is_of_test:
            self.rests_until = due
            return poll(None if due is None else max(0.0, due - now()))
        look = _FIRST_LOOK
        while True:
            left = None if due is None else due - now()
            if left is not None and left <= 0:
                return poll(0)
            if self._next_due(due) is None:
                # A worker's loop may come to rest later, until some time.
                if found := poll(_LAST_LOOK):
                    return found
                continue
            next_due = self._due_if_all_rest(due)
            if next_due is not None:
                if found := poll(0):
                    return found
                _jump_to(next_due)
                continue
            if found := poll(look if left is None else min(look, left)):
                return found
            look = min(2 * look, _LAST_LOOK)

    def _next_due(self, due: float | None) -> float | None:
        others = (loop for loop in _living_loops() if loop is not self)
        dues = [due, *(loop.rests_until for loop in others)]
        return min((when for when in dues if when is not None), default=None)

    def _due_if_all_rest(self, due: float | None) -> float | None:
        """When the first of all wakes if all are at rest; None if one is at work."""
        before = self._sleepers()
        # Read between two looks that find it asleep: who wakes takes its own time away,
        # and what is left may be the end of the test.
        next_due = self._next_due(due)
        if before is None or before != self._sleepers():
            return None
        me, frames = threading.get_ident(), sys._current_frames()  # pyright: ignore[reportPrivateUsage]  # what it is for
        # This one's own frame holds them: all of them, and what workers have let go,
        # would live until garbage is collected.
        frames.pop(me, None)
        are_at_rest = all(
            _is_at_rest(frames.get(thread.ident or 0))
            for thread in threading.enumerate()
            if thread.ident != me
            and thread not in (self._strangers or ())
            and thread not in _left_alone
        ) and not any(map(_has_children, before))
        return next_due if are_at_rest else None

    @staticmethod
    def _sleepers() -> dict[str, bytes] | None:
        """How often each other thread has gone to sleep; None if one is awake."""
        found: dict[str, bytes] = {}
        me = str(threading.get_native_id())
        try:
            numbers = os.listdir("/proc/self/task")  # noqa: PTH208  # quick
        except FileNotFoundError:
            return None  # no Linux: time passes as it does
        for number in numbers:
            try:
                with open(f"/proc/self/task/{number}/status", "rb") as file:  # noqa: PTH123  # quick
                    told = file.read()
            except (FileNotFoundError, ProcessLookupError):
                return None  # it has just ended
            if number == me:
                found[number] = b""
                continue
            if b"\nState:\tS" not in told:
                return None
            found[number] = told[told.index(b"voluntary_ctxt_switches") :]
        return found


@final
class _RestingSelector(selectors.DefaultSelector):
    """What the loop waits with: it rests where it would wait."""

    loop: weakref.ref[JumpingLoop]

    def select(self, timeout: float | None = None) -> list[Any]:
        """Waits for what comes; see selectors."""
        loop = self.loop()
        if loop is None or (timeout is not None and timeout <= 0):
            return super().select(timeout)
        due = None if timeout is None else now() + timeout
        try:
            return loop.rest(super().select, due)
        finally:
            loop.rests_until = None


def _living_loops() -> list[JumpingLoop]:
    found = (ref() for ref in list(_loops.values()))
    return [loop for loop in found if loop is not None]


def _has_children(task: str) -> bool:
    """Whether a thread has started a process, which may be at work."""
    try:
        with open(f"/proc/self/task/{task}/children", "rb") as file:  # noqa: PTH123  # quick
            return bool(file.read(1))
    except (FileNotFoundError, ProcessLookupError):
        return True


def _is_at_rest(frame: FrameType | None) -> bool:
    """Whether who sleeps at this line waits for another thread, with no limit."""
    if frame is None:
        return True  # it has not begun, or has ended
    code = frame.f_code
    path, name = code.co_filename, code.co_name
    for end, function, is_endless in _RESTING:
        if name == function and path.endswith(end):
            return is_endless(frame)
    return False


def _always(_: FrameType) -> bool:
    return True


def _is_endless(frame: FrameType) -> bool:
    if frame.f_locals.get("timeout") is None:
        return True
    # The watch over an actor's loops only asks, now and then, whether they live.
    event = frame.f_back
    watch = event and event.f_back
    return watch is not None and watch.f_code is WatchThread._look.__code__  # pyright: ignore[reportPrivateUsage]  # by its place


_RESTING: tuple[tuple[str, str, Callable[[FrameType], bool]], ...] = (
    (
        "_wire/blocking_channel.py",
        "receive_some",
        lambda frame: not frame.f_locals["self"].read_timeout,
    ),
    ("_inline/launcher.py", "_serve", _always),
    ("helpers/memory_launcher.py", "_serve", _always),
    (
        "_worker/requests/inbox.py",
        "_receive",
        lambda frame: frame.f_locals["seconds"] is None,
    ),
    (
        "_worker/requests/inbox.py",
        "_sleep",
        lambda frame: frame.f_locals["seconds"] is None,
    ),
    ("_worker/executors/group_threads.py", "_work", _always),
    ("concurrent/futures/thread.py", "_worker", _always),
    ("helpers/actors.py", "stop_here", _always),
    (
        "/selectors.py",
        "select",
        lambda frame: (
            frame.f_back is not None
            and frame.f_back.f_code is JumpingLoop.rest.__code__
        ),
    ),
    ("/threading.py", "wait", _is_endless),
    ("/threading.py", "join", _is_endless),  # from Python 3.13 on
    (
        "/threading.py",
        "_wait_for_tstate_lock",
        lambda frame: frame.f_locals["timeout"] == -1,
    ),
)
"""Where a thread waits and does not work: file, function, and whether without end."""


def _jump_to(when: float) -> None:
    global _skipped  # noqa: PLW0603  # the clock
    _skipped += max(0.0, when - now())
    for loop in _living_loops():
        if not loop.is_of_test:  # it sleeps by the clock as it was
            loop.wake()
