"""Announces the devices that a program uses, and waits for those of other programs.

A program uses a device from the first grant on it until the last lease on it has
drained. Other programs of the user see that (``accelerators/device_users``). The
sockets also belong to the template, so that the use lasts while any worker lives, even
if this process is killed (``Launcher.keep_open``).

``SharedUse`` and ``ExclusiveUse`` have the interface ``_scheduler/device_use``:

* ``SharedUse``: nothing waits. If another program uses a device, too, the log says so.
* ``ExclusiveUse``: a device belongs to one program. All devices of a request are locked
  in the order of their names, or none: so two programs never wait for each other in
  the middle of a request. A program that has to wait connects to the socket of the
  other. The kernel ends that connection when the last process closes the socket.
"""

from __future__ import annotations

import errno
import logging
import os
import socket
from collections import Counter
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, NamedTuple, final

from actorlib._base.log import tell
from actorlib._base.named_sockets import peer_pid, peer_uid
from actorlib._loops.fork_copies import close_in_forks
from actorlib.accelerators.device_users import announcement_of, lock_of

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from actorlib._base.named_sockets import NamedSockets
    from actorlib.accelerators.base import Device
    from actorlib.accelerators.device_users import DeviceUser, DeviceUsers

_LOOK_AGAIN = 10.0
"""Seconds after which a device is looked at again when its use begins.

A look takes a thread 0.1 ms and more; a device whose actors come and go does not need
one for each.
"""
_ATTEMPTS = 20
"""Attempts to connect to a lock: its holder binds the name before it listens."""
_RETRY_DELAY = 0.2
"""Seconds until the next attempt, where no event can be waited for."""


