"""What the checks of ``actorlib doctor`` find on recorded machines, and on this one."""

from __future__ import annotations

import os
import resource
import sys
from dataclasses import replace
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from helpers.goldens import stable
from helpers.host import GIB, RecordedHost
from helpers.nvml import Card, FakeNvml, nvidia_host, nvidia_machine

from actorlib._cli import devices, machine_checks
from actorlib._cli.machine_checks import (
    CHECKS,
    DESCRIPTORS,
    Finding,
    check_container,
    check_devices,
    check_enforcement,
    check_limits,
    check_nvml,
    check_processes,
    check_python,
    check_shared_memory,
    check_start,
    find_orphans,
)
from actorlib._processes import forkserver_launcher
from actorlib.accelerators import Host, families
from actorlib.accelerators.claims import Claimant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from helpers.goldens import Golden

CARD = Card(uuid="GPU-0f2a1c3b-aaaa-bbbb-cccc-000000000000")
MIB = 2**20
CGROUP = {"/proc/self/cgroup": "0::/a\n"}

Patch = pytest.MonkeyPatch


class Case(NamedTuple):
    """A check on a machine, and the states of its findings.

    Attributes:
        states: The states, in the order of the findings.
        prepare: Changes what the check asks the system itself.
    """

    check: Callable[[Host], Iterable[Finding]]
    host: Host
    states: str
    prepare: Callable[[Patch], None] = lambda _: None


def start_host(**answers: str) -> RecordedHost:
    """A machine where the program that tries a start prints this, by the method."""
    program = f"{sys.executable} -m actorlib._cli.start_check"
    return RecordedHost(
        commands={f"{program} {method}": text for method, text in answers.items()}
    )


def limits(**of: int) -> Callable[[Patch], None]:
    def getrlimit(kind: int) -> tuple[int, int]:
        found = {getattr(resource, name): limit for name, limit in of.items()}
        return (found.get(kind, resource.RLIM_INFINITY),) * 2

    return lambda patch: patch.setattr(resource, "getrlimit", getrlimit)


def eight_cpus(patch: Patch) -> None:
    patch.setattr(os, "cpu_count", lambda: 8)


def room(blocks: int, free: int) -> Callable[[Patch], None]:
    found = SimpleNamespace(f_blocks=blocks, f_bavail=free, f_frsize=MIB)

    def prepare(patch: Patch) -> None:
        patch.setattr("tempfile.gettempdir", lambda: "/tmp")
        patch.setattr(os, "statvfs", lambda _: found)

    return prepare


def no_room_and_no_sealed_files(patch: Patch) -> None:
    def refuse(*_: object) -> int:
        raise PermissionError("seccomp")

    room(64, 0)(patch)
    patch.setattr(os, "memfd_create", refuse, raising=False)


def no_folder_to_write(patch: Patch) -> None:
    room(4096, 4096)(patch)
    patch.setattr(os, "access", lambda *_: False)


def pypy_without_uvloop(patch: Patch) -> None:
    def version(name: str) -> str:
        if name == "uvloop":
            raise machine_checks.metadata.PackageNotFoundError(name)
        return "1.0"

    patch.setattr("platform.python_implementation", lambda: "PyPy")
    patch.setattr("platform.python_version", lambda: "3.11")
    patch.setattr(machine_checks.metadata, "version", version)


def slow_msgpack() -> Any:
    msgpack: Any = ModuleType("msgpack")
    msgpack.Packer = type("Packer", (), {"__module__": "msgpack.fallback"})
    return msgpack


def taken_card(patch: Patch) -> None:
    summary = devices.look(nvidia_host(CARD), families())
    (nvidia,) = [family for family in summary.families if family.devices]
    claims = (Claimant(812, "python a.py"),)
    taken = tuple(replace(device, claims=claims) for device in nvidia.devices)
    found = replace(summary, families=(replace(nvidia, devices=taken),))
    patch.setattr(devices, "look", lambda *_: found)


