"""Says in one line how far something is: what is done, how fast, and what is left."""

from __future__ import annotations

import unicodedata

from actorlib._core.value import dataclass

_MINUTE = 60
_HOUR = 60 * _MINUTE


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressState:
    """How far something is.

    Attributes:
        label: What it is called; may be empty.
        done: How many results there are.
        total: How many there will be, or None if that is unknown.
        elapsed: Seconds since it began.
    """

    label: str
    done: int
    total: int | None
    elapsed: float

    @property
    def left(self) -> float | None:
        """Seconds that are left at the rate so far; None if nobody can say."""
        if self.total is None or not self.done:
            return None
        return max(0.0, self.elapsed * (self.total - self.done) / self.done)


def progress_text(state: ProgressState) -> str:
    """Says how far something is: ``trials 12/40, 3.1/s, 9 s left``."""
    if state.total is not None:
        count = f"{state.done}/{state.total}"
    else:
        count = str(state.done) if state.done else ""
    label = " ".join(state.label.split())  # it is one line, whatever was given
    parts = [f"{label} {count}".strip()]
    if not state.done:
        parts.append(span(state.elapsed))
    elif state.elapsed > 0:
        parts.append(rate(state.done / state.elapsed))
        if state.left:
            parts.append(f"{span(state.left)} left")
    return ", ".join(part for part in parts if part)


def rate(per_second: float) -> str:
    """Says how fast, as ``3.1/s``, or for what is slow, ``20 s each``."""
    if per_second >= 100:
        return f"{per_second:.0f}/s"
    if per_second >= 1:
        return f"{per_second:.1f}/s"
    return f"{span(1 / per_second)} each"


def span(seconds: float) -> str:
    """Says how long, as ``9 s``, ``2 min 5 s`` or ``3 h 20 min``."""
    whole = round(seconds)
    if whole < _MINUTE:
        return f"{seconds:.1f} s" if 0.05 < seconds < 9.95 else f"{whole} s"
    if whole < _HOUR:
        return f"{whole // _MINUTE} min {whole % _MINUTE} s"
    return f"{whole // _HOUR} h {whole % _HOUR // _MINUTE} min"


def fitted(text: str, columns: int) -> tuple[str, int]:
    """Cuts a text to what fits into one row of a terminal.

    Args:
        text: The text.
        columns: How many columns there are.

    Returns:
        What fits, and how many columns it takes: some characters take two.
    """
    used = 0
    for place, character in enumerate(text):
        width = columns_of(character)
        if used + width > columns:
            return text[:place], used
        used += width
    return text, used


def columns_of(character: str) -> int:
    """How many columns a terminal gives a character: none, one or two."""
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
