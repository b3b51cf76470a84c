from __future__ import annotations

import pytest

from actorlib._options.kinds import Kind
from actorlib._options.resources import Resources, request, totals
from actorlib._scheduler.explain import name_devices, preview, refusal, shortage
from actorlib._scheduler.ledger import Ledger
from actorlib._scheduler.request import ANYWHERE, DeviceConstraints, model_of
from actorlib.accelerators.base import Device, Lease, Rejected

GIB = 1024**3


def gpu(index: int, **facts: object) -> Device:
    known = {"family": "nvidia", "kind": "GPU", "id": str(index), **facts}
    return Device(index=index, **known)


def gpus(count: int, model: str | None = "NVIDIA H100") -> tuple[Device, ...]:
    return tuple(gpu(index, model=model) for index in range(count))


def machine(
    *,
    cpus: int = 2,
    devices: tuple[Device, ...] = gpus(2),
    memory: int = 24 * GIB,
    **custom: int,
) -> Ledger:
    capacity = totals(
        num_cpus=cpus, num_gpus=len(devices), memory=memory, resources=custom
    )
    return Ledger(capacity, {"GPU": devices})


def granted(
    ledger: Ledger, asked: Resources, constraints: DeviceConstraints = ANYWHERE
) -> Lease:
    lease = ledger.try_acquire(asked, constraints)
    assert lease is not None
    return lease


H100 = gpu(0, model="NVIDIA H100", type="H100")
A100 = gpu(1, model="NVIDIA A100", type="A100")
OTHER = gpu(2, model="NVIDIA A100", type="A100")


def types() -> Ledger:
    """An H100 and two A100s."""
    return machine(devices=(H100, A100, OTHER))


def of(*devices: Device) -> DeviceConstraints:
    return DeviceConstraints(models=frozenset(map(model_of, devices)))


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        (
            request(num_gpus=4),
            "Model asks GPU=4; this machine has GPU=2 (0: NVIDIA H100, 1: NVIDIA "
            "H100). Lower num_gpus, or give init() more.",
        ),
        (
            request(num_cpus=80, num_gpus=0.5),
            "Model asks CPU=80; this machine has CPU=2. Lower num_cpus, or give init() "
            "more.",
        ),
        (
            request(num_cpus=80, memory=64 * GIB),
            "Model asks CPU=80, memory=64 GiB; this machine has CPU=2, memory=24 GiB. "
            "Lower num_cpus and memory, or give init() more.",
        ),
        (
            request(resources={"desk": 8}),
            "Model asks desk=8; this machine has desk=4. Lower resources['desk'], or "
            "give init() more.",
        ),
        (
            request(resources={"licence": 1.5}),
            "Model asks licence=1.5; this machine has no licence, only CPU=2, GPU=2, "
            "memory=24 GiB, desk=4. Ask for what there is, or write "
            "init(resources={'licence': 2}).",
        ),
    ],
    ids=lambda value: str(value) if isinstance(value, Resources) else "",
)
def test_refusal_when_infeasible_then_says_what_there_is_and_what_to_do(
    asked: Resources, text: str
) -> None:
    assert refusal(machine(desk=4), "Model", asked) == text


def test_refusal_when_there_are_no_devices_then_says_so() -> None:
    assert refusal(machine(devices=()), "Model", request(num_gpus=1)) == (
        "Model asks GPU=1; this machine has no GPU. Lower num_gpus, or give init() "
        "more."
    )


def test_refusal_when_there_are_many_devices_then_the_rest_is_counted() -> None:
    text = refusal(machine(devices=gpus(100, model=None)), "M", request(num_gpus=101))

    assert "(0: nvidia, 1: nvidia, " in text
    assert "7: nvidia and 92 more)" in text


def test_shortage_when_a_fraction_is_lacking_then_names_the_largest_slice() -> None:
    ledger = machine()
    granted(ledger, request(num_gpus=0.8))
    granted(ledger, request(num_gpus=0.5))

    assert shortage(ledger, "Model", request(num_cpus=1, num_gpus=0.6)) == (
        "Model asks GPU=0.6; the largest free slice is GPU=0.5 on device 1 "
        "(free: 0: 0.2, 1: 0.5)"
    )


def test_shortage_when_whole_devices_are_lacking_then_counts_the_free_ones() -> None:
    ledger = machine()
    granted(ledger, request(num_gpus=0.8))

    assert shortage(ledger, "Model", request(num_gpus=2)) == (
        "Model asks GPU=2; GPU=1 is wholly free (free: 0: 0.2, 1: 1)"
    )