def nvml_host() -> Host:
    host = nvidia_host(CARD, Card(uuid="GPU-1", mode=3), Card(uuid="GPU-2", mode=2))
    nvml: Any = host.sdk("pynvml")
    nvml.nvmlSystemGetDriverVersion = lambda: b"570.86.15"
    nvml.nvmlSystemGetNVMLVersion = lambda: "12.570.86"
    nvml.nvmlSystemGetCudaDriverVersion = lambda: 12080
    return host


def old_nvml_host() -> Host:
    nvml = FakeNvml(CARD, old=True)
    return RecordedHost(devices={"/dev/nvidiactl": True}, sdks={"pynvml": nvml})


def container_with_mps() -> Host:
    return RecordedHost(
        environ={"CUDA_MPS_PIPE_DIRECTORY": "/p"},
        devices={"/dev/nvidiactl": True},
        links={"/proc/self/ns/pid": "/proc/3/ns/pid:[4026532000]"},
        sdks={"pynvml": nvidia_host(CARD).sdk("pynvml")},
    )


def process(pid: int, parent: int, words: str) -> dict[str, str]:
    """The files of a process."""
    rest = " ".join(map(str, range(40)))
    return {
        f"/proc/{pid}/cmdline": f"{words}\0",
        f"/proc/{pid}/stat": f"{pid} (a b) S {parent} {rest}",
    }


def processes(files: dict[str, str], *pids: int) -> RecordedHost:
    """A machine with processes, some of which are in the namespace of this one."""
    here = "/proc/3/ns/pid:[4026531836]"
    links = {f"/proc/{pid}/ns/pid": here for pid in ("self", *pids)}
    return RecordedHost(files=files, links=links)


def soon(patch: Patch) -> None:
    patch.setattr(machine_checks, "_MOMENT", 0)


LOST = {
    **process(13, 1, "actorlib: Model 'm2'"),
    **process(14, 1, "actorlib: Model 'm3'"),
}
LOST_CARDS = (CARD, Card(uuid="GPU-1", lost=True), Card(uuid="GPU-2", lost=True))
MEMORY_FILES = {
    **CGROUP,
    "/sys/fs/cgroup/a/memory.max": f"{4 * GIB}\n",
    "/sys/fs/cgroup/a/cpu.max": "200000 100000\n",
}
PIDS = {
    **CGROUP,
    "/sys/fs/cgroup/a/pids.max": "100\n",
    "/sys/fs/cgroup/a/pids.current": "95\n",
}
WORKS, FAILS = "answered after 0.41 s", "OSError: no"
MISMATCH = nvidia_host(CARD, broken="LIB_RM_VERSION_MISMATCH")

