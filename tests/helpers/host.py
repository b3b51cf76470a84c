"""A recorded machine: the answers of a ``Host`` that is not here."""

from __future__ import annotations

import fnmatch
import functools
import re
import tomllib
import zlib
from functools import cached_property
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, final

from actorlib.accelerators.held_names import HeldNames, SocketNames
from actorlib.accelerators.host import Host

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import ModuleType


GIB = 2**30

MACHINES = Path(__file__).parent.parent / "accelerators" / "data"


@functools.cache
def read_machine(name: str) -> Mapping[str, Any]:
    """Reads a recorded machine: a file in ``tests/accelerators/data``.

    Its tables are the arguments of ``RecordedHost`` (``open`` and ``shut`` list the
    devices, by whether this process may open them), what NVML and MetaX's library
    answer there, and ``expected``. A machine that is ``like`` another has its tables.

    Args:
        name: The file's name without its ending.
    """
    text = (MACHINES / f"{name}.toml").read_text(encoding="utf-8")
    machine: dict[str, Any] = tomllib.loads(text)
    if "like" in machine:
        other: dict[str, Any] = {**read_machine(machine["like"]), "expected": {}}
        machine = {**other, **machine}
    return machine


_OF_PROCESSES = re.compile(r"/proc/\d+/")


@functools.cache
def _matches(path: str, pattern: str) -> bool:
    """Whether a path matches a pattern in which a star stays in its folder."""
    parts, patterns = path.split("/"), pattern.split("/")
    return len(parts) == len(patterns) and all(
        map(fnmatch.fnmatchcase, parts, patterns)
    )


class _NoNames(HeldNames):
    """Names of which none is held."""

    def hold(self, name: str) -> Callable[[], None]:  # noqa: ARG002
        """Holds nothing."""
        return lambda: None

    def held(self) -> Iterator[str]:
        """Nothing is held."""
        return iter(())


@final
class RecordedHost(Host):
    """A machine that is made of what it was told: files, variables, SDKs, sizes.

    Args:
        environ: The environment of the process.
        files: Texts by absolute path; their folders exist too.
        devices: Character devices by path, and whether this process may open them.
        links: Where symbolic links lead, by path; what lies behind one is found by
            its path through the link, as it was recorded.
        folders: Folders that would not exist for the sake of a file.
        commands: What commands print, by the words of the command.
        sdks: Modules by name; no other can be imported.
        cpus: Logical CPUs that the scheduler allows.
        memory: Physical memory in bytes.
        system: As ``sys.platform``.
        architecture: As ``uname -m``.

    Attributes:
        shared: Where the programs that share the machine hold names; they are processes
            of this one. None unless it is set: then it is all alone.
        programs: Where programs are that are on ``PATH``, by name; they are real.
    """

    shared: Path | None = None
    programs: Mapping[str, str] = MappingProxyType({})

    def __init__(
        self,
        *,
        environ: Mapping[str, str] | None = None,
        files: Mapping[str, str] | None = None,
        devices: Mapping[str, bool] | None = None,
        links: Mapping[str, str] | None = None,
        folders: Sequence[str] = (),
        commands: Mapping[str, str] | None = None,
        sdks: Mapping[str, ModuleType] | None = None,
        cpus: int = 8,
        memory: int = 16 * GIB,
        system: str = "linux",
        architecture: str = "x86_64",
    ) -> None:
        self._environ = dict(environ or {})
        self._files = dict(files or {})
        self._devices = dict(devices or {})
        self._links = dict(links or {})
        self._folders = tuple(folders)
        self._commands = dict(commands or {})
        self._sdks = dict(sdks or {})
        self._cpus = cpus
        self._memory = memory
        self._system = system
        self._architecture = architecture

    @classmethod
    def load(
        cls,
        machine: str | Mapping[str, Any],
        *,
        environ: Mapping[str, str] | None = None,
        sdks: Mapping[str, ModuleType] | None = None,
    ) -> RecordedHost:
        """Makes a recorded machine.

        Args:
            machine: What ``read_machine`` gives, or its argument.
            environ: Variables besides the recorded ones.
            sdks: Modules that can be imported there.
        """
        told = read_machine(machine) if isinstance(machine, str) else machine
        devices = dict.fromkeys(told.get("open", ()), True)
        return cls(
            environ={**told.get("environ", {}), **(environ or {})},
            files=told.get("files"),
            devices=devices | dict.fromkeys(told.get("shut", ()), False),
            links=told.get("links"),
            folders=told.get("folders", ()),
            commands=told.get("commands"),
            sdks=sdks,
            system=told.get("system", "linux"),
            architecture=told.get("architecture", "x86_64"),
        )

    @property
    def environ(self) -> Mapping[str, str]:
        """The recorded environment."""
        return self._environ

    def read_text(self, path: str) -> str | None:
        """The recorded text, or None."""
        if self.shared is not None and _OF_PROCESSES.match(path):
            return super().read_text(path)
        return self._files.get(path)

    def names(self) -> HeldNames:
        """The names of the programs with the same shared folder, or nothing."""
        if self.shared is None:
            return _NoNames()
        return SocketNames(f"{zlib.crc32(str(self.shared).encode())}-")

    def glob(self, pattern: str) -> list[str]:
        """The recorded files, devices, links and folders that match, sorted."""
        return [path for path in self._paths if _matches(path, pattern)]

    @cached_property
    def _paths(self) -> list[str]:
        named = [*self._files, *self._devices, *self._links, *self._folders]
        ends = [PurePosixPath(path) for path in named]
        return sorted({str(path) for end in ends for path in (end, *end.parents)})

    def is_device(self, path: str) -> bool:
        """Whether it was recorded as one."""
        return path in self._devices

    def can_open(self, path: str) -> bool:
        """As it was recorded."""
        return self._devices.get(path, False)

    def link(self, path: str) -> str | None:
        """The recorded target, or None."""
        return self._links.get(path)

    @property
    def system(self) -> str:
        """The recorded name."""
        return self._system

    @property
    def architecture(self) -> str:
        """The recorded name."""
        return self._architecture

    def output(self, *command: str, limit: float = 2.0) -> str | None:  # noqa: ARG002
        """What was recorded for the command, or None."""
        return self._commands.get(" ".join(command))

    def program(self, name: str) -> str | None:
        """Where it was said to be, or None."""
        return self.programs.get(name)

    def sdk(self, name: str) -> ModuleType:
        """The recorded module."""
        try:
            return self._sdks[name]
        except KeyError:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name) from None

    def affinity(self) -> int:
        """The recorded number."""
        return self._cpus

    def physical_memory(self) -> int:
        """The recorded number of bytes."""
        return self._memory


def after(
    environ: Mapping[str, str], changes: Mapping[str, str | None]
) -> dict[str, str]:
    """The environment after changes, where None means that a variable is gone."""
    merged = {**environ, **changes}
    return {name: value for name, value in merged.items() if value is not None}
