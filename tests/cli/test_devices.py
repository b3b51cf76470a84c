"""What ``actorlib devices`` puts on the screen, and what it writes for machines."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import pytest
from helpers.host import GIB, RecordedHost
from helpers.nvml import Card, nvidia_host

from actorlib._cli.devices import show
from actorlib._options.kinds import GPU
from actorlib.accelerators import Accelerator, Detection, Device, Rejected, families
from actorlib.accelerators.nvidia import Nvidia

if TYPE_CHECKING:
    from actorlib.accelerators import Host

ROOT = Path(__file__).parents[2]
LIMIT = 60.0
# What a machine or a session may have set, and what would change what is shown.
SETTINGS = ("ACTORLIB_", "COLUMNS", "CUDA_", "NO_COLOR", "FORCE_COLOR", "RAY_", "TERM")

CARDS = tuple(
    Card(
        uuid=f"GPU-{i}f2a1c3b-aaaa-bbbb-cccc-00000000000{i}",
        linked=[f"GPU-{j}f2a1c3b-aaaa-bbbb-cccc-00000000000{j}" for j in range(4)],
    )
    for i in range(4)
)


@final
class Odd(Accelerator):
    """A family that says whatever a test wants it to."""

    family = "odd"
    kind = GPU
    visible_env = "ODD_DEVICES"

    def __init__(
        self, *devices: Device, reason: str = "", rejected: tuple[Rejected, ...] = ()
    ) -> None:
        self.says = Detection(
            family=self.family, devices=devices, reason=reason, rejected=rejected
        )

    def detect(self, host: Host) -> Detection:  # noqa: ARG002
        print("a vendor's greeting")  # noqa: T201
        return self.says


def odd(**facts: Any) -> Device:
    return Device(**{"family": "odd", "kind": "GPU", "index": 0, "id": "0", **facts})


@pytest.fixture
def shown(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shown:
    for name in [name for name in os.environ if name.startswith(SETTINGS)]:
        monkeypatch.delenv(name)
    return Shown(capsys)


@final
class Shown:
    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def page(self, host: Host, *asked: Accelerator) -> str:
        """What people see; its lines are whole if no width is told."""
        show(as_json=False, host=host, accelerators=asked or (Nvidia(),))
        return self._capsys.readouterr().out

    def text(self, host: Host, *asked: Accelerator) -> str:
        """The same on one line, so that it does not matter where lines break."""
        return " ".join(self.page(host, *asked).split())

    def document(self, host: Host, *asked: Accelerator) -> str:
        show(as_json=True, host=host, accelerators=asked or (Nvidia(),))
        return self._capsys.readouterr().out


# For people.


def test_page_when_there_are_devices_then_a_row_tells_of_each(shown: Shown) -> None:
    page = shown.page(nvidia_host(*CARDS))

    rows = [line.split() for line in page.splitlines() if "NVIDIA H100" in line]
    assert [(row[0], row[1], row[2]) for row in rows] == [
        ("nvidia", "GPU", number) for number in "0123"
    ]
    assert [row[-6:] for row in rows[:2]] == [
        ["H100", "80", "GiB", "GPU-0f2a1c3b", "1-3", "0"],
        ["H100", "80", "GiB", "GPU-1f2a1c3b", "0,2-3", "1"],
    ]


def test_page_when_there_are_devices_then_it_says_how_to_ask(shown: Shown) -> None:
    text = shown.text(nvidia_host(*CARDS))

    assert (
        "GPU: 4, given as shares of one, or whole ones, or by gpu_memory up to 80 GiB; "
        "accelerator_type H100; masked by CUDA_VISIBLE_DEVICES."
    ) in text
    assert "declared" not in text


def test_page_when_parts_can_be_held_then_it_says_what_makes_them_hold(
    shown: Shown,
) -> None:
    cards = shown.text(nvidia_host(*CARDS))
    others = shown.text(RecordedHost(), Odd(odd()))

    assert "Shares of GPU 0, 1, 2, 3 can be made to hold by frameworks, " in cards
    assert (
        "Shares of GPU 0 can be made to hold by nothing. Not by frameworks: no "
        "framework is known that takes a limit for odd devices. Not by watchdog, mps, "
        "cgroup: GPU 0 is not an NVIDIA device."
    ) in others


def test_page_when_a_mask_is_cut_then_it_says_what_is_hidden_and_why(
    shown: Shown,
) -> None:
    host = nvidia_host(*CARDS[:2], environ={"CUDA_VISIBLE_DEVICES": "1,9"})

    text = shown.text(host)

    assert (
        "nvidia GPU 0 NVIDIA H100 80GB HBM3 hidden by CUDA_VISIBLE_DEVICES='1,9'"
    ) in text
    assert "nvidia: CUDA_VISIBLE_DEVICES='1,9' ends before '9'" in text
    assert "Set in this environment: CUDA_VISIBLE_DEVICES='1,9'" in text


def test_page_when_a_mask_hides_all_then_it_says_which_variable_does(
    shown: Shown,
) -> None:
    text = shown.text(nvidia_host(*CARDS, environ={"CUDA_VISIBLE_DEVICES": ""}))

    assert "There is no accelerator here that actors could hold." in text
    assert "nvidia: CUDA_VISIBLE_DEVICES='' hides every device" in text
    assert (
        "No GPU is left, not even one to be declared, by CUDA_VISIBLE_DEVICES='':"
        in text
    )
    assert "num_gpus" not in text


@pytest.mark.parametrize("machine", ["bare", "amd_mi300x"])
def test_page_when_amds_or_intels_masks_hide_all_then_no_gpu_is_recommended(
    shown: Shown, machine: str
) -> None:
    environ = {"HIP_VISIBLE_DEVICES": "", "ZE_AFFINITY_MASK": ""}

    text = shown.text(RecordedHost.load(machine, environ=environ), *families())

    assert "HIP_VISIBLE_DEVICES='' and by ZE_AFFINITY_MASK='': unset" in text
    assert "num_gpus" not in text


@pytest.mark.parametrize(("mask", "example"), [(None, 2), ("4", 1), ("4,5,6", 2)])
def test_page_when_nothing_is_found_then_what_may_be_declared_is_told(
    shown: Shown, mask: str | None, example: int
) -> None:
    environ = {} if mask is None else {"CUDA_VISIBLE_DEVICES": mask}

    text = shown.text(RecordedHost(environ=environ), Odd(), Nvidia())

    assert "There is no accelerator here that actors could hold." in text
    assert "Looked for without a trace:" in text
    assert "odd" in text
    assert f"actorlib.init(num_gpus={example})" in text


def test_page_when_a_family_has_only_a_reason_then_it_has_a_line(shown: Shown) -> None:
    page = shown.page(RecordedHost(), Odd(reason="its library is older than it is"))

    assert "odd: its library is older than it is" in page.splitlines()
    assert "without a trace" not in page


@pytest.mark.parametrize("opening", ["", "/dev/odd0: ", "/dev/odd0 is left out: "])
def test_page_when_a_reason_repeats_that_of_a_device_then_it_is_told_once(
    shown: Shown, opening: str
) -> None:
    left_out = (Rejected(name="/dev/odd0", why="no permission"),)
    reason = f"{opening}no permission; it snows"

    page = shown.page(RecordedHost(), Odd(reason=reason, rejected=left_out))

    assert page.count("no permission") == 1
    assert "odd: it snows" in page.splitlines()


def test_page_when_families_give_one_reason_then_it_is_told_once(shown: Shown) -> None:
    @final
    class Twin(Accelerator):
        family = "twin"
        kind = GPU
        visible_env = "ODD_DEVICES"

        def detect(self, host: Host) -> Detection:  # noqa: ARG002
            return Detection(family=self.family, reason="it rains")

    page = shown.page(RecordedHost(), Odd(reason="it rains"), Twin())

    assert "odd, twin: it rains" in page.splitlines()


def test_page_when_a_reason_is_long_then_it_is_folded_and_whole(
    shown: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    why = "-".join(["word"] * 60)
    left_out = (Rejected(name="/dev/odd0", why=f"it is {why}"),)

    page = shown.page(RecordedHost(), Odd(reason=f"as {why}", rejected=left_out))

    assert max(map(len, page.splitlines())) <= 80
    assert "".join(page.split()).count("word") == 120
    assert "\N{HORIZONTAL ELLIPSIS}" not in page


def test_page_when_it_is_no_terminals_then_no_line_is_broken(shown: Shown) -> None:
    why = " ".join(["word"] * 60)
    left_out = (Rejected(name="/dev/odd0", why=f"it is {why}"),)

    page = shown.page(RecordedHost(), Odd(reason=f"as {why}", rejected=left_out))

    assert f"odd: as {why}" in page.splitlines()
    (row,) = [line for line in page.splitlines() if "/dev/odd0" in line]
    assert row.strip().endswith(f"it is {why}")


@pytest.mark.parametrize("columns", ["20", "40", "80", "200"])
def test_page_when_the_terminal_has_a_width_then_no_line_is_wider(
    shown: Shown, monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)

    page = shown.page(nvidia_host(*CARDS, environ={"CUDA_VISIBLE_DEVICES": "1,0,7"}))

    assert max(map(len, page.splitlines())) <= int(columns)


def test_page_when_words_look_like_markup_then_they_are_shown_as_they_are(
    shown: Shown,
) -> None:
    text = shown.text(
        RecordedHost(), Odd(odd(model="[bold]X[/] :smile:"), reason="[red]why[/red]")
    )

    assert "[bold]X[/] :smile:" in text
    assert "odd: [red]why[/red]" in text


def test_page_when_uuids_begin_alike_then_as_much_is_shown_as_tells_them_apart(
    shown: Shown,
) -> None:
    page = shown.page(
        RecordedHost(),
        Odd(
            odd(uuid="GPU-5ac7d1f05b0fe5a1"),
            odd(uuid="GPU-5ac7d1f05b0fe5b1", index=1, id="1"),
        ),
    )

    assert "GPU-5ac7d1f05b0fe5a " in page
    assert "GPU-5ac7d1f05b0fe5b " in page


def test_page_when_a_device_is_part_of_another_then_it_says_of_which(
    shown: Shown,
) -> None:
    uuid = "MIG-c6d4f1ef-bbbb"
    part = odd(id=uuid, parent="GPU-5ac7d1f0-aaaa", uuid=uuid, memory=5 * GIB)

    text = shown.text(RecordedHost(), Odd(part))

    assert "odd GPU MIG-c6d4f1ef 5 GiB part of GPU-5ac7d1f0 its UUID" in text


def test_page_when_memory_is_the_machines_then_it_says_so(shown: Shown) -> None:
    assert "shared" in shown.text(RecordedHost(), Odd(odd(integrated=True)))


def test_page_when_nothing_is_known_in_a_column_then_it_is_left_out(
    shown: Shown,
) -> None:
    text = shown.text(RecordedHost(), Odd(odd(model="Oddity")))

    assert "family kind id model mask" in text


def test_page_when_a_runtime_has_a_device_then_it_is_named(
    shown: Shown, tmp_path: Path
) -> None:
    host = RecordedHost()
    host.shared = tmp_path / "names"
    release = host.names().hold(f"odd/0/{os.getppid()}")

    text = shown.text(host, Odd(odd(model="Oddity")))
    release()

    assert "family kind id model mask taken-by" in text
    assert f"(pid {os.getppid()})" in text


# For machines.


def test_json_when_printed_then_there_is_nothing_else(shown: Shown) -> None:
    host = nvidia_host(*CARDS, environ={"CUDA_VISIBLE_DEVICES": "2"})

    document = json.loads(shown.document(host, Odd(reason="word " * 100), Nvidia()))

    assert list(document) == ["version", "families", "kinds", "environment", "took"]
    assert [found["family"] for found in document["families"]] == ["nvidia", "odd"]
    assert [device["id"] for device in document["families"][0]["devices"]] == ["2"]
    assert document["environment"] == {"CUDA_VISIBLE_DEVICES": "2"}
    assert 0 <= document["took"] < LIMIT


def test_json_when_words_look_like_markup_then_they_stay_as_they_are(
    shown: Shown,
) -> None:
    document = json.loads(shown.document(RecordedHost(), Odd(reason="[b]x[/b] \u00e9")))

    assert document["families"][0]["reason"] == "[b]x[/b] \u00e9"


# The command, in a process of its own.


def devices_command(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    kept = {n: v for n, v in os.environ.items() if not n.startswith(SETTINGS)}
    return subprocess.run(
        [sys.executable, "-m", "actorlib", "devices", *words],
        env={**kept, "PYTHONPATH": str(ROOT), **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )


@pytest.mark.slow
def test_command_when_run_anywhere_then_it_ends_well_and_says_something() -> None:
    done = devices_command(NO_COLOR="1")

    assert (done.returncode, done.stderr) == (0, "")
    assert "families were asked" in done.stdout
    assert "\x1b" not in done.stdout


@pytest.mark.slow
def test_command_when_every_gpu_is_hidden_then_that_is_no_error() -> None:
    done = devices_command("--json", CUDA_VISIBLE_DEVICES="")

    found = {f["family"]: f for f in json.loads(done.stdout)["families"]}
    assert (done.returncode, done.stderr) == (0, "")
    assert (found["nvidia"]["value"], found["nvidia"]["devices"]) == ("", [])


@pytest.mark.slow
def test_command_when_the_terminal_takes_ascii_only_then_it_gets_that() -> None:
    done = devices_command(PYTHONIOENCODING="ascii")

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.isascii()


@pytest.mark.slow
@pytest.mark.parametrize("form", ["", "--json"])
def test_command_when_nobody_reads_then_it_ends_quietly(form: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "actorlib", "devices", *form.split()],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=writer,
            stderr=subprocess.PIPE,
            text=True,
            timeout=LIMIT,
            check=False,
        )
    finally:
        os.close(writer)

    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.slow
def test_command_when_its_standard_streams_are_closed_then_it_runs() -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", f'"{sys.executable}" -m actorlib devices <&- >&-'],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        text=True,
        timeout=LIMIT,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
