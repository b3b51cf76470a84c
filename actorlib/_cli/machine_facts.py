"""Finds out the facts about a machine that ``diagnosis`` judges.

Files, programs and SDKs are asked for at ``Host``; what only a try can tell is tried.
"""

from __future__ import annotations

import fcntl
import json
import os
import platform
import re
import resource
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
from contextlib import suppress
from importlib import metadata
from typing import TYPE_CHECKING, Any

from actorlib._cli.diagnosis import (
    CgroupFacts,
    ClockFacts,
    ContainerFacts,
    FamilyFacts,
    Folder,
    LimitFacts,
    MpsFacts,
    NvidiaFacts,
    NvmlCard,
    PackageFacts,
    ProcessFacts,
    PythonFacts,
    RuntimeFound,
    SharedMemoryFacts,
    StartFacts,
)
from actorlib._core.process_stat import parse_stat
from actorlib._door import processes
from actorlib._door.addresses import doors, peer_uid
from actorlib._door.client import named_process
from actorlib._enforcement.delegation import find_delegation, leftovers
from actorlib._enforcement.mps import CONTROL, mps_fault
from actorlib.accelerators.nvidia_driver import is_traced, scan_driver

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actorlib._cli.devices import Summary
    from actorlib.accelerators import Host

_OURS = ("cloudpickle", "msgpack", "nvidia-ml-py", "rich", "uvloop")
_FEATURES = ("metrics", "otel", "ray", "web")
"""The extras that are a user's, and no developer's."""
_REQUIREMENT = re.compile(
    r"([\w.-]+)(?:\[[^]]*\])?>=([\d.]+)(?:.*\bextra == ['\"]([\w-]+))?"
)
_SHIM = 12
"""From this version on the package pynvml has no module of that name any more."""
_SEALS = 0x1 | 0x2 | 0x4
_ST_NOEXEC = getattr(os, "ST_NOEXEC", 8)
_FIRST_PIDS = "[4026531836]"
"""The namespace of processes that a machine begins with (``include/linux/proc_ns.h``).
"""
_COMPUTE_MODES = {0: "default", 1: "exclusive", 2: "prohibited", 3: "exclusive"}
"""By NVML's number (``nvmlComputeMode_t``)."""
_COMM = 15
"""As many letters of a program's name as the kernel keeps of each process."""
_TITLE = "actorlib: "
_TEMPLATE = re.compile(r"actorlib: workers of pid (\d+)")
_MOMENT = 1.0
_START_CHECK = "actorlib._cli.start_check"
_START_LIMIT = 30.0


# Python and packages.


def find_python() -> PythonFacts:
    """Says which Python this is."""
    return PythonFacts(
        platform.python_implementation(),
        sys.version.partition(" ")[0],
        bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
    )


def find_packages(host: Host) -> PackageFacts:
    """Says what is installed that actorlib uses."""
    needed: dict[str, str] = {}
    optional: list[str] = []
    with suppress(metadata.PackageNotFoundError):  # it runs from a folder of sources
        for line in metadata.requires("actorlib") or ():
            known = _REQUIREMENT.match(line)
            if known and (known[3] is None or known[3] in _FEATURES):
                needed[known[1]] = known[2]
                optional += [known[1]] if known[3] else []
    old = _version("pynvml")
    packer: Any = host.sdk("msgpack").Packer
    return PackageFacts(
        found={name: _version(name) for name in dict.fromkeys((*_OURS, *needed))},
        needed=needed,
        optional=optional,
        is_msgpack_in_c=packer.__module__.endswith("_cmsgpack"),
        old_pynvml=old if old and int(old.split(".")[0]) < _SHIM else None,
        has_nvidia=is_traced(host),
    )


def _version(name: str) -> str | None:
    with suppress(metadata.PackageNotFoundError):
        return metadata.version(name)
    return None


def find_clock(host: Host) -> ClockFacts:
    """Says how time is told."""
    folder = "/sys/devices/system/clocksource/clocksource0"
    source = host.read_word(f"{folder}/current_clocksource")
    return ClockFacts(source or "", time.get_clock_info("monotonic").resolution)


