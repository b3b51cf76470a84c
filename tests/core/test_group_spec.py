from __future__ import annotations

from typing import Any

import pytest

from actorlib._options.group_spec import GroupSpec, check_fit, fits
from actorlib._options.resources import request

GIB = 2**30


@pytest.mark.parametrize(
    ("asked", "bundle", "has_room"),
    [
        ({"num_gpus": 0.5}, {"num_gpus": 0.5}, True),
        ({"num_gpus": 0.5}, {"num_gpus": 0.25}, False),
        ({"gpu_memory": GIB}, {"gpu_memory": GIB}, True),
        ({"gpu_memory": 2 * GIB}, {"gpu_memory": GIB}, False),
        ({"gpu_memory": GIB}, {"num_cpus": 1}, False),
        # How many units some bytes are, the card tells on which the bundle lies.
        ({"gpu_memory": 2 * GIB}, {"num_gpus": 0.5, "gpu_memory": GIB}, True),
        ({"gpu_memory": GIB}, {"num_gpus": 0.5}, True),
        ({"num_gpus": 0.5}, {"gpu_memory": GIB}, True),
        ({"num_gpus": 0.5, "num_cpus": 1}, {"gpu_memory": GIB}, False),
    ],
)
def test_fits_when_in_units_or_in_bytes_then_refused_only_where_it_is_certain(
    asked: dict[str, Any],
    bundle: dict[str, Any],
    has_room: bool,  # noqa: FBT001  # a value of the table
) -> None:
    assert fits(request(**asked), request(**bundle)) == has_room


def test_bundle_when_it_asks_for_memory_of_a_gpu_then_it_is_exact() -> None:
    spec = GroupSpec(bundles=({"gpu_memory": "10GiB", "memory": "1GiB"}, {"GPU": 1}))

    assert [bundle.amounts for bundle in spec.amounts] == [
        {"gpu_memory": 10 * GIB, "memory": GIB},
        {"GPU": 10_000},
    ]
    with pytest.raises(
        ValueError, match=r"bundle 0 has memory=1 GiB, gpu_memory=10 GiB"
    ):
        check_fit("A", request(gpu_memory="20GiB"), spec, 0)


@pytest.mark.parametrize(
    ("bundle", "said"),
    [
        ({"gpu_memory": "10GB "}, r"bundles\[0\].*not '10GB '"),
        ({"gpu_memory": 0}, "1 byte or more"),
        ({"GPU": 2, "gpu_memory": GIB}, "num_gpus=2 is several"),
        ({"TPU": 1, "gpu_memory": GIB}, "another kind of device"),
    ],
)
def test_bundle_when_its_memory_of_a_gpu_is_wrong_then_refused_by_its_place(
    bundle: dict[str, Any], said: str
) -> None:
    with pytest.raises(ValueError, match=said) as caught:
        GroupSpec(bundles=(bundle,))
    assert str(caught.value).startswith("bundles[0]=")
