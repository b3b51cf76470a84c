"""Writes results: as JSON, as tables, as plots."""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks._machine import Machine
from benchmarks._markdown import targets_of
from benchmarks._peers import is_installed
from benchmarks._run import Outcome
from benchmarks._table import text_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """A folder of results of one run.

    Attributes:
        path: Where it is; made when something is kept.
        machine: What the figures were measured on.
        is_quick: Whether less was asked of the run.
        rounds: How often everything was measured.
    """

    path: Path
    machine: Machine
    is_quick: bool
    rounds: int

    def summary(self, outcomes: Sequence[Outcome]) -> dict[str, object]:
        """Everything as JSON."""
        return {
            "quick": self.is_quick,
            "rounds": self.rounds,
            "machine": asdict(self.machine),
            "benchmarks": [outcome.as_json() for outcome in outcomes],
        }

    def keep(self, name: str, outcomes: Sequence[Outcome]) -> None:
        """Writes ``name.json``, the table as ``name.txt``, targets as ``name.md``."""
        self.path.mkdir(parents=True, exist_ok=True)
        texts = {
            "json": json.dumps(self.summary(outcomes), indent=1),
            "txt": text_of(outcomes, str(self.machine)),
            "md": targets_of(outcomes, str(self.machine)),
        }
        for suffix, text in texts.items():
            path = self.path / f"{name}.{suffix}"
            path.write_text(text + "\n", encoding="utf-8")

    def draw(self, outcome: Outcome) -> None:
        """Draws the plot of one benchmark that has one, if matplotlib is there."""
        has_plot = outcome.plan.panels or outcome.plan.curves
        if has_plot and is_installed("matplotlib"):
            from benchmarks._plot import draw  # it may be missing

            draw(outcome.plan, outcome.samples, self.path, str(self.machine))

    def draw_all(self, outcomes: Sequence[Outcome]) -> None:
        """Draws all targets in one picture, ``overview.png``."""
        if not is_installed("matplotlib"):
            print("no plots: matplotlib is missing (extra 'bench')", file=sys.stderr)
            return
        from benchmarks._overview import draw  # it may be missing

        draw(outcomes, self.path, str(self.machine))
