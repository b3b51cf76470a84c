"""LOG-003: equal lines of several actors appear once, and then how often."""

from __future__ import annotations

import pytest

from actorlib._processes.worker_output import OutputLine, Repeats


def line(text: str, pid: int = 1, stream: str = "stdout") -> OutputLine:
    return OutputLine(stream, "A", pid, text.encode())


def admits(repeats: Repeats, *printed: OutputLine | float) -> bool:
    """Whether lines that came at once are shown, and nothing else is."""
    *lines, now = printed
    shown = repeats.admit(lines, now)  # type: ignore[arg-type]  # the last is the time
    assert shown in ([], lines)
    return bool(shown)


def test_line_when_another_process_printed_it_then_it_is_held_back_and_counted() -> (
    None
):
    repeats = Repeats()

    assert admits(repeats, line("ready", pid=1), 0)
    assert [admits(repeats, line("ready", pid=pid), 1) for pid in (2, 3, 4)] == [
        0,
        0,
        0,
    ]
    assert repeats.due == 5
    assert repeats.tell(4.9) == []
    assert repeats.tell(5) == [(line("ready", pid=4), 3)]
    assert repeats.due is None
    assert repeats.tell(99) == []


def test_line_when_it_differs_in_digits_alone_then_it_is_equal() -> None:
    repeats = Repeats()

    assert admits(repeats, line("step 1 of 10", pid=1), 0)
    assert not admits(repeats, line("step 22 of 10", pid=2), 0)
    assert admits(repeats, line("stop 22 of 10", pid=2), 1)
    assert repeats.tell_all() == [(line("step 22 of 10", pid=2), 1)]


def test_line_when_its_own_process_repeats_it_then_it_is_shown() -> None:
    repeats = Repeats()

    assert all(admits(repeats, line(f"step {n}"), n / 10) for n in range(40))
    assert repeats.due is None


def test_line_when_the_window_is_over_then_it_is_shown_again() -> None:
    repeats = Repeats()

    assert admits(repeats, line("ready", pid=1), 0)
    assert admits(repeats, line("ready", pid=2), 5)
    assert not admits(repeats, line("ready", pid=1), 6)


def test_line_when_several_go_on_printing_it_then_it_is_counted_again() -> None:
    repeats = Repeats()
    for pid in (1, 2, 3):
        admits(repeats, line("ready", pid=pid), 0)
    assert repeats.tell(5) == [(line("ready", pid=3), 2)]

    assert not admits(repeats, line("ready", pid=1), 6)
    assert repeats.due == 10
    assert repeats.tell(10) == [(line("ready", pid=1), 1)]


def test_line_when_one_alone_goes_on_printing_it_then_it_is_shown_again() -> None:
    repeats = Repeats()
    admits(repeats, line("ready", pid=1), 0)
    admits(repeats, line("ready", pid=2), 1)
    admits(repeats, line("ready", pid=2), 2)
    assert repeats.tell(5) == [(line("ready", pid=2), 2)]

    assert admits(repeats, line("ready", pid=2), 6)
    assert admits(repeats, line("ready", pid=2), 7)


def test_line_when_of_the_other_stream_then_it_is_another() -> None:
    repeats = Repeats()

    assert admits(repeats, line("ready", pid=1), 0)
    assert admits(repeats, line("ready", pid=2, stream="stderr"), 0)


def test_line_when_empty_or_very_long_then_it_is_always_shown() -> None:
    repeats = Repeats()

    for text in ("", "  ", "x" * 2_000):
        assert admits(repeats, line(text, pid=1), 0)
        assert admits(repeats, line(text, pid=2), 0)


def test_lines_when_there_are_too_many_then_what_was_held_back_is_told_at_once() -> (
    None
):
    repeats = Repeats(most=2)
    admits(repeats, line("a", pid=1), 0)
    admits(repeats, line("a", pid=2), 0)
    admits(repeats, line("b", pid=1), 1)
    admits(repeats, line("c", pid=1), 2)

    assert repeats.is_due
    assert repeats.tell(2) == [(line("a", pid=2), 1)]
    assert not repeats.is_due
    assert admits(repeats, line("a", pid=2), 2)


