"""What a process may use of its machine, containers' limits kept."""

from __future__ import annotations

import os
import sys
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


@pytest.mark.parametrize(
    ("text", "word", "number"),
    [
        (" 12\n", "12", 12),
        ("A 1\n", "A 1", None),
        ("-1", "-1", None),
        ("\n", None, None),
        ("9" * 20, "9" * 20, 99_999_999_999_999_999_999),
        ("9" * 5000, "9" * 5000, None),
        ("\N{ARABIC-INDIC DIGIT THREE}", "\N{ARABIC-INDIC DIGIT THREE}", None),
    ],
)
def test_read_when_a_driver_tells_one_thing_then_it_is_without_its_blanks(
    tmp_path: Path, text: str, word: str | None, number: int | None
) -> None:
    (tmp_path / "told").write_text(text, encoding="utf-8")
    told = str(tmp_path / "told")

    assert Host().read_word(told) == word
    assert Host().read_number(told) == number


@pytest.mark.parametrize("path", ["/none", "/no\0ne", "/" + "x" * 5000])
def test_read_when_there_can_be_no_such_file_then_there_is_nothing(path: str) -> None:
    host = Host()
    told = (host.read_text(path), host.read_word(path), host.read_number(path))
    assert told == (None, None, None)


def test_is_device_when_it_is_no_character_device_then_it_is_none(
    tmp_path: Path,
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "to_null").symlink_to("/dev/null")
    host = Host()

    assert host.is_device("/dev/null")
    assert host.is_device(str(tmp_path / "to_null"))
    for path in ("file", "", "none", "file/below"):
        assert not host.is_device(str(tmp_path / path))


