"""What is judged of a machine, from facts alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from actorlib._cli.diagnosis import (
    DESCRIPTORS,
    GIB,
    MIB,
    CgroupFacts,
    ClockFacts,
    ContainerFacts,
    FamilyFacts,
    Finding,
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
    judge_cgroups,
    judge_clock,
    judge_container,
    judge_devices,
    judge_limits,
    judge_mps,
    judge_nvml,
    judge_packages,
    judge_processes,
    judge_python,
    judge_runtimes,
    judge_shared_memory,
    judge_start,
    worst,
)
from actorlib._processes import forkserver_launcher

if TYPE_CHECKING:
    from collections.abc import Callable

PACKAGES = PackageFacts(
    found={"msgpack": "1.1.0", "uvloop": "0.21.0", "nvidia-ml-py": "12.560.30"},
    needed={"msgpack": "1.0.5", "uvloop": "0.19", "nvidia-ml-py": "12.535"},
    is_msgpack_in_c=True,
)
ROOMY = Folder("/tmp", 100 * GIB, 50 * GIB)
MEMORY = SharedMemoryFacts(
    "", is_sealed=True, shm=Folder("/dev/shm", GIB, GIB), temporary=ROOMY
)
LIMITS = LimitFacts(files=1024, most_files=2**20, processes=None)
CONTAINER = ContainerFacts(8, 8, 16 * GIB, 16 * GIB)
NVIDIA = NvidiaFacts(is_traced=True, driver="570.1", nvml="12.570", cuda="12.8")
FAMILY = FamilyFacts("nvidia", devices=["0 (H100)"])
MPS = MpsFacts(is_traced=True)

FINE: list[tuple[Callable[[Any], list[Finding]], object]] = [
    (judge_python, PythonFacts("CPython", "3.13.0", is_free_threaded=False)),
    (judge_packages, PACKAGES),
    (judge_packages, PACKAGES._replace(found={"rich": "13.0", "nvidia-ml-py": None})),
    (judge_limits, LIMITS),
    (judge_limits, LIMITS._replace(most_files=None, processes=4096)),
    (judge_shared_memory, MEMORY),
    (judge_shared_memory, MEMORY._replace(shm=None)),
    (judge_container, CONTAINER),
    (judge_container, CONTAINER._replace(cpus=6, memory=8 * GIB, used=GIB)),
    (judge_cgroups, CgroupFacts("/sys/fs/cgroup", {"memory": "", "cpu": ""})),
    (judge_devices, []),
    (judge_devices, [FAMILY]),
    (judge_nvml, NvidiaFacts(is_traced=False)),
    (judge_nvml, NVIDIA._replace(cards=[NvmlCard("0", "default")])),
    (judge_mps, MPS._replace(daemons=["pid 4"])),
    (judge_mps, MpsFacts(is_traced=False, fault="there is no program")),
    (judge_start, StartFacts("template", seconds=0.4)),
    (judge_processes, ProcessFacts(hides="0", is_nested=True, ptrace_scope=1)),
    (judge_runtimes, []),
    (judge_runtimes, [RuntimeFound("pid 8")]),
    (judge_clock, ClockFacts("tsc", 1e-9)),
    (judge_clock, ClockFacts("", 1e-9)),
]

STRANGE: list[tuple[str, str, Callable[[Any], list[Finding]], object]] = [
    (
        "warning",
        "free-threaded",
        judge_python,
        PythonFacts("CPython", "3.13.0", is_free_threaded=True),
    ),
    (
        "warning",
        "PyPy",
        judge_python,
        PythonFacts("PyPy", "3.11.0", is_free_threaded=False),
    ),
    (
        "problem",
        "msgpack is 1.0.4, and 1.0.5 is the oldest",
        judge_packages,
        PACKAGES._replace(found={"msgpack": "1.0.4"}),
    ),
    (
        "warning",
        "ray is 2.40.0, and 2.60 is the oldest",
        judge_packages,
        PACKAGES._replace(
            found={"ray": "2.40.0"}, needed={"ray": "2.60"}, optional=["ray"]
        ),
    ),
    (
        "warning",
        "uvloop is not installed",
        judge_packages,
        PACKAGES._replace(found={"uvloop": None}),
    ),
    (
        "warning",
        "nvidia-ml-py is not installed",
        judge_packages,
        PACKAGES._replace(found={"nvidia-ml-py": None}, has_nvidia=True),
    ),
    (
        "warning",
        "without its C code",
        judge_packages,
        PACKAGES._replace(is_msgpack_in_c=False),
    ),
    (
        "warning",
        "pynvml 11.5.0",
        judge_packages,
        PACKAGES._replace(old_pynvml="11.5.0"),
    ),
    (
        "warning",
        "some 142 workers",
        judge_limits,
        LIMITS._replace(most_files=1000),
    ),
    ("problem", "some 14 workers", judge_limits, LIMITS._replace(most_files=100)),
    ("warning", "may have 300 processes", judge_limits, LIMITS._replace(processes=300)),
    ("problem", "5 more", judge_limits, LIMITS._replace(cgroup_processes=5)),
    ("warning", "ulimit -v", judge_limits, LIMITS._replace(addresses=GIB)),
    (
        "warning",
        "8.0 MiB may be locked",
        judge_limits,
        LIMITS._replace(memlock=8 * MIB, has_devices=True),
    ),
    (
        "warning",
        "no anonymous files in memory: not permitted",
        judge_shared_memory,
        MEMORY._replace(fault="not permitted"),
    ),
    (
        "warning",
        "cannot be sealed",
        judge_shared_memory,
        MEMORY._replace(is_sealed=False),
    ),
    (
        "warning",
        "/dev/shm has 64 MiB",
        judge_shared_memory,
        MEMORY._replace(shm=Folder("/dev/shm", 64 * MIB, 64 * MIB)),
    ),
    (
        "warning",
        "0 B of it free",
        judge_shared_memory,
        MEMORY._replace(shm=Folder("/dev/shm", GIB, 0)),
    ),
    (
        "problem",
        "/tmp may not be written",
        judge_shared_memory,
        MEMORY._replace(temporary=ROOMY._replace(is_writable=False)),
    ),
    (
        "warning",
        "/tmp has 0 B free",
        judge_shared_memory,
        MEMORY._replace(temporary=ROOMY._replace(free=0)),
    ),
    (
        "warning",
        "noexec",
        judge_shared_memory,
        MEMORY._replace(temporary=ROOMY._replace(is_noexec=True)),
    ),
    (
        "warning",
        "find 64, and start as many threads for 8",
        judge_container,
        CONTAINER._replace(machine_cpus=64),
    ),
    (
        "warning",
        "may kill processes",
        judge_container,
        CONTAINER._replace(used=16 * GIB - 1),
    ),
    (
        "warning",
        "cannot be had: it was not delegated",
        judge_cgroups,
        CgroupFacts("", dict.fromkeys(("memory", "cpu"), "it was not delegated")),
    ),
    (
        "warning",
        "programs that were killed are left: /a, /b",
        judge_cgroups,
        CgroupFacts("/sys", {"memory": ""}, ["/a", "/b"]),
    ),
    (
        "warning",
        "nvidia: not offered: GPU 1, GPU 2: lost",
        judge_devices,
        [FAMILY._replace(rejected=[("GPU 1", "lost"), ("GPU 2", "lost")])],
    ),
    (
        "warning",
        "amd: no answer within 5 s",
        judge_devices,
        [FamilyFacts("amd", reason="no answer within 5 s")],
    ),
    (
        "problem",
        "Driver/library version mismatch",
        judge_nvml,
        NVIDIA._replace(fault="Driver/library version mismatch"),
    ),
    (
        "warning",
        "No module named 'pynvml'",
        judge_nvml,
        NVIDIA._replace(
            fault="No module named 'pynvml'", is_missing=True, is_needed=False
        ),
    ),
    (
        "warning",
        "GPU 0 is in exclusive mode",
        judge_nvml,
        NVIDIA._replace(cards=[NvmlCard("0", "exclusive")]),
    ),
    (
        "problem",
        "GPU 1 is in prohibited mode",
        judge_nvml,
        NVIDIA._replace(cards=[NvmlCard("0"), NvmlCard("1", "prohibited")]),
    ),
    ("warning", "counts processes", judge_nvml, NVIDIA._replace(is_nested=True)),
    ("warning", "no program", judge_mps, MPS._replace(fault="there is no program")),
    ("warning", "CUDA_MPS_PIPE_DIRECTORY=/p", judge_mps, MPS._replace(pipe="/p")),
    ("warning", "left: /tmp/a", judge_mps, MPS._replace(leftovers=["/tmp/a"])),
    ("problem", "it broke", judge_start, StartFacts("template", "it broke")),
    (
        "problem",
        "it broke",
        judge_start,
        StartFacts("template", "it broke", other="spawn"),
    ),
    (
        "warning",
        "ptrace_scope=3",
        judge_processes,
        ProcessFacts(ptrace_scope=3),
    ),
    ("warning", "9.00 s", judge_start, StartFacts("template", seconds=9)),
    ("warning", "its pipe", judge_start, StartFacts("spawn", is_shared=False)),
    ("warning", "no socket", judge_processes, ProcessFacts("no socket")),
    ("warning", "hidepid=2", judge_processes, ProcessFacts(hides="2")),
    (
        "warning",
        "workers live whose program is gone: pid 7 ('actorlib: M')",
        judge_processes,
        ProcessFacts(orphans=["pid 7 ('actorlib: M')"]),
    ),
    ("warning", "has GPU 0", judge_runtimes, [RuntimeFound("pid 8", ["GPU 0"])]),
    (
        "warning",
        "pid 8 is stopped",
        judge_runtimes,
        [RuntimeFound("pid 8", is_stopped=True)],
    ),
    ("warning", "clock is hpet", judge_clock, ClockFacts("hpet", 1e-9)),
    ("warning", "ticks every 0.01 s", judge_clock, ClockFacts("", 0.01)),
]


@pytest.mark.parametrize(("judge", "facts"), FINE)
def test_judgement_when_all_is_well_then_ok_and_nothing_to_do(
    judge: Callable[[Any], list[Finding]], facts: object
) -> None:
    found = judge(facts)

    assert {finding.state for finding in found} == {"ok"}
    assert all(finding.what and not finding.advice for finding in found)


@pytest.mark.parametrize(("state", "said", "judge", "facts"), STRANGE)
def test_judgement_when_something_is_wrong_then_how_bad_and_what_to_do(
    state: str, said: str, judge: Callable[[Any], list[Finding]], facts: object
) -> None:
    (found,) = [finding for finding in judge(facts) if finding.state != "ok"]

    assert found.state == state
    assert said in found.what
    assert found.advice or "ticks" in said


def test_parts_when_a_family_can_be_divided_then_what_holds_them_and_why_not_more() -> (
    None
):
    shares: Any = {"tiers": ["frameworks"], "why_not": {"mps": "there is none"}}

    _, found = judge_devices([FAMILY._replace(shares=shares)])

    assert found == Finding(
        "ok", "nvidia: parts are held by frameworks; not by mps: there is none"
    )


def test_advice_when_workers_are_orphans_then_it_has_their_numbers() -> None:
    orphans = ["pid 7 ('actorlib: M')", "pid 9 ('actorlib: N')"]

    assert judge_processes(ProcessFacts(orphans=orphans))[-1].advice == "kill -9 7 9"


def test_worst_when_states_differ_then_the_worst_of_them() -> None:
    ok, warning, problem = (
        Finding("ok", ""),
        Finding("warning", ""),
        Finding("problem", ""),
    )

    assert worst([]) == worst([ok]) == "ok"
    assert worst([ok, warning]) == "warning"
    assert worst([warning, problem, ok]) == "problem"


def test_descriptors_of_a_worker_are_those_that_its_launcher_counts() -> None:
    assert DESCRIPTORS == forkserver_launcher._DESCRIPTORS
