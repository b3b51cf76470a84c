from __future__ import annotations

import pytest

from actorlib._options.actor_options import ActorOptions
from actorlib._options.resources import Resources
from actorlib._scheduler.catalogue import Catalogue, Demand, type_names
from actorlib._scheduler.ledger import Ledger
from actorlib._scheduler.request import ANYWHERE, model_of
from actorlib.accelerators import types
from actorlib.accelerators.base import Device
from actorlib.exceptions import ActorUnschedulableError

GIB = 1024**3


def gpu(index: int, name: str, *, memory: int | None = 80) -> Device:
    return Device(
        family="nvidia",
        kind="GPU",
        index=index,
        id=str(index),
        uuid=f"GPU-{'abcdefgh'[index]}{index}00-8d2b",
        pci=f"0000:{index}b:00.0",
        model=f"NVIDIA {name}",
        type=name,
        memory=memory and memory * GIB,
    )


H100, A100, LAST = gpu(0, "H100"), gpu(1, "A100", memory=40), gpu(2, "A100", memory=40)
CHIPS = tuple(
    Device(family="tpu", kind="TPU", index=index, id=str(index), type="TPU-V5LITEPOD")
    for index in range(2)
)
HERE = {"GPU": (H100, A100, LAST), "TPU": CHIPS}


def catalogue(*declared: str) -> Catalogue:
    return Catalogue(HERE, [f"accelerator_type:{name}" for name in declared])


def asked(
    here: Catalogue | None = None,
    *,
    near: object = None,
    apart: object = (),
    **o: object,
) -> Demand:
    options = ActorOptions(**{"num_gpus": 1, **o})
    return (here or catalogue()).demand("Model", options, near=near, apart=apart)


def refused(**options: object) -> str:
    with pytest.raises(ActorUnschedulableError) as caught:
        asked(**options)
    return str(caught.value)


def test_demand_when_nothing_is_constrained_then_anywhere() -> None:
    demand = asked(num_cpus=1)

    assert demand.constraints is ANYWHERE
    assert str(demand.resources) == "CPU=1, GPU=1"


def test_demand_when_spread_then_the_constraints_say_so() -> None:
    assert asked(placement="spread").constraints.spread
    assert asked(placement="pack").constraints is ANYWHERE


# Types.


@pytest.mark.parametrize(
    ("type_name", "name", "device"),
    [
        ("A100", "A100", A100),
        ("a100", "A100", A100),
        ("nvidia tesla a100", "A100", A100),
        ("A100-40G", "A100", A100),
        ("a100-40gb", "A100", A100),
        ("H100-80G", "H100", H100),
        (types.NVIDIA_H100, "H100", H100),
    ],
)
def test_demand_when_a_type_is_named_then_its_models_and_its_resource(
    type_name: str, name: str, device: Device
) -> None:
    request, constraints = asked(accelerator_type=type_name)

    assert constraints.models == {model_of(device)}
    assert request.amounts == {"GPU": 10_000, f"accelerator_type:{name}": 10}


@pytest.mark.parametrize(("type_name", "index"), [("H100-80G", 0), ("H100-40G", 1)])
def test_demand_when_a_model_is_here_in_two_sizes_then_of_the_one_that_is_named(
    type_name: str, index: int
) -> None:
    devices = (H100, gpu(1, "H100", memory=40))

    constraints = asked(
        Catalogue({"GPU": devices}, ()), accelerator_type=type_name
    ).constraints

    pool = Ledger(Resources.of({}), {"GPU": devices}).pools["GPU"]
    assert pool.resolver.allowed(constraints) == {index}


def test_demand_when_no_number_is_asked_then_the_resource_alone() -> None:
    request, constraints = asked(num_gpus=0, accelerator_type="H100")

    assert request.amounts == {"accelerator_type:H100": 10}
    assert constraints.models == {model_of(H100)}


@pytest.mark.parametrize("type_name", ["V100", "v100"])
def test_demand_when_a_type_is_merely_declared_then_of_any_device(
    type_name: str,
) -> None:
    request, constraints = asked(catalogue("V100"), accelerator_type=type_name)

    assert constraints.models is None
    assert request.amounts["accelerator_type:V100"] == 10


@pytest.mark.parametrize("type_name", ["B200", "A100-80G"])
def test_demand_when_a_type_is_not_here_then_asked_for_all_the_same(
    type_name: str,
) -> None:
    request, constraints = asked(accelerator_type=type_name)

    assert constraints.models is None
    assert request.amounts[f"accelerator_type:{type_name}"] == 10
    assert catalogue().refusal("Model", request) is not None


def test_demand_when_a_type_is_of_another_kind_then_refused() -> None:
    assert refused(accelerator_type="TPU-V5E") == (
        "Model asks accelerator_type='TPU-V5LITEPOD', a type of TPU, and GPU=1: ask "
        "for a number of the same kind"
    )


def test_demand_when_the_kind_goes_by_resources_then_of_that_kind() -> None:
    _, constraints = asked(num_gpus=0, resources={"TPU": 2}, accelerator_type="TPU-V5E")

    assert constraints.models == {model_of(CHIPS[0])}


def test_types_when_several_are_alike_then_each_once() -> None:
    assert type_names(HERE) == [
        "accelerator_type:H100",
        "accelerator_type:A100",
        "accelerator_type:TPU-V5LITEPOD",
    ]


