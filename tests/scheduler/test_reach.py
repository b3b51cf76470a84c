from __future__ import annotations

import pytest

from actorlib._scheduler.device_pool import Candidates, Reserved
from actorlib._scheduler.request import DeviceModel

A, B = (DeviceModel("GPU", "nvidia", name, None, False) for name in ("A100", "H100"))  # noqa: FBT003  # no part of a card
BY_MAKE = {A: [0, 1, 4], B: [2, 3]}
MAKE_OF = {index: make for make, indices in BY_MAKE.items() for index in indices}


def reach(*of: DeviceModel | int) -> Candidates:
    makes = frozenset(each for each in of if isinstance(each, DeviceModel))
    return Candidates(makes, frozenset(each for each in of if isinstance(each, int)))


@pytest.mark.parametrize(
    ("added", "barred"),
    [
        ([], set()),
        ([reach(1)], {1}),
        ([reach(A)], {0, 1, 4}),
        ([reach(A), reach(3)], {0, 1, 3, 4}),
        ([reach(2), reach(2), reach(3)], {2, 3}),
        ([reach(0, 1), reach(4), reach(B)], {0, 1, 2, 3, 4}),
        ([reach(0, A)], {0, 1, 4}),
        ([reach()], set()),
    ],
)
def test_barred_when_reaches_are_added_then_it_is_the_set_of_their_devices(
    added: list[Candidates], barred: set[int]
) -> None:
    them = Reserved(BY_MAKE, MAKE_OF)
    for each in added:
        them.add(each)

    assert sorted(them) == sorted(barred)
    assert len(them) == len(barred)
    assert {index for index in range(6) if index in them} == barred
    assert them.is_everything == (len(barred) == 5)
    for other in (reach(A), reach(B), reach(A, B), reach(2), reach(3, 4), reach()):
        whole = {i for make in other.models for i in BY_MAKE[make]} | other.indices
        assert them.covers(other) == (whole <= barred)
