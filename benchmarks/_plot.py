"""A benchmark as a picture; needs matplotlib."""

from pathlib import Path

import matplotlib as mpl

mpl.use("agg")  # before pyplot, which would look for a display

from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from benchmarks._cases import COLUMNS, FLOOR, OURS, Panel, Plan, spread
from benchmarks._jobs import Samples

_COLOURS = {OURS: "#d1495b", FLOOR: "#9a9a9a"}
_OTHERS = ("#30638e", "#6a994e", "#a7c957")


def draw(plan: Plan, samples: Samples, folder: Path, caption: str) -> Path:
    """Draws every panel of a plan into one picture.

    Args:
        plan: What to draw.
        samples: What was measured.
        folder: Where to put the picture; made if it is not there.
        caption: What it was measured on.

    Returns:
        The picture.
    """
    folder.mkdir(parents=True, exist_ok=True)
    size = (1.5 + 7.0 * len(plan.panels), 5.5)
    figure, axes = plt.subplots(1, len(plan.panels), figsize=size, squeeze=False)
    for panel, axis in zip(plan.panels, axes[0], strict=True):
        _draw_panel(panel, samples, axis)
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
    others = iter(_OTHERS)
    for place, name in enumerate(names):
        colour = _COLOURS.get(name) or next(others)
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
