"""What the checks of ``actorlib doctor`` find on recorded machines, and on this one."""

from __future__ import annotations

import os
import resource
import sys
from dataclasses import replace
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
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
    from collections.abc import Iterable, Mapping

HERE = "/proc/3/ns/pid:[4026531836]"
CARD = Card(uuid="GPU-0f2a1c3b-aaaa-bbbb-cccc-000000000000")
NO_LIMIT = resource.RLIM_INFINITY
MIB = 2**20


def wrong(findings: Iterable[Finding]) -> list[tuple[str, str]]:
    """The findings that are not fine, and all of those have an advice."""
    left = [finding for finding in findings if finding.state != "ok"]
    assert all(finding.advice for finding in left)
    return [(finding.state, finding.what) for finding in left]


def the_wrong(findings: Iterable[Finding]) -> tuple[str, str]:
    (only,) = wrong(findings)
    return only


def start_host(**answers: str) -> RecordedHost:
    """A machine where the program that tries a start prints this, by the method."""
    program = f"{sys.executable} -m actorlib._cli.start_check"
    return RecordedHost(
        commands={f"{program} {method}": text for method, text in answers.items()}
    )


def limit(monkeypatch: pytest.MonkeyPatch, limits: Mapping[int, int]) -> None:
    def getrlimit(kind: int) -> tuple[int, int]:
        return (limits.get(kind, NO_LIMIT),) * 2

    monkeypatch.setattr(resource, "getrlimit", getrlimit)


# Python and the start.


def test_python_when_it_is_this_one_then_packages_with_their_versions() -> None:
    findings = [*check_python(Host())]

    assert "msgpack " in findings[1].what
    assert "uvloop " in findings[1].what


def test_python_when_it_is_another_then_not_tested_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("platform.python_implementation", lambda: "PyPy")

    state, what = wrong(check_python(Host()))[0]

    assert state == "warning"
    assert what.startswith("PyPy 3")


def test_packages_when_msgpack_has_no_c_code_and_uvloop_is_not_there_then_slower(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def version(name: str) -> str:
        if name == "uvloop":
            raise machine_checks.metadata.PackageNotFoundError(name)
        return "1.0"

    msgpack: Any = ModuleType("msgpack")
    msgpack.Packer = type("Packer", (), {"__module__": "msgpack.fallback"})
    monkeypatch.setattr(machine_checks.metadata, "version", version)

    found = wrong(check_python(RecordedHost(sdks={"msgpack": msgpack})))

    texts = [what for _, what in found]
    assert any("uvloop is not installed" in text for text in texts)
    assert any("without its C code" in text for text in texts)


def test_start_when_an_actor_answers_then_after_how_long() -> None:
    (found,) = check_start(start_host(template="answered after 0.41 s"))

    what = "an actor of a new runtime (template) answered after 0.41 s"
    assert found == Finding("ok", what)


@pytest.mark.parametrize(
    ("answers", "advice"),
    [
        ({"template": "OSError: no"}, "The other checks may say why"),
        (
            {"template": "OSError: no", "spawn": "answered after 1.00 s"},
            "init(start_method='spawn') works",
        ),
    ],
)
def test_start_when_it_fails_then_why_and_what_works(
    answers: dict[str, str], advice: str
) -> None:
    (found,) = check_start(start_host(**answers))

    what = "a runtime with one actor (template) does not work: OSError: no"
    assert found == Finding("problem", what, advice)


def test_start_when_nothing_comes_then_a_problem() -> None:
    state, what = the_wrong(check_start(start_host()))

    assert state == "problem"
    assert "no answer within 30 s" in what


# Limits and memory.


@pytest.mark.parametrize(
    ("limits", "state", "text"),
    [
        ({}, "ok", "as are wanted"),
        ({resource.RLIMIT_NOFILE: 2**20}, "ok", "some 149796 workers"),
        ({resource.RLIMIT_NOFILE: 1000}, "warning", "some 142 workers"),
        ({resource.RLIMIT_NOFILE: 100}, "problem", "some 14 workers"),
        ({resource.RLIMIT_NPROC: 300}, "warning", "this user may have 300 processes"),
    ],
)
def test_limits_when_there_is_room_for_few_workers_then_for_how_many(
    limits: dict[int, int], state: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit(monkeypatch, limits)

    (found,) = check_limits(RecordedHost())

    assert found.state == state
    assert text in found.what


def test_limits_when_the_cgroup_may_have_few_processes_then_how_many_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limit(monkeypatch, {})
    files = {
        "/proc/self/cgroup": "0::/a\n",
        "/sys/fs/cgroup/a/pids.max": "100\n",
        "/sys/fs/cgroup/a/pids.current": "95\n",
    }

    state, what = the_wrong(check_limits(RecordedHost(files=files)))

    assert state == "problem"
    assert "may have 5 more" in what


def test_descriptors_of_a_worker_are_those_that_its_launcher_counts() -> None:
    assert DESCRIPTORS == forkserver_launcher._DESCRIPTORS


def test_container_when_it_has_limits_then_what_is_left_of_the_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    files = {
        "/proc/self/cgroup": "0::/a\n",
        "/sys/fs/cgroup/a/memory.max": f"{4 * GIB}\n",
        "/sys/fs/cgroup/a/cpu.max": "200000 100000\n",
    }

    fine, few = check_container(RecordedHost(files=files))

    assert fine == Finding(
        "ok", "2 of 8 CPUs and 4 GiB of 16 GiB of memory may be used"
    )
    assert few.state == "warning"
    assert few.advice == "Set OMP_NUM_THREADS=2 for the program itself"


def test_container_when_it_has_no_limits_then_all_of_the_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 8)

    (found,) = check_container(RecordedHost())

    assert found == Finding("ok", "8 CPUs and 16 GiB of memory may be used")


def test_shared_memory_when_there_is_room_then_fine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    room = SimpleNamespace(f_blocks=2**20, f_bavail=2**20, f_frsize=4096)
    monkeypatch.setattr(os, "statvfs", lambda _: room)

    assert wrong(check_shared_memory(Host())) == []


def test_shared_memory_when_it_is_full_and_no_file_can_be_made_then_what_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object) -> int:
        raise PermissionError("seccomp")

    room = SimpleNamespace(f_blocks=64, f_bavail=0, f_frsize=MIB)
    monkeypatch.setattr(os, "statvfs", lambda _: room)
    monkeypatch.setattr(os, "memfd_create", refuse, raising=False)

    sealed, shm, temporary = wrong(check_shared_memory(Host()))

    assert sealed[0] == shm[0] == temporary[0] == "warning"
    assert "sealed files in memory: seccomp" in sealed[1]
    assert "/dev/shm has 64 MiB, 0 B of it free" in shm[1]
    assert temporary[1].endswith("has 0 B free")


