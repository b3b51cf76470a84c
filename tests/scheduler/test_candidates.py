from __future__ import annotations

import pytest

from actorlib._scheduler.candidates import Candidates, Reserved
from actorlib._scheduler.request import DeviceModel

A, B = (DeviceModel("GPU", "nvidia", name, None, False) for name in ("A100", "H100"))  # noqa: FBT003  # no part of a card
BY_MODEL = {A: [0, 1, 4], B: [2, 3]}
MODEL_OF = {index: model for model, indices in BY_MODEL.items() for index in indices}


def candidates(*of: DeviceModel | int) -> Candidates:
    models = frozenset(each for each in of if isinstance(each, DeviceModel))
    return Candidates(models, frozenset(each for each in of if isinstance(each, int)))


@pytest.mark.parametrize(
    ("added", "reserved"),
    [
        ([], set()),
        ([candidates(1)], {1}),
        ([candidates(A)], {0, 1, 4}),
        ([candidates(A), candidates(3)], {0, 1, 3, 4}),
        ([candidates(2), candidates(2), candidates(3)], {2, 3}),
        ([candidates(0, 1), candidates(4), candidates(B)], {0, 1, 2, 3, 4}),
        ([candidates(0, A)], {0, 1, 4}),
        ([candidates()], set()),
    ],
)
def test_reserved_when_candidates_are_added_then_it_is_the_set_of_their_devices(
    added: list[Candidates], reserved: set[int]
) -> None:
    them = Reserved(BY_MODEL, MODEL_OF)
    for each in added:
        them.add(each)

    assert sorted(them) == sorted(reserved)
    assert len(them) == len(reserved)
    assert {index for index in range(6) if index in them} == reserved
    assert them.is_everything == (len(reserved) == 5)
    for other in (
        candidates(A),
        candidates(B),
        candidates(A, B),
        candidates(2),
        candidates(3, 4),
        candidates(),
    ):
        whole = {i for model in other.models for i in BY_MODEL[model]} | other.indices
        assert them.covers(other) == (whole <= reserved)
