"""Judges facts about a machine: what is well, what is slow or missing, what is broken.

Nothing is looked at here: see ``machine_facts``. A *problem* keeps actorlib, or devices
that are there, from working; a *warning* is what makes it slower, or takes something
away that can be had.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from actorlib._cli.devices import SharesFound

State = Literal["ok", "warning", "problem"]

MIB, GIB = 2**20, 2**30
DESCRIPTORS = 7
"""How many descriptors a worker takes of its program, for a moment of its start."""
_FEW_WORKERS = 64
_MANY_WORKERS = 500
_SHOWN = 5
"""How many of something are named."""
_SLOW_CLOCKS = ("acpi_pm", "hpet", "jiffies", "pit", "refined-jiffies", "xen")
_PINNED = 64 * MIB
_FULL = 0.95


class Finding(NamedTuple):
    """What was found out by a check.

    Attributes:
        state: How it is.
        what: What there is, in a sentence without a full stop.
        advice: What to do; empty if there is nothing to do.
    """

    state: State
    what: str
    advice: str = ""


# Python and packages.


class PythonFacts(NamedTuple):
    """Which Python this is.

    Attributes:
        implementation: ``"CPython"`` or another.
        version: As it says itself.
        is_free_threaded: Whether it was built to run without the GIL.
    """

    implementation: str
    version: str
    is_free_threaded: bool


def judge_python(facts: PythonFacts) -> list[Finding]:
    """Judges which Python this is."""
    name = f"{facts.implementation} {facts.version}"
    if facts.is_free_threaded:
        return [
            Finding(
                "warning",
                f"{name}, a free-threaded build, with which actorlib is not tested",
                "Use the usual build: actors are processes, and need no free threads",
            )
        ]
    if facts.implementation != "CPython":
        return [
            Finding(
                "warning",
                f"{name}, with which actorlib is not tested",
                "Use CPython 3.11 or later",
            )
        ]
    return [Finding("ok", name)]


class PackageFacts(NamedTuple):
    """What is installed.

    Attributes:
        found: The version of each package that actorlib can use; None where it is not
            installed.
        needed: Of those the lowest version that will do.
        optional: Those of them that one feature alone needs, for who wants it.
        is_msgpack_in_c: Whether msgpack's C code is in use.
        old_pynvml: The version of the package ``pynvml``, which has a module of the
            same name as nvidia-ml-py has; None if it is not installed.
        has_nvidia: Whether there is a trace of an NVIDIA card.
    """

    found: Mapping[str, str | None]
    needed: Mapping[str, str]
    is_msgpack_in_c: bool
    optional: Collection[str] = ()
    old_pynvml: str | None = None
    has_nvidia: bool = False


_WITHOUT = {
    "nvidia-ml-py": "NVIDIA's cards are found by their files alone, without memory",
    "uvloop": "asyncio's own event loop is used, which is slower",
}
"""What is missed without a package that can be done without."""


def judge_packages(facts: PackageFacts) -> list[Finding]:
    """Judges what is installed."""
    there = [f"{name} {version}" for name, version in facts.found.items() if version]
    findings = [Finding("ok", ", ".join(there))]
    for name, version in facts.found.items():
        bound = facts.needed.get(name)
        install = f'pip install "{name}>={bound}"' if bound else f"pip install {name}"
        if version is None and name in _WITHOUT:
            if name != "nvidia-ml-py" or facts.has_nvidia:
                what = f"{name} is not installed: {_WITHOUT[name]}"
                findings.append(Finding("warning", what, install))
        elif version is not None and bound and _is_below(version, bound):
            what = f"{name} is {version}, and {bound} is the oldest that will do"
            state: State = "warning" if name in facts.optional else "problem"
            findings.append(Finding(state, what, install))
    if not facts.is_msgpack_in_c:
        findings.append(
            Finding(
                "warning",
                "msgpack runs without its C code: calls take several times as long",
                "Unset MSGPACK_PUREPYTHON, or install msgpack's wheel for this Python",
            )
        )
    if facts.old_pynvml is not None:
        findings.append(
            Finding(
                "warning",
                f"the package pynvml {facts.old_pynvml} is installed, which NVIDIA has "
                "given up, beside nvidia-ml-py: both may have a module pynvml",
                "pip uninstall pynvml; pip install --force-reinstall nvidia-ml-py",
            )
        )
    return findings


def _is_below(version: str, bound: str) -> bool:
    return _numbers(version) < _numbers(bound)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version.partition("+")[0])[:3]))


# Limits.


class LimitFacts(NamedTuple):
    """How much a process of this user may have; None where there is no limit.

    Attributes:
        files: How many files it may open, by its soft limit.
        most_files: How far it may raise that itself.
        processes: How many processes and threads this user may have.
        cgroup_processes: How many more the cgroup that it is in may have.
        memlock: How many bytes it may keep from being swapped.
        addresses: How many bytes it may address.
        has_devices: Whether there are accelerators.
    """

    files: int | None
    most_files: int | None
    processes: int | None
    cgroup_processes: int | None = None
    memlock: int | None = None
    addresses: int | None = None
    has_devices: bool = False


def judge_limits(facts: LimitFacts) -> list[Finding]:
    """Judges the limits of a process."""
    findings = [_files(facts)]
    counts = (
        (facts.processes, "this user may have {} processes and threads", "ulimit -u"),
        (
            facts.cgroup_processes,
            "the cgroup of this process may have {} more processes and threads",
            "pids.max of the cgroup; --pids-limit of a container",
        ),
    )
    for count, what, how in counts:
        if count is not None and count < _MANY_WORKERS:
            state: State = "problem" if count < _FEW_WORKERS // 2 else "warning"
            advice = f"Raise it ({how}): each actor is a process, with a few threads"
            findings.append(Finding(state, what.format(count), advice))
    if facts.addresses is not None:
        findings.append(
            Finding(
                "warning",
                f"this process may address {_size(facts.addresses)} (ulimit -v): large "
                "values are copied where their memory cannot be mapped",
                "ulimit -v unlimited; memory= of actors limits what they use",
            )
        )
    if facts.has_devices and facts.memlock is not None and facts.memlock < _PINNED:
        findings.append(
            Finding(
                "warning",
                f"{_size(facts.memlock)} may be locked in memory (ulimit -l): what "
                "pins more, as NCCL over InfiniBand does, fails",
                "ulimit -l unlimited; --ulimit memlock=-1 of a container",
            )
        )
    return findings


def _files(facts: LimitFacts) -> Finding:
    """Judges open files: the soft limit is raised as far as it may be."""
    if facts.most_files is None:
        return Finding("ok", "files: as many as are wanted may be open")
    workers = max(0, facts.most_files // DESCRIPTORS)
    what = (
        f"files: {facts.most_files} may be open, enough for some {workers} workers of "
        "one program"
    )
    if workers >= _MANY_WORKERS:
        return Finding("ok", what)
    state: State = "problem" if workers < _FEW_WORKERS // 2 else "warning"
    return Finding(state, what, "Raise the hard limit (ulimit -Hn, limits.conf)")


# Memory.


class SharedMemoryFacts(NamedTuple):
    """What large values can be shared in.

    Attributes:
        fault: Why there is no anonymous file in memory; empty if there is one.
        is_sealed: Whether its size can be sealed.
        shm: What is known of ``/dev/shm``; None if it is not there.
        temporary: What is known of the folder for temporary files.
    """

    fault: str
    is_sealed: bool
    shm: Folder | None
    temporary: Folder


class Folder(NamedTuple):
    """What is known of a folder.

    Attributes:
        path: The folder.
        nbytes: The bytes of its file system.
        free: How many of them this user may still write.
        is_writable: Whether files can be made there.
        is_noexec: Whether no file there can be executed, or mapped as code.
    """

    path: str
    nbytes: int
    free: int
    is_writable: bool = True
    is_noexec: bool = False


def judge_shared_memory(facts: SharedMemoryFacts) -> list[Finding]:
    """Judges what large values are shared in, by us and by others."""
    if facts.fault:
        findings = [
            Finding(
                "warning",
                f"there are no anonymous files in memory: {facts.fault}. Large values "
                f"are shared by files in {facts.temporary.path}",
                "Let memfd_create be called (vm.memfd_noexec, seccomp)",
            )
        ]
    elif not facts.is_sealed:
        findings = [
            Finding(
                "warning",
                "the size of files in memory cannot be sealed: the program reads "
                "large values of actors from their pipes",
                "Let fcntl(F_ADD_SEALS) be called (seccomp)",
            )
        ]
    else:
        findings = [Finding("ok", "values are shared by sealed files in memory")]
    return findings + _of_shm(facts.shm) + _of_temporary(facts.temporary)


def _of_shm(shm: Folder | None) -> list[Finding]:
    if shm is None:
        return []
    said = f"/dev/shm has {_size(shm.nbytes)}, {_size(shm.free)} of it free"
    others = "actorlib does not use it, but PyTorch's DataLoader, NCCL and Ray do"
    advice = "Give it more: --shm-size of a container, mount -o remount,size=..."
    if not shm.is_writable:
        return [Finding("warning", f"/dev/shm may not be written: {others}", advice)]
    if shm.nbytes <= 64 * MIB or shm.free < min(64 * MIB, shm.nbytes // 10):
        return [Finding("warning", f"{said}: {others}", advice)]
    return [Finding("ok", said)]


def _of_temporary(folder: Folder) -> list[Finding]:
    advice = "Set TMPDIR to a folder with room"
    if not folder.is_writable:
        what = f"{folder.path} may not be written"
        return [Finding("problem", what, advice)]
    if folder.free < 16 * MIB:
        what = f"{folder.path} has {_size(folder.free)} free"
        return [Finding("warning", what, advice)]
    if folder.is_noexec:
        what = f"nothing in {folder.path} may be executed (noexec): extensions that "
        what += "are compiled there, as Triton and torch.compile do, do not load"
        return [
            Finding("warning", what, "Set TMPDIR to a folder where that is allowed")
        ]
    return []


class ContainerFacts(NamedTuple):
    """What this process may use of the machine.

    Attributes:
        cpus: CPUs that may be used.
        machine_cpus: CPUs that libraries count (``os.cpu_count()``).
        memory: Bytes of memory that may be used.
        machine_memory: Bytes of memory of the machine.
        used: Bytes that the cgroup of this process uses; None if nobody says.
    """

    cpus: int
    machine_cpus: int
    memory: int
    machine_memory: int
    used: int | None = None


def judge_container(facts: ContainerFacts) -> list[Finding]:
    """Judges what this process may use against what is counted."""
    cpus, memory = f"{facts.cpus} CPUs", f"{_size(facts.memory)} of memory"
    if facts.cpus < facts.machine_cpus:
        cpus = f"{facts.cpus} of {facts.machine_cpus} CPUs"
    if facts.memory < facts.machine_memory:
        memory = f"{_size(facts.memory)} of {_size(facts.machine_memory)} of memory"
    findings = [Finding("ok", f"{cpus} and {memory} may be used")]
    if facts.machine_cpus >= 2 * facts.cpus:
        findings.append(
            Finding(
                "warning",
                f"libraries that count CPUs themselves find {facts.machine_cpus}, and "
                f"start as many threads for {facts.cpus}; actors are told better",
                f"Set OMP_NUM_THREADS={facts.cpus} for the program itself",
            )
        )
    if facts.used is not None and facts.used > _FULL * facts.memory:
        findings.append(
            Finding(
                "warning",
                f"{_size(facts.used)} of the {_size(facts.memory)} that this cgroup "
                "may have are used: the kernel may kill processes for more",
                "Raise memory.max of the cgroup (--memory of a container)",
            )
        )
    return findings


# Cgroups.


class CgroupFacts(NamedTuple):
    """Whether the kernel can hold actors to what they ask for.

    Attributes:
        base: The cgroup below which leaves are made; empty if there is none.
        faults: Why a controller cannot be had, by its name; empty if it can.
        leftovers: Cgroups of runtimes that are gone.
    """

    base: str
    faults: Mapping[str, str]
    leftovers: Sequence[str] = ()


def judge_cgroups(facts: CgroupFacts) -> list[Finding]:
    """Judges whether a tree of cgroups was delegated."""
    whys = list(dict.fromkeys(why for why in facts.faults.values() if why))
    findings = (
        [
            Finding(
                "warning",
                f"enforcement='cgroup' cannot be had: {'; '.join(whys)}",
                "Without it memory= and num_cpus= of actors are booked and watched, "
                "but not enforced by the kernel",
            )
        ]
        if whys
        else [
            Finding("ok", f"the kernel can hold actors to limits, below {facts.base}")
        ]
    )
    if facts.leftovers:
        findings.append(
            Finding(
                "warning",
                f"cgroups of programs that were killed are left: "
                f"{_named(facts.leftovers)}",
                "The next runtime with enforcement='cgroup' removes them; or rmdir",
            )
        )
    return findings


# Devices.


class FamilyFacts(NamedTuple):
    """What one family of devices has here.

    Attributes:
        family: Its name.
        devices: The devices that may be granted.
        rejected: What is not offered, by name, and why.
        reason: Why there is nothing, where there is a trace; or what went wrong.
        shares: What can make parts of its first device hold, and why not more; None if
            it is given as a whole only.
    """

    family: str
    devices: Sequence[str] = ()
    rejected: Sequence[tuple[str, str]] = ()
    reason: str = ""
    shares: SharesFound | None = None


def judge_devices(facts: Sequence[FamilyFacts]) -> list[Finding]:
    """Judges which accelerators may be used, and which not."""
    findings: list[Finding] = []
    for one in facts:
        if one.devices:
            findings.append(Finding("ok", f"{one.family}: {_named(one.devices)}"))
        if one.shares is not None:
            hold = ", ".join(one.shares["tiers"]) or "nothing"
            nots = [
                f"not by {tier}: {why}" for tier, why in one.shares["why_not"].items()
            ]
            said = "; ".join([f"parts are held by {hold}", *nots])
            findings.append(Finding("ok", f"{one.family}: {said}"))
        alike: dict[str, list[str]] = {}
        for name, why in one.rejected:
            alike.setdefault(why, []).append(name)
        for why, names in [*alike.items()][:_SHOWN]:
            what = f"{one.family}: not offered: {_named(names)}: {why}"
            findings.append(Finding("warning", what, _TOLD))
        if one.reason and not one.rejected:
            state: State = "ok" if one.devices else "warning"
            findings.append(Finding(state, f"{one.family}: {one.reason}", _TOLD))
    if not any(one.devices for one in facts):
        findings.insert(
            0,
            Finding(
                "ok",
                "no accelerator can be used; GPUs can be "
                "declared, to try things out: init(num_gpus=2)",
            ),
        )
    return findings


_TOLD = "actorlib devices tells all of it"


class NvmlCard(NamedTuple):
    """A card as NVML has it.

    Attributes:
        name: Its number.
        compute_mode: ``"default"``, ``"exclusive"`` or ``"prohibited"``; empty where
            that is not told.
    """

    name: str
    compute_mode: str = ""


class NvidiaFacts(NamedTuple):
    """What NVIDIA's driver says.

    Attributes:
        is_traced: Whether there is a trace of a card.
        fault: Why NVML does not answer; empty if it does.
        is_missing: Whether its Python module is not there, or cannot be loaded.
        is_needed: Whether no card can be used without NVML.
        driver: The driver's version.
        nvml: NVML's version.
        cuda: The newest CUDA that the driver can run; empty if unknown.
        cards: Its cards.
        is_nested: Whether this process counts processes otherwise than the machine.
    """

    is_traced: bool
    fault: str = ""
    is_missing: bool = False
    is_needed: bool = True
    driver: str = ""
    nvml: str = ""
    cuda: str = ""
    cards: Sequence[NvmlCard] = ()
    is_nested: bool = False


class MpsFacts(NamedTuple):
    """What there is of CUDA's Multi-Process Service.

    Attributes:
        is_traced: Whether there is a trace of a card.
        fault: Why no daemon can be run; empty if one can.
        daemons: The processes of such daemons, actorlib's own among them.
        pipe: The daemon that this environment names; empty if it names none.
        leftovers: Folders of daemons whose keeper is gone.
    """

    is_traced: bool
    fault: str = ""
    daemons: Sequence[str] = ()
    pipe: str = ""
    leftovers: Sequence[str] = ()


_EXCLUSIVE = (
    "one process at a time may use it, so no two actors can share it, unless by MPS"
)


def judge_nvml(facts: NvidiaFacts) -> list[Finding]:
    """Judges NVIDIA's driver."""
    if not facts.is_traced:
        return [Finding("ok", "there is no trace of an NVIDIA card")]
    if facts.fault:
        if facts.is_missing:
            advice = "pip install nvidia-ml-py"
        elif "mismatch" in facts.fault.lower():
            advice = "Reboot, or load the driver's modules anew: it was upgraded"
        else:
            advice = "nvidia-smi should say the same; a container needs --gpus all"
        state: State = "problem" if facts.is_needed else "warning"
        return [Finding(state, f"NVML does not answer: {facts.fault}", advice)]
    cuda = f", for CUDA up to {facts.cuda}" if facts.cuda else ""
    findings = [Finding("ok", f"driver {facts.driver}, NVML {facts.nvml}{cuda}")]
    for card in facts.cards:
        reset = f"nvidia-smi -i {card.name} -c DEFAULT"
        if card.compute_mode == "exclusive":
            what = f"GPU {card.name} is in exclusive mode: {_EXCLUSIVE}"
            findings.append(Finding("warning", what, reset))
        elif card.compute_mode == "prohibited":
            what = f"GPU {card.name} is in prohibited mode: nobody may compute there"
            findings.append(Finding("problem", what, reset))
    if facts.is_nested:
        findings.append(
            Finding(
                "warning",
                "this container counts processes for itself: NVML's list of who is on "
                "a card has other numbers, so nobody's memory there is watched",
                "Start the container with the machine's processes (--pid=host)",
            )
        )
    return findings


