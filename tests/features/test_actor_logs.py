"""The last lines of actors are kept, within bounds, in the order in which they came."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorlib._base.ids import ACTOR_KIND, ActorId, new_id
from actorlib._features.logs import runtime_lines as actor_logs
from actorlib._features.logs.runtime_lines import ActorLogs

if TYPE_CHECKING:
    from actorlib._rows.snapshot import LogPage

pytestmark = pytest.mark.memory

A, B = (ActorId(new_id(bytes(8), ACTOR_KIND, number)) for number in (1, 2))


def prints(logs: ActorLogs, actor: ActorId | None, *lines: bytes) -> None:
    logs.add_printed(actor, "stdout", "Model", 7, lines)


def record(logs: ActorLogs, actor: ActorId | None, text: str, now: float = 5.0) -> None:
    logs.add_record(actor, now, "log", "Model", 7, text, 30, "app", "work", "0a", "")


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
    assert (page.lost, page.number) == (0, 4)
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


def lost(page: LogPage) -> list[int]:
    """How many lines were lost before each, and behind the last."""
    return [*(line.lost for line in page.lines), page.lost]


def test_read_when_lines_are_lost_then_they_count_if_they_may_be_recent_enough(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(actor_logs, "BUDGET", 10 * 204)
    logs = ActorLogs()
    for number in range(12):
        record(logs, A, "line", float(number))

    assert sum(lost(logs.read(since=0.5))) == 2
    assert sum(lost(logs.read(since=5.0))) == 0


def test_read_when_lines_are_lost_then_each_says_how_many_before_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(actor_logs, "BUDGET", 2 * 201)
    logs = ActorLogs()
    prints(logs, A, b"1", b"2", b"3")
    prints(logs, B, b"4")
    prints(logs, A, b"5", b"6", b"7")

    of_all, of_a, of_b = logs.read(), logs.read(A), logs.read(B)

    assert [line.text for line in of_all.lines] == ["4", "6", "7"]
    assert (lost(of_all), of_all.number) == ([3, 1, 0, 0], 7)
    assert (lost(of_a), of_a.number) == ([4, 0, 0], 6)
    assert (lost(of_b), of_b.number) == ([0, 0], 1)
    assert lost(logs.read(A, after=3)) == [1, 0, 0]
    assert lost(logs.read(A, after=4)) == [0, 0, 0]
    assert lost(logs.read(most=2, is_newest=True)) == [1, 0, 0]
    assert lost(logs.read(most=9, is_newest=True)) == [3, 1, 0, 0]


def test_read_when_an_actor_is_forgotten_then_its_unread_lines_are_lost() -> None:
    logs = ActorLogs()
    prints(logs, B, b"1")
    prints(logs, A, b"2", b"3")
    logs.forget(A)

    page = logs.read(after=2)

    assert (lost(page), page.number) == ([1], 3)
    assert lost(logs.read(is_newest=True)) == [0, 2]
    assert logs.read(A, after=2).number == 2


def test_page_when_lines_are_long_then_it_is_short_and_the_next_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(actor_logs, "_LONGEST_PAGE", 2500)
    logs = ActorLogs()
    prints(logs, A, *(bytes(1000) for _ in range(5)))

    first = logs.read(A)
    second = logs.read(A, after=first.number)
    last = logs.read(A, is_newest=True)

    assert [line.number for line in first.lines] == [1, 2]
    assert [line.number for line in second.lines] == [3, 4]
    assert [line.number for line in last.lines] == [4, 5]


def test_line_when_it_is_longer_than_the_budget_then_it_is_kept_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(actor_logs, "BUDGET", 1000)
    logs = ActorLogs()
    prints(logs, A, b"before", bytes(2000))

    (line,) = logs.read(A).lines

    assert (len(line.text), line.lost) == (2000, 1)


def test_tail_when_a_process_has_ended_then_its_last_lines_of_standard_error() -> None:
    logs = ActorLogs()
    for pid, lines in ((6, [b"earlier"]), (7, [b"one", b"\xff"])):
        logs.add_printed(A, "stderr", "Model", pid, lines)
    prints(logs, A, b"printed")
    record(logs, A, "logged")

    assert logs.tail(A, 7) == "one\n\ufffd"
    assert logs.tail(B, 7) == ""


def test_shorten_when_an_actor_is_dead_then_its_last_lines_stay() -> None:
    logs = ActorLogs()
    prints(logs, A, *(b"%d" % number for number in range(1000)))

    logs.shorten(A)
    logs.shorten(B)

    page = logs.read(A)
    assert 70 < len(page.lines) < 90
    assert [page.lines[0].lost, page.lines[-1].text] == [1000 - len(page.lines), "999"]


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
        patch.setattr(actor_logs, "BUDGET", 3000)
        logs = ActorLogs()
        position = count = 0
        for actor, size, is_forgotten in said:
            prints(logs, actor, bytes(size))
            if size % 3 == 0:  # whoever follows has read or missed every line
                page = logs.read(after=position, most=4)
                position = page.number
                count += len(page.lines) + sum(lost(page))
                assert count == position
            if is_forgotten and actor is not None:
                logs.forget(actor)

            for log in logs._logs.values():
                assert log.nbytes == sum(each.nbytes for each in log.lines) <= 3000
            if not is_forgotten:
                assert logs.read().lines[-1].number == logs.number
