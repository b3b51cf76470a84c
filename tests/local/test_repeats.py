"""LOG-003: equal lines of several actors appear once, and then how often."""

from __future__ import annotations

from actorlib._local.repeats import Line, Repeats


def line(text: str, pid: int = 1, stream: str = "stdout") -> Line:
    return Line(stream, "A", pid, text.encode())


def test_line_when_another_process_printed_it_then_it_is_held_back_and_counted() -> (
    None
):
    repeats = Repeats()

    assert repeats.admits(line("ready", pid=1), 0)
    assert [repeats.admits(line("ready", pid=pid), 1) for pid in (2, 3, 4)] == [0, 0, 0]
    assert repeats.due == 5
    assert repeats.tell(4.9) == []
    assert repeats.tell(5) == [(line("ready", pid=4), 3)]
    assert repeats.due is None
    assert repeats.tell(99) == []


def test_line_when_it_differs_in_digits_alone_then_it_is_equal() -> None:
    repeats = Repeats()

    assert repeats.admits(line("step 1 of 10", pid=1), 0)
    assert not repeats.admits(line("step 22 of 10", pid=2), 0)
    assert repeats.admits(line("stop 22 of 10", pid=2), 0)
    assert repeats.tell_all() == [(line("step 22 of 10", pid=2), 1)]


def test_line_when_its_own_process_repeats_it_then_it_is_shown() -> None:
    repeats = Repeats()

    assert all(repeats.admits(line(f"step {n}"), n / 10) for n in range(40))
    assert repeats.due is None


def test_line_when_the_window_is_over_then_it_is_shown_again() -> None:
    repeats = Repeats()

    assert repeats.admits(line("ready", pid=1), 0)
    assert repeats.admits(line("ready", pid=2), 5)
    assert not repeats.admits(line("ready", pid=1), 6)


def test_line_when_several_go_on_printing_it_then_it_is_counted_again() -> None:
    repeats = Repeats()
    for pid in (1, 2, 3):
        repeats.admits(line("ready", pid=pid), 0)
    assert repeats.tell(5) == [(line("ready", pid=3), 2)]

    assert not repeats.admits(line("ready", pid=1), 6)
    assert repeats.due == 10
    assert repeats.tell(10) == [(line("ready", pid=1), 1)]


def test_line_when_one_alone_goes_on_printing_it_then_it_is_shown_again() -> None:
    repeats = Repeats()
    repeats.admits(line("ready", pid=1), 0)
    repeats.admits(line("ready", pid=2), 1)
    repeats.admits(line("ready", pid=2), 2)
    assert repeats.tell(5) == [(line("ready", pid=2), 2)]

    assert repeats.admits(line("ready", pid=2), 6)
    assert repeats.admits(line("ready", pid=2), 7)


def test_line_when_of_the_other_stream_then_it_is_another() -> None:
    repeats = Repeats()

    assert repeats.admits(line("ready", pid=1), 0)
    assert repeats.admits(line("ready", pid=2, stream="stderr"), 0)


def test_line_when_empty_or_very_long_then_it_is_always_shown() -> None:
    repeats = Repeats()

    for text in ("", "  ", "x" * 2_000):
        assert repeats.admits(line(text, pid=1), 0)
        assert repeats.admits(line(text, pid=2), 0)


def test_lines_when_there_are_too_many_then_what_was_held_back_is_told_at_once() -> (
    None
):
    repeats = Repeats(most=2)
    repeats.admits(line("a", pid=1), 0)
    repeats.admits(line("a", pid=2), 0)
    repeats.admits(line("b", pid=1), 1)
    repeats.admits(line("c", pid=1), 2)

    assert repeats.is_due
    assert repeats.tell(2) == [(line("a", pid=2), 1)]
    assert not repeats.is_due
    assert repeats.admits(line("a", pid=2), 2)


def test_lines_when_nobody_will_ask_later_then_all_that_was_held_back() -> None:
    repeats = Repeats(most=1)
    for text in ("a", "b"):
        repeats.admits(line(text, pid=1), 0)
        repeats.admits(line(text, pid=2), 0)

    assert repeats.tell_all() == [(line("a", pid=2), 1), (line("b", pid=2), 1)]
    assert repeats.tell_all() == []
    assert repeats.due is None
