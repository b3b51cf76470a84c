"""The checks of ``actorlib doctor``; each yields findings with advice.

With a *problem*, actorlib or a device does not work. With a *warning*, it is slower or
lacks a feature. The checks read files, programs and SDKs through ``Host``; what only a
trial shows is tried.
"""

from __future__ import annotations

import fcntl
import os
import platform
import re
import resource
import sys
import sysconfig
import tempfile
import time
from contextlib import suppress
from functools import partial
from importlib import metadata
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from actorlib._base.process_stat import parse_stat
from actorlib._cli import devices
from actorlib._cli.start_check import ANSWERED
from actorlib._enforcement.tiers import Site
from actorlib._features.runtime import make_tiers
from actorlib._options.resources import format_bytes
from actorlib._queries import processes
from actorlib._rows.tables import some_of
from actorlib.accelerators import families
from actorlib.accelerators.device_users import DeviceUsers
from actorlib.accelerators.fake_devices import NOT_LOOKED_FOR, VARIABLE
from actorlib.accelerators.nvidia_driver import may_have_nvml, scan_driver

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from actorlib.accelerators import Device, Host

State = Literal["ok", "warning", "problem"]


class Finding(NamedTuple):
    """A finding of a check.

    Attributes:
        what: The finding, in a sentence without a full stop.
        advice: What to do; empty if nothing.
        check: The name of the check.
    """

    state: State
    what: str
    advice: str = ""
    check: str = ""


_ok = partial(Finding, "ok")
_warning = partial(Finding, "warning")
_problem = partial(Finding, "problem")

DESCRIPTORS = 7
"""Descriptors of the program that the start of a worker needs for a moment."""
_FEW_WORKERS = 32
_MANY_WORKERS = 500
_SHOWN = 5
"""The most names in a list."""
_MIB = 2**20
_PACKAGES = ("cloudpickle", "msgpack", "nvidia-ml-py", "ray", "rich", "uvloop")


def check_python(host: Host) -> Iterator[Finding]:
    """Checks the build of Python, and the packages that actorlib uses."""
    implementation = platform.python_implementation()
    name = f"{implementation} {platform.python_version()}"
    if implementation == "CPython" and not sysconfig.get_config_var("Py_GIL_DISABLED"):
        yield _ok(name)
    else:
        what = f"{name}, a build with which actorlib is not tested"
        yield _warning(what, "Use the usual build of CPython: actors are processes")
    versions: dict[str, str] = {}
    for package in _PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            versions[package] = metadata.version(package)
    yield _ok(", ".join(f"{name} {version}" for name, version in versions.items()))
    if "uvloop" not in versions:
        what = "uvloop is not installed: asyncio's own event loop is used, which is "
        yield _warning(f"{what}slower", "pip install uvloop")
    packer: Any = host.sdk("msgpack").Packer
    if not packer.__module__.endswith("_cmsgpack"):
        yield _warning(
            "msgpack runs without its C code: calls take several times as long",
            "Unset MSGPACK_PUREPYTHON, or install msgpack's wheel for this Python",
        )


_START_CHECK = "actorlib._cli.start_check"
_START_LIMIT = 30.0


def check_start(host: Host) -> Iterator[Finding]:
    """Starts a runtime with one actor in a process of its own, and ends it."""
    method = "template" if host.system == "linux" else "spawn"
    answer = _try_start(host, method)
    if answer.startswith(ANSWERED):
        yield _ok(f"an actor of a new runtime ({method}) {answer}")
        return
    spawns = method != "spawn" and _try_start(host, "spawn").startswith(ANSWERED)
    what = f"a runtime with one actor ({method}) does not work: {answer}"
    other = "init(start_method='spawn') works"
    yield _problem(what, other if spawns else "The other checks may say why")


def _try_start(host: Host, method: str) -> str:
    command = sys.executable, "-m", _START_CHECK, method
    answer = host.output(*command, limit=_START_LIMIT)
    return answer or f"no answer within {_START_LIMIT:g} s, or a crash"


