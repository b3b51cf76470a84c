"""What a kind of device is never given in is refused, with a way out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorlib._options.kinds import (
    FURIOSA,
    GPU,
    HPU,
    KINDS,
    MBLT,
    NEURON_CORES,
    NPU,
    RBLN,
    TPU,
    TTNPU,
    UNITS,
    Kind,
)

WHOLE = [NEURON_CORES, HPU, RBLN, FURIOSA, MBLT, TTNPU]


@pytest.mark.parametrize("kind", [GPU, NPU])
@pytest.mark.parametrize("units", [0, 1, 5_000, UNITS, 2 * UNITS, 1_000 * UNITS])
def test_fault_when_it_is_a_share_or_a_number_of_devices_then_there_is_none(
    kind: Kind, units: int
) -> None:
    assert kind.fault(units) == ""


@pytest.mark.parametrize(("units", "advice"), [(15_000, "1 or 2"), (20_001, "2 or 3")])
def test_fault_when_a_share_comes_with_whole_devices_then_says_what_to_ask(
    units: int, advice: str
) -> None:
    fault = GPU.fault(units)

    assert fault.startswith("below 1 it is a share of one device")
    assert fault.endswith(f"Ask {advice}")


@pytest.mark.parametrize("kind", WHOLE)
@pytest.mark.parametrize(
    ("units", "advice"), [(5_000, "Ask 1"), (15_000, "Ask 1 or 2")]
)
def test_fault_when_a_kind_is_not_shared_then_whole_ones_are_advised(
    kind: Kind, units: int, advice: str
) -> None:
    assert kind.fault(units) == f"{kind.name} is given in whole ones. {advice}"


@pytest.mark.parametrize("kind", WHOLE)
def test_fault_when_whole_ones_are_asked_then_any_number_is_given(kind: Kind) -> None:
    assert not any(kind.fault(count * UNITS) for count in range(20))


@pytest.mark.parametrize("count", range(17))
def test_fault_when_tpus_are_asked_then_only_what_makes_a_topology_is_given(
    count: int,
) -> None:
    fault = TPU.fault(count * UNITS)

    given = count in {0, 1, 2, 4, 8}
    assert fault == ("" if given else "TPU is given 1, 2, 4 or 8 at a time")


@pytest.mark.parametrize("units", [1, 5_000, 15_000])
def test_fault_when_part_of_a_tpu_is_asked_then_what_is_given_is_advised(
    units: int,
) -> None:
    fault = "TPU is given in whole ones. Ask 1, 2, 4 or 8"
    assert TPU.fault(units) == fault


def test_fault_when_only_one_number_is_given_then_the_sentence_stays_whole() -> None:
    kind = Kind("ACME", counts=(2,))
    assert kind.fault(UNITS) == "ACME is given 2 at a time"


@given(
    kind=st.builds(
        Kind,
        st.just("ACME"),
        st.booleans(),
        st.none() | st.lists(st.integers(1, 9), min_size=1, max_size=4).map(tuple),
    ),
    units=st.integers(0, 20 * UNITS),
)
def test_fault_when_there_is_none_then_it_is_a_share_or_an_allowed_number(
    kind: Kind, units: int
) -> None:
    if kind.fault(units):
        return
    whole, part = divmod(units, UNITS)
    assert not part or (kind.divisible and not whole)
    assert not whole or kind.counts is None or whole in kind.counts


def test_kinds_when_looked_up_then_each_is_there_by_its_name() -> None:
    assert [name for name, kind in KINDS.items() if name != kind.name] == []
    assert set(KINDS.values()) == {GPU, TPU, NPU, *WHOLE}
    assert {kind.name for kind in KINDS.values() if kind.divisible} == {"GPU", "NPU"}