def judge_mps(facts: MpsFacts) -> list[Finding]:
    """Judges CUDA's Multi-Process Service."""
    if not facts.is_traced:
        findings = [Finding("ok", "MPS is for NVIDIA's cards")]
    elif facts.fault:
        findings = [
            Finding(
                "warning",
                f"enforcement='mps' cannot be had: {facts.fault}",
                "Install the driver's tools, or mount the program into the container",
            )
        ]
    else:
        findings = [Finding("ok", "enforcement='mps' can be asked for")]
    if facts.pipe:
        findings.append(
            Finding(
                "warning",
                f"CUDA_MPS_PIPE_DIRECTORY={facts.pipe} is set: processes that are "
                "started from here go to that daemon, and a fault of one ends all",
                "Unset it, unless it is meant",
            )
        )
    if facts.daemons:
        what = f"MPS daemons run: {_named(facts.daemons)}"
        findings.append(Finding("ok", what))
    if facts.leftovers:
        what = "folders of programs that were killed are left: "
        what += _named(facts.leftovers)
        advice = f"rm -r {' '.join(facts.leftovers[:_SHOWN])}"
        findings.append(Finding("warning", what, advice))
    return findings


# Processes.


class StartFacts(NamedTuple):
    """What became of a runtime with one actor that was started to try it.

    Attributes:
        method: How its worker was started.
        fault: What went wrong; empty if nothing did.
        seconds: How long it took, from the start to the actor's answer.
        is_shared: Whether a large value came back by shared memory.
        other: A way in which it was started after that failed; empty if none works.
    """

    method: str
    fault: str = ""
    seconds: float = 0.0
    is_shared: bool = True
    other: str = ""