def check_limits(host: Host) -> Iterator[Finding]:
    """Checks how many workers the limits of the system allow."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]  # the soft limit is raised
    users = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    limits: list[tuple[int, str, str]] = []
    if files != resource.RLIM_INFINITY:
        what = f"{files} files may be open, enough for some {{}} workers of one program"
        limits.append((files // DESCRIPTORS, what, "ulimit -Hn, limits.conf"))
    if users != resource.RLIM_INFINITY:
        limits.append((users, "this user may have {} processes", "ulimit -u"))
    most, now = _own_limit(host, "pids.max"), _own_limit(host, "pids.current")
    if most.isdecimal():
        what = "the cgroup of this process may have {} more processes and threads"
        free = max(0, int(most) - int(now or 0))
        limits.append((free, what, "pids.max of the cgroup; --pids-limit"))
    for workers, what, how in limits:
        advice = f"Raise it ({how}): each actor is a process, with a few threads"
        if workers < _FEW_WORKERS:
            yield _problem(what.format(workers), advice)
        elif workers < _MANY_WORKERS:
            yield _warning(what.format(workers), advice)
        else:
            yield _ok(what.format(workers))
    if not limits:
        yield _ok("as many files and processes as are wanted")


def _own_limit(host: Host, name: str) -> str:
    """Reads a file of the cgroup of this process; empty if it cannot be read."""
    for line in (host.read_text("/proc/self/cgroup") or "").splitlines():
        if line.startswith("0::"):
            folders = f"/sys/fs/cgroup{line[3:]}".rstrip("/"), "/sys/fs/cgroup"
            texts = (host.read_word(f"{folder}/{name}") for folder in folders)
            return next(filter(None, texts), "")
    return ""


def check_container(host: Host) -> Iterator[Finding]:
    """Compares the CPUs and memory for this process with those of the machine."""
    cpus, counted = host.cpu_count(), os.cpu_count() or 1
    memory, physical = host.memory(), host.physical_memory()
    of_cpus = f"{cpus} of {counted}" if cpus < counted else f"{cpus}"
    of_memory = format_bytes(memory)
    if memory < physical:
        of_memory += f" of {format_bytes(physical)}"
    yield _ok(f"{of_cpus} CPUs and {of_memory} of memory may be used")
    if counted >= 2 * cpus:
        yield _warning(
            f"libraries that count CPUs themselves find {counted}, and start as many "
            f"threads for {cpus}; actors are told better",
            f"Set OMP_NUM_THREADS={cpus} for the program itself",
        )


_SEALS = 0x1 | 0x2 | 0x4  # F_SEAL_SEAL, F_SEAL_SHRINK, F_SEAL_GROW


def check_shared_memory(_: Host) -> Iterator[Finding]:
    """Checks the shared memory for large values, and the room of /dev/shm and /tmp."""
    temporary = tempfile.gettempdir()
    try:
        file = os.memfd_create("actorlib-doctor", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            fcntl.fcntl(file, fcntl.F_ADD_SEALS, _SEALS)
        finally:
            os.close(file)
        yield _ok("values are shared by sealed files in memory")
    except (AttributeError, OSError) as error:
        yield _warning(
            f"values cannot be shared by sealed files in memory: {error}. They go by "
            f"files in {temporary}, or by pipes",
            "Let memfd_create and F_ADD_SEALS be called (vm.memfd_noexec, seccomp)",
        )
    with suppress(FileNotFoundError):
        nbytes, free = _room("/dev/shm")
        what = f"/dev/shm has {format_bytes(nbytes)}, {format_bytes(free)} of it free"
        if nbytes > 64 * _MIB and free >= min(64 * _MIB, nbytes // 10):
            yield _ok(what)
        else:
            yield _warning(
                f"{what}: PyTorch's DataLoader, NCCL and Ray need it, not actorlib",
                "--shm-size of a container, mount -o remount,size=...",
            )
    free = _room(temporary)[1]
    if not os.access(temporary, os.W_OK | os.X_OK):
        what = f"{temporary} may not be written"
        yield _problem(what, "Set TMPDIR to a folder with room")
    elif free < 16 * _MIB:
        what = f"{temporary} has {format_bytes(free)} free"
        yield _warning(what, "Set TMPDIR to a folder with room")


def _room(path: str) -> tuple[int, int]:
    """Returns the bytes of a file system, and the free ones."""
    room = os.statvfs(path)
    return room.f_blocks * room.f_frsize, room.f_bavail * room.f_frsize


def check_enforcement(host: Host) -> Iterator[Finding]:
    """Checks which tiers can enforce shares."""
    for tier in make_tiers(Site(host)):
        for what, advice in tier.examine():
            yield _warning(what, advice) if advice else _ok(what)


def check_devices(host: Host) -> Iterator[Finding]:
    """Checks which accelerators are offered, and which are claimed."""
    advice = "actorlib devices tells all of it"
    claimed: dict[str, list[str]] = {}
    try:
        summary = devices.look(host, families()).families
    except ValueError as error:  # of the user's variables
        what = str(error).partition(". ")[0]
        yield _problem(what, "init() fails for the same reason, and lists the devices")
        return
    if simulated := host.environ.get(VARIABLE):
        yield _ok(f"{VARIABLE}={simulated!r}: only simulated devices are offered")
    if not any(family.devices for family in summary):
        yield _ok(
            "this machine has no accelerator that can be used; a runtime can declare "
            "GPUs nevertheless, to try things out: init(num_gpus=2)"
        )
    for family in summary:
        names: list[str] = []
        for device in family.devices:
            model = device.model
            names.append(f"{device.id} ({model})" if model else device.id)
            for claimant in device.claims:
                named = f"{family.kind} {device.id}"
                claimed.setdefault(str(claimant), []).append(named)
        if names:
            yield _ok(f"{family.family}: {_list_names(names)}")
        alike: dict[str, list[str]] = {}
        for rejected in family.rejected:
            alike.setdefault(rejected.why, []).append(rejected.name)
        for why, others in [*alike.items()][:_SHOWN]:
            what = f"{family.family}: not offered: {_list_names(others)}: {why}"
            yield _warning(what, advice)
        if family.reason and not alike and family.reason != NOT_LOOKED_FOR:
            state: State = "ok" if names else "warning"
            yield Finding(state, f"{family.family}: {family.reason}", advice)
    for who, its in claimed.items():
        yield _warning(
            f"{who} has {_list_names(its)}", "init(devices='free') leaves it those"
        )
    yield from _list_users(
        DeviceUsers(host), [d for family in summary for d in family.devices]
    )


def _list_users(users: DeviceUsers, devices: Sequence[Device]) -> Iterator[Finding]:
    names = {users.card(device): f"{device.kind} {device.id}" for device in devices}
    used: dict[tuple[str, bool], list[str]] = {}
    for card, programs in users.others(names).items():
        for program, is_exclusive in programs:
            used.setdefault((str(program), is_exclusive), []).append(names[card])
    for (who, is_exclusive), its in used.items():
        alone = " with devices='exclusive'" if is_exclusive else ""
        yield _warning(
            f"{who} has placed something on {_list_names(its)}{alone}",
            "Programs with devices='exclusive' wait until it has released them",
        )


_FIRST_PIDS = "[4026531836]"
"""The first namespace of processes of a machine (``include/linux/proc_ns.h``)."""


def check_nvml(host: Host) -> Iterator[Finding]:
    """Checks NVIDIA's driver, and the modes of its cards."""
    if not may_have_nvml(host):
        yield _ok("there is no trace of an NVIDIA card")
        return
    try:
        nvml: Any = host.sdk("pynvml")
        nvml.nvmlInit()
    except Exception as error:  # noqa: BLE001  # its own class, and what the loader raises
        fault = str(error) or type(error).__name__
        if isinstance(error, ImportError):
            advice = "pip install nvidia-ml-py"
        elif "mismatch" in fault.lower():
            advice = "Reboot, or load the driver's modules again: it was upgraded"
        else:
            advice = "nvidia-smi should say the same; a container needs --gpus all"
        state: State = "warning" if scan_driver(host, fault).targets else "problem"
        yield Finding(state, f"NVML does not answer: {fault}", advice)
        return
    try:
        yield from _check_driver(partial(_ask, nvml))
    finally:
        nvml.nvmlShutdown()
    namespace = host.link("/proc/self/ns/pid")
    if namespace is not None and not namespace.endswith(_FIRST_PIDS):
        yield _warning(
            "this container counts processes for itself: NVML's list of who is on a "
            "card has other numbers, so no process's memory there is watched",
            "Start the container with the machine's processes (--pid=host)",
        )