# Limits and memory.


def find_limits(host: Host) -> LimitFacts:
    """Says how much a process of this user may have."""
    soft, hard = map(_bounded, resource.getrlimit(resource.RLIMIT_NOFILE))
    most = _own_cgroup(host, "pids", "pids.max")
    now = _own_cgroup(host, "pids", "pids.current")
    return LimitFacts(
        files=soft,
        most_files=hard,
        processes=_bounded(resource.getrlimit(resource.RLIMIT_NPROC)[0]),
        cgroup_processes=None if most is None else max(0, most - (now or 0)),
        memlock=_bounded(resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]),
        addresses=_bounded(resource.getrlimit(resource.RLIMIT_AS)[0]),
        has_devices=is_traced(host),
    )


def _bounded(limit: int) -> int | None:
    return None if limit == resource.RLIM_INFINITY else limit


def _own_cgroup(host: Host, controller: str, name: str) -> int | None:
    """Reads a number of the cgroup that this process is in, as far as it is seen."""
    for folder in _own_cgroups(host, controller):
        found = host.read_number(f"{folder}/{name}")
        if found is not None:
            return found
    return None


def _own_cgroups(host: Host, controller: str) -> Iterator[str]:
    for line in (host.read_text("/proc/self/cgroup") or "").splitlines():
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        if not controllers or controller in controllers.split(","):
            root = f"/sys/fs/cgroup/{controller}" if controllers else "/sys/fs/cgroup"
            yield f"{root}{path}".rstrip("/")
            yield root