def test_temporary_folder_when_it_may_not_be_written_then_a_problem(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)

    state, what = wrong(check_shared_memory(Host()))[-1]

    assert (state, what.partition(" ")[2]) == ("problem", "may not be written")


def test_cgroups_when_none_was_delegated_then_why() -> None:
    state, what = the_wrong(check_enforcement(RecordedHost()))

    assert state == "warning"
    assert what.startswith("enforcement='cgroup' cannot be had: ")


# Devices.


def test_devices_when_there_are_none_then_how_to_try_things_out() -> None:
    findings = [*check_devices(RecordedHost())]

    assert findings[0].state == "ok"
    assert "init(num_gpus=2)" in findings[0].what
    assert wrong(findings) == []


def test_devices_when_some_are_not_offered_then_why_once() -> None:
    host = nvidia_host(
        CARD, Card(uuid="GPU-1", lost=True), Card(uuid="GPU-2", lost=True)
    )

    findings = [*check_devices(host)]

    assert findings[0] == Finding("ok", "nvidia: 0 (NVIDIA H100 80GB HBM3)")
    state, what = the_wrong(findings)
    assert state == "warning"
    assert what.startswith("nvidia: not offered: ")


def test_devices_when_another_runtime_has_taken_some_then_who(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    claims = (Claimant(812, "python a.py"),)
    summary = devices.look(nvidia_host(CARD), families())
    (nvidia,) = [family for family in summary.families if family.devices]
    taken = tuple(replace(device, claims=claims) for device in nvidia.devices)
    found = replace(summary, families=(replace(nvidia, devices=taken),))
    monkeypatch.setattr(devices, "look", lambda *_: found)

    finding = [*check_devices(RecordedHost())][-1]

    assert finding.what == "'python a.py' (pid 812) has GPU 0"
    assert finding.advice == "init(devices='free') leaves it those"


def test_nvml_when_it_answers_then_its_versions_and_modes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    host = nvidia_host(CARD, Card(uuid="GPU-1", mode=3), Card(uuid="GPU-2", mode=2))
    nvml: Any = host.sdk("pynvml")
    answers = {
        "nvmlSystemGetDriverVersion": lambda: b"570.86.15",
        "nvmlSystemGetNVMLVersion": lambda: "12.570.86",
        "nvmlSystemGetCudaDriverVersion": lambda: 12080,
    }
    for name, answer in answers.items():
        monkeypatch.setattr(nvml, name, answer, raising=False)

    findings = [*check_nvml(host)]

    what = "driver 570.86.15, NVML 12.570.86, for CUDA up to 12.8"
    assert findings[0] == Finding("ok", what)
    exclusive, prohibited = wrong(findings)
    assert exclusive[0] == "warning"
    assert exclusive[1].startswith("GPU 1 is in exclusive mode")
    assert prohibited[0] == "problem"
    assert prohibited[1].startswith("GPU 2 is in prohibited mode")
    assert nvml.open == 0


def test_nvml_when_it_is_old_then_no_versions_and_no_modes() -> None:
    nvml = FakeNvml(CARD, old=True)
    host = RecordedHost(devices={"/dev/nvidiactl": True}, sdks={"pynvml": nvml})

    assert wrong(check_nvml(host)) == []


@pytest.mark.parametrize(
    ("host", "state", "text"),
    [
        (nvidia_host(CARD, broken="LIB_RM_VERSION_MISMATCH"), "problem", "ismatch"),
        (RecordedHost.load("nvidia_closed"), "problem", "No module named 'pynvml'"),
        (nvidia_machine("nvidia_jetson"), "warning", "NVML does not answer"),
    ],
    ids=["mismatch", "missing", "jetson"],
)
def test_nvml_when_it_does_not_answer_then_why_and_whether_cards_are_missed(
    host: Host, state: str, text: str
) -> None:
    found = the_wrong(check_nvml(host))

    assert found[0] == state
    assert text in found[1]


def test_nvml_when_there_is_no_card_then_no_trace_of_one() -> None:
    (found,) = check_nvml(RecordedHost())

    assert found == Finding("ok", "there is no trace of an NVIDIA card")


def test_nvml_when_in_a_container_with_an_mps_daemon_then_what_that_means() -> None:
    host = RecordedHost(
        environ={"CUDA_MPS_PIPE_DIRECTORY": "/p"},
        devices={"/dev/nvidiactl": True},
        links={"/proc/self/ns/pid": "/proc/3/ns/pid:[4026532000]"},
        sdks={"pynvml": nvidia_host(CARD).sdk("pynvml")},
    )

    counts = the_wrong(check_nvml(host))
    daemon, _ = wrong(check_enforcement(host))

    assert counts[1].startswith("this container counts processes for itself")
    assert daemon[1].startswith("CUDA_MPS_PIPE_DIRECTORY=/p is set")


# Processes.


def process(pid: int, parent: int, words: str) -> dict[str, str]:
    """The files of a process."""
    rest = " ".join(map(str, range(40)))
    return {
        f"/proc/{pid}/cmdline": f"{words}\0",
        f"/proc/{pid}/stat": f"{pid} (a b) S {parent} {rest}",
    }


def in_one_namespace(*pids: int) -> dict[str, str]:
    return {f"/proc/{pid}/ns/pid": HERE for pid in ("self", *pids)}


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
    host = RecordedHost(files=files, links=in_one_namespace(10, 11, 12, 13, 14))

    assert find_orphans(host) == {
        13: "pid 13 (\"actorlib: Model 'm2'\")",
        14: "pid 14 ('actorlib: workers of pid 99')",
    }


def test_processes_when_workers_stay_without_program_then_how_to_end_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(machine_checks, "_MOMENT", 0)
    files = {
        **process(13, 1, "actorlib: Model 'm2'"),
        **process(14, 1, "actorlib: Model 'm3'"),
    }

    (found,) = check_processes(
        RecordedHost(files=files, links=in_one_namespace(13, 14))
    )

    assert found.state == "warning"
    assert found.what.startswith("workers live whose program is gone: pid 13 (")
    assert found.advice == "kill -9 13 14"


def test_processes_when_every_worker_has_its_program_then_fine() -> None:
    (found,) = check_processes(RecordedHost())

    assert found == Finding("ok", "every worker has its program")


def test_checks_when_run_here_then_each_says_something() -> None:
    for name, check in CHECKS.items():
        if name != "start":  # see test_doctor
            assert [*check(Host())], name
