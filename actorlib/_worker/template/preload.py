"""Imports modules into the template, and checks whether it may fork afterwards."""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import sys
import traceback
import warnings
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Sequence

    from actorlib._worker.os_process import ProcessTitle


def preload(names: Sequence[str], begins: Callable[[str], None]) -> tuple[str, str]:
    """Imports modules; first calls ``begins``, as an import may end the process.

    Returns:
        The traceback of the import that failed, or empty. The module that has
        initialised an accelerator and the evidence, or empty.
    """
    if names:
        # The user's modules find the same modules imported as in the owner: an import
        # may have effects, such as a patch.
        _load_names()
        gc.enable()
    culprit = ""
    nvml_check = "PYTORCH_NVML_BASED_CUDA_CHECK"
    check_mode = os.environ.setdefault(nvml_check, "1")
    for name in names:
        begins(name)
        try:
            importlib.import_module(name)
        except BaseException:  # noqa: BLE001  # the user's module
            return traceback.format_exc(), ""
        if not culprit and (evidence := accelerator_taken()):
            culprit = f"{name} ({evidence})"
    if check_mode == "1":
        os.environ.pop(nvml_check, None)
    return "", culprit


def accelerator_taken() -> str:
    """Returns how this process has initialised an accelerator, or an empty string.

    A driver that was initialised before a fork does not work after it. torch reports
    it. Otherwise the process has a device file open that only an initialised driver
    opens. NVML is harmless and does not open ``nvidia-uvm``.
    """
    torch: Any = sys.modules.get("torch")
    if torch is not None:
        with contextlib.suppress(AttributeError):
            if torch.cuda.is_initialized():
                return "torch.cuda is initialised"
    return device_file_among(_open_files())


_DEVICE_FILES = (
    *("/dev/nvidia-uvm", "/dev/kfd", "/dev/dri/renderD", "/dev/mxcd"),
    *("/dev/accel", "/dev/vfio/", "/dev/neuron", "/dev/hl", "/dev/davinci"),
    *("/dev/rbln", "/dev/rngd", "/dev/aries", "/dev/regulus", "/dev/tenstorrent"),
)
"""The prefixes of the device files that an initialised driver keeps open."""


def device_file_among(files: list[str]) -> str:
    """Returns a message about the first device file of an initialised driver, or ""."""
    for name in files:
        if name.startswith(_DEVICE_FILES):
            return f"it holds {name} open"
    return ""


def _open_files() -> list[str]:
    files: list[str] = []
    with contextlib.suppress(OSError):
        for descriptor in os.listdir("/proc/self/fd"):  # noqa: PTH208  # no pathlib in the template
            with contextlib.suppress(OSError):
                files.append(os.readlink(f"/proc/self/fd/{descriptor}"))  # noqa: PTH115
    return files


def warm_up(title: ProcessTitle) -> Callable[[socket.socket], NoReturn]:
    """Imports the modules that every worker needs, and freezes the garbage collector.

    The collector of a child does not write to frozen objects, so they are not copied.
    Garbage that is frozen with them is collected in idle time; see ``rest``.

    Returns:
        A function that serves an actor in a fork of this process, from its end of the
        pipe.
    """
    importlib.import_module("actorlib._worker.executors.serial_executor")
    from actorlib._worker.__main__ import WarmWorker, flush_each_line, run_worker  # noqa: PLC0415  # warm now
    from actorlib._worker.features import attach_to_process_and_forks  # noqa: PLC0415  # on demand

    flush_each_line()
    attach_to_process_and_forks()
    warm = WarmWorker(title)
    # Numerical libraries handle forks of their pool threads. The filter is limited to
    # the template, because workers inherit it, and their forks are the user's.
    warnings.filterwarnings(
        "ignore",
        "This process.*multi-threaded",
        DeprecationWarning,
        module=r"actorlib\._worker\.template\.forkserver\Z",
    )
    gc.disable()
    gc.freeze()
    return partial(run_worker, warm=warm)


def rest() -> list[Callable[[], object]]:
    """Creates the steps that import what some workers need; each takes milliseconds.

    Between two steps the template serves requests and checks for its owner. The first
    worker of a runtime is forked before them and imports on demand: most programs wait
    for their first worker, and few of those need these modules.
    """
    from actorlib._worker.__main__ import PARTS  # noqa: PLC0415  # on demand
    from actorlib._worker.features import attach_to_forks, import_parts  # noqa: PLC0415  # on demand

    executors = (
        "actorlib._worker.executors.async_executor",
        "actorlib._worker.executors.task_executor",
        "actorlib._worker.executors.threaded_executor",
        "uvloop",
    )
    return [
        *(partial(importlib.import_module, name) for name in PARTS),
        import_parts,
        *(partial(_load, name) for name in executors),
        _load_names,
        attach_to_forks,
        collect_garbage,
    ]


def _load(name: str) -> None:
    with contextlib.suppress(ImportError):  # the worker that needs it reports it
        importlib.import_module(name)


def _load_names() -> None:
    """Loads the public names of the package, which the user's modules use."""
    package = importlib.import_module("actorlib")
    for name in package.__all__:
        with contextlib.suppress(ImportError):
            getattr(package, name)


def collect_garbage() -> None:
    """Collects garbage, then freezes the remaining objects for the forks."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()
