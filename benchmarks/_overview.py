"""Draws all targets in one picture: the ratio to each subject, and to the target."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import matplotlib as mpl

mpl.use("agg")  # before pyplot, which would look for a display

from matplotlib import pyplot as plt

from benchmarks._cases import COLUMNS, FLOOR, LOADED_FLOOR, OURS, Case
from benchmarks._colours import COLOURS
from benchmarks._figures import times_better, verdict
from benchmarks._jobs import Samples
from benchmarks._run import Outcome


class _Row(NamedTuple):
    """One case.

    Attributes:
        title: What it is.
        times: By column, how many times better actorlib is.
        is_met: Whether all that is aimed at is reached.
    """

    title: str
    times: dict[str, float]
    is_met: bool


def draw(outcomes: Sequence[Outcome], folder: Path, caption: str) -> Path | None:
    """Draws every case with a target and another subject.

    Args:
        outcomes: What was measured.
        folder: Where to put the picture.
        caption: What it was measured on.

    Returns:
        The picture, or None without such cases.
    """
    rows = [row for outcome in outcomes for row in _rows(outcome)]
    if not rows:
        return None
    figure, axis = plt.subplots(figsize=(11, 1.8 + 0.26 * len(rows)))
    for name in COLUMNS:
        found = {-n: row.times[name] for n, row in enumerate(rows) if name in row.times}
        if found:
            across, down = list(found.values()), list(found)
            marker = "s" if name in (FLOOR, LOADED_FLOOR) else "o"
            colour = COLOURS[name]
            axis.scatter(across, down, color=colour, marker=marker, s=26, label=name)
    axis.axvline(1, color=COLOURS[OURS], linewidth=1)
    axis.set_xscale("log")
    axis.set_xlabel("ratio of actorlib to each; the line is actorlib itself")
    axis.set_yticks([-n for n in range(len(rows))], [row.title for row in rows])
    for label, row in zip(axis.get_yticklabels(), rows, strict=True):
        label.set_fontsize(7)
        label.set_color("#222222" if row.is_met else COLOURS[OURS])
    axis.grid(visible=True, color="#e6e6e6", linewidth=0.6)
    axis.set_axisbelow(True)
    axis.set_ylim(0.5 - len(rows), 0.5)
    axis.legend(
        loc="lower center",
        bbox_to_anchor=(0.5, 1.0),
        ncols=len(COLUMNS),
        columnspacing=1,
        frameon=False,
        fontsize=7,
    )
    axis.set_title(f"red: missed target. {caption}", fontsize=5, loc="right", pad=22)
    path = folder / "overview.png"
    figure.savefig(path, dpi=150, bbox_inches="tight")
    plt.close(figure)
    return path


def _rows(outcome: Outcome) -> Iterator[_Row]:
    for case in outcome.plan.cases:
        times = dict(_times(case, outcome.samples))
        if case.targets and times:
            met = [verdict(case, target, outcome.samples) for target in case.targets]
            title = f"{outcome.plan.name}: {case.section}, {case.title}"
            yield _Row(title=title, times=times, is_met=False not in met)


def _times(case: Case, samples: Samples) -> Iterator[tuple[str, float]]:
    for column in COLUMNS:
        times = times_better(case, column, samples)
        if times is not None and column != OURS:
            yield column, times
