"""What tests on real cards need."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from actorlib.accelerators import Host, discover, inventory

if TYPE_CHECKING:
    from actorlib.accelerators import Device


@pytest.fixture(scope="session")
def gpus() -> tuple[Device, ...]:
    """The GPUs that there are."""
    return inventory(discover(Host()), {}).devices["GPU"]


@pytest.fixture
def card(gpus: tuple[Device, ...]) -> Device:
    """The first GPU, which has to be NVIDIA's; skips where it is not."""
    if not gpus or gpus[0].family != "nvidia":
        pytest.skip("no NVIDIA GPU")
    return gpus[0]
