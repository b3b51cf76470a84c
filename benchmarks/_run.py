"""Runs a plan: every job in every round, with a progress bar."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TimeElapsedColumn

from benchmarks._cases import Plan
from benchmarks._figures import report
from benchmarks._jobs import JobError, Samples, in_rounds, measure


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A benchmark that was run.

    Attributes:
        plan: What was asked.
        samples: What was measured.
    """

    plan: Plan
    samples: Samples

    @property
    def seconds(self) -> float:
        """How long all of it took."""
        return sum(self.samples.seconds.values())

    def as_json(self) -> dict[str, object]:
        """Everything but the plots."""
        return {
            "benchmark": self.plan.name,
            "question": self.plan.question,
            "seconds": self.samples.seconds,
            "notes": self.plan.notes,
            "cases": [report(case, self.samples) for case in self.plan.cases],
            "failures": self.samples.failures,
        }


def bar_for(plans: Sequence[Plan], rounds: int) -> Progress:
    """The bar of all jobs of these plans, on the standard error; enter it."""
    progress = Progress(
        *Progress.get_default_columns()[:2],
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
    )
    progress.add_task("", total=rounds * sum(len(plan.jobs) for plan in plans))
    return progress


def run(plan: Plan, rounds: int, progress: Progress) -> Outcome:
    """Runs every job of a plan in every round; what fails is kept with its reason."""
    samples = Samples()
    (task,) = progress.task_ids
    for turn, job in in_rounds(plan.jobs, rounds):
        progress.update(task, description=f"{plan.name}: {job.name}")
        begun = time.monotonic()
        if job.absence:
            samples.absences[job.name] = job.absence
        else:
            try:
                samples.add(job, turn, measure(job))
            except JobError as error:
                samples.failures[job.name] = str(error)
        took = time.monotonic() - begun
        samples.seconds[job.name] = samples.seconds.get(job.name, 0.0) + took
        progress.advance(task)
    return Outcome(plan=plan, samples=samples)
