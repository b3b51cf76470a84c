"""What ``actorlib doctor`` shows, and that no check costs another."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any

import pytest
from helpers.host import RecordedHost
from helpers.program_runner import run

from actorlib._cli.doctor import draw, examine, worst
from actorlib._cli.machine_checks import Finding
from actorlib._cli.pages import console

if TYPE_CHECKING:
    from collections.abc import Iterable

    from helpers.goldens import Golden

    from actorlib.accelerators import Host

HOST = RecordedHost()


def page(findings: list[Finding]) -> str:
    out = console()
    with out.capture() as captured:
        out.print(draw(findings), crop=False)
    return captured.get()


def fine(_: Host) -> Iterable[Finding]:
    yield Finding("ok", "all is there")


def test_checks_when_one_raises_and_one_hangs_then_the_others_are_told() -> None:
    release = threading.Event()

    def raises(_: Host) -> list[Finding]:
        raise ValueError("a strange machine")

    def hangs(_: Host) -> list[Finding]:
        release.wait()
        return []

    found = examine({"a": fine, "b": raises, "c": hangs, "d": fine}, HOST, limit=0.05)
    release.set()

    assert [(each.check, each.state) for each in found] == [
        ("a", "ok"),
        ("b", "warning"),
        ("c", "warning"),
        ("d", "ok"),
    ]
    assert worst(found) == "warning"
    assert "ValueError: a strange machine" in found[1].what
    assert "no answer within 0.05 s" in found[2].what


def test_checks_when_there_can_be_no_thread_then_they_are_made_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)

    assert examine({"a": fine}, HOST) == [Finding("ok", "all is there", check="a")]


def test_page_when_something_is_wrong_then_what_to_do_and_how_much_there_is(
    golden: Golden,
) -> None:
    def strange(_: Host) -> list[Finding]:
        return [
            Finding("problem", "it is broken", "Mend it"),
            Finding("warning", "it is slow", "Wait"),
            Finding("warning", "it is odd"),
        ]

    shown = page(examine({"engine": strange, "wheels": fine}, HOST))

    assert "1 problem, 2 warnings." in shown
    golden.check("doctor.txt", shown)
    assert page(examine({"wheels": fine}, HOST)).endswith("All is well.\n")
    assert [worst(examine({"a": check}, HOST)) for check in (strange, fine)] == [
        "problem",
        "ok",
    ]
    assert worst([]) == "ok"


@pytest.mark.process
@pytest.mark.slow
def test_doctor_when_run_here_then_an_actor_answers_and_the_code_says_how_it_is() -> (
    None
):
    ended = run("-m", "actorlib", "doctor", "--json", limit=100)

    found: dict[str, Any] = json.loads(ended.stdout)
    rows: list[dict[str, str]] = found["findings"]
    assert found.keys() == {"version", "state", "findings"}
    assert all(row.keys() == {"check", "state", "what", "advice"} for row in rows)
    assert ended.returncode == int(found["state"] == "problem")
    (start,) = [row for row in rows if row["check"] == "start"]
    assert "answered after" in start["what"]
    assert not any("could not be checked" in row["what"] for row in rows)
