"""Has frameworks keep to a share of a device, for which they read no variable.

The owner says the limits (``tier``); only a worker that holds a part of a device comes
here. A framework that is imported already, by a preload, is told at once; the others
when they have been imported (``import_hook``).

Being told costs no device: PyTorch keeps the call until CUDA comes up, and TensorFlow
is told when its context does. A worker that never uses a device never initialises it,
and can still fork. What the program itself has said
by then counts, and what it says later, too.

A framework that does not take its limit works on without one, and the log says so.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from actorlib._features.frameworks.import_hook import when_imported

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actorlib._features.frameworks.import_hook import Tell


def prepare(limits: Mapping[str, float]) -> None:
    """Has frameworks keep to limits, those that are imported and those that will be.

    Args:
        limits: Of ``"torch.cuda"`` and ``"torch.xpu"`` the fraction of a device, of
            ``"tensorflow"`` a number of MiB.
    """
    telling: dict[str, Tell] = {}
    for name, limit in limits.items():
        framework, _, part = name.partition(".")
        if framework == "torch":
            telling[framework] = partial(_tell_torch, part=part, fraction=limit)
        else:
            telling[framework] = partial(_tell_tensorflow, megabytes=int(limit))
    when_imported(telling)


def _tell_torch(torch: Any, part: str, fraction: float) -> None:
    """Has PyTorch keep to a fraction of each device, from its first use on.

    Args:
        torch: The module.
        part: ``"cuda"``, which is HIP's name too, or ``"xpu"``.
        fraction: Of a device, above 0.
    """
    devices = getattr(torch, part, None)
    call = getattr(devices, "_lazy_call", None)
    limit = getattr(devices, "set_per_process_memory_fraction", None)
    if call is None or limit is None:
        _warn(f"this PyTorch has no torch.{part}.set_per_process_memory_fraction")
        return
    with _telling(f"torch.{part}"):
        call(partial(_limit_torch, devices, f"torch.{part}", fraction))


def _limit_torch(devices: Any, name: str, fraction: float) -> None:
    """Sets the fraction of every device for which nobody has set one."""
    with _telling(name):
        # By its variable, which PyTorch has read by now.
        known = getattr(devices, "get_per_process_memory_fraction", None)
        for index in range(devices.device_count()):
            if known is None or known(index) >= 1:
                devices.set_per_process_memory_fraction(fraction, index)


def _tell_tensorflow(tensorflow: Any, megabytes: int) -> None:
    """Has TensorFlow keep to a limit of each GPU, from its first use on.

    It takes one before its context comes up alone, and asks the driver for devices to
    take it; a device that has one refuses ``set_memory_growth``, which programs call at
    their start. So it is told at the last moment.
    """
    with _telling("TensorFlow"):
        from tensorflow.python.eager import context  # type: ignore  # pyright: ignore  # noqa: PGH003, PLC0415  # it is there, as it is being imported

        _LateContext(cast("Any", context).context(), tensorflow, megabytes).watch()


class _LateContext:
    """Sets the limits of GPUs when a context of TensorFlow is about to come up.

    Args:
        context: The context.
        tensorflow: The module.
        megabytes: The limit of each GPU, in MiB.
    """

    def __init__(self, context: Any, tensorflow: Any, megabytes: int) -> None:
        self._context = context
        self._tensorflow = tensorflow
        self._megabytes = megabytes
        self._begin = context.ensure_initialized
        self._lock = threading.RLock()
        self._is_told = False

    def watch(self) -> None:
        """Stands in the way of the context's beginning, once."""
        self._context.ensure_initialized = self._ensure_initialized

    def _ensure_initialized(self) -> None:
        with self._lock:  # whoever else begins it waits for the limits
            if not self._is_told:
                self._is_told = True
                with suppress(AttributeError):
                    del self._context.ensure_initialized
                with _telling("TensorFlow"):
                    self._limit()
        self._begin()

    def _limit(self) -> None:
        config = self._tensorflow.config
        for gpu in config.list_physical_devices("GPU"):
            if config.get_logical_device_configuration(gpu) is None:
                limit = config.LogicalDeviceConfiguration(memory_limit=self._megabytes)
                config.set_logical_device_configuration(gpu, [limit])


class _telling:  # noqa: N801  # used as a verb, as ``contextlib`` does
    """Lets a framework go on that does not take its limit, and says so."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> bool:
        if not isinstance(error, Exception):
            return False
        _warn(f"{self._name}: {type(error).__name__}: {error}")
        return True


def _warn(why: str) -> None:
    from actorlib._base.log import warn  # noqa: PLC0415  # it loads logging

    with suppress(Exception):  # a handler of the user's may raise
        warn("the share of the device does not limit this framework here: %s", why)
