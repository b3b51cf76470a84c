"""What each benchmark asks for, and how its options narrow that."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest
from helpers.program_runner import printed_by

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


# How a subject is run: in an interpreter of its own, with an end, and nothing left.


def answer_of(program: str) -> object:
    """What a program prints as JSON; all the children of a process are at stake."""
    return json.loads(printed_by(program))


@pytest.mark.process
def test_measure_of_a_subject_gives_its_figures_or_says_why_not() -> None:
    answers = answer_of(
        """
        import json
        from benchmarks._cases import Job
        from benchmarks._jobs import JobError, measure

        def figures(job):
            try:
                return sorted(measure(job))
            except JobError as error:
                return str(error)

        told = {"size": 2, "waves": 1, "method": "2"}
        print(json.dumps([figures(job) for job in (
            Job(name="n", subject="placement.spawn", arguments=told),
            Job(name="n", subject="nobody.ray"),
            Job(name="n", subject="placement.nobody"),
            Job(name="n", subject="_subject.any"),
            Job(name="n", subject="placement.spawn", limit=0),
        )]))
        """
    )

    assert isinstance(answers, list)
    figures, failed, strange, silent, slow = answers
    assert figures == ["cold"]
    assert failed.startswith("exit code 1: ")
    assert "No module named benchmarks.nobody" in failed
    assert "there is no subject 'nobody'; there are actorlib" in strange
    assert silent == "it printed no figures: ''"
    assert slow == "not done after 0 s"


@pytest.mark.process
def test_measure_imports_the_package_of_its_root(tmp_path: Path) -> None:
    package = tmp_path / "checkout" / "actorlib"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("VERSION = 7\n")
    subject = tmp_path / "root" / "benchmarks"
    subject.mkdir(parents=True)
    (subject / "__init__.py").touch()
    (subject / "version.py").write_text(
        "import json, actorlib\nprint(json.dumps({'version': actorlib.VERSION}))\n"
    )
    (tmp_path / "root" / "actorlib").symlink_to(package)

    figures = answer_of(
        f"""
        import json
        from pathlib import Path
        from benchmarks._cases import Job
        from benchmarks._jobs import measure

        root = Path({str(tmp_path / "root")!r})
        print(json.dumps(measure(Job(name="n", subject="version.it"), root)))
        """
    )

    assert figures == {"version": 7}


@pytest.mark.process
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux adopts orphans")
def test_orphan_of_an_orphan_is_found_and_ended() -> None:
    found = answer_of(
        """
        import json, os, subprocess, sys
        from benchmarks._leftovers import adopt_orphans, end_orphans

        adopt_orphans()
        sleeper = "import time; print('up', flush=True); time.sleep(600)"
        daemon = (
            "import subprocess, sys; subprocess.Popen("
            f"[sys.executable, '-c', {sleeper!r}], start_new_session=True)"
        )
        starter = subprocess.Popen(
            [sys.executable, "-c", daemon], stdout=subprocess.PIPE
        )
        starter.stdout.readline()
        starter.wait()
        killed = end_orphans(grace=0)
        print(json.dumps([len(killed), "time.sleep" in killed[0], end_orphans()]))
        """
    )

    assert found == [1, True, []]
