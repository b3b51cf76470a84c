"""How long functions take, told to whoever decides how many calls are sent ahead."""

from __future__ import annotations

_FORGIVEN_A_FUNCTION = 0.8
_CHANGE = 2.0


class Tempo:
    """How long each function has taken of late, in seconds.

    A function is as slow as its slowest run, but that is forgiven bit by bit, as what
    is sent ahead in vain can be taken back.
    """

    def __init__(self) -> None:
        self._longest: dict[str, float] = {}
        self._told: dict[str, float] = {}

    def ran(self, function: str, took: float) -> float | None:
        """Takes note of a run.

        Returns:
            How long the function takes, if that is news; else None.
        """
        longest = max(took, self._longest.get(function, 0.0) * _FORGIVEN_A_FUNCTION)
        self._longest[function] = longest
        told = self._told.get(function)
        if told is not None and told / _CHANGE < longest < told * _CHANGE:
            return None
        self._told[function] = longest
        return longest
