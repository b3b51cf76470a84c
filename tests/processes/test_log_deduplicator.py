"""Equal lines of several actors appear once, and then how often."""

from __future__ import annotations

import pytest

from actorlib._processes.worker_output import LogDeduplicator, OutputLine


def line(text: str, pid: int = 1, stream: str = "stdout") -> OutputLine:
    return OutputLine(stream, "A", pid, text.encode())


def admits(deduplicator: LogDeduplicator, *printed: OutputLine | float) -> bool:
    """Whether lines that came at once are shown, and nothing else is."""
    *lines, now = printed
    shown = deduplicator.admit(lines, now)  # type: ignore[arg-type]  # the last is the time
    assert shown in ([], lines)
    return bool(shown)


def test_line_when_another_process_printed_it_then_it_is_held_back_and_counted() -> (
    None
):
    deduplicator = LogDeduplicator()

    assert admits(deduplicator, line("ready", pid=1), 0)
    assert [admits(deduplicator, line("ready", pid=pid), 1) for pid in (2, 3, 4)] == [
        0,
        0,
        0,
    ]
    assert deduplicator.next_due == 5
    assert deduplicator.take_due(4.9) == []
    assert deduplicator.take_due(5) == [(line("ready", pid=4), 3)]
    assert deduplicator.next_due is None
    assert deduplicator.take_due(99) == []


def test_line_when_it_differs_in_digits_alone_then_it_is_equal() -> None:
    deduplicator = LogDeduplicator()

    assert admits(deduplicator, line("step 1 of 10", pid=1), 0)
    assert not admits(deduplicator, line("step 22 of 10", pid=2), 0)
    assert admits(deduplicator, line("stop 22 of 10", pid=2), 1)
    assert deduplicator.flush() == [(line("step 22 of 10", pid=2), 1)]


def test_line_when_its_own_process_repeats_it_then_it_is_shown() -> None:
    deduplicator = LogDeduplicator()

    assert all(admits(deduplicator, line(f"step {n}"), n / 10) for n in range(40))
    assert deduplicator.next_due is None


def test_line_when_the_window_is_over_then_it_is_shown_again() -> None:
    deduplicator = LogDeduplicator()

    assert admits(deduplicator, line("ready", pid=1), 0)
    assert admits(deduplicator, line("ready", pid=2), 5)
    assert not admits(deduplicator, line("ready", pid=1), 6)


def test_line_when_several_go_on_printing_it_then_it_is_counted_again() -> None:
    deduplicator = LogDeduplicator()
    for pid in (1, 2, 3):
        admits(deduplicator, line("ready", pid=pid), 0)
    assert deduplicator.take_due(5) == [(line("ready", pid=3), 2)]

    assert not admits(deduplicator, line("ready", pid=1), 6)
    assert deduplicator.next_due == 10
    assert deduplicator.take_due(10) == [(line("ready", pid=1), 1)]


def test_line_when_one_alone_goes_on_printing_it_then_it_is_shown_again() -> None:
    deduplicator = LogDeduplicator()
    admits(deduplicator, line("ready", pid=1), 0)
    admits(deduplicator, line("ready", pid=2), 1)
    admits(deduplicator, line("ready", pid=2), 2)
    assert deduplicator.take_due(5) == [(line("ready", pid=2), 2)]

    assert admits(deduplicator, line("ready", pid=2), 6)
    assert admits(deduplicator, line("ready", pid=2), 7)


def test_line_when_of_the_other_stream_then_it_is_another() -> None:
    deduplicator = LogDeduplicator()

    assert admits(deduplicator, line("ready", pid=1), 0)
    assert admits(deduplicator, line("ready", pid=2, stream="stderr"), 0)


def test_line_when_empty_or_very_long_then_it_is_always_shown() -> None:
    deduplicator = LogDeduplicator()

    for text in ("", "  ", "x" * 2_000):
        assert admits(deduplicator, line(text, pid=1), 0)
        assert admits(deduplicator, line(text, pid=2), 0)


def test_lines_when_there_are_too_many_then_what_was_held_back_is_shown_at_once() -> (
    None
):
    deduplicator = LogDeduplicator(most=2)
    admits(deduplicator, line("a", pid=1), 0)
    admits(deduplicator, line("a", pid=2), 0)
    admits(deduplicator, line("b", pid=1), 1)
    admits(deduplicator, line("c", pid=1), 2)

    assert deduplicator.has_evicted
    assert deduplicator.take_due(2) == [(line("a", pid=2), 1)]
    assert not deduplicator.has_evicted
    assert admits(deduplicator, line("a", pid=2), 2)


