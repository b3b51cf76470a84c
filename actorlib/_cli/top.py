"""Shows runtimes and their actors live: ``actorlib top``.

A thread of its own takes each sample, so that keys work while a runtime does not
answer. ``--json`` prints a ``Watched`` per line.
"""

from __future__ import annotations

import queue
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, NamedTuple, final

from actorlib._base.value import dataclass
from actorlib._cli.device_meters import DeviceMeter, DeviceMeters
from actorlib._cli.listing import (
    DOCUMENT,
    RuntimeRow,
    ask_runtimes,
    busyness,
    cpu_times,
    list_runtimes,
    memory_of,
)
from actorlib._cli.pages import console, write_document
from actorlib._cli.terminal import ENDING, Terminal
from actorlib._cli.top_figures import (
    History,
    Rates,
    Sample,
    rates_between,
)
from actorlib._cli.top_screen import Screen, keys_in, pressed
from actorlib._queries.client import find_runtimes
from actorlib._queries.rows import Status
from actorlib.accelerators import Host
from actorlib.exceptions import RuntimeNotFoundError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console
    from rich.live import Live

_FEW = 40
"""The most processes for which PSS is read in each sample: that takes 1 ms each."""
_SHARE = 10
"""At most a tenth of the time is spent on queries, to keep the load of owners low."""
_LONGEST_REST = 5.0
"""The longest pause between two samples in seconds, even if the machine is busy."""
_LATE = 2.0
"""Seconds after which the page reports that it waits for a sample."""
_MOST_REMARKS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """One sample.

    Attributes:
        time: Its time, in seconds since the epoch.
        runtimes: The runtimes.
        calls_per_second: Calls of actors since the sample before, by the id of the
            actor. Calls over links do not count.
        runtime_calls_per_second: The same, by the pid of a runtime.
        devices: The load of each card of this machine; empty if no runtime has any.
    """

    time: float
    runtimes: tuple[RuntimeRow, ...]
    calls_per_second: dict[str, float]
    runtime_calls_per_second: dict[str, float]
    devices: tuple[DeviceMeter, ...]


class _Before(NamedTuple):
    """The part of the sample before that rates are computed from."""

    at: float
    statuses: list[Status]
    cpu: dict[int, float]


@final
class Sampler:
    """Samples runtimes; for one thread at a time.

    Args:
        pid: The process of one runtime; None for all of this user.
    """

    def __init__(self, pid: int | None) -> None:
        self._pid = pid
        self._meters = DeviceMeters(Host())
        self._before: _Before | None = None
        self._history = History()
        self._remarks: list[str] = []
        self._names: dict[int, str] = {}

    def take(self) -> Sample:
        """Returns a new sample.

        Raises:
            RuntimeNotFoundError: There is no such runtime, or all have ended.
            RuntimeUnreachableError: It belongs to another user.
        """
        began = time.monotonic()
        try:
            replies = ask_runtimes(find_runtimes(self._pid))
        except RuntimeNotFoundError:
            if not self._names:
                raise
            raise RuntimeNotFoundError(
                "; ".join(f"{who} has ended" for who in self._names.values())
            ) from None
        at, cpu, before = time.monotonic(), cpu_times(replies), self._before
        answers = (reply.answer for reply in replies)
        statuses = [answer for answer in answers if isinstance(answer, Status)]
        busy, rates = dict[int, float](), Rates({}, {})
        if before is not None:
            busy = busyness(before.cpu, cpu, at - before.at)
            rates = rates_between(before.statuses, statuses, at - before.at)
        memory = memory_of(replies, _FEW)
        listing = list_runtimes(replies, memory, busy, rates.actors)
        self._note_ended(listing.runtimes)
        self._history.add(rates, self._names)
        devices = (d for runtime in listing.runtimes for d in runtime.snapshot.devices)
        has_cards = any(not device.is_logical for device in devices)
        meters = self._meters.look() if has_cards else []
        self._before = _Before(at, statuses, cpu)
        # Waiting for a runtime that does not answer costs it nothing.
        took = at - began if len(statuses) == len(replies) else 0.0
        rest = min(_SHARE * took, _LONGEST_REST)
        history = self._history.copy()
        return Sample(listing, rates, history, meters, [*self._remarks], rest)

    def _note_ended(self, runtimes: Sequence[RuntimeRow]) -> None:
        present = {
            runtime.pid: f"pid {runtime.pid} ({runtime.program!r})"
            for runtime in runtimes
        }
        gone = [who for pid, who in self._names.items() if pid not in present]
        self._remarks += [f"{who} has ended" for who in gone]
        del self._remarks[:-_MOST_REMARKS]
        self._names = present


def show(
    *,
    is_page: bool,
    host: str | None,
    port: int | None,
    pid: int | None,
    as_json: bool,
    is_once: bool,
    **options: Any,
) -> int:
    """Shows runtimes in the terminal, or serves the page of one of them.

    Returns:
        The exit code: see ``_show_here``.

    Raises:
        ValueError: The options exclude each other.
    """
    if is_page:
        if as_json or is_once:
            raise ValueError("--web serves a page until Ctrl-C: no --json, no --once")
        from actorlib._cli import web  # noqa: PLC0415  # the page may not be installed

        web.serve(pid=pid, host=host or "127.0.0.1", port=port or 0)
        return 0
    if host is not None or port is not None:
        raise ValueError("--host and --port belong to the page: add --web")
    return _show_here(pid, as_json=as_json, is_once=is_once, **options)