class _Cards:
    """The cards that this program uses, with their sockets.

    A card whose use has ended keeps its sockets until the next turn of the loop: a
    request of this program that waits for it gets it first, and a preview changes
    nothing.

    Attributes:
        open: The sockets of each card.
        counts: How many devices of each card are used.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        keep_open: Callable[[Sequence[int]], None],
        change: Callable[[], None],
    ) -> None:
        self.open: dict[str, list[socket.socket]] = {}
        self.counts: Counter[str] = Counter()
        self._loop = loop
        self._keep_open = keep_open
        self._change = change
        self._is_planned = self._is_closed = False
        close_in_forks(self, _Cards.close)

    def count(self, cards: Iterable[str]) -> None:
        self.counts.update(cards)

    def discount(self, cards: Iterable[str]) -> None:
        self.counts.subtract(cards)
        self.plan()

    def plan(self) -> None:
        """Plans the changes for the next turn of the loop."""
        if not (self._is_planned or self._is_closed or self._loop.is_closed()):
            self._is_planned = True
            self._loop.call_soon(self._run_planned)

    def _run_planned(self) -> None:
        self._is_planned = False
        if not self._is_closed:
            self._change()
            self.counts = +self.counts

    def close_unused(self) -> None:
        unused = [card for card in self.open if self.counts[card] <= 0]
        closing = [sock for card in unused for sock in self.open.pop(card)]
        if closing:
            self.keep_open()
            _close_all(closing)

    def keep_open(self) -> None:
        """Makes the sockets last as long as the workers."""
        try:
            self._keep_open([s.fileno() for each in self.open.values() for s in each])
        except OSError as error:
            tell(
                logging.WARNING,
                "if this program is killed, its devices count as free before its "
                "workers have ended: %s",
                error,
            )

    def close(self) -> None:
        """Closes all sockets; in a fork, the copies."""
        self._is_closed = True
        while self.open:
            _close_all(self.open.popitem()[1])


@final
class SharedUse:
    """Announces which devices this program uses, and logs who else uses them.

    Logical devices do not count: there is nothing to share.

    Attributes:
        on_free: Never called.
    """

    def __init__(
        self,
        users: DeviceUsers,
        loop: asyncio.AbstractEventLoop,
        keep_open: Callable[[Sequence[int]], None],
    ) -> None:
        self._users = users
        self._loop = loop
        self._cards = _Cards(loop, keep_open, self._change)
        self._devices: dict[str, Device] = {}
        self._looks: dict[str, float] = {}
        self._warned: set[tuple[str, int]] = set()
        self.on_free: Callable[[Collection[Device]], None] = _ignore

    def begin(self, devices: Sequence[Device]) -> Mapping[Device, str]:
        for device in devices:
            if not device.logical:
                card = self._users.card(device)
                self._devices[card] = device
                self._cards.count([card])
                if card not in self._cards.open:
                    self._cards.plan()
        return {}

    def end(self, devices: Collection[Device]) -> None:
        self._cards.discount(self._users.card(d) for d in devices if not d.logical)

    def close(self) -> None:
        self._cards.close()

    def _change(self) -> None:
        """Announces what is used now; what ended in the same turn was never used."""
        cards, sockets = self._cards, self._users.sockets
        cards.close_unused()
        new = [card for card in cards.counts if cards.counts[card] > 0]
        new = [card for card in new if card not in cards.open]
        if not new or sockets is None:
            return
        for card in new:
            name = announcement_of(card, os.getpid(), is_exclusive=False)
            with suppress(OSError):  # then others do not see it
                cards.open[card] = [sockets.listen(name)[0]]
        cards.keep_open()
        now = self._loop.time()
        due = [c for c in new if now - self._looks.get(c, -_LOOK_AGAIN) >= _LOOK_AGAIN]
        if due:
            self._looks.update(dict.fromkeys(due, now))
            with suppress(RuntimeError):  # no thread can be started
                looking = self._loop.run_in_executor(None, self._users.others, due)
                looking.add_done_callback(self._warn)

    def _warn(self, looking: asyncio.Future[dict[str, list[DeviceUser]]]) -> None:
        if looking.cancelled() or looking.exception() is not None:
            return
        for card, users in looking.result().items():
            device = self._devices[card]
            for program, is_exclusive in users:
                if (card, program.pid) in self._warned:
                    continue
                self._warned.add((card, program.pid))
                tell(
                    logging.WARNING,
                    "%s %s is used by this program and by %s%s. Neither waits for "
                    "the other, and the shares of both together may exceed the "
                    "device. init(devices='exclusive') in both lets one wait for "
                    "the other; init(devices='free') uses only devices that no "
                    "other runtime has. actorlib ps shows its actors",
                    device.kind,
                    device.id,
                    program,
                    ", which has devices='exclusive'" if is_exclusive else "",
                )


class _Wait(NamedTuple):
    """A card of another program.

    Attributes:
        devices: The devices of the card that were refused.
        user: A description of the program.
        sock: The connection to its socket; None if a timer is waited for.
    """

    devices: set[Device]
    user: str
    sock: socket.socket | None


@final
class ExclusiveUse:
    """Uses devices that no other program uses.

    Args:
        users: The other programs.
        sockets: Their sockets.
        loop: The owner's loop.
        keep_open: See ``Launcher``.

    Attributes:
        on_free: Called with refused devices when their turn may have come.
    """

    def __init__(
        self,
        users: DeviceUsers,
        sockets: NamedSockets,
        loop: asyncio.AbstractEventLoop,
        keep_open: Callable[[Sequence[int]], None],
    ) -> None:
        self._users = users
        self._sockets = sockets
        self._loop = loop
        self._cards = _Cards(loop, keep_open, self._change)
        self._waits: dict[str, _Wait] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self.on_free: Callable[[Collection[Device]], None] = _ignore
        close_in_forks(self, ExclusiveUse._close_in_fork)

    def begin(self, devices: Sequence[Device]) -> Mapping[Device, str]:
        of_device = {device: self._users.card(device) for device in devices}
        new = sorted({*of_device.values()} - self._cards.open.keys())
        if new and (refused := self._refused(new)):
            return {
                device: self._refuse(card, device)
                for device, card in of_device.items()
                if card in refused
            }
        self._cards.count(of_device.values())
        return {}

    def end(self, devices: Collection[Device]) -> None:
        self._cards.discount(self._users.card(device) for device in devices)

    def close(self) -> None:
        for card in [*self._waits]:
            self._stop_waiting(card)
        self._cards.close()

    def _close_in_fork(self) -> None:
        for wait in self._waits.values():
            if wait.sock is not None:
                wait.sock.close()
        self._waits.clear()

    def _change(self) -> None:
        self._cards.close_unused()

    def _refused(self, cards: Sequence[str]) -> Collection[str]:
        """Locks all cards, or none; returns cards that other programs use."""
        refused = self._waits.keys() & cards
        if refused:
            return refused
        locked: dict[str, list[socket.socket]] = {}
        try:
            for card in cards:
                lock = self._lock(card)
                if lock is None:
                    return [card]
                locked[card] = [lock]
            # A shared program announces its use and then looks for others. So at least
            # one of both sees the other.
            for card, pids in self._users.pids(cards).items():
                for pid, is_exclusive in pids.items():
                    name = announcement_of(card, pid, is_exclusive=is_exclusive)
                    if self._wait_for(card, name):
                        return [card]
            for card, sockets in locked.items():
                name = announcement_of(card, os.getpid(), is_exclusive=True)
                with suppress(OSError):  # then only the lock shows the use
                    sockets.append(self._sockets.listen(name)[0])
            self._cards.open |= locked
            locked = {}
            self._cards.keep_open()
        finally:
            for sockets in locked.values():
                _close_all(sockets)
        return ()

    def _lock(self, card: str) -> socket.socket | None:
        """Locks a card; None if another program has it, which is waited for."""
        name = lock_of(card)
        for _ in range(_ATTEMPTS):
            try:
                return self._sockets.listen(name)[0]
            except FileExistsError:
                if self._wait_for(card, name):
                    return None
            except OSError as error:  # out of descriptors
                self._wait_a_moment(card, f"a program that is not known: {error}")
                return None
        self._wait_a_moment(card, "another program, which is not known")
        return None

    def _wait_for(self, card: str, name: str) -> bool:
        """Waits for the end of another program's socket.

        False if it has ended, or belongs to another user.
        """
        with ExitStack() as opened:
            try:
                sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                opened.callback(sock.close)
                sock.setblocking(False)  # noqa: FBT003  # the socket API
                sock.connect(self._sockets.place(name))
            except OSError as error:
                if error.errno == errno.ECONNREFUSED:
                    return False
                # For example its queue of connections is full.
                self._wait_a_moment(card, f"a program that does not answer: {error}")
                return True
            if peer_uid(sock) not in (None, os.geteuid()):
                return False  # any user may take a name
            opened.pop_all()
        user = self._users.describe(peer_pid(sock))
        self._waits[card] = _Wait(set(), user, sock)
        self._loop.add_reader(sock.fileno(), self._on_free, card)
        return True

    def _wait_a_moment(self, card: str, user: str) -> None:
        self._waits[card] = _Wait(set(), user, None)
        self._timers[card] = self._loop.call_later(_RETRY_DELAY, self._on_free, card)

    def _refuse(self, card: str, device: Device) -> str:
        wait = self._waits[card]
        wait.devices.add(device)
        return wait.user

    def _on_free(self, card: str) -> None:
        devices = self._stop_waiting(card)
        self.on_free(devices)

    def _stop_waiting(self, card: str) -> set[Device]:
        wait = self._waits.pop(card)
        if wait.sock is not None:
            with suppress(RuntimeError):  # the loop is closed
                self._loop.remove_reader(wait.sock.fileno())
            wait.sock.close()
        timer = self._timers.pop(card, None)
        if timer is not None:
            timer.cancel()
        return wait.devices


def _ignore(devices: Collection[Device]) -> None:
    """Is replaced by the scheduler."""


def _close_all(sockets: Iterable[socket.socket]) -> None:
    for sock in sockets:
        with suppress(OSError):
            sock.close()