@pytest.mark.parametrize(
    ("type_name", "hint"),
    [
        ("A10", " Did you mean 'A100'?"),
        ("h10", " Did you mean 'H100'?"),
        ("zzz", ""),
    ],
)
def test_refusal_when_a_type_is_not_here_then_says_what_is(
    type_name: str, hint: str
) -> None:
    here = catalogue()

    text = here.refusal("Model", asked(here, accelerator_type=type_name).resources)

    assert text == (
        f"Model asks accelerator_type={type_name!r}; this machine has 1 of H100, "
        f"2 of A100, 2 of TPU-V5LITEPOD.{hint}"
    )


def test_refusal_when_a_type_is_spelled_in_both_cases_then_still_suggested() -> None:
    device = Device(
        family="amd", kind="GPU", index=0, id="0", type="AMD-Instinct-MI300X-OAM"
    )
    here = Catalogue({"GPU": (device,)}, ())

    request = asked(here, accelerator_type="AMD-Instinct-MI300").resources

    assert "Did you mean 'AMD-Instinct-MI300X-OAM'?" in (
        here.refusal("M", request) or ""
    )


def test_refusal_when_types_are_merely_declared_then_they_are_here_too() -> None:
    here = Catalogue({}, ["accelerator_type:V100"])
    options = ActorOptions(accelerator_type="V10")

    text = here.refusal("Model", here.demand("Model", options).resources)

    assert "V100" in (text or "")


def test_refusal_when_nothing_has_a_type_then_says_so() -> None:
    request = asked(Catalogue({}, ()), accelerator_type="H100").resources

    assert Catalogue({}, ()).refusal("Model", request) == (
        "Model asks accelerator_type='H100'; no device of this machine is of a known "
        "type"
    )


@pytest.mark.parametrize(
    ("declared", "type_name"), [((), "H100"), (("V100",), "V100"), ((), None)]
)
def test_refusal_when_the_type_is_here_then_none(
    declared: tuple[str, ...], type_name: str | None
) -> None:
    here = catalogue(*declared)

    assert (
        here.refusal("Model", asked(here, accelerator_type=type_name).resources) is None
    )


# Devices.


@pytest.mark.parametrize(
    "name", ["1", "GPU-b100-8d2b", "GPU-b1", "0000:1b:00.0", "GPU 1"]
)
def test_demand_when_a_device_is_named_then_that_one(name: str) -> None:
    assert asked(device=name).constraints.only == {A100}


def test_demand_when_several_are_named_then_all_of_them() -> None:
    assert asked(num_gpus=2, device=["2", "GPU-a"]).constraints.only == {H100, LAST}


def test_demand_when_a_number_is_of_two_kinds_then_that_of_what_is_asked() -> None:
    demand = asked(num_gpus=0, resources={"TPU": 1}, device="1")

    assert demand.constraints.only == {CHIPS[1]}


def test_demand_when_a_number_begins_a_uuid_then_it_is_no_prefix() -> None:
    device = Device(family="amd", kind="GPU", index=0, id="0", uuid="1234")

    with pytest.raises(ActorUnschedulableError, match="not a device of this machine"):
        asked(Catalogue({"GPU": (device,)}, ()), device="12")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            {"device": "7"},
            "Model asks device='7', which is not a device of this machine; there is "
            "0: NVIDIA H100, 1: NVIDIA A100, 2: NVIDIA A100",
        ),
        (
            {"device": "GPU-"},
            "Model asks device='GPU-', which means several devices; there is "
            "0: NVIDIA H100, 1: NVIDIA A100, 2: NVIDIA A100",
        ),
        (
            {"num_gpus": 1, "resources": {"TPU": 1}, "device": ["GPU 1", "0"]},
            "Model asks device='0', which means several devices: name it by its "
            "UUID or PCI address; there is "
            "0: NVIDIA H100, 0: tpu",
        ),
        (
            {"num_gpus": 0, "resources": {"NPU": 1}, "device": "0"},
            "Model asks device='0', which is not a device of this machine; there is no "
            "device",
        ),
    ],
    ids=["missing", "ambiguous", "two kinds", "no such kind"],
)
def test_demand_when_a_device_is_not_to_be_told_then_refused(
    options: dict[str, object], text: str
) -> None:
    assert refused(**options) == text


# Other actors.


def test_demand_when_near_then_their_devices_of_the_kinds_that_are_asked() -> None:
    constraints = asked(placement="spread", near=[A100, CHIPS[0]]).constraints

    assert constraints.near == {A100}
    assert asked(placement="spread", near=None).constraints.near is None


@pytest.mark.parametrize("near", [[], [CHIPS[0]]], ids=["nothing", "another kind"])
def test_demand_when_the_near_one_holds_none_of_the_kind_then_refused(
    near: list[Device],
) -> None:
    assert refused(near=near, placement="spread") == (
        "Model is to be near an actor that holds no GPU: leave near out"
    )


def test_demand_when_apart_then_their_devices() -> None:
    assert asked(placement="spread", apart=[A100, LAST]).constraints.apart == {
        A100,
        LAST,
    }


def test_untyped_when_types_are_named_then_only_they_are_removed() -> None:
    typed = Resources.of({"GPU": 10_000, "accelerator_type:H100": 10})

    assert Catalogue.untyped(typed).amounts == {"GPU": 10_000}
