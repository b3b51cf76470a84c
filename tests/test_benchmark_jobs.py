"""How a subject is run: in an interpreter of its own, with an end, and nothing left."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest
from helpers.program_runner import printed_by

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.process


def answer_of(program: str) -> object:
    """What a program prints as JSON; all the children of a process are at stake."""
    return json.loads(printed_by(program))


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
