"""A curve as text, for a terminal."""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from string import ascii_lowercase

from benchmarks._cases import Curve
from benchmarks._figures import points
from benchmarks._jobs import Samples

_COLUMNS = 73
_ROWS = 4
"""Rows for a factor of ten."""

_Grid = list[list[str]]
_Place = tuple[int, int]


def sketch(curve: Curve, samples: Samples) -> Iterator[str]:
    """Draws a curve; nothing if nothing was measured.

    Args:
        curve: What to draw: a letter for each line, the first in front.
        samples: What was measured.

    Yields:
        Lines of text, without their ends.
    """
    lines = {name: points(curve, name, samples) for name in curve.lines}
    medians = {
        name: {size: spread.median * curve.unit.scale for size, spread in found.items()}
        for name, found in lines.items()
        if found
    }
    if not medians:
        return
    values = [value for found in medians.values() for value in found.values()]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    sizes = sorted({size for found in medians.values() for size in found})
    grid = [[" "] * _COLUMNS for _ in range((high - low) * _ROWS + 1)]
    letters = dict(zip(medians, ascii_lowercase, strict=False))
    for name in reversed(medians):
        places = [
            (_column(size, sizes), round((high - math.log10(value)) * _ROWS))
            for size, value in medians[name].items()
        ]
        _draw(grid, places, letters[name])
    yield ""
    yield f"{curve.title}: {curve.unit.name} over {curve.across}"
    for number, row in enumerate(grid):
        power = high - number // _ROWS
        label = f"{10.0**power:,.10g}" if number % _ROWS == 0 else ""
        yield f"{label:>12} |{''.join(row).rstrip()}"
    yield f"{'':>12} +{'-' * _COLUMNS}"
    yield f"{'':>12}  {_ruler(sizes)}"
    yield from _key(letters)


def _draw(grid: _Grid, places: Sequence[_Place], letter: str) -> None:
    """Dots from place to place, then a letter on each."""
    for (left, above), (right, below) in pairwise(places):
        for column in range(left, right):
            part = (column - left) / (right - left)
            row = grid[round(above + part * (below - above))]
            if row[column] == " ":
                row[column] = "."
    for column, row_number in places:
        grid[row_number][column] = letter


def _column(size: int, sizes: Sequence[int]) -> int:
    reach = math.log10(sizes[-1] / sizes[0]) or 1.0
    return 2 + round(math.log10(size / sizes[0]) / reach * (_COLUMNS - 8))


def _ruler(sizes: Sequence[int]) -> str:
    ruler = ""
    for size in sizes:
        text = f"{size:,}"
        ruler = ruler.ljust(_column(size, sizes) - len(text) // 2) + text
    return ruler


def _key(letters: Mapping[str, str]) -> Iterator[str]:
    names = [f"{letter} {name}" for name, letter in letters.items()]
    if len(names) <= 4:
        yield f"{'':>12}  {'   '.join(names)}"
    else:
        yield from (f"{'':>12}  {name}" for name in names)
