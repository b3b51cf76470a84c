"""Calls NVML in a separate thread, for the life of a runtime.

Starting NVML takes longer than a question to it, so one session is kept. A call takes
from a tenth of a millisecond to several, and on a broken card it may never return: the
loop does not wait for it, and the end of the session waits only for a moment.

Guarantees: NVML starts with the first question; no exception of NVML reaches the loop.
If NVML does not start, or fails to list a device, the session is over, and ``on_fault``
gets the reason, once.
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
    from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
    from types import ModuleType

    from actorlib._base.process_stat import ProcessStat
    from actorlib.accelerators.host import Host

Look: TypeAlias = "Mapping[str, tuple[Listed, ...]]"
"""The listed processes of each device, by UUID."""

V = TypeVar("V")
_LISTS = ("Compute", "Graphics", "MPSCompute")
_TRIES = 8
_PATIENCE = 1.0
"""Seconds that the end of a runtime waits for a call of NVML."""
_MOST_ANCESTORS = 64
_WORTH_TELLING = 2**30
"""The least bytes in use without a process that count: displays use some."""


@contextmanager
def nvml_started(host: Host) -> Generator[ModuleType]:
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

    Everything here is called on ``loop``. ``on_fault`` gets the reason why the session
    is over, if NVML has failed.

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
        """Whether it gives no further answers."""
        return self._is_over

    def look(self, devices: Sequence[str], then: Callable[[Look], None]) -> None:
        """Lists the processes on devices.

        Args:
            devices: Their UUIDs, those of MIG instances too.
            then: Called with the answer, on the loop; never if the session ends first.
        """
        self._ask(partial(self._look, tuple(devices), then))

    def do(
        self, work: Callable[[ModuleType], object], then: Callable[[str], None]
    ) -> None:
        """Runs a job in NVML's thread, after all earlier questions.

        If the job fails, the session goes on.

        Args:
            work: The job; it gets the module.
            then: Called on the loop with the reason of a failure, or the empty string;
                never if the session ends first.
        """
        self._ask(partial(self._do, work, then))

    def _ask(self, job: Callable[[ModuleType], None]) -> None:
        if self._is_over:
            return
        with self._turn:
            self._asked.append(job)
            self._turn.notify()
        if self._thread is None:
            thread = threading.Thread(
                target=self._run, name="actorlib-nvml", daemon=True
            )
            try:
                thread.start()
            except RuntimeError as error:
                self._failed(str(error))
                return
            self._thread, self._is_running = thread, True

    def close(self) -> None:
        """Stops all answers; the thread ends after its current call."""
        self._is_over = True
        with self._turn:
            self._asked.clear()
            self._turn.notify()

    def close_in_fork(self) -> None:
        """Forgets the thread, which a fork lacks; its lock may be held there."""
        self._is_over = True
        self._turn = threading.Condition()
        self._thread = None
        self._is_running = False

    async def aclose(self, patience: float = _PATIENCE) -> None:
        """Ends the session; waits for a current call of NVML, within a limit."""
        self.close()
        if self._is_running:
            self._stopped = self._loop.create_future()
            await asyncio.wait({self._stopped}, timeout=patience)
        if self._thread is not None and not self._is_running:
            self._thread.join()  # its last step was to report its end

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
            del job  # else its references live until the next question

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
            device: _look_at(self._host, nvml, handles[device]) for device in devices
        }
        self._tell(self._answer, then, look)

    def _do(
        self,
        work: Callable[[ModuleType], object],
        then: Callable[[str], None],
        nvml: ModuleType,
    ) -> None:
        fault = ""
        try:
            work(nvml)
        except Exception as error:  # noqa: BLE001  # around a vendor's SDK
            fault = str(error) or type(error).__name__
        self._tell(self._answer, then, fault)

    def _tell(self, callback: Callable[..., None], *args: object) -> None:
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(callback, *args)


def _look_at(host: Host, nvml: ModuleType, handle: object) -> tuple[Listed, ...]:
    """Lists the processes on a device; memory in use without a process is UNLISTED.

    In many containers NVML lists no process, and some drivers may forget a process
    before they have freed its memory.
    """
    listed = tuple(_described(host, listed_on(nvml, handle)))
    if listed:
        return listed
    used = _used(nvml, handle)
    return (Listed(UNLISTED, used),) if used >= _WORTH_TELLING else ()


def _used(nvml: ModuleType, handle: object) -> int:
    """Returns the bytes of a device that are in use; 0 if unknown."""
    try:
        # The first version counts the driver's own memory as used.
        memory = nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2)
    except (nvml.NVMLError, AttributeError, TypeError):
        return 0  # not supported, or an older nvidia-ml-py
    return int(memory.used)


def listed_on(nvml: ModuleType, handle: object) -> dict[int, int | None]:
    """Lists every process on a device, each once, with its bytes.

    Raises:
        NVMLError: The device is lost, or has no list.
    """
    lists: list[list[tuple[int, int | None]]] = []
    trouble: Exception | None = None
    for name in _LISTS:
        try:
            lists.append(_list(nvml, f"nvmlDeviceGet{name}RunningProcesses", handle))
        except (nvml.NVMLError_NotSupported, nvml.NVMLError_FunctionNotFound) as error:
            # Data centre cards have no graphics, and old drivers no list for MPS.
            trouble = error
    if trouble is not None and not lists:
        raise trouble
    return merged(lists)


def _list(
    nvml: ModuleType, question: str, handle: object
) -> list[tuple[int, int | None]]:
    """Reads one of the lists; a driver older than nvidia-ml-py knows an older version.

    Raises:
        NVMLError: The device has no such list, or is lost.
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
        # NVMLLibraryMismatchError, which older versions of nvidia-ml-py lack.
        if older is None:
            raise
        listed = _insist(nvml, older, handle)
    return [(int(each.pid), each.usedGpuMemory) for each in listed]


def _insist(
    nvml: ModuleType, ask: Callable[[object], Sequence[Any]], handle: object
) -> Sequence[Any]:
    """Asks again if more processes came between the query for the size and the list."""
    for _ in range(_TRIES):
        with suppress(nvml.NVMLError_InsufficientSize):
            return ask(handle)
    return ask(handle)


def _described(host: Host, listed: Mapping[int, int | None]) -> Iterator[Listed]:
    """Adds the origin of each process, as far as it is visible."""
    stats: dict[int, ProcessStat | None] = {}

    def origin(pid: int) -> ProcessStat | None:
        if pid not in stats:
            stat = host.read_text(f"/proc/{pid}/stat")
            stats[pid] = None if stat is None else parse_stat(stat)
        return stats[pid]

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
