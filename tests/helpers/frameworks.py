"""Packages called ``torch`` and ``tensorflow`` that write down what they are told.

They keep a call until their devices come up, as the real ones do, and nothing of them
needs a device. ``log`` of each says in order what was done.
"""

from __future__ import annotations

import sys
import textwrap
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def _dedented(files: Mapping[str, str]) -> dict[str, str]:
    return {name: textwrap.dedent(text) for name, text in files.items()}


_DEVICES = '''
    """As torch.cuda and torch.xpu: lazy, with a queue that runs when it comes up."""

    log = []
    fractions = {}
    _queue = []
    _state = {"begun": False, "ready": False}


    def is_initialized():
        return _state["ready"]


    def _lazy_call(function):
        if is_initialized():
            function()
        else:
            _queue.append(function)


    def _lazy_init():
        if _state["begun"]:
            return
        _state["begun"] = True
        log.append("init")
        for function in _queue:
            function()
        _state["ready"] = True


    def device_count():
        return 2


    def get_per_process_memory_fraction(index):
        _lazy_init()
        return fractions.get(index, 1.0)


    def set_per_process_memory_fraction(fraction, index):
        _lazy_init()
        fractions[index] = fraction
        log.append(f"{index}: {fraction}")


    def empty():
        _lazy_init()
        log.append("allocated")


    def manual_seed_all(seed):
        _lazy_call(lambda: None)
'''

TORCH = _dedented(
    {
        "torch/__init__.py": """
        import os
        from torch import cuda, xpu

        __version__ = "2.9.1"


        def seed():
            pass
    """,
        "torch/cuda.py": _DEVICES,
        "torch/xpu.py": _DEVICES,
    }
)
"""PyTorch, as far as this package speaks to it."""

TENSORFLOW = _dedented(
    {
        "tensorflow/__init__.py": """
        from tensorflow import config

        log = config.log


        def constant():
            from tensorflow.python.eager import context

            context.context().ensure_initialized()
            log.append("allocated")
    """,
        "tensorflow/config.py": """
        log = []
        growing, limits = [], {}
        _state = {"up": False}


        class LogicalDeviceConfiguration:
            def __init__(self, memory_limit):
                self.memory_limit = memory_limit


        def list_physical_devices(kind):
            log.append("listed")
            return [f"{kind}:0"]


        def get_logical_device_configuration(gpu):
            return limits.get(gpu)


        def set_logical_device_configuration(gpu, configurations):
            if _state["up"]:
                raise RuntimeError("cannot be modified after being initialized")
            limits[gpu] = [one.memory_limit for one in configurations]
            log.append(f"{gpu}: {limits[gpu]}")


        def set_memory_growth(gpu, enable):
            if gpu in limits:
                raise ValueError("Cannot set memory growth on device when virtual")
            growing.append(gpu)
    """,
        "tensorflow/python/__init__.py": "",
        "tensorflow/python/eager/__init__.py": "",
        "tensorflow/python/eager/context.py": """
        from tensorflow import config


        class Context:
            def ensure_initialized(self):
                if not config._state["up"]:
                    config._state["up"] = True
                    config.log.append("init")


        _context = Context()


        def context():
            return _context
    """,
    }
)
"""TensorFlow likewise."""


def write(folder: Path, *packages: Mapping[str, str]) -> None:
    """Writes packages into a folder that is to be on ``sys.path``."""
    for files in packages:
        for name, text in files.items():
            file = folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")


# For workers, which import this file alone.


def use_torch(part: str = "cuda") -> list[str]:
    """What PyTorch was told, in a worker that uses its devices."""
    devices: Any = getattr(import_module("torch"), part)
    devices.empty()
    log: list[str] = devices.log
    return log


def import_torch() -> list[str]:
    """The same of one that does not use them."""
    log: list[str] = import_module("torch").cuda.log
    return log


def use_tensorflow() -> list[str]:
    """What TensorFlow was told."""
    tensorflow: Any = import_module("tensorflow")
    tensorflow.constant()
    log: list[str] = tensorflow.log
    return log


def finders() -> int:
    """How many finders of ours are waiting."""
    return sum("import_hook" in type(one).__module__ for one in sys.meta_path)