def test_shortage_when_several_are_lacking_then_names_each() -> None:
    ledger = machine()
    granted(ledger, request(num_cpus=1.5, num_gpus=2))

    assert shortage(ledger, "Model", request(num_cpus=1, num_gpus=1, memory=GIB)) == (
        "Model asks CPU=1, GPU=1; CPU=0.5 of 2 is free, all of GPU=2 is taken"
    )


def test_shortage_when_it_is_free_then_says_so() -> None:
    assert shortage(machine(), "Model", request(num_gpus=1)) == (
        "Model asks GPU=1; that is free"
    )


def test_shortage_when_infeasible_then_the_refusal() -> None:
    ledger, asked = machine(), request(num_gpus=3)

    assert shortage(ledger, "Model", asked) == refusal(ledger, "Model", asked)


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

    assert refusal(ledger, "Model", asked) == f"Model asks {fault}."


def test_refusal_when_a_share_is_above_one_then_says_what_to_ask() -> None:
    assert refusal(machine(), "Model", Resources.of({"GPU": 15_000})) == (
        "Model asks 1.5 of GPU, which is never granted: below 1 it is a share of one "
        "device, above 1 a number of whole ones. Ask 1 or 2."
    )


@pytest.mark.parametrize(
    ("constraints", "asked", "said", "left"),
    [
        (of(H100), 2, "GPU=2 of type H100", "0: NVIDIA H100"),
        (
            DeviceConstraints(only=frozenset({A100})),
            2,
            "GPU=2 on GPU 1",
            "1: NVIDIA A100",
        ),
        (
            DeviceConstraints(near=frozenset({A100})),
            2,
            "GPU=2 near GPU 1",
            "1: NVIDIA A100",
        ),
        (
            DeviceConstraints(apart=frozenset({H100, A100})),
            2,
            "GPU=2 apart from GPU 0 and GPU 1",
            "2: NVIDIA A100",
        ),
        (
            DeviceConstraints(apart=frozenset({H100}), models=of(H100).models),
            1,
            "GPU=1 of type H100, apart from GPU 0",
            "no device",
        ),
    ],
)
def test_refusal_when_the_constraints_are_what_fails_then_says_what_it_leaves(
    constraints: DeviceConstraints, asked: int, said: str, left: str
) -> None:
    text = refusal(types(), "Model", request(num_gpus=asked), constraints)

    assert text == (
        f"Model asks {said}; of this machine's GPU=3 (0: NVIDIA H100, 1: NVIDIA A100, "
        f"2: NVIDIA A100) that leaves {left}. Ask for less, or for other devices."
    )


def test_refusal_when_it_fails_without_constraints_too_then_that_is_said() -> None:
    asked = request(num_gpus=4)

    text = refusal(types(), "Model", asked, of(H100))

    assert text == refusal(types(), "Model", asked)


def test_refusal_when_one_kind_is_missing_and_constraints_fail_too_then_of_each() -> (
    None
):
    ledger = Ledger(request(num_cpus=2), {"TPU": (), "GPU": (H100,)})
    asked = Resources.of({"TPU": 10_000, "GPU": 10_000})

    text = refusal(ledger, "Model", asked, DeviceConstraints(apart=frozenset({H100})))

    assert "of this machine's GPU=1 (0: NVIDIA H100) that leaves no device" in text


def test_refusal_when_there_are_only_parts_then_does_not_say_there_is_enough() -> None:
    parts = tuple(gpu(index, model="MIG 1g", parent="GPU-0") for index in range(3))

    text = refusal(machine(devices=parts), "Model", request(num_gpus=2))

    assert "part" in text.lower()
    assert "give init() more" not in text


def test_refusal_when_no_vendor_has_so_many_then_does_not_say_there_is_enough() -> None:
    devices = (gpu(0, model="H100"), gpu(1, model="MI300X", family="amd"))

    text = refusal(machine(devices=devices), "Model", request(num_gpus=2))

    assert "vendor" in text
    assert "give init() more" not in text


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

    text = refusal(ledger, "Model", asked, constraints)

    said = f" Not offered: GPU 1, GPU 2 ({masked}), /dev/nvidia3 ({shut})."
    assert said in text


def test_shortage_when_several_are_as_roomy_then_names_the_first() -> None:
    ledger = machine(devices=gpus(3))
    for share in (0.8, 0.6, 0.6):
        granted(ledger, request(num_gpus=share))

    assert "GPU=0.4 on device 1" in shortage(ledger, "M", request(num_gpus=1))


