"""Limits how many calls of a group run at once; the others wait in order.

A call below the limit costs one comparison. A call above it has no task and no thread
until its turn.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actorlib._wire.messages import Frame


class Gate:
    """Limits the calls that run at once; a call that waits runs when another has left.

    Attributes:
        waiting: The frames of the calls that wait, by number.
    """

    __slots__ = ("limit", "running", "waiting")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.running = 0
        self.waiting: OrderedDict[int, Frame] = OrderedDict()

    def __repr__(self) -> str:
        waiting = len(self.waiting)
        return f"<Gate {self.running} of {self.limit} running, {waiting} waiting>"

    def enter(self, frame: Frame) -> bool:
        """Admits a call; True if it runs now, False if it waits."""
        if self.running < self.limit:
            self.running += 1
            return True
        self.waiting[frame[1]] = frame
        return False

    def take(self) -> bool:
        """Occupies a place without a frame; only if no call waits for it."""
        if self.running < self.limit and not self.waiting:
            self.running += 1
            return True
        return False

    def add(self) -> None:
        """Counts a call that runs regardless of the limit."""
        self.running += 1

    def leave(self) -> Frame | None:
        """Frees the place of a call; returns the call that takes it, if one waits."""
        if self.waiting:
            return self.waiting.popitem(last=False)[1]
        self.running -= 1
        return None

    def drop(self, call: int) -> Frame | None:
        """Forgets a call that waits; returns its frame, or None if it does not wait."""
        return self.waiting.pop(call, None)


class Gates:
    """The gates of one actor: one for each group, and one for other methods.

    Args:
        limits: How many calls run at once, by group. ``""`` is the group of methods
            without a group.
        groups: The groups of methods, by the names of the methods.

    Attributes:
        by_group: The gates, by their groups.
        default: The gate of methods without a group, if it has one.
    """

    def __init__(
        self,
        limits: Mapping[str, int],
        groups: Mapping[str, str],
        *,
        kind: type[Gate] = Gate,
    ) -> None:
        self.by_group = {group: kind(limit) for group, limit in limits.items()}
        self._groups = groups
        self.default = self.by_group.get("")

    def of(self, method: str, group: str | None = None) -> Gate:
        """Returns the gate of a call, whose caller may have named a group.

        Names of groups are checked before a call is made. A frame of a broken worker
        may have another one, which is ignored.
        """
        own = self._groups.get(method, "")
        return self.by_group.get(group or own) or self.by_group[own]

    def name_of(self, gate: Gate) -> str:
        return next(group for group, other in self.by_group.items() if other is gate)

    def drop(self, call: int) -> Frame | None:
        for gate in self.by_group.values():
            frame = gate.drop(call)
            if frame is not None:
                return frame
        return None

    @property
    def are_empty(self) -> bool:
        return not any(gate.waiting for gate in self.by_group.values())

    def clear(self) -> list[Frame]:
        """Forgets all calls that wait; returns their frames."""
        waiting = [f for gate in self.by_group.values() for f in gate.waiting.values()]
        for gate in self.by_group.values():
            gate.waiting.clear()
        return waiting