def judge_start(facts: StartFacts) -> list[Finding]:
    """Judges whether actors can be started at all."""
    if facts.fault:
        return [
            Finding(
                "problem",
                f"a runtime with one actor ({facts.method}) does not work: "
                f"{facts.fault}",
                f"init(start_method={facts.other!r}) works"
                if facts.other
                else "The other checks may say why",
            )
        ]
    what = f"an actor of a new runtime ({facts.method}) answered after "
    what += f"{facts.seconds:.2f} s"
    if facts.seconds > 5:
        advice = "Look at how fast the disk is that Python is installed on"
        return [Finding("warning", what, advice)]
    if not facts.is_shared:
        what += "; its large answer came through its pipe, not by shared memory"
        return [Finding("warning", what, "See shared memory")]
    return [Finding("ok", what)]


class ProcessFacts(NamedTuple):
    """How processes can look at one another.

    Attributes:
        fault: Why no door of a runtime can be opened and found; empty if one can.
        ptrace_scope: Who may attach a debugger, by Yama: 0 whoever has the same user, 1
            parents, 2 root, 3 nobody. None where Yama is not there.
        hides: Whose processes ``/proc`` does not show: ``hidepid`` of its mount.
        is_nested: Whether this process is in a namespace of processes of its own.
        orphans: Workers without a program, each as it is shown.
    """

    fault: str = ""
    ptrace_scope: int | None = None
    hides: str = ""
    is_nested: bool = False
    orphans: Sequence[str] = ()


