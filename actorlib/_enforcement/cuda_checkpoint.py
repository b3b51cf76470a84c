"""Takes the work of another process off its GPU, or puts it back: a program of its own.

It is run as ``python cuda_checkpoint.py save|restore PID MILLISECONDS``, for a process
of the same user. CUDA's driver does all of it: it waits until what was submitted is
done, copies the memory of the GPU to the host's, and lets go of the GPU; threads of the
process that use CUDA meanwhile wait there. The milliseconds limit the wait for what was
submitted; 0 is for none.

It writes ``done``; or ``refused REASON``, and the process is as it was; or ``broken
REASON``, and nothing can be known of it. It runs apart from the owner, as each call
takes as long as the driver likes, and as CUDA would be initialised there, for good; and
it ends with the owner. It imports nothing of actorlib, so that it is quick.

Names and numbers are those of ``cuda.h``; the functions are there since CUDA 12.8:
https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__CHECKPOINT.html
"""

from __future__ import annotations

import ctypes
import signal
import sys
from typing import Any

_RUNNING, _LOCKED, _CHECKPOINTED = 0, 1, 2  # of CUprocessState
_PR_SET_PDEATHSIG = 1
_DONE = "done"
_STATES = {
    _RUNNING: "running",
    _LOCKED: "locked",
    _CHECKPOINTED: "checkpointed",
    3: "failed",
}


class LockArgs(ctypes.Structure):
    """CUcheckpointLockArgs."""

    _fields_ = (
        ("timeout_ms", ctypes.c_uint),
        ("reserved0", ctypes.c_uint),
        ("reserved1", ctypes.c_uint64 * 7),
    )


class DriverError(Exception):
    """A call of the driver has failed."""


class Driver:
    """The driver of this machine, about one process.

    Args:
        library: ``libcuda``.
        pid: The process.

    Raises:
        DriverError: It does not begin.
    """

    def __init__(self, library: Any, pid: int) -> None:
        self._library = library
        self._pid = pid
        self._call("cuInit", 0)

    def state(self) -> int:
        """Where the process is, a value of CUprocessState.

        Raises:
            DriverError: It has none, as it does not use CUDA.
        """
        state = ctypes.c_int(-1)
        self._of_process("GetState", ctypes.byref(state))
        return state.value

    def lock(self, milliseconds: int) -> None:
        """Waits until what was submitted is done, and lets nothing else begin."""
        self._of_process("Lock", ctypes.byref(LockArgs(timeout_ms=milliseconds)))

    def checkpoint(self) -> None:
        """Copies the memory to the host, and lets go of the GPU."""
        self._of_process("Checkpoint", None)

    def restore(self) -> None:
        """Takes the GPU again, and copies the memory back."""
        self._of_process("Restore", None)

    def unlock(self) -> None:
        """Lets what the process does begin again."""
        self._of_process("Unlock", None)

    def _of_process(self, what: str, argument: Any) -> None:
        self._call(f"cuCheckpointProcess{what}", self._pid, argument)

    def _call(self, name: str, *args: Any) -> None:
        code = int(getattr(self._library, name)(*args))
        if code:
            raise DriverError(f"{name} failed with error {code}{self._named(code)}")

    def _named(self, code: int) -> str:
        said = ctypes.c_char_p()
        if self._library.cuGetErrorString(code, ctypes.byref(said)) or not said.value:
            return ""
        return f" ({said.value.decode(errors='replace')})"


def save(driver: Driver, milliseconds: int) -> str:
    """Takes the work of the process off its GPU; gives what is written."""
    try:
        state = driver.state()
    except DriverError as error:
        return f"refused {error}: maybe it has not used CUDA yet"
    if state == _CHECKPOINTED:
        return _DONE
    if state not in (_RUNNING, _LOCKED):
        return f"broken {_found(state)}"
    try:
        if state == _RUNNING:
            driver.lock(milliseconds)
        driver.checkpoint()
    except DriverError as error:
        return _back(driver, error)
    return _DONE


def _back(driver: Driver, error: DriverError) -> str:
    """Lets a process go on that could not be saved."""
    try:
        if driver.state() == _LOCKED:
            driver.unlock()
        state = driver.state()
    except DriverError as second:
        return f"broken {error}, and then {second}"
    return (
        f"refused {error}" if state == _RUNNING else f"broken {error}: {_found(state)}"
    )


def restore(driver: Driver) -> str:
    """Puts the work of the process back; gives what is written."""
    try:
        if driver.state() == _CHECKPOINTED:
            driver.restore()
        if driver.state() == _LOCKED:
            driver.unlock()
        state = driver.state()
    except DriverError as error:
        return _kept(driver, error)
    return _DONE if state == _RUNNING else f"broken {_found(state)}"


def _kept(driver: Driver, error: DriverError) -> str:
    """Says whether a process that could not be restored may be tried again."""
    try:
        state = driver.state()
    except DriverError as second:
        return f"broken {error}, and then {second}"
    if state == _CHECKPOINTED:
        return f"refused {error}"
    return f"broken {error}: {_found(state)}"


def _found(state: int) -> str:
    return f"CUDA calls the process {_STATES.get(state, f'state {state}')}"


def main(verb: str, pid: int, milliseconds: int) -> str:
    """Does what the command line says; gives what is written."""
    try:
        library: Any = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        return f"refused there is no driver of CUDA: {error}"
    if not hasattr(library, "cuCheckpointProcessCheckpoint"):
        return (
            "refused the driver cannot checkpoint processes: that came with version "
            "570, of CUDA 12.8"
        )
    try:
        driver = Driver(library, pid)
    except DriverError as error:
        return f"refused {error}"
    return save(driver, milliseconds) if verb == "save" else restore(driver)


def end_with_parent() -> None:
    """Has the kernel end this process with the thread that has started it."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    end_with_parent()
    sys.stdout.write(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