def test_lines_when_nobody_will_ask_later_then_all_that_was_held_back() -> None:
    deduplicator = LogDeduplicator(most=1)
    for text in ("a", "b"):
        admits(deduplicator, line(text, pid=1), 0)
        admits(deduplicator, line(text, pid=2), 0)

    assert deduplicator.flush() == [(line("a", pid=2), 1), (line("b", pid=2), 1)]
    assert deduplicator.flush() == []
    assert deduplicator.next_due is None


# What one process prints in one go.


def lines(*texts: str, pid: int, stream: str = "stdout") -> list[OutputLine]:
    return [line(text, pid, stream) for text in texts]


def test_burst_when_all_of_it_is_known_then_all_of_it_is_held_back() -> None:
    deduplicator = LogDeduplicator()
    deduplicator.admit(lines("a", "", "b", pid=1), 0)

    assert deduplicator.admit(lines("a", "", "b", pid=2), 1) == []
    assert deduplicator.take_due(6) == [(line("a", pid=2), 1), (line("b", pid=2), 1)]


def test_burst_when_one_line_is_new_then_all_of_it_is_shown() -> None:
    deduplicator = LogDeduplicator()
    deduplicator.admit(lines("a", "b", pid=1), 0)
    own = lines("a", "b", "mine", pid=2)

    assert deduplicator.admit(own, 1) == own
    assert deduplicator.next_due is None


def test_burst_when_it_comes_in_pieces_then_what_was_held_back_is_shown_first() -> None:
    deduplicator = LogDeduplicator()
    deduplicator.admit(lines("a", "b", "c", pid=1), 0)

    assert deduplicator.admit(lines("a", pid=2), 1) == []
    assert deduplicator.admit(lines("b", pid=2), 1.05) == []
    assert deduplicator.admit(lines("mine", pid=2), 1.1) == lines(
        "a", "b", "mine", pid=2
    )
    assert deduplicator.admit(lines("c", pid=2), 1.15) == lines("c", pid=2)
    assert deduplicator.next_due is None
    assert deduplicator.flush() == []


def test_burst_when_it_has_paused_then_what_follows_is_another() -> None:
    deduplicator = LogDeduplicator()
    deduplicator.admit(lines("a", "b", pid=1), 0)

    assert deduplicator.admit(lines("a", pid=2), 1) == []
    assert deduplicator.admit(lines("mine", pid=2), 1.2) == lines("mine", pid=2)
    assert deduplicator.admit(lines("b", pid=2), 1.4) == []
    assert [count for _, count in deduplicator.take_due(6)] == [1, 1]


def test_burst_when_it_does_not_end_then_it_is_taken_to_end() -> None:
    deduplicator = LogDeduplicator()
    deduplicator.admit(lines("a", "b", pid=1), 0)

    held = [deduplicator.admit(lines("a", pid=2), n / 20) for n in range(60)]

    assert held == [[]] * 60
    assert len(deduplicator.admit(lines("mine", pid=2), 3)) < 25


def test_burst_when_of_the_other_stream_then_it_is_another() -> None:
    deduplicator = LogDeduplicator()
    deduplicator.admit(lines("a", pid=1), 0)
    errors = lines("mine", pid=2, stream="stderr")

    assert deduplicator.admit(lines("a", pid=2), 1) == []
    assert deduplicator.admit(errors, 1) == errors
    assert deduplicator.flush() == [(line("a", pid=2), 1)]


@pytest.mark.parametrize(
    "begin", ["Traceback (most recent call last):", "Fatal Python error: Aborted"]
)
def test_report_when_several_print_it_alike_then_each_is_shown_whole(
    begin: str,
) -> None:
    deduplicator = LogDeduplicator()
    traceback = (begin, '  File "x.py", line 1, in f', "ValueError: no")
    deduplicator.admit(lines(*traceback, pid=1), 0)

    assert deduplicator.admit(lines(*traceback, pid=2), 1) == lines(*traceback, pid=2)
    # Also where it comes in pieces, and behind what is known.
    assert deduplicator.admit(lines("ValueError: no", begin, pid=3), 2) == lines(
        "ValueError: no", begin, pid=3
    )
    assert deduplicator.admit(lines(*traceback[1:], pid=3), 2.05) == lines(
        *traceback[1:], pid=3
    )
    assert deduplicator.next_due is None