def judge_processes(facts: ProcessFacts) -> list[Finding]:
    """Judges whether processes can be looked at."""
    findings: list[Finding] = []
    if facts.fault:
        findings.append(
            Finding(
                "warning",
                f"runtimes cannot be looked into from outside: {facts.fault}",
                "Let abstract sockets be used, and /proc/net/unix be read (AppArmor)",
            )
        )
    else:
        findings.append(Finding("ok", "runtimes can be looked into from outside"))
    if facts.hides not in ("", "0", "off"):
        findings.append(
            Finding(
                "warning",
                f"/proc hides the processes of other users (hidepid={facts.hides}): "
                "nobody can say who else is on a device",
                "mount -o remount,hidepid=0 /proc, or be in its gid= group",
            )
        )
    if (facts.ptrace_scope or 0) > 1:
        findings.append(
            Finding(
                "warning",
                "py-spy and debuggers may not attach (kernel.yama.ptrace_scope="
                f"{facts.ptrace_scope}); actorlib stack needs not to",
                "sysctl kernel.yama.ptrace_scope=1, if they are wanted",
            )
        )
    if facts.is_nested:
        what = "this is a namespace of processes: those outside of it are not seen"
        findings.append(Finding("ok", what))
    if facts.orphans:
        numbers = " ".join(orphan.split()[1] for orphan in facts.orphans[:_SHOWN])
        findings.append(
            Finding(
                "warning",
                f"workers live whose program is gone: {_named(facts.orphans)}",
                f"kill -9 {numbers}",
            )
        )
    return findings


