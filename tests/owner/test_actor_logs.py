"""The last lines of actors are kept, within bounds, in the order in which they came."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorlib._core.ids import ACTOR_KIND, ActorId, new_id
from actorlib._owner import actor_logs
from actorlib._owner.actor_logs import MOST_LINES, ActorLogs

pytestmark = pytest.mark.memory

A, B = (ActorId(new_id(bytes(8), ACTOR_KIND, number)) for number in (1, 2))


def prints(logs: ActorLogs, actor: ActorId | None, *lines: bytes) -> None:
    logs.add_printed(actor, "stdout", "Model", 7, lines)


def record(logs: ActorLogs, actor: ActorId | None, text: str, now: float = 5.0) -> None:
    logs.add_record(
        actor,
        now,
        label="Model",
        pid=7,
        text=text,
        level=30,
        logger="app",
        method="work",
        call="0a",
        traceback="",
    )


def test_read_when_several_have_lines_then_in_the_order_in_which_they_came() -> None:
    logs = ActorLogs()
    prints(logs, A, b"one", b"\xff two")
    record(logs, B, "three")
    prints(logs, None, b"four")

    page = logs.read()

    assert [line.text for line in page.lines] == ["one", "\ufffd two", "three", "four"]
    assert [line.number for line in page.lines] == [1, 2, 3, 4]
    assert [line.source for line in page.lines] == ["stdout", "stdout", "log", "stdout"]
    assert [line.actor_id for line in page.lines] == [A.hex(), A.hex(), B.hex(), ""]
    assert (page.has_lost, page.number) == (False, 4)
    assert [line.text for line in logs.read(B).lines] == ["three"]
    assert [line.text for line in logs.read(after=2, most=1).lines] == ["three"]
    newest = logs.read(most=2, is_newest=True)
    assert [line.text for line in newest.lines] == ["three", "four"]


def test_read_when_since_a_time_then_nothing_older() -> None:
    logs = ActorLogs()
    record(logs, A, "old", 5.0)
    record(logs, A, "new", 7.0)

    page = logs.read(since=6.0)

    assert [line.text for line in page.lines] == ["new"]


def test_read_when_lines_are_lost_then_it_says_so_of_the_time_that_is_asked() -> None:
    logs = ActorLogs()
    for number in range(MOST_LINES + 2):
        record(logs, A, "line", float(number))

    assert logs.read(since=0.5).has_lost
    assert not logs.read(since=5.0).has_lost


def test_read_when_lines_are_too_old_then_it_says_that_some_are_lost() -> None:
    logs = ActorLogs()
    prints(logs, A, *[b"line"] * (MOST_LINES + 5))
    prints(logs, B, b"other")

    page = logs.read(A, most=5000)

    assert len(page.lines) == MOST_LINES
    assert page.lines[0].number == 6
    assert page.has_lost
    assert not logs.read(A, after=5).has_lost
    assert not logs.read(B).has_lost


def test_page_when_lines_are_long_then_it_is_short_and_the_next_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(actor_logs, "_LONGEST_PAGE", 2500)
    logs = ActorLogs()
    prints(logs, A, *(bytes(1000) for _ in range(5)))

    first = logs.read(A)
    second = logs.read(A, after=first.lines[-1].number)
    last = logs.read(A, is_newest=True)

    assert [line.number for line in first.lines] == [1, 2]
    assert [line.number for line in second.lines] == [3, 4]
    assert [line.number for line in last.lines] == [4, 5]


def test_forget_when_an_actor_is_listed_no_more_then_its_lines_are_gone() -> None:
    logs = ActorLogs()
    prints(logs, A, b"mine")
    prints(logs, B, b"yours")

    logs.forget(A)
    logs.forget(A)

    assert [line.text for line in logs.read().lines] == ["yours"]


@given(
    st.lists(
        st.tuples(st.sampled_from([None, A, B]), st.integers(0, 900), st.booleans()),
        max_size=60,
    )
)
def test_bounds_when_anything_is_added_then_they_hold(
    said: list[tuple[ActorId | None, int, bool]],
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(actor_logs, "MOST_LINES", 8)
        patch.setattr(actor_logs, "MOST_BYTES", 3000)
        patch.setattr(actor_logs, "MOST_IN_ALL", 6000)
        logs = ActorLogs()
        for actor, size, is_forgotten in said:
            prints(logs, actor, bytes(size))
            if is_forgotten and actor is not None:
                logs.forget(actor)

            kept = [each for log in logs._logs.values() for each in log.lines]
            assert logs._nbytes == sum(each.nbytes for each in kept) <= 6000
            for log in logs._logs.values():
                assert len(log.lines) <= 8
                assert log.nbytes <= 3000
            if not is_forgotten:
                assert logs.read().lines[-1].number == logs.number