CASES = {
    "another Python, uvloop missing, msgpack slow": Case(
        check_python,
        RecordedHost(sdks={"msgpack": slow_msgpack()}),
        "warning ok warning warning",
        pypy_without_uvloop,
    ),
    "start works": Case(check_start, start_host(template=WORKS), "ok"),
    "start fails": Case(check_start, start_host(template=FAILS), "problem"),
    "start works by spawn": Case(
        check_start, start_host(template=FAILS, spawn=WORKS), "problem"
    ),
    "start never ends": Case(check_start, start_host(), "problem"),
    "no limits": Case(check_limits, RecordedHost(), "ok", limits()),
    "many files": Case(check_limits, RecordedHost(), "ok", limits(RLIMIT_NOFILE=2**20)),
    "some files": Case(
        check_limits, RecordedHost(), "warning", limits(RLIMIT_NOFILE=1000)
    ),
    "few files": Case(
        check_limits, RecordedHost(), "problem", limits(RLIMIT_NOFILE=100)
    ),
    "some processes": Case(
        check_limits, RecordedHost(), "warning", limits(RLIMIT_NPROC=300)
    ),
    "few processes in the cgroup": Case(
        check_limits, RecordedHost(files=PIDS), "problem", limits()
    ),
    "container": Case(
        check_container, RecordedHost(files=MEMORY_FILES), "ok warning", eight_cpus
    ),
    "whole machine": Case(check_container, RecordedHost(), "ok", eight_cpus),
    "room for values": Case(check_shared_memory, Host(), "ok ok", room(4096, 4096)),
    "no room for values": Case(
        check_shared_memory,
        Host(),
        "warning warning warning",
        no_room_and_no_sealed_files,
    ),
    "no temporary files": Case(
        check_shared_memory, Host(), "ok ok problem", no_folder_to_write
    ),
    "no cgroup": Case(check_enforcement, RecordedHost(), "warning"),
    "no devices": Case(check_devices, RecordedHost(), "ok"),
    "lost devices": Case(check_devices, nvidia_host(*LOST_CARDS), "ok warning"),
    "taken device": Case(check_devices, RecordedHost(), "ok warning", taken_card),
    "simulated devices": Case(
        check_devices,
        RecordedHost(environ={"ACTORLIB_FAKE_DEVICES": "2xH100"}),
        "ok ok",
    ),
    "unknown simulated devices": Case(
        check_devices,
        RecordedHost(environ={"ACTORLIB_FAKE_DEVICES": "two"}),
        "problem",
    ),
    "NVML": Case(check_nvml, nvml_host(), "ok warning problem"),
    "old NVML": Case(check_nvml, old_nvml_host(), "ok"),
    "NVML of another driver": Case(check_nvml, MISMATCH, "problem"),
    "NVML missing": Case(check_nvml, RecordedHost.load("nvidia_closed"), "problem"),
    "NVML on a Jetson": Case(check_nvml, nvidia_machine("nvidia_jetson"), "warning"),
    "no card": Case(check_nvml, RecordedHost(), "ok"),
    "NVML in a container": Case(check_nvml, container_with_mps(), "ok warning"),
    "MPS in a container": Case(
        check_enforcement, container_with_mps(), "warning warning"
    ),
    "every worker has its program": Case(check_processes, RecordedHost(), "ok"),
    "lost workers": Case(check_processes, processes(LOST, 13, 14), "warning", soon),
}


def test_findings_on_recorded_machines(golden: Golden) -> None:
    lines: list[str] = []
    for name, case in CASES.items():
        with Patch.context() as patch:
            case.prepare(patch)
            findings = [*case.check(case.host)]
        assert [finding.state for finding in findings] == case.states.split(), name
        assert all(finding.advice for finding in findings if finding.state != "ok")
        lines.append(f"{name}:")
        for state, what, advice, _ in findings:
            lines += [f"  {state}: {what}", *([f"    {advice}"] if advice else [])]

    golden.check("findings.txt", stable("\n".join([*lines, ""])))


def test_nvml_when_it_was_asked_then_it_is_closed() -> None:
    host = nvml_host()
    nvml: Any = host.sdk("pynvml")

    assert [*check_nvml(host)]
    assert nvml.open == 0


def test_python_when_it_is_this_one_then_its_packages_have_their_versions() -> None:
    findings = [*check_python(Host())]

    assert "msgpack " in findings[1].what
    assert "uvloop " in findings[1].what


def test_descriptors_of_a_worker_are_those_that_its_launcher_counts() -> None:
    assert DESCRIPTORS == forkserver_launcher._DESCRIPTORS


def test_orphans_when_a_worker_has_lost_its_template_then_that_one() -> None:
    files = {
        **process(1, 0, "init"),
        **process(10, 1, "python\0train.py"),
        **process(11, 10, "actorlib: workers of pid 10"),
        **process(12, 11, "actorlib: Model 'm1'"),
        **process(13, 1, "actorlib: Model 'm2'"),
        **process(14, 1, "actorlib: workers of pid 99"),
        **process(15, 1, "actorlib: Model 'elsewhere'"),
    }

    assert find_orphans(processes(files, 10, 11, 12, 13, 14)) == {
        13: "pid 13 (\"actorlib: Model 'm2'\")",
        14: "pid 14 ('actorlib: workers of pid 99')",
    }


def test_checks_when_run_here_then_each_finds_something() -> None:
    for name, check in CHECKS.items():
        if name != "start":  # see test_doctor
            assert [*check(Host())], name
