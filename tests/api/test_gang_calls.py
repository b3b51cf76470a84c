from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from actorlib._api.gang_calls import (
    explanation,
    first_cause,
    is_death,
    is_retried,
    rows_of,
)
from actorlib._options.function_options import FunctionOptions
from actorlib.exceptions import ActorDiedError, DeadlineExceededError, Exit, TaskError


def died(cause: str) -> ActorDiedError:
    return ActorDiedError(f"it {cause}", exit=Exit(cause=cause))


class RaisedError(TaskError, KeyError):
    """As an error of the user's arrives."""

    def __init__(self) -> None:
        Exception.__init__(self, "oh\nand more")


ASKED, CRASHED, RAISED = died("asked"), died("crashed"), RaisedError()


def test_rows_when_there_are_iterables_then_each_rank_gets_an_item_of_each() -> None:
    assert rows_of("f", 2, ["ab", (1, 2)]) == [["a", 1], ["b", 2]]
    assert rows_of("f", 2, []) == [[], []]


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ([1], ValueError, r"each of the 2 bundles, and iterable 0 has 1"),
        (count(), ValueError, r"iterable 0 has more than 2"),
        (5, TypeError, r"not 5 \(int\): write \[value\] \* 2"),
    ],
)
def test_rows_when_there_are_too_few_or_many_then_it_is_refused(
    given: Any, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        rows_of("f", 2, [given])


@pytest.mark.parametrize(
    ("failures", "first"),
    [
        ({1: RAISED, 0: RAISED}, 1),
        ({0: RAISED, 1: CRASHED}, 1),  # its neighbour was told first
        ({0: ASKED, 1: RAISED}, 1),  # it was ended for the other
        ({0: ASKED, 1: CRASHED, 2: CRASHED}, 1),
        ({2: ASKED, 0: ASKED}, 2),
    ],
)
def test_first_cause_when_several_failed_then_a_death_is_before_what_follows(
    failures: dict[int, BaseException], first: int
) -> None:
    assert first_cause(failures) == first


def test_explanation_when_others_failed_too_then_it_tells_of_those_not_ended() -> None:
    failures = {0: RAISED, 1: CRASHED, 2: ASKED}

    assert explanation("group 'g'", 3, failures) == (
        "this was rank 1 of 3 in group 'g': all others were ended; rank 0 failed, too: "
        "RaisedError: 'oh\\nand more'"
    )
    assert explanation("group 'g'", 1, {0: CRASHED}).endswith(": it was ended")


def test_error_when_it_is_of_the_code_of_a_rank_then_it_is_no_death() -> None:
    class BothError(TaskError, ActorDiedError):
        """An ActorDiedError that the rank's code raised, as it called an actor."""

        def __init__(self) -> None:
            ActorDiedError.__init__(self, "another", exit=Exit(cause="crashed"))

    assert is_death(CRASHED)
    assert not is_death(BothError())
    assert not is_death(ASKED)


@pytest.mark.parametrize(
    ("error", "asked", "is_again"),
    [
        (CRASHED, {}, True),
        (died("out of memory"), {}, True),
        (died("failed to start"), {}, False),
        (ASKED, {}, False),
        (RAISED, {}, False),
        (RAISED, {"retry_exceptions": True}, True),
        (RAISED, {"retry_exceptions": [KeyError]}, True),
        (RAISED, {"retry_exceptions": [OSError]}, False),
        (DeadlineExceededError("late"), {"retry_exceptions": True}, False),
    ],
)
def test_retry_when_a_gang_failed_then_it_is_as_for_a_single_call(
    error: BaseException, asked: dict[str, Any], *, is_again: bool
) -> None:
    assert is_retried(error, FunctionOptions(**asked)) is is_again