class RuntimeFound(NamedTuple):
    """A runtime of this user.

    Attributes:
        title: What it is: ``pid 812 ('python train.py')``.
        devices: Which devices it has taken.
        is_stopped: Whether its process is stopped.
    """

    title: str
    devices: Sequence[str] = ()
    is_stopped: bool = False


def judge_runtimes(facts: Sequence[RuntimeFound]) -> list[Finding]:
    """Judges which other runtimes there are, and what they have."""
    if not facts:
        return [Finding("ok", "this user has no runtime here")]
    findings: list[Finding] = []
    for one in facts:
        if one.is_stopped:
            what = f"{one.title} is stopped (SIGSTOP, or a debugger)"
            advice = "kill -CONT lets it go on; what it holds is held meanwhile"
            findings.append(Finding("warning", what, advice))
        elif one.devices:
            what = f"{one.title} has {_named(one.devices)}"
            advice = "init(devices='free') leaves it those"
            findings.append(Finding("warning", what, advice))
        else:
            findings.append(Finding("ok", f"{one.title} has no device"))
    return findings


class ClockFacts(NamedTuple):
    """How time is told.

    Attributes:
        source: The kernel's clock; empty if it does not say.
        resolution: Seconds from one tick of ``time.monotonic()`` to the next.
    """

    source: str
    resolution: float


