"""What ``actorlib doctor`` shows, and that no check costs another."""

from __future__ import annotations

import json
import subprocess
import sys
import threading

import pytest

from actorlib._cli.diagnosis import Finding
from actorlib._cli.doctor import Diagnosis, draw, examined
from actorlib._cli.pages import console


def page(found: Diagnosis) -> str:
    out = console()
    with out.capture() as captured:
        out.print(draw(found), crop=False)
    return captured.get()


def fine() -> list[Finding]:
    return [Finding("ok", "all is there")]


def test_checks_when_one_raises_and_one_hangs_then_the_others_are_told() -> None:
    release = threading.Event()

    def raises() -> list[Finding]:
        raise ValueError("a strange machine")

    def hangs() -> list[Finding]:
        release.wait()
        return []

    found = examined({"a": fine, "b": raises, "c": hangs, "d": fine}, limit=0.05)
    release.set()

    assert [(told["check"], told["state"]) for told in found["findings"]] == [
        ("a", "ok"),
        ("b", "warning"),
        ("c", "warning"),
        ("d", "ok"),
    ]
    assert found["state"] == "warning"
    assert "ValueError: a strange machine" in found["findings"][1]["what"]
    assert "no answer within 0.05 s" in found["findings"][2]["what"]


def test_page_when_something_is_wrong_then_what_to_do_and_how_much_there_is() -> None:
    def strange() -> list[Finding]:
        return [
            Finding("problem", "it is broken", "Mend it"),
            Finding("warning", "it is slow", "Wait"),
            Finding("warning", "it is odd"),
        ]

    shown = page(examined({"engine": strange, "wheels": fine}))

    lines = [" ".join(line.split()) for line in shown.splitlines()]
    assert lines == [
        "problem engine it is broken.",
        "-> Mend it.",
        "warning it is slow.",
        "-> Wait.",
        "warning it is odd.",
        "ok wheels all is there.",
        "",
        "1 problem, 2 warnings.",
    ]
    assert page(examined({"wheels": fine})).endswith("All is well.\n")


@pytest.mark.process
@pytest.mark.slow
def test_doctor_when_run_here_then_an_actor_answers_and_the_code_says_how_it_is() -> (
    None
):
    ended = subprocess.run(
        [sys.executable, "-m", "actorlib", "doctor", "--json"],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )

    found: Diagnosis = json.loads(ended.stdout)
    assert ended.returncode == int(found["state"] == "problem")
    (start,) = [told for told in found["findings"] if told["check"] == "start"]
    assert "answered after" in start["what"]
    assert not any("could not be checked" in told["what"] for told in found["findings"])
