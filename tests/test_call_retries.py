"""What may be written about the retries of a method or of a call.

What they do is in ``contract/test_retried_calls.py``.
"""

from __future__ import annotations

from typing import Any

import pytest

import actorlib
from actorlib._options.call_options import CallOptions


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"max_task_retries": "1"}, TypeError),
        ({"max_task_retries": True}, TypeError),
        ({"max_task_retries": 1.5}, TypeError),
        ({"max_task_retries": -2}, ValueError),
        ({"retry_exceptions": 1}, TypeError),
        ({"retry_exceptions": KeyError}, TypeError),
        ({"retry_exceptions": [1]}, TypeError),
        ({"retry_exceptions": [KeyboardInterrupt]}, TypeError),
    ],
)
def test_what_cannot_be_is_refused_where_it_is_written(
    given: Any, error: type[Exception]
) -> None:
    with pytest.raises(error, match=next(iter(given))):
        actorlib.method(**given)


def test_told_when_nothing_is_said_then_nothing() -> None:
    assert CallOptions().headers(is_stream=False) == {}
    assert CallOptions(concurrency_group="io").headers(is_stream=False) == {}


def test_told_when_something_is_said_then_that_alone() -> None:
    assert CallOptions(timeout=2).headers(is_stream=False) == {"timeout": 2.0}
    assert CallOptions(max_task_retries=0).headers(is_stream=False) == {
        "retries": (0, None)
    }
    assert CallOptions(retry_exceptions=[KeyError]).headers(is_stream=False) == {
        "retries": (None, (KeyError,))
    }
