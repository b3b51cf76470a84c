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


@pytest.mark.parametrize(
    ("kind", "units", "fault"),
    [
        *((kind, 15_000, "1 or 2") for kind in (GPU, NPU)),
        (GPU, 20_001, "2 or 3"),
        *(
            (kind, 5_000, f"{kind.name} is given in whole ones. Ask 1")
            for kind in WHOLE
        ),
        *(
            (kind, 15_000, f"{kind.name} is given in whole ones. Ask 1 or 2")
            for kind in WHOLE
        ),
        *(
            (TPU, n, "TPU is given in whole ones. Ask 1, 2, 4 or 8")
            for n in (1, 15_000)
        ),
        *(
            (TPU, n * UNITS, "TPU is given 1, 2, 4 or 8 at a time")
            for n in (3, 5, 6, 7, 9, 16, 256)
        ),
        (Kind("ACME", counts=(2,)), UNITS, "ACME is given 2 at a time"),
    ],
)
def test_fault_when_a_kind_is_not_given_in_that_then_says_what_to_ask(
    kind: Kind, units: int, fault: str
) -> None:
    if kind in (GPU, NPU):
        assert kind.fault(units).startswith("below 1 it is a share of one device")
        assert kind.fault(units).endswith(f"Ask {fault}")
    else:
        assert kind.fault(units) == fault


@given(
    kind=st.sampled_from([*KINDS.values()])
    | st.builds(
        Kind,
        st.just("ACME"),
        st.booleans(),
        st.none() | st.lists(st.integers(1, 9), min_size=1, max_size=4).map(tuple),
    ),
    units=st.integers(0, 20 * UNITS),
)
def test_fault_when_it_is_a_share_or_an_allowed_number_then_there_is_none(
    kind: Kind, units: int
) -> None:
    whole, part = divmod(units, UNITS)
    is_share = kind.divisible and not whole
    is_allowed = not whole or kind.counts is None or whole in kind.counts

    assert (kind.fault(units) == "") == (is_share or (not part and is_allowed))


def test_kinds_when_looked_up_then_each_is_there_by_its_name() -> None:
    assert [name for name, kind in KINDS.items() if name != kind.name] == []
    assert set(KINDS.values()) == {GPU, TPU, NPU, *WHOLE}
    assert {kind.name for kind in KINDS.values() if kind.divisible} == {"GPU", "NPU"}
