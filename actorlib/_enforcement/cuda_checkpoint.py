"""A program that moves the state of another process off its GPU, or back.

It is run as ``python cuda_checkpoint.py save|restore PID MILLISECONDS``, for a process
of the same user. CUDA's driver does all the work: it waits until submitted work is
done, copies the memory of the GPU to the host's, and releases the GPU; threads of the
process that use CUDA meanwhile wait. The milliseconds limit the wait for submitted
work; 0 means no limit.

It writes ``done``; or ``refused REASON``, and the process is unchanged; or ``broken
REASON``, and the state of the process is unknown. It is a separate process because each
call takes an unlimited time, and because CUDA would stay initialized in the owner. It
ends with the owner. It imports nothing of actorlib, so that it is quick.

Names and numbers are those of ``cuda.h``; the functions exist since CUDA 12.8:
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
    """The driver of this machine, for one process.

    Raises:
        DriverError: It does not start.
    """

    def __init__(self, library: Any, pid: int) -> None:
        self._library = library
        self._pid = pid
        self._call("cuInit", 0)

    def state(self) -> int:
        """Returns the state of the process, a value of CUprocessState.

        Raises:
            DriverError: It has none, as it does not use CUDA.
        """
        state = ctypes.c_int(-1)
        self._of_process("GetState", ctypes.byref(state))
        return state.value

    def lock(self, milliseconds: int) -> None:
        """Waits until submitted work is done, and blocks new work."""
        self._of_process("Lock", ctypes.byref(LockArgs(timeout_ms=milliseconds)))

    def checkpoint(self) -> None:
        """Copies the memory to the host, and releases the GPU."""
        self._of_process("Checkpoint", None)

    def restore(self) -> None:
        """Acquires the GPU again, and copies the memory back."""
        self._of_process("Restore", None)

    def unlock(self) -> None:
        """Unblocks the work of the process."""
        self._of_process("Unlock", None)

    def _of_process(self, what: str, argument: Any) -> None:
        self._call(f"cuCheckpointProcess{what}", self._pid, argument)

    def _call(self, name: str, *args: Any) -> None:
        code = int(getattr(self._library, name)(*args))
        if code:
            raise DriverError(f"{name} failed with error {code}{self._named(code)}")

    def _named(self, code: int) -> str:
        text = ctypes.c_char_p()
        if self._library.cuGetErrorString(code, ctypes.byref(text)) or not text.value:
            return ""
        return f" ({text.value.decode(errors='replace')})"


def save(driver: Driver, milliseconds: int) -> str:
    """Moves the state of the process off its GPU; returns the output."""
    try:
        state = driver.state()
    except DriverError as error:
        return f"refused {error}: maybe it has not used CUDA yet"
    if state == _CHECKPOINTED:
        return _DONE
    if state not in (_RUNNING, _LOCKED):
        return f"broken {_state_text(state)}"
    try:
        if state == _RUNNING:
            driver.lock(milliseconds)
        driver.checkpoint()
    except DriverError as error:
        try:
            if driver.state() == _LOCKED:
                driver.unlock()
        except DriverError as second:
            return f"broken {error}, and then {second}"
        return _failure(driver, error, _RUNNING)
    return _DONE


def restore(driver: Driver) -> str:
    """Moves the state of the process back; returns the output."""
    try:
        if driver.state() == _CHECKPOINTED:
            driver.restore()
        if driver.state() == _LOCKED:
            driver.unlock()
        state = driver.state()
    except DriverError as error:
        return _failure(driver, error, _CHECKPOINTED)
    return _DONE if state == _RUNNING else f"broken {_state_text(state)}"


def _failure(driver: Driver, error: DriverError, before: int) -> str:
    """Returns the output after an error: refused if the state is that of before."""
    try:
        state = driver.state()
    except DriverError as second:
        return f"broken {error}, and then {second}"
    if state == before:
        return f"refused {error}"
    return f"broken {error}: {_state_text(state)}"


def _state_text(state: int) -> str:
    return f"CUDA calls the process {_STATES.get(state, f'state {state}')}"


def main(operation: str, pid: int, milliseconds: int) -> str:
    """Runs an operation; returns the output."""
    try:
        library: Any = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        return f"refused there is no CUDA driver: {error}"
    if not hasattr(library, "cuCheckpointProcessCheckpoint"):
        return (
            "refused the driver cannot checkpoint processes: that came with version "
            "570, of CUDA 12.8"
        )
    try:
        driver = Driver(library, pid)
    except DriverError as error:
        return f"refused {error}"
    return save(driver, milliseconds) if operation == "save" else restore(driver)


def end_with_parent() -> None:
    """Makes the kernel end this process with the thread that has started it."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    end_with_parent()
    sys.stdout.write(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
