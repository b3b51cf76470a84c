"""Imports what workers need in the template, and says if it may still fork then."""

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
    """Imports modules; says what failed, and which one took an accelerator.

    Args:
        names: The modules.
        begins: Called with each before it is imported, which it may not survive.

    Returns:
        The traceback of the import that failed, or empty; the module that has
        initialised an accelerator and how it is known, or empty.
    """
    if names:
        # The user's modules find imported what they would find in the owner, as
        # importing it may take effect: modules that are patched, for example.
        _load_names()
        gc.enable()
    culprit = ""
    nvml_check = "PYTORCH_NVML_BASED_CUDA_CHECK"
    asked = os.environ.setdefault(nvml_check, "1")
    for name in names:
        begins(name)
        try:
            importlib.import_module(name)
        except BaseException:  # noqa: BLE001  # the user's module
            return traceback.format_exc(), ""
        if not culprit and (taken := accelerator_taken()):
            culprit = f"{name} ({taken})"
    if asked == "1":
        os.environ.pop(nvml_check, None)
    return "", culprit


def accelerator_taken() -> str:
    """Says how this process has initialised an accelerator, or the empty string.

    A driver that was initialised before a fork does not work after it. torch says so
    itself; otherwise the device files that only an initialised driver keeps open tell
    (NVML, which is harmless, does not open ``nvidia-uvm``).
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
"""How the files begin that a vendor's driver keeps open once it is initialised."""


def device_file_among(files: list[str]) -> str:
    """Says which file is open that only an initialised accelerator driver keeps."""
    for name in files:
        if name.startswith(_DEVICE_FILES):
            return f"it holds {name} open"
    return ""


def _open_files() -> list[str]:
    found: list[str] = []
    with contextlib.suppress(OSError):
        for descriptor in os.listdir("/proc/self/fd"):  # noqa: PTH208  # no pathlib in the template
            with contextlib.suppress(OSError):
                found.append(os.readlink(f"/proc/self/fd/{descriptor}"))  # noqa: PTH115
    return found


def warm_up(title: ProcessTitle) -> Callable[[socket.socket], NoReturn]:
    """Imports what every worker needs, and keeps collectors from copying it.

    What is frozen is not written to by the collector of a child, and is not copied. The
    garbage that is frozen with it is collected in idle time: see ``rest``.

    Args:
        title: Shows what a fork is.

    Returns:
        Serves an actor by the worker's end of its pipe, in a fork of this process.
    """
    importlib.import_module("actorlib._worker.executors.serial_executor")
    from actorlib._worker.__main__ import WarmWorker, flush_each_line, run_worker  # noqa: PLC0415  # warm now
    from actorlib._worker.features import attach_to_process_and_forks  # noqa: PLC0415  # likewise

    flush_each_line()
    attach_to_process_and_forks()
    warm = WarmWorker(title)
    # Pool threads of numerical libraries survive a fork by handlers of their own. What
    # forks in a worker is the user's, and workers have these filters too.
    warnings.filterwarnings(
        "ignore",
        "This process.*multi-threaded",
        DeprecationWarning,
        module=r"actorlib\._worker\.forkserver\Z",
    )
    gc.disable()
    gc.freeze()
    return partial(run_worker, warm=warm)


def rest() -> list[Callable[[], object]]:
    """Makes the steps that import what some workers need; each takes milliseconds.

    The first worker of a runtime is forked before them and imports what it needs
    itself: most programs wait for their first worker, and few of those need any of it.
    """
    modules = (
        "actorlib._worker.executors.async_executor",
        "actorlib._worker.executors.task_executor",
        "actorlib._worker.executors.threaded_executor",
        "uvloop",
    )
    loads = (partial(_load, name) for name in modules)
    from actorlib._worker.features import attach_to_forks  # noqa: PLC0415  # likewise

    return [*loads, _load_names, attach_to_forks, collect_garbage]


def _load(name: str) -> None:
    with contextlib.suppress(ImportError):  # the worker that needs it says why
        importlib.import_module(name)


def _load_names() -> None:
    """Loads what the package has by name, which modules of users ask for."""
    package = importlib.import_module("actorlib")
    for name in package.__all__:
        with contextlib.suppress(ImportError):
            getattr(package, name)


def collect_garbage() -> None:
    """Collects what is garbage, and keeps the collectors of forks from the rest."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()
