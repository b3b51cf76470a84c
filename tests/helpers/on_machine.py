"""Runs a script as on a recorded machine: ``on_machine.py amd_mi300x script.py``."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from actorlib._owner import machine
from helpers.nvml import nvidia_machine

if __name__ == "__main__":
    host = nvidia_machine(sys.argv[1], environ={})
    machine.Host = lambda: host  # type: ignore[assignment,misc]  # pyright: ignore  # noqa: PGH003  # as the fixture does
    runpy.run_path(sys.argv[2], run_name="__main__")
