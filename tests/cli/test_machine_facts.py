"""What is found out about recorded machines, and about this one."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from helpers.host import GIB, RecordedHost
from helpers.nvml import Card, nvidia_host, nvidia_machine

from actorlib._cli import devices
from actorlib._cli.diagnosis import NvmlCard, RuntimeFound
from actorlib._cli.machine_facts import (
    families_in,
    find_cgroups,
    find_clock,
    find_container,
    find_limits,
    find_mps,
    find_nvidia,
    find_orphans,
    find_packages,
    find_processes,
    find_python,
    find_runtimes,
    find_shared_memory,
)
from actorlib.accelerators import Host, families

if TYPE_CHECKING:
    import pytest

HERE = "/proc/3/ns/pid:[4026531836]"
CARD = Card(uuid="GPU-0f2a1c3b-aaaa-bbbb-cccc-000000000000")


def process(pid: int, parent: int, words: str) -> dict[str, str]:
    """The files of a process."""
    rest = " ".join(map(str, range(40)))
    return {
        f"/proc/{pid}/cmdline": f"{words}\0",
        f"/proc/{pid}/stat": f"{pid} (a b) S {parent} {rest}",
        f"/proc/{pid}/comm": f"{words[:15]}\n",
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

    assert find_orphans(host) == [
        "pid 13 (\"actorlib: Model 'm2'\")",
        "pid 14 ('actorlib: workers of pid 99')",
    ]


def test_processes_when_proc_hides_some_then_how() -> None:
    mounts = (
        "22 1 0:5 / /proc rw,nosuid shared:5 - proc proc rw,hidepid=invisible\n"
        "23 1 0:6 / /sys rw - sysfs sysfs rw\n"
    )
    host = RecordedHost(
        files={"/proc/self/mountinfo": mounts},
        links={"/proc/self/ns/pid": "/proc/3/ns/pid:[4026532000]"},
        system="darwin",  # no door is tried there
    )

    found = find_processes(host)

    assert (found.hides, found.is_nested, found.fault) == ("invisible", True, "")
    assert not find_processes(RecordedHost(system="darwin")).is_nested


def test_mps_when_folders_are_left_then_those_that_nobody_keeps() -> None:
    files = {
        **process(5, 1, "python\0-c\0x\0/t/actorlib-mps-aa\0nvidia-cuda-mps-control"),
        **process(6, 5, "nvidia-cuda-mps-control"),
    }
    host = RecordedHost(
        files=files,
        environ={"TMPDIR": "/t", "CUDA_MPS_PIPE_DIRECTORY": "/p"},
        folders=["/t/actorlib-mps-aa", "/t/actorlib-mps-bb", "/tmp/other"],
        devices={"/dev/nvidiactl": True},
    )

    found = find_mps(host)

    assert found.leftovers == ["/t/actorlib-mps-bb"]
    assert found.daemons == ["pid 6"]
    assert found.pipe == "/p"
    assert found.is_traced
    assert "there is no nvidia-cuda-mps-control on PATH" in found.fault


def test_nvidia_when_nvml_answers_then_its_versions_and_modes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    host = nvidia_host(CARD, Card(uuid=None))
    nvml: Any = host.sdk("pynvml")
    answers = {
        "nvmlSystemGetDriverVersion": lambda: b"570.86.15",
        "nvmlSystemGetNVMLVersion": lambda: "12.570.86",
        "nvmlSystemGetCudaDriverVersion": lambda: 12080,
        "nvmlDeviceGetComputeMode": lambda handle: 3 if handle.uuid else 0,
    }
    for name, answer in answers.items():
        monkeypatch.setattr(nvml, name, answer, raising=False)

    found = find_nvidia(host)

    assert (found.driver, found.nvml, found.cuda) == ("570.86.15", "12.570.86", "12.8")
    assert found.cards == [NvmlCard("0", "exclusive"), NvmlCard("1", "default")]
    assert not found.fault


def test_nvidia_when_nvml_is_broken_then_why_and_whether_it_is_missed() -> None:
    broken = find_nvidia(nvidia_host(CARD, broken="LIB_RM_VERSION_MISMATCH"))
    without = find_nvidia(RecordedHost.load("nvidia_closed"))
    jetson = find_nvidia(nvidia_machine("nvidia_jetson"))

    assert "mismatch" in broken.fault
    assert (broken.is_missing, without.is_missing) == (False, True)
    assert (without.is_needed, jetson.is_needed) == (True, False)
    assert not find_nvidia(RecordedHost()).is_traced


def test_families_when_a_machine_has_devices_then_what_holds_parts_of_them() -> None:
    host = nvidia_host(CARD)

    found = families_in(devices.look(host, families()))

    (nvidia,) = [one for one in found if one.family == "nvidia"]
    assert nvidia.devices == ["0 (NVIDIA H100 80GB HBM3)"]
    assert nvidia.shares is not None
    assert "frameworks" in nvidia.shares["tiers"]
    assert all(not one.devices for one in found if one is not nvidia)


def test_runtimes_when_others_have_claimed_devices_then_which() -> None:
    summary = devices.look(nvidia_host(CARD), families())
    for family in summary["families"]:
        for device in family["devices"]:
            device["claims"] = [{"pid": 2**22 + 1, "program": "python a.py"}]

    found = find_runtimes(summary)

    assert RuntimeFound(f"pid {2**22 + 1}", ["GPU 0"]) in found


def test_container_when_it_has_limits_then_what_is_left_of_the_machine() -> None:
    group = "/sys/fs/cgroup/a"
    host = RecordedHost(
        files={
            "/proc/self/cgroup": "0::/a\n",
            "/sys/fs/cgroup/cgroup.controllers": "memory",
            f"{group}/memory.max": f"{4 * GIB}\n",
            f"{group}/memory.current": f"{3 * GIB}\n",
            f"{group}/memory.stat": f"anon 5\ninactive_file {GIB}\n",
            f"{group}/cpu.max": "200000 100000\n",
            f"{group}/pids.max": "100\n",
            f"{group}/pids.current": "40\n",
            f"{group}/actorlib-7-9-owner/cgroup.procs": "",
            f"{group}/cgroup.controllers": "memory cpu",
        }
    )

    found, limits, cgroups = find_container(host), find_limits(host), find_cgroups(host)

    assert (found.cpus, found.memory, found.used) == (2, 4 * GIB, 2 * GIB)
    assert limits.cgroup_processes == 60
    assert cgroups.leftovers == [f"{group}/actorlib-7-9-owner"]
    assert find_limits(RecordedHost()).cgroup_processes is None


def test_packages_when_looked_for_then_those_that_run_here() -> None:
    found = find_packages(Host())

    assert found.found["msgpack"]
    assert found.needed.keys() >= {"cloudpickle", "msgpack", "uvloop", "ray"}
    assert "ray" in found.optional
    assert "msgpack" not in found.optional
    assert not found.needed.keys() & {"pytest", "ruff", "matplotlib"}


def test_this_machine_when_asked_then_it_has_an_answer() -> None:
    host = Host()

    assert find_python().version == sys.version.split()[0]
    assert find_clock(host).resolution > 0
    assert find_shared_memory(host).temporary.nbytes > 0
    assert f"pid {os.getpid()}" not in " ".join(find_orphans(host))
