"""What a worker makes of what CUDA sees."""

from __future__ import annotations

from typing import Any

import pytest

from actorlib._features.mps.worker import fault_of

GOOD: dict[str, Any] = {
    "is_client": True,
    "free": 90,
    "limit": 100,
    "sms": 80,
    "full": 0,
    "percentage": "",
}


@pytest.mark.parametrize(
    ("seen", "why"),
    [
        ({}, ""),
        ({"free": 100}, ""),
        ({"free": 101}, "limit of memory is not in force"),
        ({"is_client": False}, "did not reach the daemon"),
        ({"is_client": None}, ""),  # an old driver does not say
        ({"percentage": "50", "full": 80, "sms": 40}, ""),
        ({"percentage": "50", "full": 80}, "PERCENTAGE=50 is not in force"),
        ({"percentage": "100", "full": 80}, ""),
        ({"percentage": "50", "full": 0}, ""),  # they could not be counted
        ({"percentage": "half", "full": 80}, "PERCENTAGE=half is not a number"),
    ],
)
def test_fault_when_cuda_sees_something_else_then_it_is_named(
    seen: dict[str, Any], why: str
) -> None:
    said = fault_of(**{**GOOD, **seen})

    assert (why in said) if why else not said
