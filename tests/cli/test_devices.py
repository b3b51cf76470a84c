"""What ``actorlib devices`` shows of a machine, and writes for programs."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, final

import pytest
from helpers.goldens import stable
from helpers.host import GIB, RecordedHost
from helpers.nvml import Card, nvidia_host

from actorlib.__main__ import main
from actorlib._cli.devices import show, summarize
from actorlib._options.kinds import GPU, TPU
from actorlib.accelerators import (
    Accelerator,
    Detection,
    Device,
    Rejected,
    discover,
    families,
)
from actorlib.accelerators.claims import Claimant
from actorlib.accelerators.nvidia import Nvidia

if TYPE_CHECKING:
    from pathlib import Path

    from helpers.goldens import Golden

    from actorlib._cli.devices import Summary
    from actorlib.accelerators import Host

CARDS = tuple(
    Card(
        uuid=f"GPU-{i}f2a1c3b-aaaa-bbbb-cccc-00000000000{i}",
        pci=(0, 0x3B + i, 0),
        linked=[f"GPU-{j}f2a1c3b-aaaa-bbbb-cccc-00000000000{j}" for j in range(4)],
    )
    for i in range(4)
)
WORDS = " ".join(["word"] * 60)
DASHES = WORDS.replace(" ", "-")


class Odd(Accelerator):
    """A family with the devices and reasons of a test."""

    family = "odd"
    kind = GPU
    visible_env = "ODD_DEVICES"

    def __init__(
        self, *devices: Device, reason: str = "", rejected: tuple[Rejected, ...] = ()
    ) -> None:
        self.detection = Detection(
            family=self.family, devices=devices, reason=reason, rejected=rejected
        )

    def detect(self, host: Host) -> Detection:  # noqa: ARG002
        print("a vendor's greeting")  # noqa: T201
        return self.detection


class Twin(Odd):
    family = "twin"


@final
class Chips(Accelerator):
    """Two chips of a TPU, and a file that is none."""

    family = "chips"
    kind = TPU
    visible_env = "CHIPS"

    def detect(self, host: Host) -> Detection:
        chips = [
            Device(family=self.family, kind=self.kind.name, index=0, id=number)
            for number in ("0", "1")
        ]
        left_out = Rejected(name="/dev/chip2", why="no chip: it is a fish")
        return self.select(chips, host.environ, rejected=[left_out], reason="so, so")


@final
class Silent(Odd):
    family = "silent"
    visible_env = ""


def odd(**facts: Any) -> Device:
    return Device(**{"family": "odd", "kind": "GPU", "index": 0, "id": "0", **facts})


def nvidia(mask: str | None = None) -> Host:
    environ = {} if mask is None else {"CUDA_VISIBLE_DEVICES": mask}
    return nvidia_host(*CARDS, environ=environ)


def bare(mask: str | None = None) -> Host:
    environ = {} if mask is None else {"CUDA_VISIBLE_DEVICES": mask}
    return RecordedHost(environ=environ)


def left_out(why: str) -> tuple[Rejected, ...]:
    return (Rejected(name="/dev/odd0", why=why),)


def shown(
    capsys: pytest.CaptureFixture[str],
    host: Host,
    *asked: Accelerator,
    as_json: bool = False,
) -> str:
    show(as_json=as_json, host=host, accelerators=asked or (Nvidia(),))
    return capsys.readouterr().out


MASKS = {"HIP_VISIBLE_DEVICES": "", "ZE_AFFINITY_MASK": ""}
PAGES: dict[str, tuple[Host, tuple[Accelerator, ...], str]] = {
    "cards": (nvidia(), (), "accelerator_type H100; masked by CUDA_VISIBLE_DEVICES."),
    "masked": (nvidia("1,9"), (), "hidden by CUDA_VISIBLE_DEVICES='1,9'"),
    "hidden": (nvidia(""), (), "There is no accelerator here that actors could hold."),
    "others-masked": (
        RecordedHost.load("amd_mi300x", environ=MASKS),
        (*families(),),
        "HIP_VISIBLE_DEVICES='' and by ZE_AFFINITY_MASK='': unset",
    ),
    "nothing": (bare(), (Odd(), Nvidia()), "actorlib.init(num_gpus=2)"),
    "one-declarable": (bare("4"), (Nvidia(),), "actorlib.init(num_gpus=1)"),
    "two-declarable": (bare("4,5,6"), (Nvidia(),), "actorlib.init(num_gpus=2)"),
    "reason": (bare(), (Odd(reason="it is too old"),), "odd: it is too old\n"),
    "one-reason": (
        bare(),
        (Odd(reason="it rains"), Twin(reason="it rains")),
        "odd, tw",
    ),
    "markup": (
        bare(),
        (Odd(odd(model="[bold]X[/] :smile:"), reason="[red]why[/red]"),),
        "odd: [red]why[/red]\n",
    ),
    "part": (
        bare(),
        (
            Odd(
                odd(uuid="GPU-5ac7d1f05b0fe5a1"),
                odd(uuid="GPU-5ac7d1f05b0fe5b1", index=1, id="1"),
                odd(
                    id="MIG-c6d4f1ef-bbbb",
                    uuid="MIG-c6d4f1ef-bbbb",
                    parent="GPU-5ac7d1f05b0fe5a1",
                    memory=5 * GIB,
                ),
            ),
        ),
        "part of GPU-5ac7d1f05b0fe5a",
    ),
    "shared": (bare(), (Odd(odd(integrated=True, model="Oddity")),), "shared"),
    "long-lines": (
        bare(),
        (Odd(reason=f"as {WORDS}", rejected=left_out(f"it is {WORDS}")),),
        f"odd: as {WORDS}\n",
    ),
}


@pytest.mark.parametrize("name", PAGES)
def test_page_of_a_machine(
    name: str, golden: Golden, capsys: pytest.CaptureFixture[str]
) -> None:
    host, asked, meaning = PAGES[name]

    page = stable(shown(capsys, host, *asked))

    assert meaning in page
    golden.check(f"devices-{name}.txt", page)


@pytest.mark.parametrize("opening", ["", "/dev/odd0: ", "/dev/odd0 is left out: "])
def test_page_when_a_reason_repeats_that_of_a_device_then_it_has_it_once(
    opening: str, capsys: pytest.CaptureFixture[str]
) -> None:
    reason = f"{opening}no permission; it snows"

    page = shown(capsys, bare(), Odd(reason=reason, rejected=left_out("no permission")))

    assert page.count("no permission") == 1
    assert "odd: it snows" in page.splitlines()


@pytest.mark.parametrize("columns", [20, 40, 80, 200])
def test_page_when_the_terminal_has_a_width_then_lines_are_folded_and_whole(
    columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    long = Odd(reason=f"as {DASHES}", rejected=left_out(f"it is {DASHES}"))

    page = shown(capsys, nvidia("1,0,7"), Nvidia(), long)

    assert max(map(len, page.splitlines())) <= columns
    assert "".join(page.split()).count("word") == 120
    assert "\N{HORIZONTAL ELLIPSIS}" not in page


def test_page_when_a_runtime_uses_a_device_then_it_names_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    host = RecordedHost()
    host.shared = tmp_path / "names"
    release = host.names().hold(f"odd/0/{os.getppid()}")

    page = shown(capsys, host, Odd(odd(model="Oddity")))
    release()

    assert "family kind id model mask taken-by" in " ".join(page.split())
    assert f"(pid {os.getppid()})" in page


def summary_of(host: Host, *asked: Accelerator, taken_by: int = 0) -> Summary:
    detections = discover(host, asked)
    claims = {
        device: [Claimant(taken_by, "python train.py")]
        for detection in detections
        for device in detection.devices
        if taken_by
    }
    return summarize(detections, asked, host, 0.25, claims)


def test_document_of_a_machine(
    golden: Golden, capsys: pytest.CaptureFixture[str]
) -> None:
    environ = {
        "RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES": "1",
        "HOME": "here",
        "HIP_VISIBLE_DEVICES": "",
        "CUDA_VISIBLE_DEVICES": "2",
        "ACTORLIB_HIDE_DEVICES": "0",
        "CHIPS": "1,7",
    }
    host = nvidia_host(*CARDS, environ=environ)
    asked = [Odd(reason="[b]x[/b] \u00e9"), Nvidia(), Chips(), Silent()]

    text = shown(capsys, host, *asked, as_json=True)

    document = json.loads(text)
    assert [found["family"] for found in document["families"]] == [
        "chips",
        "nvidia",
        "odd",
        "silent",
    ]
    assert document["kinds"]["GPU"]["count"] == document["kinds"]["TPU"]["count"] == 1
    assert document == json.loads(shown(capsys, host, *asked[::-1], as_json=True)) | {
        "took": document["took"]
    }
    golden.check_value("devices-document.txt", {**document, "took": 0, "version": "0"})


def test_device_when_a_runtime_uses_it_then_its_row_says_so() -> None:
    summary = summary_of(nvidia(), Nvidia(), taken_by=812)

    (family,) = summary.families
    assert [device.claims for device in family.devices] == [
        (Claimant(812, "python train.py"),)
    ] * 4


def test_probe_when_it_raises_then_its_reason_is_there_and_others_are_too() -> None:
    class Broken(Odd):
        family = "broken"

        def detect(self, host: Host) -> Detection:  # noqa: ARG002
            raise OSError("the driver is on strike")

    summary = summary_of(bare(), Broken(), Chips())

    assert summary.families[0].reason == "OSError: the driver is on strike"
    assert summary.kinds["TPU"].count == 2


@pytest.mark.parametrize(
    ("mask", "declarable"),
    [(None, None), ("", 0), ("NoDevFiles", 0), ("5", 1), ("0,1,2", 3), ("0,0", 0)],
)
def test_mask_when_nothing_is_found_then_it_limits_what_may_be_declared(
    mask: str | None, declarable: int | None
) -> None:
    kind = summary_of(bare(mask), Silent(), Nvidia()).kinds["GPU"]

    assert (kind.count, kind.declarable) == (0, declarable)


@pytest.mark.parametrize("words", [[], ["--json"]])
def test_command_when_run_on_this_machine_then_it_looks_for_every_family(
    words: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")

    assert main(["devices", *words]) == 0

    out, err = capsys.readouterr()
    assert err == ""
    assert all(family.family in out for family in families())
    assert ("CUDA_VISIBLE_DEVICES" in out, "\x1b" in out) == (True, False)
