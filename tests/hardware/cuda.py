"""CUDA by the driver's own library, so that no toolkit and no framework is needed.

Names and numbers are those of the CUDA driver API: ``cuda.h``.
"""

from __future__ import annotations

import ctypes
from typing import Any

OUT_OF_MEMORY = 2
GIB = 2**30


class CudaError(RuntimeError):
    """A call of the driver has failed.

    Attributes:
        code: Its number, ``CUDA_ERROR_...``.
    """

    def __init__(self, call: str, code: int) -> None:
        said = " (out of memory)" if code == OUT_OF_MEMORY else ""
        super().__init__(f"{call} failed with error {code}{said}")
        self.code = code


class Context:
    """A context on one of the devices that this process may see.

    Args:
        device: Its number among these.
    """

    def __init__(self, device: int = 0) -> None:
        self._driver: Any = ctypes.CDLL("libcuda.so.1")
        self._call("cuInit", 0)
        handle, context = ctypes.c_int(), ctypes.c_void_p()
        self._call("cuDeviceGet", ctypes.byref(handle), device)
        self._device = handle
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), handle)
        self._call("cuCtxSetCurrent", context)

    def allocate(self, nbytes: int) -> int:
        """Allocates memory and writes to all of it; gives its address.

        Raises:
            CudaError: There is not so much.
        """
        address = ctypes.c_uint64()
        self._call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(nbytes))
        self._call("cuMemsetD8_v2", address, ctypes.c_ubyte(1), ctypes.c_size_t(nbytes))
        self._call("cuCtxSynchronize")
        return int(address.value)

    def read(self, address: int, nbytes: int) -> bytes:
        """Copies memory of the device to the host."""
        found = ctypes.create_string_buffer(nbytes)
        self._call(
            "cuMemcpyDtoH_v2", found, ctypes.c_uint64(address), ctypes.c_size_t(nbytes)
        )
        return found.raw

    def free(self, address: int) -> None:
        """Frees what was allocated."""
        self._call("cuMemFree_v2", ctypes.c_uint64(address))

    def memory(self) -> tuple[int, int]:
        """The bytes of the device that are free, and all of them."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self._call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return int(free.value), int(total.value)

    def multiprocessors(self) -> int:
        """How many multiprocessors this process may use."""
        count = ctypes.c_int()
        number = 16  # CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
        self._call("cuDeviceGetAttribute", ctypes.byref(count), number, self._device)
        return count.value

    def _call(self, name: str, *args: object) -> None:
        code = int(getattr(self._driver, name)(*args))
        if code:
            raise CudaError(name, code)
