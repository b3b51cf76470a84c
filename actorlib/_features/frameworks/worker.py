"""Limits frameworks to a share of a device where they read no variable for it.

The owner sends the limits (``tier``); only a worker with a part of a device loads this
module. A framework that is already imported, by a preload, is limited at once; the
others after their import (``import_hook``).

This does not initialize a device: PyTorch delays the call until CUDA starts, and
TensorFlow is limited when its context starts. So a worker that never uses a device
never initializes it, and can still fork. Limits that the program sets before or after
take precedence.

A framework that refuses its limit runs without one, with a warning in the log.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from actorlib._features.frameworks.import_hook import when_imported

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actorlib._features.frameworks.import_hook import Callback


def prepare(limits: Mapping[str, float]) -> None:
    """Limits imported frameworks, and the others after their import.

    Args:
        limits: The fraction of a device for ``"torch.cuda"`` and ``"torch.xpu"``, MiB
            for ``"tensorflow"``.
    """
    callbacks: dict[str, Callback] = {}
    for name, limit in limits.items():
        framework, _, part = name.partition(".")
        if framework == "torch":
            callbacks[framework] = partial(_limit_torch, part=part, fraction=limit)
        else:
            callbacks[framework] = partial(_limit_tensorflow, mebibytes=int(limit))
    when_imported(callbacks)


def _limit_torch(torch: Any, part: str, fraction: float) -> None:
    """Limits PyTorch to a fraction of each device, from its first use on.

    ``part`` is ``"cuda"``, which is HIP's name too, or ``"xpu"``.
    """
    devices = getattr(torch, part, None)
    call = getattr(devices, "_lazy_call", None)
    limit = getattr(devices, "set_per_process_memory_fraction", None)
    if call is None or limit is None:
        _warn(f"this PyTorch has no torch.{part}.set_per_process_memory_fraction")
        return
    with _warning(f"torch.{part}"):
        call(partial(_set_fraction, devices, f"torch.{part}", fraction))


def _set_fraction(devices: Any, name: str, fraction: float) -> None:
    """Sets the fraction of every device without a user's fraction."""
    with _warning(name):
        # A fraction from the variable, which PyTorch has read by now.
        current = getattr(devices, "get_per_process_memory_fraction", None)
        for index in range(devices.device_count()):
            if current is None or current(index) >= 1:
                devices.set_per_process_memory_fraction(fraction, index)


def _limit_tensorflow(tensorflow: Any, mebibytes: int) -> None:
    """Limits TensorFlow's memory of each GPU, from its first use on.

    TensorFlow accepts a limit only before its context starts, and asks the driver for
    devices then. A device with a limit refuses ``set_memory_growth``, which programs
    call at their start. So the limit is set at the last moment.
    """
    with _warning("TensorFlow"):
        from tensorflow.python.eager import context  # type: ignore  # pyright: ignore  # noqa: PGH003, PLC0415  # it is being imported

        _LateContext(cast("Any", context).context(), tensorflow, mebibytes).watch()


class _LateContext:
    """Sets the limits of GPUs when a context of TensorFlow starts."""

    def __init__(self, context: Any, tensorflow: Any, mebibytes: int) -> None:
        self._context = context
        self._tensorflow = tensorflow
        self._mebibytes = mebibytes
        self._start = context.ensure_initialized
        self._lock = threading.RLock()
        self._is_limited = False

    def watch(self) -> None:
        self._context.ensure_initialized = self._ensure_initialized

    def _ensure_initialized(self) -> None:
        with self._lock:  # other threads that start it wait for the limits
            if not self._is_limited:
                self._is_limited = True
                with suppress(AttributeError):
                    del self._context.ensure_initialized
                with _warning("TensorFlow"):
                    self._limit()
        self._start()

    def _limit(self) -> None:
        config = self._tensorflow.config
        for gpu in config.list_physical_devices("GPU"):
            if config.get_logical_device_configuration(gpu) is None:
                limit = config.LogicalDeviceConfiguration(memory_limit=self._mebibytes)
                config.set_logical_device_configuration(gpu, [limit])


class _warning:  # noqa: N801  # a context manager, named as in ``contextlib``
    """Suppresses the error of a framework that refuses its limit, with a warning."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> bool:
        if not isinstance(error, Exception):
            return False
        _warn(f"{self._name}: {type(error).__name__}: {error}")
        return True


def _warn(why: str) -> None:
    import logging  # noqa: PLC0415  # few workers need it

    from actorlib._base.log import tell  # noqa: PLC0415  # the same

    tell(
        logging.WARNING,
        "the share of the device does not limit this framework here: %s",
        why,
    )