def judge_clock(facts: ClockFacts) -> list[Finding]:
    """Judges how time is told, which every call asks for."""
    if facts.source in _SLOW_CLOCKS:
        return [
            Finding(
                "warning",
                f"the kernel's clock is {facts.source}: each look at it is a system "
                "call, and calls look several times",
                "Have the kernel use tsc, if the machine's is stable",
            )
        ]
    if facts.resolution > 1e-3:
        what = f"the clock ticks every {facts.resolution:g} s: timeouts are as coarse"
        return [Finding("warning", what)]
    return [Finding("ok", f"the clock is {facts.source or 'fine'}")]


# Words.


def worst(findings: Iterable[Finding]) -> State:
    """Says how bad the worst of some findings is."""
    states = {finding.state for finding in findings}
    if "problem" in states:
        return "problem"
    return "warning" if "warning" in states else "ok"


def _named(things: Sequence[str]) -> str:
    more = len(things) - _SHOWN
    rest = [f"and {more} more"] if more > 0 else []
    return ", ".join([*things[:_SHOWN], *rest])


def _size(nbytes: int) -> str:
    size, unit = float(nbytes), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):  # where it stops
        if size < 1000 or unit == "TiB":
            break
        size /= 1024
    return f"{size:.0f} {unit}" if size >= 10 or unit == "B" else f"{size:.1f} {unit}"
