"""Speaks to NVML in a thread of its own, for as long as a runtime lives.

To start NVML takes longer than to ask it, so one session is kept. A call takes from a
tenth of a millisecond to several, and on a broken card it may never come back: the loop
does not wait for it, and an end waits for it for a moment only.

Guarantees: nothing is started before the first question; nothing that NVML raises comes
to the loop as an exception. When NVML does not start, or fails to say what is on a
device, the session is over, and whoever has opened it is told why, once.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, final

from actorlib._base.process_stat import parse_stat
from actorlib._enforcement.gpu_processes import UNLISTED, Listed, merged
from actorlib._loops.fork_copies import close_in_forks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import ModuleType

    from actorlib._base.process_stat import ProcessStat
    from actorlib.accelerators.host import Host

Look: TypeAlias = "Mapping[str, tuple[Listed, ...]]"
"""What is listed on each device, by UUID."""

V = TypeVar("V")
_LISTS = ("Compute", "Graphics", "MPSCompute")
_TRIES = 8
_PATIENCE = 1.0
"""Seconds that the end of a runtime waits for a call of NVML."""
_MOST_ANCESTORS = 64
_WORTH_TELLING = 2**30
"""Bytes in use without a process from which on that is told: displays have some."""


@contextmanager
def nvml_started(host: Host) -> Iterator[ModuleType]:
    """Imports and starts NVML for the block."""
    nvml = host.sdk("pynvml")
    nvml.nvmlInit()
    try:
        yield nvml
    finally:
        nvml.nvmlShutdown()


@final
class NvmlSession:
    """A lasting session with NVML.

    Args:
        host: The machine.
        loop: The owner's loop; everything here is called on it.
        on_fault: Told why the session is over, if NVML has failed.

    Attributes:
        fault: Why it is over; empty while NVML has not failed.
    """

    def __init__(
        self,
        host: Host,
        loop: asyncio.AbstractEventLoop,
        on_fault: Callable[[str], None],
    ) -> None:
        self.fault = ""
        self._host = host
        self._loop = loop
        self._on_fault = on_fault
        self._turn = threading.Condition()
        self._asked: deque[Callable[[ModuleType], None]] = deque()
        self._handles: dict[str, Any] = {}
        self._thread: threading.Thread | None = None
        self._is_over = False
        self._is_running = False
        self._stopped: asyncio.Future[None] | None = None
        close_in_forks(self, NvmlSession.close_in_fork)

    @property
    def is_over(self) -> bool:
        """Whether nothing is answered any more."""
        return self._is_over

    def look(self, devices: Sequence[str], then: Callable[[Look], None]) -> None:
        """Asks what is listed on devices.

        Args:
            devices: Their UUIDs, those of MIG instances too.
            then: Called with the answer, on the loop; never if the session ends first.
        """
        self._ask(partial(self._look, tuple(devices), then))

    def do(
        self, work: Callable[[ModuleType], object], then: Callable[[str], None]
    ) -> None:
        """Has something done by NVML, behind what was asked before.

        What fails here fails alone: the session goes on.

        Args:
            work: What is done, in the thread; it gets the module.
            then: Told on the loop why that has failed, or nothing if it has not; never
                if the session ends first.
        """
        self._ask(partial(self._do, work, then))

    def _ask(self, job: Callable[[ModuleType], None]) -> None:
        if self._is_over:
            return
        with self._turn:
            self._asked.append(job)
            self._turn.notify()
        if self._thread is None:
            self._is_running = True
            self._thread = threading.Thread(
                target=self._run, name="actorlib-nvml", daemon=True
            )
            self._thread.start()

    def close(self) -> None:
        """Answers nothing any more; the thread ends by itself, behind its call."""
        self._is_over = True
        with self._turn:
            self._asked.clear()
            self._turn.notify()

    def close_in_fork(self) -> None:
        """Forgets the thread in a fork, which has none; its lock may be held there."""
        self._is_over = True
        self._turn = threading.Condition()
        self._thread = None
        self._is_running = False

    async def aclose(self, patience: float = _PATIENCE) -> None:
        """Ends the session; waits for a call of NVML that is under way, not for ever.

        Args:
            patience: For how many seconds. Default: 1.0.
        """
        self.close()
        if self._is_running:
            self._stopped = self._loop.create_future()
            await asyncio.wait({self._stopped}, timeout=patience)
        if self._thread is not None and not self._is_running:
            self._thread.join()  # its last step was to report that it ends

    # On the loop, for the thread.

    def _answer(self, then: Callable[[V], None], answer: V) -> None:
        if not self._is_over:
            then(answer)

    def _failed(self, reason: str) -> None:
        if not self._is_over:
            self.fault = reason
            self.close()
            self._on_fault(reason)

    def _thread_ended(self) -> None:
        self._is_running = False
        if self._stopped is not None and not self._stopped.done():
            self._stopped.set_result(None)

    # In the thread.

    def _run(self) -> None:
        try:
            with nvml_started(self._host) as nvml:
                self._serve(nvml)
        except Exception as error:  # noqa: BLE001  # around a vendor's SDK
            self._tell(self._failed, str(error) or type(error).__name__)
        self._tell(self._thread_ended)

    def _serve(self, nvml: ModuleType) -> None:
        while True:
            with self._turn:
                while not (self._asked or self._is_over):
                    self._turn.wait()
                if self._is_over:
                    return
                job = self._asked.popleft()
            job(nvml)
            del job  # what it holds would live until the next question

    def _look(
        self,
        devices: tuple[str, ...],
        then: Callable[[Look], None],
        nvml: ModuleType,
    ) -> None:
        handles = self._handles
        for device in devices:
            if device not in handles:
                handles[device] = nvml.nvmlDeviceGetHandleByUUID(device)
        look = {
            device: _seen_on(self._host, nvml, handles[device]) for device in devices
        }
        self._tell(self._answer, then, look)

    def _do(
        self,
        work: Callable[[ModuleType], object],
        then: Callable[[str], None],
        nvml: ModuleType,
    ) -> None:
        said = ""
        try:
            work(nvml)
        except Exception as error:  # noqa: BLE001  # around a vendor's SDK
            said = str(error) or type(error).__name__
        self._tell(self._answer, then, said)

    def _tell(self, callback: Callable[..., None], *args: object) -> None:
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(callback, *args)


def _seen_on(host: Host, nvml: ModuleType, handle: object) -> tuple[Listed, ...]:
    """Lists what is on a device; a part in use though nobody is listed is UNLISTED.

    In many containers NVML lists nobody, and some drivers may forget a process before
    they have freed what it had.
    """
    listed = tuple(_described(host, listed_on(nvml, handle)))
    if listed:
        return listed
    used = _used(nvml, handle)
    return (Listed(UNLISTED, used),) if used >= _WORTH_TELLING else ()


def _used(nvml: ModuleType, handle: object) -> int:
    """Returns how many bytes of a device are in use; 0 if that cannot be asked."""
    try:
        # The first version counts what the driver keeps for itself as used.
        told = nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2)
    except (nvml.NVMLError, AttributeError, TypeError):
        return 0  # not supported, or an nvidia-ml-py older than that
    return int(told.used)


def listed_on(nvml: ModuleType, handle: object) -> dict[int, int | None]:
    """Lists every process on a device, each once, with the bytes that it has.

    Args:
        nvml: The module, which was started.
        handle: Its own of the device.

    Raises:
        NVMLError: The device is lost, or has no list.
    """
    found: list[list[tuple[int, int | None]]] = []
    trouble: Exception | None = None
    for name in _LISTS:
        try:
            found.append(_list(nvml, f"nvmlDeviceGet{name}RunningProcesses", handle))
        except (nvml.NVMLError_NotSupported, nvml.NVMLError_FunctionNotFound) as error:
            # Data centre cards have no graphics, and old drivers no list for MPS.
            trouble = error
    if trouble is not None and not found:
        raise trouble
    return merged(found)


def _list(
    nvml: ModuleType, question: str, handle: object
) -> list[tuple[int, int | None]]:
    """Asks for one of the lists; a driver older than nvidia-ml-py knows an older one.

    Raises:
        NVMLError: There is none on this device, or it is lost.
    """
    ask = getattr(nvml, question, None)
    if ask is None:
        return []  # an nvidia-ml-py older than the list
    older = getattr(nvml, f"{question}_v2", None)
    try:
        listed = _insist(nvml, ask, handle)
    except nvml.NVMLError:
        raise
    except Exception:
        # NVMLLibraryMismatchError, which no older nvidia-ml-py has.
        if older is None:
            raise
        listed = _insist(nvml, older, handle)
    return [(int(each.pid), each.usedGpuMemory) for each in listed]


def _insist(
    nvml: ModuleType, ask: Callable[[object], Sequence[Any]], handle: object
) -> Sequence[Any]:
    """Asks again where more processes came between their number and their list."""
    for _ in range(_TRIES):
        with suppress(nvml.NVMLError_InsufficientSize):
            return ask(handle)
    return ask(handle)


def _described(host: Host, listed: Mapping[int, int | None]) -> Iterator[Listed]:
    """Adds where processes come from, as far as that can be seen."""
    known: dict[int, ProcessStat | None] = {}

    def origin(pid: int) -> ProcessStat | None:
        if pid not in known:
            stat = host.read_text(f"/proc/{pid}/stat")
            known[pid] = None if stat is None else parse_stat(stat)
        return known[pid]

    for pid, nbytes in listed.items():
        own = origin(pid)
        if own is None:
            yield Listed(pid, nbytes)
            continue
        lineage = {pid, own.group, own.session}
        ancestor: ProcessStat | None = own
        for _ in range(_MOST_ANCESTORS):
            if ancestor is None or ancestor.parent <= 1:
                break
            lineage.add(ancestor.parent)
            ancestor = origin(ancestor.parent)
        yield Listed(pid, nbytes, frozenset(lineage), own.began, own.name)
