"""Decides how many replicas there are, from their calls, the waits and the time.

Nothing is measured in a call. Each look at a replica tells the number of its oldest
call that has not begun, and the number of its last call. Numbers increase, so a call
that is not after the last one of an earlier look was made by then.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from actorlib._base.validation import check_count, checked_duration
from actorlib._base.value import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

TARGET_WAIT = 0.1
IDLE = 30.0
_MOST_MARKS = 64
_SHORTEST_LOOK, _LONGEST_LOOK = 0.02, 1.0
_SHORTEST_PAUSE = 0.1
_LONGEST_PAUSE = 30.0


def pause_before(failures: int) -> float:
    """Returns the seconds before the next try, after a number of failed starts."""
    if not failures:
        return 0.0
    return min(_SHORTEST_PAUSE * 2.0 ** min(failures - 1, 20), _LONGEST_PAUSE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingLimits:
    """The limits within which the number of replicas changes.

    Attributes:
        least: The smallest number.
        most: The largest number.
        target_wait: Seconds that a call may wait before it begins.
        idle: Seconds after which replicas end that were not needed.
    """

    least: int
    most: int
    target_wait: float
    idle: float

    @property
    def interval(self) -> float:
        """The seconds between two looks at the replicas."""
        return min(max(self.target_wait / 2, _SHORTEST_LOOK), _LONGEST_LOOK)


def scaling_limits(
    n: int | None,
    least: int | None,
    most: int | None,
    target_wait: float | None,
    idle: float | None,
) -> ScalingLimits | None:
    """Checks the options about the number of replicas; None for a fixed number.

    Raises:
        TypeError: A value has the wrong type, or options do not fit together.
        ValueError: A value is out of range.
    """
    bounds = {"min": least, "max": most, "target_wait": target_wait, "idle": idle}
    present = [f"{name}={v!r}" for name, v in bounds.items() if v is not None]
    if n is not None:
        check_count("n", n, 0)
        if present:
            raise TypeError(
                f"n={n} is a fixed number of replicas, and {', '.join(present)} is for "
                "a changing one: give either n, or max= (and min=)"
            )
        return None
    if most is None:
        raise TypeError(
            "Replicas needs a number of replicas: n, or max= for a number that follows "
            f"the load{'; max= is missing' if present else ''}"
        )
    least = 1 if least is None else least
    if least == 0:
        raise ValueError(
            "min takes a whole number >= 1, not 0: a call is sent to a replica that "
            "exists. scale() of a fixed number may be 0"
        )
    check_count("min", least, 1)
    check_count("max", most, 1)
    if most < least:
        raise ValueError(f"max takes a whole number >= min={least}, not {most}")
    target_wait = TARGET_WAIT if target_wait is None else target_wait
    return ScalingLimits(
        least=least,
        most=most,
        target_wait=checked_duration("target_wait", target_wait),
        idle=checked_duration("idle", IDLE if idle is None else idle),
    )


class WaitMeter:
    """Measures for how long the oldest call of a replica has waited.

    The result is never too large. It is too small by one interval between looks at
    most, or by more if a call has waited for very long.
    """

    def __init__(self) -> None:
        self._marks: deque[tuple[float, int]] = deque()
        self._forgotten = 0

    def forget(self) -> None:
        """Ignores the calls that were made until the last look.

        They wait where they are, even if there is another replica now.
        """
        self._forgotten = self._marks[-1][1] if self._marks else 0

    def measure(self, now: float, oldest: int, last: int) -> float:
        """Returns the seconds for which the oldest call has waited at least.

        Args:
            now: The time, in seconds.
            oldest: The number of the oldest call that has not begun; 0 for none.
            last: The number of the last call that was made.
        """
        marks = self._marks
        if oldest:  # calls begin in the order of their numbers
            oldest = max(oldest, self._forgotten + 1)
            oldest = oldest if oldest <= last else 0
        if not marks or marks[-1][1] != last:
            marks.append((now, last))
        while len(marks) > 1 and marks[0][1] < oldest:
            marks.popleft()
        if not oldest:
            marks.clear()
            marks.append((now, last))
        if len(marks) > _MOST_MARKS:
            self._marks = deque([*marks][::2])
        return now - marks[0][0] if oldest else 0.0


class ReplicaLoad(NamedTuple):
    """The calls of one replica.

    Attributes:
        pending: The number of its calls without an answer.
        wait: Seconds for which its oldest call has waited that has not begun.
        accepts: Whether it accepts calls now.
        starts: Whether it has not been ready yet.
    """

    pending: int
    wait: float
    accepts: bool
    starts: bool


class Decision(NamedTuple):
    """A decision about the number of replicas.

    Attributes:
        size: The number that there should be from now on.
        after: Seconds until the next look; None if no look is needed before the next
            call.
    """

    size: int
    after: float | None


class Scaler:
    """Decides the number of replicas within its limits.

    The number grows when a call has waited too long and each replica runs as many calls
    as it can. It grows by as many as the waiting calls need, and at most doubles. It
    does not grow while a new replica starts. It shrinks to what was needed at most in
    the last ``idle`` seconds.

    Args:
        limits: The limits.
    """

    def __init__(self, limits: ScalingLimits) -> None:
        self._limits = limits
        self._count = 0
        self._grew_at = 0.0
        # The numbers that were needed, decreasing, each with its last time.
        self._peaks: deque[tuple[float, int]] = deque()

    def decide(
        self, now: float, loads: Sequence[ReplicaLoad], concurrency: int
    ) -> Decision:
        """Decides how many replicas there should be.

        Args:
            now: The time, in seconds.
            loads: The calls of each replica that is to stay.
            concurrency: How many calls a replica runs at once.
        """
        count, limits = len(loads), self._limits
        if count > self._count:
            self._grew_at = now
        self._count = count
        pending = sum(load.pending for load in loads)
        self._note(now, -(-pending // concurrency))
        if self._is_short(loads, concurrency):
            waiting = pending - count * concurrency
            step = min(max(1, -(-waiting // concurrency)), count)
            return Decision(min(count + step, limits.most), limits.interval)
        peak_at, peak = self._peaks[0]
        if max(peak, limits.least) < count and self._grew_at + limits.idle <= now:
            count = max(peak, limits.least)
        if pending or any(load.starts for load in loads):
            return Decision(count, limits.interval)
        if count <= limits.least:
            return Decision(count, None)
        since = self._grew_at if peak < count else max(self._grew_at, peak_at)
        return Decision(count, max(since + limits.idle - now, limits.interval))

    def _is_short(self, loads: Sequence[ReplicaLoad], concurrency: int) -> bool:
        """Whether a further replica would begin calls that wait too long."""
        accepting = [load for load in loads if load.accepts]
        return (
            len(loads) < self._limits.most
            and bool(accepting)
            and not any(load.starts for load in loads)
            and all(load.pending >= concurrency for load in accepting)
            and max(load.wait for load in accepting) > self._limits.target_wait
        )

    def _note(self, now: float, needed: int) -> None:
        peaks = self._peaks
        while peaks and peaks[-1][1] <= needed:
            peaks.pop()
        peaks.append((now, needed))
        while len(peaks) > 1 and peaks[0][0] + self._limits.idle <= now:
            peaks.popleft()
