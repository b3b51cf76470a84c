from __future__ import annotations

import pytest

from actorlib._processes.worker_output import LogStyle, style_of

LINES = ["grüße".encode(), b"x\xff"]


def test_style_when_nothing_is_set_then_prefixed_without_colours() -> None:
    assert style_of({}, is_shown=True) == LogStyle()


@pytest.mark.parametrize(
    ("environ", "style"),
    [
        ({"ACTORLIB_DEDUP_LOGS": "1"}, LogStyle(merges=True)),
        ({"RAY_DEDUP_LOGS": "1"}, LogStyle(merges=True)),
        ({"RAY_DEDUP_LOGS": "1", "ACTORLIB_DEDUP_LOGS": "0"}, LogStyle()),
        ({"RAY_LOG_TO_DRIVER": "0"}, LogStyle(is_shown=False)),
        ({"ACTORLIB_LOG_TO_DRIVER": "false"}, LogStyle(is_shown=False)),
        ({"RAY_COLOR_PREFIX": "1"}, LogStyle(is_coloured=True)),
        ({"ACTORLIB_COLOR_PREFIX": "0"}, LogStyle(is_coloured=False)),
        ({"ACTORLIB_LOG_PREFIX": "0"}, LogStyle(is_prefixed=False)),
        (
            {"RAY_DISABLE_WORKER_LOG_PREFIX": "1"},
            LogStyle(is_prefixed=False),
        ),
    ],
)
def test_style_when_a_variable_says_it_then_so(
    environ: dict[str, str], style: LogStyle
) -> None:
    assert style_of(environ, is_shown=True) == style


def test_a_variable_does_not_show_what_the_program_silences() -> None:
    assert not style_of({"RAY_LOG_TO_DRIVER": "1"}, is_shown=False).is_shown


def test_line_when_formatted_then_each_with_its_prefix() -> None:
    shown = LogStyle().format("A", 7, LINES)

    assert shown == "(A pid=7) grüße\n(A pid=7) x\ufffd\n"


def test_without_a_prefix_the_line_alone() -> None:
    assert LogStyle(is_prefixed=False).format("A", 7, LINES) == "grüße\nx\ufffd\n"


def test_each_process_has_a_colour() -> None:
    style = LogStyle(is_coloured=True)

    first, second = (style.format("A", pid, LINES[:1]) for pid in (7, 8))

    assert first.startswith("\033[")
    assert first.endswith("m(A pid=7)\033[0m grüße\n")
    assert first[:5] != second[:5]