def test_can_open_when_reading_and_writing_are_allowed_then_and_only_then(
    tmp_path: Path,
) -> None:
    (tmp_path / "mine").touch()
    host = Host()

    assert host.can_open("/dev/null")
    assert host.can_open(str(tmp_path / "mine"))
    assert not host.can_open(str(tmp_path / "none"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may open everything")
@pytest.mark.parametrize("mode", [0o000, 0o200, 0o400])
def test_can_open_when_a_right_is_missing_then_it_cannot(
    tmp_path: Path, mode: int
) -> None:
    path = tmp_path / "file"
    path.touch(mode)
    assert not Host().can_open(str(path))


def test_link_when_it_leads_over_others_then_is_where_it_ends(tmp_path: Path) -> None:
    real = tmp_path.resolve() / "devices" / "0000:3b:00.0"
    real.mkdir(parents=True)
    (tmp_path / "class").symlink_to("devices")
    (tmp_path / "device").symlink_to("class/0000:3b:00.0")
    (tmp_path / "broken").symlink_to("nowhere")
    host = Host()

    assert host.link(str(tmp_path / "device")) == str(real)
    assert host.link(str(tmp_path / "broken")) == str(real.parent.parent / "nowhere")
    assert host.link(str(real)) is None
    assert host.link(str(tmp_path / "none")) is None
    assert host.link(str(tmp_path / ("too long" * 100))) is None  # an error


@pytest.mark.parametrize(
    ("command", "printed"),
    [
        (("echo", "Apple M1"), "Apple M1\n"),
        (("cat",), ""),
        (("false",), None),
        (("no-such-command",), None),
        (("printf", r"\377"), "\ufffd"),
    ],
)
def test_output_when_a_command_ends_then_is_what_a_good_one_printed(
    command: tuple[str, ...], printed: str | None
) -> None:
    assert Host().output(*command) == printed


def test_output_when_a_command_takes_too_long_then_is_none() -> None:
    assert Host().output("tail", "-f", "/dev/null", limit=0.05) is None


def test_host_when_asked_what_it_runs_then_says_what_uname_says() -> None:
    assert Host().system == sys.platform
    assert Host().architecture == os.uname().machine


def test_sdk_when_it_is_not_installed_then_import_error() -> None:
    with pytest.raises(ImportError, match="no_such_sdk"):
        Host().sdk("no_such_sdk")


def test_recorded_host_when_files_are_recorded_then_answers_as_a_host_does() -> None:
    host = RecordedHost(
        files={"/sys/class/drm/card0/vendor": "x"},
        devices={"/dev/nvidia0": True, "/dev/nvidia1": False},
        links={"/sys/class/drm/card0/device": "/sys/devices/0000:3b:00.0"},
        folders=["/dev/nvidia-caps"],
        commands={"uname -s": "Linux\n"},
    )

    assert host.read_text("/sys/class/drm/card0/vendor") == "x"
    assert host.read_text("/sys/class/drm/card0") is None
    assert host.glob("/dev/nvidia[0-9]*") == ["/dev/nvidia0", "/dev/nvidia1"]
    assert host.glob("/dev/nvidia-*") == ["/dev/nvidia-caps"]
    assert host.glob("/sys/class/drm/card*") == ["/sys/class/drm/card0"]
    assert [host.can_open(f"/dev/nvidia{i}") for i in range(3)] == [True, False, False]
    assert [host.is_device(f"/dev/nvidia{i}") for i in range(3)] == [True, True, False]
    assert host.link("/sys/class/drm/card0/device") == "/sys/devices/0000:3b:00.0"
    assert host.link("/sys/class/drm/card0") is None
    assert host.output("uname", "-s") == "Linux\n"
    assert host.output("uname") is None
    assert (host.system, host.architecture) == ("linux", "x86_64")
    with pytest.raises(ImportError, match="json"):
        host.sdk("json")


def v1(folder: str, quota: str) -> dict[str, str]:
    """Files of cgroups of version 1 that limit CPUs in a folder."""
    path = f"/sys/fs/cgroup/cpu{folder}/cpu.cfs"
    return {GROUP: V1, f"{path}_quota_us": quota, f"{path}_period_us": "100000\n"}


def v2(**quotas: str) -> dict[str, str]:
    """Files of cgroups of version 2 that limit CPUs in the folders of a pod."""
    folders = {"app": "/pod/app", "pod": "/pod", "root": ""}
    files = {
        f"/sys/fs/cgroup{folders[name]}/cpu.max": f"{quota} 100000\n"
        for name, quota in quotas.items()
    }
    return {GROUP: V2, **files}


@pytest.mark.parametrize(
    ("files", "cpus"),
    [
        # No quota binds: the affinity.
        ({}, 6),
        (v2(), 6),
        (v2(app="max"), 6),
        (v2(app="9900000"), 6),
        (v1("/pod/app", "-1\n"), 6),
        # One binds: its whole part.
        (v2(app="300000"), 3),
        (v2(pod="250000"), 2),
        (v2(root="50000"), 1),
        (v1("/pod/app", "300000\n"), 3),
        (v1("/pod", "250000\n"), 2),
        (v1("", "50000\n"), 1),
        # Several bind: the tightest.
        (v2(app="400000", pod="200000"), 2),
    ],
)
def test_cpu_count_when_quotas_are_there_then_the_tightest_counts_in_whole_cpus(
    files: Mapping[str, str], cpus: int
) -> None:
    assert RecordedHost(files=files, cpus=6).cpu_count() == cpus


@pytest.mark.parametrize(
    ("group", "file", "limit", "gib"),
    [
        (V2, "pod/app/memory.max", "max\n", 8),
        (V2, "pod/app/memory.max", f"{99 * GIB}\n", 8),
        (V1, "memory/memory.limit_in_bytes", UNLIMITED_V1, 8),
        (V2, "pod/app/memory.max", f"{2 * GIB}\n", 2),
        (V2, "memory.max", f"{2 * GIB}\n", 2),
        (V1, "memory/pod/memory.limit_in_bytes", f"{2 * GIB}\n", 2),
    ],
)
def test_memory_when_a_limit_is_there_then_it_counts_if_it_binds(
    group: str, file: str, limit: str, gib: int
) -> None:
    files = {GROUP: group, f"/sys/fs/cgroup/{file}": limit}
    assert RecordedHost(files=files, memory=8 * GIB).memory() == gib * GIB
