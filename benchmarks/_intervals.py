"""The ratio of two medians and its interval, from paired rounds."""

import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_RESAMPLES: Final = 2_000
_OUTSIDE: Final = 0.025
"""The share of resamples beyond each end of the interval: it holds 95 %."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What one row costs in two versions.

    Attributes:
        old: The median of the old version.
        new: The median of the new version.
        ratio: New over old: below 1 the new version costs less.
        low: The lower end of the 95 % interval of the ratio.
        high: The upper end.
        rounds: How many rounds measured both.
    """

    old: float
    new: float
    ratio: float
    low: float
    high: float
    rounds: int


def compare(
    old: Sequence[float | None], new: Sequence[float | None]
) -> Comparison | None:
    """Compares costs that were measured in the same rounds.

    Both sequences have one cost for each round, or None where it was not measured. The
    interval comes from a bootstrap over rounds with a fixed seed, so equal input gives
    equal output. See Efron and Tibshirani, An Introduction to the Bootstrap, 1993.

    Returns:
        The comparison, or None if no round measured both, or the old cost is 0.
    """
    pairs = [
        (before, after)
        for before, after in zip(old, new, strict=False)
        if before is not None and after is not None
    ]
    if not pairs or not _median(pairs, 0):
        return None
    chance = random.Random(0)
    ratios = sorted(
        _ratio(chance.choices(pairs, k=len(pairs))) for _ in range(_RESAMPLES)
    )
    edge = int(_RESAMPLES * _OUTSIDE)
    return Comparison(
        old=_median(pairs, 0),
        new=_median(pairs, 1),
        ratio=_ratio(pairs),
        low=ratios[edge],
        high=ratios[-1 - edge],
        rounds=len(pairs),
    )


def _ratio(pairs: Sequence[tuple[float, float]]) -> float:
    before = _median(pairs, 0)
    # A resample of rounds with cost 0 says nothing against the new version.
    return _median(pairs, 1) / before if before else 1.0


def _median(pairs: Sequence[tuple[float, float]], side: int) -> float:
    return statistics.median(pair[side] for pair in pairs)
