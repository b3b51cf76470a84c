"""What a process may use of its machine, containers' limits kept."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from helpers.host import GIB, RecordedHost

from actorlib.accelerators.host import Host

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

V1 = "4:cpuacct,cpu:/pod/app\n3:memory:/pod/app\n0::/\n"
V2 = "0::/pod/app\n"
GROUP = "/proc/self/cgroup"
UNLIMITED_V1 = "9223372036854771712\n"


def test_host_when_asked_about_this_machine_then_answers(tmp_path: Path) -> None:
    (tmp_path / "b1").write_text("one")
    (tmp_path / "b0").write_text("nil")
    host = Host()

    assert host.environ is os.environ
    assert host.read_text(str(tmp_path / "b1")) == "one"
    assert host.read_text(str(tmp_path / "none")) is None
    assert host.read_text(str(tmp_path)) is None
    assert host.glob(f"{tmp_path}/b[0-9]") == [f"{tmp_path}/b0", f"{tmp_path}/b1"]
    assert host.sdk("json").loads("1") == 1
    assert 1 <= host.cpu_count() <= host.affinity() <= (os.cpu_count() or 1)
    assert 0 < host.memory() <= host.physical_memory()


def test_sdk_when_it_is_not_installed_then_import_error() -> None:
    with pytest.raises(ImportError, match="no_such_sdk"):
        Host().sdk("no_such_sdk")


def test_recorded_host_when_files_are_recorded_then_answers_as_a_host_does() -> None:
    host = RecordedHost(files={"/dev/nvidia0": "", "/sys/class/drm/card0/vendor": "x"})

    assert host.read_text("/sys/class/drm/card0/vendor") == "x"
    assert host.read_text("/sys/class/drm/card0") is None
    assert host.glob("/dev/nvidia[0-9]*") == ["/dev/nvidia0"]
    assert host.glob("/sys/class/drm/card*") == ["/sys/class/drm/card0"]
    with pytest.raises(ImportError, match="json"):
        host.sdk("json")


@pytest.mark.parametrize(
    "files",
    [
        {},
        {GROUP: V2},
        {GROUP: V2, "/sys/fs/cgroup/pod/app/cpu.max": "max 100000\n"},
        {GROUP: V2, "/sys/fs/cgroup/pod/app/cpu.max": "9900000 100000\n"},
        {
            GROUP: V1,
            "/sys/fs/cgroup/cpu/pod/app/cpu.cfs_quota_us": "-1\n",
            "/sys/fs/cgroup/cpu/pod/app/cpu.cfs_period_us": "100000\n",
        },
    ],
)
def test_cpu_count_when_no_quota_binds_then_is_the_affinity(
    files: Mapping[str, str],
) -> None:
    assert RecordedHost(files=files, cpus=6).cpu_count() == 6


@pytest.mark.parametrize(
    ("quota", "cpus"), [("300000", 3), ("250000", 2), ("50000", 1)]
)
@pytest.mark.parametrize("folder", ["/pod/app", "/pod", ""])
def test_cpu_count_when_a_quota_binds_then_is_its_whole_part(
    quota: str, cpus: int, folder: str
) -> None:
    second = {GROUP: V2, f"/sys/fs/cgroup{folder}/cpu.max": f"{quota} 100000\n"}
    first = {
        GROUP: V1,
        f"/sys/fs/cgroup/cpu{folder}/cpu.cfs_quota_us": f"{quota}\n",
        f"/sys/fs/cgroup/cpu{folder}/cpu.cfs_period_us": "100000\n",
    }
    assert RecordedHost(files=second, cpus=6).cpu_count() == cpus
    assert RecordedHost(files=first, cpus=6).cpu_count() == cpus


def test_cpu_count_when_several_quotas_bind_then_the_tightest_holds() -> None:
    files = {
        GROUP: V2,
        "/sys/fs/cgroup/pod/app/cpu.max": "400000 100000\n",
        "/sys/fs/cgroup/pod/cpu.max": "200000 100000\n",
    }
    assert RecordedHost(files=files, cpus=6).cpu_count() == 2


@pytest.mark.parametrize(
    "files",
    [
        {},
        {GROUP: V2, "/sys/fs/cgroup/pod/app/memory.max": "max\n"},
        {GROUP: V2, "/sys/fs/cgroup/pod/app/memory.max": f"{99 * GIB}\n"},
        {GROUP: V1, "/sys/fs/cgroup/memory/memory.limit_in_bytes": UNLIMITED_V1},
    ],
)
def test_memory_when_no_limit_binds_then_is_the_machines(
    files: Mapping[str, str],
) -> None:
    assert RecordedHost(files=files, memory=8 * GIB).memory() == 8 * GIB


@pytest.mark.parametrize(
    "files",
    [
        {GROUP: V2, "/sys/fs/cgroup/pod/app/memory.max": f"{2 * GIB}\n"},
        {GROUP: V2, "/sys/fs/cgroup/memory.max": f"{2 * GIB}\n"},
        {GROUP: V1, "/sys/fs/cgroup/memory/pod/memory.limit_in_bytes": f"{2 * GIB}\n"},
    ],
)
def test_memory_when_a_limit_binds_then_is_the_limit(files: Mapping[str, str]) -> None:
    assert RecordedHost(files=files, memory=8 * GIB).memory() == 2 * GIB
