"""Describes the machine and the versions."""

import importlib.metadata
import os
import platform
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import actorlib

_LIBRARIES = (
    "uvloop",
    "msgpack",
    "cloudpickle",
    "ray",
    "xoscar",
    "distributed",
    "numpy",
    "torch",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What the figures were measured on, and when.

    Attributes:
        day: The date, in UTC.
        cpu: Its model.
        cores: How many CPUs this process may use.
        memory: Bytes.
        load: How many processes wanted a CPU in the minute before.
        kernel: Name and release.
        python: Implementation and version.
        versions: Of the libraries, by name.
    """

    day: str
    cpu: str
    cores: int
    memory: int
    load: float
    kernel: str
    python: str
    versions: dict[str, str]

    @property
    def is_busy(self) -> bool:
        """Whether somebody else wanted it."""
        return self.load > self.cores / 4

    def __str__(self) -> str:
        libraries = ", ".join(f"{name} {text}" for name, text in self.versions.items())
        busy = " (busy: the figures are unreliable)" if self.is_busy else ""
        return (
            f"{self.day}, {self.cpu}, {self.cores} cores, "
            f"{self.memory / 2**30:.0f} GiB, {self.kernel}, {self.python}; "
            f"{libraries}; load before {self.load}{busy}"
        )


def this_machine() -> Machine:
    """The machine, the interpreter and the libraries."""
    return Machine(
        day=datetime.now(UTC).date().isoformat(),
        cpu=_cpu_model(),
        cores=cores(),
        memory=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        load=round(os.getloadavg()[0], 2),
        kernel=f"{platform.system()} {platform.release()}",
        python=f"{platform.python_implementation()} {platform.python_version()}",
        versions={"actorlib": actorlib.__version__} | _versions(),
    )


def cores() -> int:
    """How many CPUs this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    named = (line.partition(":")[2] for line in lines if line.startswith("model name"))
    return next(named, platform.machine()).strip()


def _versions() -> dict[str, str]:
    found: dict[str, str] = {}
    for name in _LIBRARIES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
