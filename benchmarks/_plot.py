"""A benchmark as a picture; needs matplotlib."""

from pathlib import Path

import matplotlib as mpl

mpl.use("agg")  # before pyplot, which would look for a display

from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from benchmarks._cases import COLUMNS, Curve, Panel, Plan
from benchmarks._colours import COLOURS
from benchmarks._figures import points, spread
from benchmarks._jobs import Samples

_DISTINCT = 10
"""The number of lines with distinct colours."""


def draw(plan: Plan, samples: Samples, folder: Path, caption: str) -> Path:
    """Draws every panel and curve of a plan into one picture.

    Args:
        plan: What to draw.
        samples: What was measured.
        folder: Where to put the picture; made if it is not there.
        caption: What it was measured on.

    Returns:
        The picture.
    """
    folder.mkdir(parents=True, exist_ok=True)
    parts = (*plan.panels, *plan.curves)
    size = (1.5 + 7.0 * len(parts), 5.5)
    figure, axes = plt.subplots(1, len(parts), figsize=size, squeeze=False)
    for part, axis in zip(parts, axes[0], strict=True):
        if isinstance(part, Panel):
            _draw_panel(part, samples, axis)
        else:
            _draw_curve(part, samples, axis)
    figure.suptitle(plan.question)
    figure.text(0.01, 0.01, caption, fontsize=6, color="#666666")
    figure.tight_layout(rect=(0, 0.03, 1, 1))
    path = folder / f"{plan.name}.png"
    figure.savefig(path, dpi=150)
    plt.close(figure)
    return path


def _draw_panel(panel: Panel, samples: Samples, axis: Axes) -> None:
    names = [
        name for name in COLUMNS if any(name in case.cells for case in panel.cases)
    ]
    width = 0.8 / len(names)
    for place, name in enumerate(names):
        colour = COLOURS[name]
        for index, case in enumerate(panel.cases):
            found = spread(case, name, samples)
            if found is None:
                continue
            scale = case.unit.scale
            middle = found.median * scale
            bar = axis.bar(
                index - 0.4 + width * (place + 0.5),
                middle,
                width,
                color=colour,
                yerr=[[middle - found.low * scale], [found.high * scale - middle]],
                error_kw={"elinewidth": 0.8},
            )
            axis.bar_label(bar, [case.unit.show(found.median)], fontsize=6)
        axis.bar(0, 0, color=colour, label=name)
    axis.set_xticks(
        range(len(panel.cases)),
        [case.title for case in panel.cases],
        rotation=20,
        ha="right",
        fontsize=8,
    )
    if panel.is_logarithmic:
        axis.set_yscale("log")
    axis.set_ylabel(panel.cases[0].unit.name)
    axis.set_title(panel.title, fontsize=10, pad=22)
    axis.legend(
        loc="lower center",
        bbox_to_anchor=(0.5, 1.0),
        ncols=len(names),
        frameon=False,
        fontsize=7,
    )


def _draw_curve(curve: Curve, samples: Samples, axis: Axes) -> None:
    scale = curve.unit.scale
    lines = {name: points(curve, name, samples) for name in curve.lines}
    for place, (name, found) in enumerate(lines.items()):
        spreads = found.values()
        axis.errorbar(
            list(found),
            [each.median * scale for each in spreads],
            yerr=[
                [(each.median - each.low) * scale for each in spreads],
                [(each.high - each.median) * scale for each in spreads],
            ],
            color=COLOURS.get(name),
            marker="o",
            markersize=4,
            linestyle="-" if place < _DISTINCT else "--",
            elinewidth=0.8,
            label=name,
        )
    if curve.is_linear:
        axis.set_xlim(left=0)
        axis.set_ylim(0, axis.get_ylim()[1] * 1.1)
    elif any(lines.values()):
        axis.set_xscale("log")
        axis.set_yscale("log")
    axis.set_xlabel(curve.across)
    axis.set_ylabel(curve.unit.name)
    axis.grid(visible=True, which="major", color="#e0e0e0", linewidth=0.6)
    axis.set_title(curve.title, fontsize=10)
    axis.legend(loc="best", frameon=False, fontsize=7)
