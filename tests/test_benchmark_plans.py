"""What each benchmark asks for, and how its options narrow that."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest

import benchmarks
from benchmarks._cases import (
    FLOOR,
    OURS,
    POOL,
    RAY,
    Case,
    Job,
    Panel,
    Plan,
    Scale,
    Unit,
)
from benchmarks._command import conduct_all, parser
from benchmarks._folder import Folder
from benchmarks._jobs import Samples
from benchmarks._machine import this_machine
from benchmarks._peers import COLUMNS_OF, asked, peers_of
from benchmarks._run import Outcome
from benchmarks._subject import at_once
from benchmarks.ledger import measure_actorlib as measure_ledger

FOLDER = Path(benchmarks.__file__).parent
QUESTIONS = sorted(
    path.stem for path in FOLDER.glob("*.py") if not path.stem.startswith("_")
)


def plan_of(question: str, *, is_quick: bool) -> Plan:
    plan: Plan = import_module(f"benchmarks.{question}").make_plan(
        Scale(is_quick=is_quick)
    )
    return plan


def small_plan() -> Plan:
    jobs = [
        Job(name=OURS, subject="a"),
        Job(name=RAY, subject="b", peer="ray"),
        Job(name=POOL, subject="c", peer="stdlib"),
    ]
    row = Case(
        section="s",
        title="t",
        unit=Unit(name="s"),
        cells={OURS: f"{OURS}/x", RAY: f"{RAY}/x", POOL: f"{POOL}/x"},
    )
    panels = [Panel(title="p", cases=[row])]
    return Plan(name="n", question="?", notes=(), jobs=jobs, cases=[row], panels=panels)


@pytest.mark.parametrize("is_quick", [True, False])
@pytest.mark.parametrize("question", QUESTIONS)
def test_plan_of_a_question_names_what_there_is(
    *, question: str, is_quick: bool
) -> None:
    plan = plan_of(question, is_quick=is_quick)

    peers = {job.name: job.peer for job in plan.jobs}
    cells = [cell for case in plan.cases for cell in case.cells.values()]
    drawn = [
        cell
        for curve in plan.curves
        for line in curve.lines.values()
        for cell in line.values()
    ]
    assert len(peers) == len(plan.jobs)
    assert {cell.rpartition("/")[0] for cell in (*cells, *drawn)} <= peers.keys()
    for job in plan.jobs:
        module, _, subject = job.subject.partition(".")
        assert subject in import_module(f"benchmarks.{module}").SUBJECTS
        assert job.peer in {"", *COLUMNS_OF}
    for case in plan.cases:
        for peer, columns in COLUMNS_OF.items():
            for column in case.cells.keys() & set(columns):
                assert peers[case.cells[column].rpartition("/")[0]] == peer
        for target in () if is_quick else case.targets:
            assert target.against is None or target.against in case.cells, case


def test_command_without_names_runs_every_question() -> None:
    text = (FOLDER / "__main__.py").read_text(encoding="utf-8")

    assert sorted(re.findall(r'^    "(\w+)",$', text, re.MULTILINE)) == QUESTIONS


def test_peers_are_named_with_commas() -> None:
    assert peers_of("ray, stdlib") == {"ray", "stdlib"}
    assert peers_of("") == frozenset()
    assert parser().parse_args([]).peers == COLUMNS_OF.keys()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["cals"], "no benchmark is called 'cals'; there are calls"),
        (["--rounds", "0"], "it takes 1 or more, not 0"),
        (["--peers", "rya,stdlib"], "no peer is called 'rya'; there are ray, xoscar"),
    ],
)
def test_command_with_a_wrong_word_says_what_there_is(
    words: list[str],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", ["benchmarks", *words])

    with pytest.raises(SystemExit) as refused:
        conduct_all({"calls": lambda scale: plan_of("calls", is_quick=scale.is_quick)})

    assert refused.value.code == 2
    assert said in " ".join(capsys.readouterr().err.split())


def test_peer_that_is_not_asked_for_or_not_installed_is_not_run() -> None:
    without = asked(small_plan(), {"stdlib"})
    missing = asked(small_plan(), {"ray", "stdlib"}, {"ray"})

    assert [job.name for job in without.jobs] == [OURS, POOL]
    assert without.cases[0].cells.keys() == {OURS, POOL}
    assert without.panels[0].cases[0].cells.keys() == {OURS, POOL}
    assert [job.absence for job in missing.jobs] == ["", "not installed", ""]
    assert missing.cases[0].cells.keys() == {OURS, RAY, POOL}


def test_floor_is_measured_whoever_is_asked_for() -> None:
    plan = asked(plan_of("calls", is_quick=True), ())

    assert {job.peer for job in plan.jobs} == {""}
    assert any(FLOOR in case.cells for case in plan.cases)


def test_calls_at_once_count_only_if_all_came_back_in_order() -> None:
    assert at_once([0, 1, 2], 3, 0.5) == 6.0
    with pytest.raises(RuntimeError, match="3 calls gave 2 answers"):
        at_once([0, 1], 3, 0.5)


def test_plan_when_nothing_of_it_is_drawn_then_there_is_no_plot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks._folder.is_installed", lambda _: True)
    folder = Folder(path=tmp_path, machine=this_machine(), is_quick=True, rounds=1)
    plan = replace(small_plan(), panels=[])

    folder.draw(Outcome(plan=plan, samples=Samples()))

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("machine", ["plain", "whole", "typed", "linked"])
def test_ledger_when_measured_on_a_small_machine_then_each_decision_has_a_figure(
    machine: str,
) -> None:
    figures = measure_ledger(devices=8, seconds=0.01, machine=machine)

    assert figures
    assert all(figures.values())