def test_lines_when_nobody_will_ask_later_then_all_that_was_held_back() -> None:
    repeats = Repeats(most=1)
    for text in ("a", "b"):
        admits(repeats, line(text, pid=1), 0)
        admits(repeats, line(text, pid=2), 0)

    assert repeats.tell_all() == [(line("a", pid=2), 1), (line("b", pid=2), 1)]
    assert repeats.tell_all() == []
    assert repeats.due is None


# What one process prints in one go.


def lines(*texts: str, pid: int, stream: str = "stdout") -> list[OutputLine]:
    return [line(text, pid, stream) for text in texts]


def test_burst_when_all_of_it_is_known_then_all_of_it_is_held_back() -> None:
    repeats = Repeats()
    repeats.admit(lines("a", "", "b", pid=1), 0)

    assert repeats.admit(lines("a", "", "b", pid=2), 1) == []
    assert repeats.tell(6) == [(line("a", pid=2), 1), (line("b", pid=2), 1)]


def test_burst_when_one_line_is_new_then_all_of_it_is_shown() -> None:
    repeats = Repeats()
    repeats.admit(lines("a", "b", pid=1), 0)
    own = lines("a", "b", "mine", pid=2)

    assert repeats.admit(own, 1) == own
    assert repeats.due is None


def test_burst_when_it_comes_in_pieces_then_what_was_held_back_is_shown_first() -> None:
    repeats = Repeats()
    repeats.admit(lines("a", "b", "c", pid=1), 0)

    assert repeats.admit(lines("a", pid=2), 1) == []
    assert repeats.admit(lines("b", pid=2), 1.05) == []
    assert repeats.admit(lines("mine", pid=2), 1.1) == lines("a", "b", "mine", pid=2)
    assert repeats.admit(lines("c", pid=2), 1.15) == lines("c", pid=2)
    assert repeats.due is None
    assert repeats.tell_all() == []


def test_burst_when_it_has_paused_then_what_follows_is_another() -> None:
    repeats = Repeats()
    repeats.admit(lines("a", "b", pid=1), 0)

    assert repeats.admit(lines("a", pid=2), 1) == []
    assert repeats.admit(lines("mine", pid=2), 1.2) == lines("mine", pid=2)
    assert repeats.admit(lines("b", pid=2), 1.4) == []
    assert [count for _, count in repeats.tell(6)] == [1, 1]


def test_burst_when_it_does_not_end_then_it_is_taken_to_end() -> None:
    repeats = Repeats()
    repeats.admit(lines("a", "b", pid=1), 0)

    held = [repeats.admit(lines("a", pid=2), n / 20) for n in range(60)]

    assert held == [[]] * 60
    assert len(repeats.admit(lines("mine", pid=2), 3)) < 25


def test_burst_when_of_the_other_stream_then_it_is_another() -> None:
    repeats = Repeats()
    repeats.admit(lines("a", pid=1), 0)
    errors = lines("mine", pid=2, stream="stderr")

    assert repeats.admit(lines("a", pid=2), 1) == []
    assert repeats.admit(errors, 1) == errors
    assert repeats.tell_all() == [(line("a", pid=2), 1)]


@pytest.mark.parametrize(
    "begin", ["Traceback (most recent call last):", "Fatal Python error: Aborted"]
)
def test_report_when_several_print_it_alike_then_each_is_shown_whole(
    begin: str,
) -> None:
    repeats = Repeats()
    told = (begin, '  File "x.py", line 1, in f', "ValueError: no")
    repeats.admit(lines(*told, pid=1), 0)

    assert repeats.admit(lines(*told, pid=2), 1) == lines(*told, pid=2)
    # Also where it comes in pieces, and behind what is known.
    assert repeats.admit(lines("ValueError: no", begin, pid=3), 2) == lines(
        "ValueError: no", begin, pid=3
    )
    assert repeats.admit(lines(*told[1:], pid=3), 2.05) == lines(*told[1:], pid=3)
    assert repeats.due is None
