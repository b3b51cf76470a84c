"""Demands to a machine; the names of types and devices are in ``data/names.txt``."""

from __future__ import annotations

import pytest

from actorlib._options.actor_options import ActorOptions
from actorlib._options.resources import Resources
from actorlib._scheduler.catalogue import Catalogue, Demand, type_names
from actorlib._scheduler.request import ANYWHERE, model_of, untyped
from actorlib.accelerators.base import Device
from actorlib.exceptions import ActorUnschedulableError


def device(index: int, type_: str, kind: str = "GPU", **facts: object) -> Device:
    known = {"family": "nvidia", "id": str(index), "type": type_, **facts}
    return Device(index=index, kind=kind, **known)


H100, A100, LAST = (device(*each) for each in enumerate(["H100", "A100", "A100"]))
CHIPS = tuple(device(index, "TPU-V5LITEPOD", "TPU") for index in range(2))
HERE = {"GPU": (H100, A100, LAST), "TPU": CHIPS}


def asked(*, near: object = None, apart: object = (), **options: object) -> Demand:
    asked = ActorOptions(**{"num_gpus": 1, **options})
    return Catalogue(HERE, ()).demand("Model", asked, near=near, apart=apart)


def test_demand_when_nothing_is_constrained_then_anywhere() -> None:
    demand = asked(num_cpus=1, placement="pack")

    assert demand.constraints is ANYWHERE
    assert str(demand.resources) == "CPU=1, GPU=1"


def test_demand_when_no_number_is_asked_then_the_resource_alone() -> None:
    request, constraints = asked(num_gpus=0, accelerator_type="H100")

    assert request.amounts == {"accelerator_type:H100": 10}
    assert constraints.models == {model_of(H100)}


def test_demand_when_about_other_actors_then_their_devices_of_the_asked_kinds() -> None:
    near = asked(placement="spread", near=[A100, CHIPS[0]]).constraints
    apart = asked(placement="spread", apart=[A100, LAST]).constraints

    assert (near.near, near.apart, near.spread) == ({A100}, frozenset(), True)
    assert (apart.near, apart.apart) == (None, {A100, LAST})


def test_demand_when_a_number_begins_a_uuid_then_it_is_no_prefix() -> None:
    catalogue = Catalogue({"GPU": (device(0, "MI300X", uuid="1234"),)}, ())
    options = ActorOptions(num_gpus=1, device="12")

    with pytest.raises(ActorUnschedulableError, match="not a device of this machine"):
        catalogue.demand("Model", options)


def test_types_when_several_are_alike_then_each_once() -> None:
    assert type_names(HERE) == [
        "accelerator_type:H100",
        "accelerator_type:A100",
        "accelerator_type:TPU-V5LITEPOD",
    ]


def test_untyped_when_types_are_named_then_only_they_are_removed() -> None:
    typed = Resources.of({"GPU": 10_000, "accelerator_type:H100": 10})

    assert untyped(typed).amounts == {"GPU": 10_000}
