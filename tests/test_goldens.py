"""Golden files are compared, and rewritten only where somebody reads the changes."""

from __future__ import annotations

import pytest
from helpers.goldens import stable

pytest_plugins = ["pytester"]

TEST = """
def test_page(golden):
    golden.check("page.txt", "one \\ntwo\\n")
"""


@pytest.fixture
def pages(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> pytest.Pytester:
    """A test with a golden file that lacks a line."""
    monkeypatch.delenv("CI", raising=False)
    pytester.makepyfile(TEST)
    pytester.mkdir("goldens").joinpath("page.txt").write_text("one\n")
    return pytester


def run(pages: pytest.Pytester, *words: str) -> pytest.RunResult:
    plugins = ("-p", "helpers.goldens", "-p", "no:cacheprovider", "-p", "no:asyncio")
    quiet = ("-W", "ignore::pytest.PytestAssertRewriteWarning")
    return pages.runpytest(*plugins, *quiet, *words)


def test_golden_when_the_output_differs_then_the_difference_and_the_switch_are_shown(
    pages: pytest.Pytester,
) -> None:
    ended = run(pages)

    ended.assert_outcomes(failed=1)
    ended.stdout.fnmatch_lines(["+two", "*pytest --update-goldens*"])


def test_golden_when_updated_then_the_change_is_shown_and_the_test_passes(
    pages: pytest.Pytester,
) -> None:
    updated = run(pages, "--update-goldens")
    again = run(pages)

    updated.stdout.fnmatch_lines(["--- recorded page.txt", "+two"])
    again.assert_outcomes(passed=1)


def test_golden_when_updated_under_ci_then_refused_and_nothing_is_written(
    pages: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", "true")

    ended = run(pages, "--update-goldens")

    assert ended.ret == pytest.ExitCode.USAGE_ERROR
    assert (pages.path / "goldens" / "page.txt").read_text() == "one\n"


def test_output_when_it_is_made_stable_then_words_stand_for_numbers() -> None:
    text = "pid 812 has 812 MiB after 0.5 s at 10:11:12.250"

    assert stable(text, {"SIZE": 812}) == "pid SIZE has SIZE MiB after N s at TIME"
    assert stable(text) == "pid PID has 812 MiB after N s at TIME"
