"""NVIDIA's cards: what no recorded machine shows."""

from __future__ import annotations

import pytest
from helpers.nvml import Card, nvidia_host
from hypothesis import given
from hypothesis import strategies as st

from actorlib.accelerators.host import Host
from actorlib.accelerators.nvidia import Nvidia

A, B = (Card(uuid=f"GPU-{letter}") for letter in ("aaa", "bbb"))
MASK = "CUDA_VISIBLE_DEVICES"


@given(
    cards=st.lists(st.booleans(), max_size=4),
    count=st.integers(0, 6),
    order=st.none() | st.permutations(["0", "1", "2", "3", "4", "5"]),
)
def test_declare_when_it_returns_then_ids_are_unique_and_indices_in_a_row(
    cards: list[bool], count: int, order: list[str] | None
) -> None:
    machine = [Card(uuid=f"GPU-{i}", lost=lost) for i, lost in enumerate(cards)]
    environ = {} if order is None else {MASK: ",".join(order)}
    found = Nvidia().detect(nvidia_host(*machine, environ=environ))
    if found.outer is not None and count > len(found.outer):
        with pytest.raises(ValueError, match=str(count)):
            Nvidia().declare(count, found)
        return

    devices = Nvidia().declare(count, found)

    assert [device.index for device in devices] == list(range(count))
    assert len({device.id for device in devices}) == count
    assert found.outer is None or {d.id for d in devices} <= set(found.outer)


def test_detect_when_nvml_fails_over_a_uuid_then_the_card_is_rejected() -> None:
    host = nvidia_host(A, B)
    nvml = host.sdk("pynvml")
    answer = nvml.nvmlDeviceGetUUID

    def fail(handle: Card) -> str:
        if handle is A:
            raise nvml.NVMLError(nvml.NVML_ERROR_GPU_IS_LOST)
        return str(answer(handle))

    nvml.nvmlDeviceGetUUID = fail  # type: ignore[method-assign]  # it falls off now

    found = Nvidia().detect(host)

    assert [(device.id, device.uuid) for device in found.devices] == [("1", "GPU-bbb")]
    assert [(lost.name, lost.why) for lost in found.rejected] == [
        ("GPU 0", "GPU is lost")
    ]


@pytest.mark.accelerator
def test_detect_when_there_is_a_real_card_then_it_is_whole() -> None:
    found = Nvidia().detect(Host())
    if not found.devices:
        pytest.skip(found.reason)
    for index, device in enumerate(found.devices):
        assert device.index == index
        assert device.uuid is not None
        assert device.uuid.startswith(("GPU-", "MIG-"))
        assert not device.logical
