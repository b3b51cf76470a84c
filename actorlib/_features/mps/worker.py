"""Verifies that this process is a client of its MPS daemon, before the user's code.

A process that does not reach the daemon runs without it, silently: on the whole GPU,
without limits. So this module calls the driver's own library. That initializes CUDA,
and a fork of this process cannot use it; the context is released. Only a worker runs
this, never the template.

Names and numbers are those of ``cuda.h``.
"""

from __future__ import annotations

import ctypes
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from actorlib.exceptions import EnforcementRefused

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_LIMIT = 30.0
"""Seconds to wait for the daemon, and then for its server.

Longer than the owner's limit for the daemon, whose error says more.
"""
_PAUSE = 0.02
_SERVER_NOT_READY = 807  # CUDA_ERROR_MPS_SERVER_NOT_READY
_MPS_ENABLED = 133  # CU_DEVICE_ATTRIBUTE_MPS_ENABLED
_SMS = 16  # CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
_NAMES = {
    46: "devices unavailable: maybe its compute mode is exclusive or prohibited",
    100: "no device",
    805: "MPS: the connection to the daemon failed",
    806: "MPS: the connection to the server was lost",
    807: "MPS: the server is not ready",
    808: "MPS: no more clients are taken on this GPU",
    809: "MPS: no more connections are taken on this GPU",
}
_PERCENTAGE = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"


class DriverError(Exception):
    """A call of the driver has failed."""

    def __init__(self, call: str, code: int) -> None:
        named = f" ({_NAMES[code]})" if code in _NAMES else ""
        super().__init__(f"{call} failed with error {code}{named}")
        self.code = code


def prepare(entry: Mapping[str, Any]) -> None:
    """Waits for the daemon and verifies the limits.

    Args:
        entry: The ``folder`` of the daemon, the ``nbytes`` of the limit, and the
            ``device`` in words.

    Raises:
        EnforcementRefused: The limits do not apply.
    """
    folder, nbytes, device = entry["folder"], entry["nbytes"], entry["device"]
    name = f"enforcement='mps' does not hold on GPU {device}"
    deadline = time.monotonic() + _LIMIT
    if not _wait_for(Path(folder, "ready"), deadline):
        raise EnforcementRefused(f"{name}: its daemon was not ready in {_LIMIT:g} s")
    full = _count_in_child() if os.environ.get(_PERCENTAGE) else 0
    try:
        driver: Any = ctypes.CDLL("libcuda.so.1")
        is_client, free, total, sms = _look(driver, time.monotonic() + _LIMIT)
    except (OSError, AttributeError, DriverError) as error:
        raise EnforcementRefused(f"{name}: {error}") from error
    why = fault_of(
        is_client=is_client,
        free=free,
        limit=nbytes,
        sms=sms,
        full=full,
        percentage=os.environ.get(_PERCENTAGE, ""),
    )
    if why:
        raise EnforcementRefused(
            f"{name}: {why}. CUDA sees {free} bytes free of {total}, and {sms} "
            f"multiprocessors, where {nbytes} bytes are granted"
        )


def fault_of(
    *,
    is_client: bool | None,
    free: int,
    limit: int,
    sms: int,
    full: int,
    percentage: str,
) -> str:
    """Compares the facts from CUDA with the limits; empty if the limits apply.

    Args:
        is_client: Whether CUDA shares contexts by MPS; None if its version does not
            report it.
        free: The free bytes.
        limit: The most free bytes.
        sms: The number of visible multiprocessors.
        full: Their number without MPS, or 0 if unknown.
        percentage: The user's percentage of these; or empty.
    """
    if is_client is False:
        return "this process runs without MPS, as it did not reach the daemon"
    if free > limit:
        return "the limit of memory is not in force"
    try:
        part = float(percentage or 100) / 100
    except ValueError:
        return f"{_PERCENTAGE}={percentage} is not a number"
    # CUDA rounds to a number that the GPU supports.
    if full and part < 1 and sms >= full:
        return f"{_PERCENTAGE}={percentage} is not in force"
    return ""


def _wait_for(path: Path, deadline: float) -> bool:
    while not path.exists():
        if time.monotonic() > deadline:
            return False
        time.sleep(_PAUSE)
    return True


def _look(driver: Any, deadline: float) -> tuple[bool | None, int, int, int]:
    """Returns whether this is a client, free and total bytes, and multiprocessors."""
    while True:
        try:
            return _look_once(driver)
        except DriverError as error:
            if error.code != _SERVER_NOT_READY or time.monotonic() > deadline:
                raise
            time.sleep(_PAUSE)


def _look_once(driver: Any) -> tuple[bool | None, int, int, int]:
    call = _caller(driver)
    device, context, value = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_int()
    call("cuInit", 0)
    call("cuDeviceGet", ctypes.byref(device), 0)
    is_client: bool | None = None
    if not driver.cuDeviceGetAttribute(ctypes.byref(value), _MPS_ENABLED, device):
        is_client = bool(value.value)
    call("cuDeviceGetAttribute", ctypes.byref(value), _SMS, device)
    sms = int(value.value)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    try:
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        call("cuCtxPushCurrent_v2", context)
        call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        call("cuCtxPopCurrent_v2", ctypes.byref(context))
    finally:
        driver.cuDevicePrimaryCtxRelease_v2(device)
    return is_client, int(free.value), int(total.value), sms


def _caller(driver: Any) -> Callable[..., None]:
    def call(name: str, *args: object) -> None:
        code = int(getattr(driver, name)(*args))
        if code:
            raise DriverError(name, code)

    return call


def _count_in_child() -> int:
    """Counts the multiprocessors without MPS, in a child; 0 if that fails."""
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.environ["CUDA_MPS_PIPE_DIRECTORY"] = "/dev/null"
            os.environ.pop(_PERCENTAGE, None)
            call = _caller(driver := ctypes.CDLL("libcuda.so.1"))
            del driver
            device, value = ctypes.c_int(), ctypes.c_int()
            call("cuInit", 0)
            call("cuDeviceGet", ctypes.byref(device), 0)
            call("cuDeviceGetAttribute", ctypes.byref(value), _SMS, device)
            os.write(theirs, str(value.value).encode())
        finally:
            os._exit(0)
    os.close(theirs)
    with os.fdopen(ours) as pipe:
        count = pipe.read()
    os.waitpid(pid, 0)
    return int(count) if count.isdecimal() else 0