def _check_driver(ask: partial[Any]) -> Iterator[Finding]:
    driver, nvml = ask("nvmlSystemGetDriverVersion"), ask("nvmlSystemGetNVMLVersion")
    cuda = ask("nvmlSystemGetCudaDriverVersion")
    upto = f", for CUDA up to {cuda // 1000}.{cuda % 1000 // 10}" if cuda else ""
    yield _ok(f"driver {driver or 'unknown'}, NVML {nvml or 'unknown'}{upto}")
    for number in range(ask("nvmlDeviceGetCount") or 0):
        handle = ask("nvmlDeviceGetHandleByIndex", number)
        mode = None if handle is None else ask("nvmlDeviceGetComputeMode", handle)
        reset = f"nvidia-smi -i {number} -c DEFAULT"
        if mode in (1, 3):  # nvmlComputeMode_t
            yield _warning(
                f"GPU {number} is in exclusive mode: one process at a time may use it, "
                "so no two actors can share it, unless by MPS",
                reset,
            )
        elif mode == 2:
            what = f"GPU {number} is in prohibited mode: nothing may compute there"
            yield _problem(what, reset)


def _ask(nvml: Any, function: str, *args: object) -> Any:
    """Calls a function of NVML; returns None if it fails."""
    try:
        answer = getattr(nvml, function)(*args)
    except (nvml.NVMLError, AttributeError):
        return None
    return answer.decode() if isinstance(answer, bytes) else answer  # older releases