def _show_here(
    pid: int | None,
    *,
    as_json: bool,
    is_once: bool,
    interval: float,
    sort: str,
    needle: str,
) -> int:
    """Shows runtimes and their actors until the user quits.

    Returns:
        The exit code: 0, or 4 if there was only one sample and a runtime did not
        answer; 128 and the number of a signal after one that ends the command.
    """
    sampler, screen = Sampler(pid), Screen(sort=sort, needle=needle)
    if as_json:
        return _write(sampler, interval, is_once=is_once)
    out = console()
    if is_once or not sys.stdout.isatty() or out.is_dumb_terminal:
        return _show_once(sampler, screen, out, interval)
    return _Session(sampler, screen, out, interval).run()


def _show_once(sampler: Sampler, screen: Screen, out: Console, interval: float) -> int:
    from actorlib._cli.top_page import page  # noqa: PLC0415  # it loads rich

    sampler.take()
    time.sleep(interval)
    sample = sampler.take()
    out.print(page(sample, screen, out).content, crop=False)
    return sample.listing.exit_code


def _write(sampler: Sampler, interval: float, *, is_once: bool) -> int:
    """Writes a document for each sample but the first, which has no rates."""
    sample = sampler.take()
    while True:
        time.sleep(max(interval, sample.rest))
        sample = sampler.take()
        watched = Watched(
            time=time.time(),
            runtimes=sample.listing.runtimes,
            calls_per_second=_rounded(sample.rates.actors),
            runtime_calls_per_second=_rounded(sample.rates.runtimes),
            devices=tuple(sample.meters),
        )
        write_document(DOCUMENT.encode(watched), indent=None)
        if is_once:
            return sample.listing.exit_code


def _rounded(rates: dict[str, float] | dict[int, float]) -> dict[str, float]:
    return {str(key): round(rate, 2) for key, rate in rates.items()}


@final
class _Session:
    """A user at a terminal, who sees a sample and presses keys."""

    def __init__(
        self, sampler: Sampler, screen: Screen, out: Console, interval: float
    ) -> None:
        self._sampler = sampler
        self._screen = screen
        self._out = out
        self._interval = interval
        self._sample: Sample | None = None
        self._rows = 1
        self._began: float | None = None
        self._due = 0.0
        self._samples: queue.SimpleQueue[Sample | Exception] = queue.SimpleQueue()

    def run(self) -> int:
        """Shows the page and reads keys until the end; returns the exit code."""
        with Terminal() as terminal:
            while True:
                with self._live() as live:
                    code = self._handle_events(terminal, live)
                if code is not None:
                    return code
                terminal.stop()  # with its usual screen and keys

    def _live(self) -> Live:
        from rich.live import Live  # noqa: PLC0415  # documents do not need it

        return Live(
            console=self._out,
            screen=True,
            auto_refresh=False,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def _handle_events(self, terminal: Terminal, live: Live) -> int | None:
        """Shows the page and reads keys; returns None when the process is to stop."""
        while True:
            now = time.monotonic()
            if self._began is None and now >= self._due:
                self._start_sampling(terminal, now)
            self._draw(live, now)
            wait = _LATE if self._began is not None else self._due - now
            events = terminal.wait(wait)
            for number in ENDING:
                if number in events.signals:
                    return 128 + number
            if events.is_closed:
                return 128 + signal.SIGHUP
            for key in keys_in(events.typed):
                self._screen = pressed(self._screen, key, self._rows)
                if self._screen.is_over:
                    return 0
            self._take_sample()
            if signal.SIGTSTP in events.signals:
                return None

    def _start_sampling(self, terminal: Terminal, now: float) -> None:
        def take() -> None:
            try:
                sample: Sample | Exception = self._sampler.take()
            except Exception as error:  # noqa: BLE001  # it is raised in the main thread
                sample = error
            self._samples.put(sample)
            terminal.wake()

        self._began, self._due = now, now + self._interval
        threading.Thread(target=take, name="actorlib-top", daemon=True).start()

    def _take_sample(self) -> None:
        if self._samples.empty():
            return
        sample = self._samples.get()
        began, self._began = self._began, None
        if isinstance(sample, Exception):
            raise sample
        if began is not None:
            self._due = max(self._due, began + sample.rest)
        self._sample = sample

    def _draw(self, live: Live, now: float) -> None:
        late = 0.0 if self._began is None else now - self._began
        remark = f"waiting for an answer for {late:.0f} s" if late >= _LATE else ""
        sample = self._sample
        if sample is None:
            live.update(f" {remark}", refresh=True)
            return
        from actorlib._cli.top_page import page  # noqa: PLC0415  # it loads rich

        if remark:
            sample = sample._replace(remarks=[*sample.remarks, remark])
        drawn = page(sample, self._screen, self._out, self._out.height)
        self._screen, self._rows = drawn.screen, drawn.rows
        live.update(drawn.content, refresh=True)
