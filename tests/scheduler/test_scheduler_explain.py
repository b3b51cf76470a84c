"""What is said of rare devices; the usual texts are in ``data/texts.txt``."""

from __future__ import annotations

import pytest

from actorlib._options.kinds import Kind
from actorlib._options.resources import Resources, request
from actorlib._scheduler.explain import name_devices, preview, refusal
from actorlib._scheduler.ledger import Ledger
from actorlib._scheduler.request import ANYWHERE, DeviceConstraints, LeaseRequest
from actorlib.accelerators.base import Device, Rejected

GIB = 1024**3


def gpu(index: int, **facts: object) -> Device:
    known = {"family": "nvidia", "kind": "GPU", "id": str(index), **facts}
    return Device(index=index, **known)


H100 = gpu(0, model="NVIDIA H100", type="H100")


@pytest.mark.parametrize(
    ("units", "fault"),
    [
        (
            5_000,
            "0.5 of X, which is never granted: X is given in whole ones. Ask 2 or 4",
        ),
        (30_000, "3 of X, which is never granted: X is given 2 or 4 at a time"),
    ],
)
def test_refusal_when_a_kind_never_gives_that_then_says_what_it_gives(
    units: int, fault: str
) -> None:
    kind = Kind("X", divisible=False, counts=(2, 4))
    devices = [gpu(index, kind="X") for index in range(4)]
    ledger = Ledger(Resources.of({}), {"X": devices}, {"X": kind})

    asked = Resources.of({"X": units})

    assert refusal(ledger, LeaseRequest("Model", asked)) == f"Model requests {fault}."


@pytest.mark.parametrize(
    ("asked", "constraints"),
    [
        (Resources.of({"GPU": 20_000}), ANYWHERE),
        (Resources.of({"GPU": 10_000}), DeviceConstraints(apart=frozenset({H100}))),
        (Resources.of({"GPU": 10_000}), DeviceConstraints(gpu_memory=2**50)),
    ],
)
def test_refusal_when_more_is_here_then_says_why_nobody_gets_it(
    asked: Resources, constraints: DeviceConstraints
) -> None:
    masked, shut = "hidden by CUDA_VISIBLE_DEVICES='0'", "no permission to open it"
    here = {
        "GPU": [
            Rejected(name="GPU 1", why=masked),
            Rejected(name="GPU 2", why=masked),
            Rejected(name="/dev/nvidia3", why=shut),
        ],
        "TPU": [Rejected(name="/dev/accel0", why=shut)],
    }
    ledger = Ledger(Resources.of({}), {"GPU": (H100,)}, rejected=here)

    text = refusal(ledger, LeaseRequest("Model", asked, constraints))

    said = f" Not offered: GPU 1, GPU 2 ({masked}), /dev/nvidia3 ({shut})."
    assert said in text


def test_preview_when_a_device_is_logical_then_says_so() -> None:
    ledger = Ledger(Resources.of({}), {"GPU": (gpu(0, logical=True),)})

    text = preview(ledger, LeaseRequest("M", request(num_gpus=2)), None)

    assert "  GPU 0 (logical): 1 free, has room" in text


def test_named_when_of_several_kinds_then_by_kind_and_index() -> None:
    devices = (gpu(10), gpu(2), gpu(0, kind="TPU", id="a"))

    assert name_devices(devices) == "GPU 2 and GPU 10 and TPU a"