def find_shared_memory(host: Host) -> SharedMemoryFacts:
    """Tries what large values are shared in."""
    fault, is_sealed = "", False
    try:
        file = os.memfd_create("actorlib-doctor", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    except AttributeError:
        fault = f"{host.system} has none"
    except OSError as error:
        fault = str(error)
    else:
        try:
            os.ftruncate(file, 1)
            with suppress(OSError):
                fcntl.fcntl(file, fcntl.F_ADD_SEALS, _SEALS)
                is_sealed = True
        finally:
            os.close(file)
    shm = _folder("/dev/shm") if host.system == "linux" else None
    temporary = _folder(tempfile.gettempdir())
    return SharedMemoryFacts(
        fault,
        is_sealed,
        shm,
        temporary or Folder(tempfile.gettempdir(), 0, 0, is_writable=False),
    )


def _folder(path: str) -> Folder | None:
    try:
        told = os.statvfs(path)
    except OSError:
        return None
    return Folder(
        path,
        told.f_blocks * told.f_frsize,
        told.f_bavail * told.f_frsize,
        is_writable=os.access(path, os.W_OK | os.X_OK),
        is_noexec=bool(told.f_flag & _ST_NOEXEC),
    )


def find_container(host: Host) -> ContainerFacts:
    """Says what this process may use of the machine."""
    used = _own_cgroup(host, "memory", "memory.current")
    if used is None:
        used = _own_cgroup(host, "memory", "memory.usage_in_bytes")
    if used is not None:
        used -= min(used, _reclaimable(host))
    return ContainerFacts(
        cpus=host.cpu_count(),
        machine_cpus=os.cpu_count() or 1,
        memory=host.memory(),
        machine_memory=host.physical_memory(),
        used=used,
    )


def _reclaimable(host: Host) -> int:
    """Bytes of files that the kernel keeps in memory, and gives up when it is short."""
    for folder in _own_cgroups(host, "memory"):
        told = host.read_text(f"{folder}/memory.stat") or ""
        found = re.search(r"^(?:total_)?inactive_file (\d+)$", told, re.MULTILINE)
        if found:
            return int(found[1])
    return 0


def find_cgroups(host: Host) -> CgroupFacts:
    """Says whether a tree of cgroups was delegated, and what is left there."""
    found = find_delegation(host)
    left = leftovers(host, found.base) if found.base else []
    return CgroupFacts(found.base, found.faults, left)


# Devices.


def families_in(summary: Summary) -> list[FamilyFacts]:
    """Says what each family has, from what ``actorlib devices`` knows."""
    return [
        FamilyFacts(
            family=family["family"],
            devices=[
                f"{device['id']} ({device['model']})"
                if device["model"]
                else device["id"]
                for device in family["devices"]
            ],
            rejected=[(other["name"], other["why"]) for other in family["rejected"]],
            reason=family["reason"],
            shares=family["devices"][0]["shares"] if family["devices"] else None,
        )
        for family in summary["families"]
    ]


def find_nvidia(host: Host) -> NvidiaFacts:
    """Asks NVIDIA's driver."""
    if not is_traced(host):
        return NvidiaFacts(is_traced=False)
    facts = NvidiaFacts(is_traced=True, is_nested=_is_nested(host))
    try:
        nvml = host.sdk("pynvml")
        nvml.nvmlInit()
    except Exception as error:  # noqa: BLE001  # its own class, and what the loader raises
        return facts._replace(
            fault=str(error) or type(error).__name__,
            is_missing=isinstance(error, ImportError),
            is_needed=not scan_driver(host, str(error)).targets,
        )
    try:
        return _told_by(nvml, facts)
    finally:
        nvml.nvmlShutdown()


def _told_by(nvml: Any, facts: NvidiaFacts) -> NvidiaFacts:
    cuda = _told(nvml, "nvmlSystemGetCudaDriverVersion")
    cards: list[NvmlCard] = []
    for number in range(int(_told(nvml, "nvmlDeviceGetCount") or 0)):
        mode = ""
        with suppress(nvml.NVMLError, AttributeError):
            handle = nvml.nvmlDeviceGetHandleByIndex(number)
            mode = _COMPUTE_MODES.get(nvml.nvmlDeviceGetComputeMode(handle), "")
        cards.append(NvmlCard(str(number), mode))
    return facts._replace(
        driver=_text(_told(nvml, "nvmlSystemGetDriverVersion")),
        nvml=_text(_told(nvml, "nvmlSystemGetNVMLVersion")),
        cuda=f"{cuda // 1000}.{cuda % 1000 // 10}" if isinstance(cuda, int) else "",
        cards=cards,
    )


def _told(nvml: Any, question: str) -> Any:
    with suppress(nvml.NVMLError, AttributeError):
        return getattr(nvml, question)()
    return None


def _text(told: Any) -> str:
    if isinstance(told, bytes):  # older releases
        return told.decode("utf-8", "replace")
    return str(told or "unknown")


def find_mps(host: Host) -> MpsFacts:
    """Looks for what MPS needs, and for what is left of it."""
    return MpsFacts(
        is_traced=is_traced(host),
        fault=mps_fault(host),
        daemons=[f"pid {pid}" for pid, name in _names(host) if name == CONTROL[:_COMM]],
        pipe=host.environ.get("CUDA_MPS_PIPE_DIRECTORY", ""),
        leftovers=find_folders(host),
    )


def find_folders(host: Host) -> list[str]:
    """Finds the folders of MPS daemons that no process keeps."""
    places = {host.environ.get("TMPDIR") or "/tmp", "/tmp"}
    folders = {
        folder for place in places for folder in host.glob(f"{place}/actorlib-mps-*")
    }
    if not folders:
        return []
    kept = "\0".join(words for _, words in _command_lines(host))
    return sorted(folder for folder in folders if folder not in kept)


# Processes.


def _command_lines(host: Host) -> Iterator[tuple[int, str]]:
    for path in host.glob("/proc/[0-9]*/cmdline"):
        words = host.read_text(path)
        if words:
            yield int(path.split("/")[2]), words


def _names(host: Host) -> Iterator[tuple[int, str]]:
    for path in host.glob("/proc/[0-9]*/comm"):
        name = host.read_word(path)
        if name:
            yield int(path.split("/")[2]), name


def _is_nested(host: Host) -> bool:
    """Whether processes are counted otherwise here than by the machine."""
    named = host.link("/proc/self/ns/pid")
    return named is not None and not named.endswith(_FIRST_PIDS)


def find_processes(host: Host) -> ProcessFacts:
    """Says how processes can look at one another, and which have lost their program."""
    hides = ""
    for line in (host.read_text("/proc/self/mountinfo") or "").splitlines():
        if line.split()[4:5] == ["/proc"]:
            said = re.search(r"hidepid=(\w+)", line)
            hides = said[1] if said else ""
    orphans = find_orphans(host)
    if orphans:
        time.sleep(_MOMENT)  # one that is about to end is none
        left = find_orphans(host)
        orphans = [orphan for orphan in orphans if orphan in left]
    return ProcessFacts(
        fault=_door_fault(host),
        ptrace_scope=host.read_number("/proc/sys/kernel/yama/ptrace_scope"),
        hides=hides,
        is_nested=_is_nested(host),
        orphans=orphans,
    )


def _door_fault(host: Host) -> str:
    """Tries what the door of a runtime needs; why it cannot be had, or nothing."""
    if host.system != "linux":
        return ""
    place = f"\0actorlib-doctor-{os.getpid()}-{os.urandom(4).hex()}"
    try:
        with (
            socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as door,
            socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as visitor,
        ):
            door.bind(place)
            door.listen(1)
            visitor.connect(place)
            if peer_uid(visitor) != os.geteuid():
                return "the kernel does not say who is at the other end of a socket"
            table = host.read_text("/proc/net/unix")
    except OSError as error:
        return f"an abstract socket cannot be used: {error}"
    if table is None:
        return "/proc/net/unix cannot be read"
    return "" if place[1:] in table else "/proc/net/unix does not list sockets"


def find_orphans(host: Host) -> list[str]:
    """Finds workers whose template is gone, and templates whose program is."""
    titles = dict(_command_lines(host))
    here = host.link("/proc/self/ns/pid")
    found: list[str] = []
    for pid, words in titles.items():
        # Others count their programs otherwise.
        if not words.startswith(_TITLE) or host.link(f"/proc/{pid}/ns/pid") != here:
            continue
        stat = parse_stat(host.read_text(f"/proc/{pid}/stat") or "")
        template = _TEMPLATE.match(words)
        parent = int(template[1]) if template else stat.parent if stat else 0
        if (
            stat is None
            or parent not in titles
            or not (template or titles[parent].startswith(_TITLE))
        ):
            found.append(f"pid {pid} ({processes.shortened(words)!r})")
    return found


def find_runtimes(summary: Summary | None) -> list[RuntimeFound]:
    """Lists the other runtimes of this user, and the devices that they have taken."""
    taken: dict[int, list[str]] = {}
    for address in doors().find():
        if address.uid == os.geteuid() and address.pid != os.getpid():
            taken.setdefault(address.pid, [])
    for family in summary["families"] if summary is not None else ():
        for device in family["devices"]:
            for claim in device["claims"]:
                named = f"{family['kind']} {device['id']}"
                taken.setdefault(claim["pid"], []).append(named)
    found: list[RuntimeFound] = []
    for pid, devices in sorted(taken.items()):
        usage = processes.usage(pid)
        is_stopped = usage is not None and usage.state in "tT"
        found.append(RuntimeFound(named_process(pid), devices, is_stopped=is_stopped))
    return found


def try_a_start() -> StartFacts:
    """Starts a runtime with one actor, in a process of its own, and ends it.

    Where a template does not work, it is tried without.
    """
    usual, other = ("template" if sys.platform == "linux" else "spawn"), "spawn"
    facts = _tried(usual)
    if facts.fault and usual != other and not _tried(other).fault:
        return facts._replace(other=other)
    return facts


def _tried(method: str) -> StartFacts:
    with subprocess.Popen(
        [sys.executable, "-m", _START_CHECK, method],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as process:
        try:
            out, err = process.communicate(timeout=_START_LIMIT)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return StartFacts(method, f"no answer within {_START_LIMIT:g} s")
    if process.returncode:
        last = err.strip().splitlines()[-1:] or [f"exit code {process.returncode}"]
        return StartFacts(method, last[0])
    told = json.loads(out)
    return StartFacts(method, seconds=told["seconds"], is_shared=told["is_shared"])
