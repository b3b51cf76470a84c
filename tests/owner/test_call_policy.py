from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from actorlib._options.actor_options import ActorOptions
from actorlib._owner.calls.mailbox import Retries, retries_of
from actorlib._owner.calls.response_target import retries_after
from actorlib._owner.objects.refcount import BorrowedReferences
from actorlib._wire.messages import CANCELLED, DIED, FAILURE, RAISED, RESULT, UNSTARTED

if TYPE_CHECKING:
    from actorlib._base.ids import CountedId


RESTARTED = ActorOptions(max_restarts=1, max_task_retries=3)
KEYS = [KeyError]


@pytest.mark.parametrize(
    ("options", "of_call", "retries"),
    [
        (ActorOptions(), {}, None),
        (ActorOptions(max_restarts=3), {}, None),
        (ActorOptions(retry_exceptions=True), {}, None),
        (ActorOptions(max_task_retries=3), {}, None),
        (ActorOptions(max_task_retries=3, retry_exceptions=[]), {}, None),
        (ActorOptions(max_task_retries=-1, max_restarts=-1), {}, Retries(-1)),
        (
            ActorOptions(max_task_retries=3, retry_exceptions=True),
            {},
            Retries(3, exceptions=True),
        ),
        (
            ActorOptions(max_task_retries=3, retry_exceptions=KEYS),
            {},
            Retries(3, (KeyError,)),
        ),
        # What is said of the call goes before what the actor says.
        (RESTARTED, {}, Retries(3)),
        (RESTARTED, {"times": 5}, Retries(5)),
        (RESTARTED, {"times": 0}, None),
        (RESTARTED, {"exceptions": True}, Retries(3, exceptions=True)),
        (RESTARTED, {"times": 1, "exceptions": (KeyError,)}, Retries(1, (KeyError,))),
        (ActorOptions(), {"times": 2}, None),
        (ActorOptions(), {"times": 2, "exceptions": True}, Retries(2, exceptions=True)),
    ],
)
def test_retries_of_when_actor_and_call_have_options_then_what_can_be_retried(
    options: ActorOptions, of_call: dict[str, Any], retries: Retries | None
) -> None:
    assert retries_of(options, **of_call) == retries


@pytest.mark.parametrize(("times", "left"), [(3, 2), (1, 0), (0, None), (-1, -1)])
def test_retries_when_the_worker_ended_then_only_a_call_that_ran_pays(
    times: int, left: int | None
) -> None:
    retries = Retries(times)

    assert retries.after_end(ran=True) == (None if left is None else Retries(left))
    assert retries.after_end(ran=False) == retries


@pytest.mark.parametrize(
    ("retries", "error", "answer"),
    [
        (Retries(1, exceptions=True), None, True),
        (Retries(-1, exceptions=True), None, True),
        (Retries(0, exceptions=True), None, False),
        (Retries(1, exceptions=False), None, False),
        (Retries(1, (KeyError,)), KeyError(), True),
        (Retries(1, (LookupError,)), KeyError(), True),
        (Retries(1, (KeyError,)), LookupError(), False),
        (Retries(0, (KeyError,)), KeyError(), False),
        (Retries(1, (KeyError, OSError)), TimeoutError(), True),
    ],
)
def test_all_exceptions_or_instances_of_those_listed(
    retries: Retries, error: BaseException | None, *, answer: bool
) -> None:
    left = retries.after_error(error)
    assert (left is not None) is answer
    assert left is None or left.times == max(retries.times - 1, -1)
    assert retries.depends_on_error or error is None or not retries.times


@pytest.mark.parametrize(
    ("answer", "is_again"),
    [
        ((RESULT, 1, None, b""), False),
        ((FAILURE, 1, RAISED, "", "", "", None, b""), True),
        ((FAILURE, 1, DIED, "", "", "", None, b""), False),
        ((FAILURE, 1, CANCELLED, "", "", "", None, b""), False),
        ((FAILURE, 1, UNSTARTED, "", "", "", None, b""), False),
    ],
)
@pytest.mark.parametrize("exceptions", [True, False])
def test_answer_when_it_is_what_the_method_raised_then_it_is_retried(
    answer: tuple[object, ...],
    is_again: bool,  # noqa: FBT001  # a parameter of the test
    exceptions: bool,  # noqa: FBT001  # the same
) -> None:
    changed: list[CountedId] = []
    counted = BorrowedReferences(changed.append, changed.append)
    retries = Retries(1, exceptions)

    left = Retries(0, exceptions) if is_again and exceptions else None
    assert retries_after(retries, answer, counted) == left
    assert retries_after(Retries(0, exceptions), answer, counted) is None
    assert changed == []