_TITLE = "actorlib: "
_TEMPLATE = re.compile(r"actorlib: workers of pid (\d+)")
_MOMENT = 1.0


def check_processes(host: Host) -> Iterator[Finding]:
    """Checks for workers whose program has ended."""
    orphans = find_orphans(host)
    if orphans:
        time.sleep(_MOMENT)  # some may be about to end
        remaining = find_orphans(host)
        orphans = {pid: title for pid, title in orphans.items() if pid in remaining}
    if orphans:
        yield _warning(
            f"workers live whose program is gone: {_list_names([*orphans.values()])}",
            f"kill -9 {' '.join(map(str, [*orphans][:_SHOWN]))}",
        )
    else:
        yield _ok("every worker has its program")


def find_orphans(host: Host) -> dict[int, str]:
    """Returns workers whose template has ended, and templates whose program has."""
    texts = {path: host.read_text(path) for path in host.glob("/proc/[0-9]*/cmdline")}
    titles = {int(path.split("/")[2]): text for path, text in texts.items() if text}
    here = host.link("/proc/self/ns/pid")
    orphans: dict[int, str] = {}
    for pid, words in titles.items():
        # Other namespaces number their processes differently.
        if not words.startswith(_TITLE) or host.link(f"/proc/{pid}/ns/pid") != here:
            continue
        stat = parse_stat(host.read_text(f"/proc/{pid}/stat") or "")
        template = _TEMPLATE.match(words)
        parent = int(template[1]) if template else stat.parent if stat else 0
        is_kept = parent in titles and (template or titles[parent].startswith(_TITLE))
        if stat is None or not is_kept:
            orphans[pid] = f"pid {pid} ({processes.shortened(words)!r})"
    return orphans


def _list_names(names: Sequence[str]) -> str:
    return ", ".join(some_of(names, _SHOWN))


CHECKS: Mapping[str, Callable[[Host], Iterable[Finding]]] = {
    "python": check_python,
    "start": check_start,
    "limits": check_limits,
    "container": check_container,
    "shared memory": check_shared_memory,
    "enforcement": check_enforcement,
    "devices": check_devices,
    "nvml": check_nvml,
    "processes": check_processes,
}
"""The checks by name, in the order of the output."""