def test_shortage_when_constrained_then_speaks_of_the_constraints() -> None:
    ledger = types()
    granted(ledger, request(num_gpus=0.8), of(A100))

    assert shortage(ledger, "Model", request(num_gpus=2), of(A100)) == (
        "Model asks GPU=2 of type A100; GPU=1 is wholly free (free: 0: 1, 1: 0.2, 2: 1)"
    )
    assert shortage(ledger, "Model", request(num_gpus=0.5), of(A100)) == (
        "Model asks GPU=0.5 of type A100; that is free"
    )


def test_shortage_when_no_vendor_has_enough_free_then_counts_those_of_one() -> None:
    families = ("nvidia", "nvidia", "amd", "amd")
    devices = tuple(gpu(i, family=family) for i, family in enumerate(families))
    ledger = machine(devices=devices)
    for index in (0, 2):
        granted(
            ledger,
            request(num_gpus=1),
            DeviceConstraints(only=frozenset({devices[index]})),
        )

    text = shortage(ledger, "Model", request(num_gpus=2))

    assert text.startswith("Model asks GPU=2; GPU=1 ")


def test_shortage_when_parts_are_free_then_they_are_not_counted() -> None:
    devices = (gpu(0), gpu(1), gpu(2, parent="GPU-9"))
    ledger = machine(devices=devices)
    granted(ledger, request(num_gpus=1))

    text = shortage(ledger, "Model", request(num_gpus=2))

    assert text.startswith("Model asks GPU=2; GPU=1 ")


def test_preview_when_it_would_be_placed_then_says_where_and_why() -> None:
    ledger = types()
    granted(ledger, request(num_gpus=0.8), of(A100))
    lease = granted(ledger, request(num_gpus=0.5), of(A100))
    ledger.release(lease)

    assert preview(ledger, "Model", request(num_gpus=0.5), of(A100), lease) == (
        "Model asks GPU=0.5 of type A100; it would go to GPU 2\n"
        "  GPU 0 (NVIDIA H100): 1 free, not asked for\n"
        "  GPU 1 (NVIDIA A100): 0.2 free, too little\n"
        "  GPU 2 (NVIDIA A100): 1 free, chosen"
    )


def test_preview_when_it_would_wait_then_what_stands_in_its_way() -> None:
    ledger = types()
    granted(ledger, request(num_gpus=1), of(A100))

    assert preview(ledger, "Model", request(num_gpus=2), of(A100), None) == (
        "Model asks GPU=2 of type A100; GPU=1 is wholly free (free: 0: 1, 1: 0, 2: 1)\n"
        "  GPU 0 (NVIDIA H100): 1 free, not asked for\n"
        "  GPU 1 (NVIDIA A100): 0 free, too little\n"
        "  GPU 2 (NVIDIA A100): 1 free, has room"
    )


def test_preview_when_no_device_is_asked_then_one_line() -> None:
    ledger, asked = machine(), request(num_cpus=1)

    assert preview(ledger, "Model", asked, ANYWHERE, granted(ledger, asked)) == (
        "Model asks CPU=1; it would be placed now"
    )


def test_preview_when_it_can_never_be_then_the_refusal_and_the_devices() -> None:
    ledger, asked = machine(), request(num_gpus=3)

    head, *lines = preview(ledger, "Model", asked, ANYWHERE, None).splitlines()

    assert head == refusal(ledger, "Model", asked)
    assert len(lines) == 2


def test_preview_when_there_are_many_devices_then_the_rest_is_counted() -> None:
    ledger, asked = machine(devices=gpus(100)), request(num_gpus=101)

    lines = preview(ledger, "Model", asked, ANYWHERE, None).splitlines()

    assert len(lines) == 1 + 8 + 1
    assert lines[-1] == "  and 92 more"


def test_preview_when_a_device_is_logical_then_says_so() -> None:
    ledger = machine(devices=(gpu(0, logical=True),))

    text = preview(ledger, "M", request(num_gpus=2), ANYWHERE, None)

    assert "  GPU 0 (logical): 1 free, has room" in text


def test_named_when_of_several_kinds_then_by_kind_and_index() -> None:
    devices = (gpu(10), gpu(2), gpu(0, kind="TPU", id="a"))

    assert name_devices(devices) == "GPU 2 and GPU 10 and TPU a"
