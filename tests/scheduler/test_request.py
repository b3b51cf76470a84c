from __future__ import annotations

import pytest

from actorlib._scheduler.request import DeviceConstraints, DeviceModel, model_of
from actorlib.accelerators.base import Device

CARD = Device(
    family="nvidia", kind="GPU", index=0, id="0", model="NVIDIA H100", type="H100"
)
PART = Device(family="nvidia", kind="GPU", index=1, id="MIG-1", parent="GPU-0")


@pytest.mark.parametrize(
    ("device", "model"),
    [
        (CARD, DeviceModel("GPU", "nvidia", "H100", "NVIDIA H100", is_part=False)),
        (PART, DeviceModel("GPU", "nvidia", None, None, is_part=True)),
    ],
    ids=["card", "part"],
)
def test_model_when_of_a_device_then_what_it_is_alike_in(
    device: Device, model: DeviceModel
) -> None:
    assert model_of(device) == model


def test_constraints_when_they_are_equal_then_they_hash_alike() -> None:
    any_constraints = [
        DeviceConstraints(only=frozenset({CARD, PART}), apart=frozenset({CARD})),
        DeviceConstraints(only=frozenset({PART, CARD}), apart=frozenset({CARD})),
    ]

    assert len(set(any_constraints)) == 1
