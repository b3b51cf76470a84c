"""Restarts of actors: whether, how often, and when.

The first restart is at once. An actor that dies again soon waits, twice as long each
time, up to a limit, so that a crash loop costs little; one that lived for a while
begins afresh.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from actorlib._options.actor_options import ActorOptions
    from actorlib.exceptions import Exit


LONGEST = 30.0
"""Seconds beyond which a wait is not doubled any more."""

QUIET = 60.0
"""Seconds of life after which the next death counts as the first in a row."""


LATEST = 10
"""How many ends are told of an actor that was restarted, each in a line."""

TRIES = 10
"""How often in a row an actor is tried to be made that is lost before it is ready."""

_PAUSE, _LONGEST_PAUSE = 0.1, 2.0
"""Seconds before the second of those tries, and at the most."""


class Fault(Enum):
    """Says whose fault the end of a process was, as far as restarts ask."""

    OWN = "own"
    """The actor's, or whoever killed it."""
    LOST = "lost"
    """It was lost with what it shares with others, and that comes back: the process
    that watches over all, or a GPU on which a fault of one of them reaches all."""
    UNLAUNCHED = "unlaunched"
    """There could be no process."""


class RestartHistory(NamedTuple):
    """Counts the restarts that there were.

    Attributes:
        total: How many, of those that count.
        streak: How many of all in a row, without a quiet while between.
        last: When the last one began.
        recent: When each of those within the actor's ``restart_window`` was decided.
        has_lived: Whether the actor has been ready for calls.
        tries: How often in a row it was lost before it was ready.
        is_free: Whether the last one does not count.
    """

    total: int = 0
    streak: int = 0
    last: float = 0.0
    recent: tuple[float, ...] = ()
    has_lived: bool = False
    tries: int = 0
    is_free: bool = False


class Restart(NamedTuple):
    """Decides that the actor is started anew.

    Attributes:
        after: In how many seconds.
        history: The restarts, this one included.
    """

    after: float
    history: RestartHistory


class GiveUp(NamedTuple):
    """Decides that the actor stays dead.

    Attributes:
        reason: Why it is not restarted, to be said after "is dead"; may be empty.
    """

    reason: str


def decide(  # noqa: PLR0911  # one per rule
    options: ActorOptions,
    history: RestartHistory,
    how: Exit,
    now: float,
    fault: Fault = Fault.OWN,
) -> Restart | GiveUp:
    """Decides what follows the end of an actor's process.

    What is not its own fault counts against nothing: an actor that was not ready yet
    is made anew whatever its options, and one that may still be restarted is.

    Args:
        options: Those of the actor: how often it may be restarted, and how soon.
        history: The restarts that there were.
        how: How it ended.
        now: The time, in seconds of the clock of the history.
        fault: Whose fault it was.
    """
    if how.cause == "asked":
        return GiveUp("")
    if fault is Fault.LOST and how.cause == "failed to start":
        return _try_again(history, now)
    if how.cause == "failed to start" and not (history.total or history.has_lived):
        return GiveUp("")  # what never came to life would hardly do so the next time
    if fault is Fault.UNLAUNCHED:
        return _spared(options, history, now)  # in the middle of a restart that counted
    recent, window = history.recent, options.restart_window
    if window is not None:
        recent = tuple(when for when in recent if now - when < window)
    used = history.total if window is None else len(recent)
    if used >= options.max_restarts >= 0:
        return GiveUp(_used_up(options, history))
    if fault is Fault.LOST:
        return _spared(options, history, now)
    streak = _streak(history, now)
    after = _wait(options.restart_backoff, streak)
    counted = (*recent, now) if _counts_recent(options) else ()
    made = history._replace(
        total=history.total + 1,
        streak=streak + 1,
        last=now + after,
        recent=counted,
        is_free=False,
    )
    return Restart(after, made)


def _try_again(history: RestartHistory, now: float) -> Restart | GiveUp:
    if history.tries >= TRIES:
        return GiveUp(f" after {TRIES} tries")
    after = min(_wait(_PAUSE, history.tries), _LONGEST_PAUSE)
    tries = history.tries + 1
    return Restart(after, history._replace(tries=tries, last=now + after, is_free=True))


def _spared(
    options: ActorOptions, history: RestartHistory, now: float
) -> Restart | GiveUp:
    streak = _streak(history, now)
    after = _wait(options.restart_backoff, streak)
    made = history._replace(streak=streak + 1, last=now + after, is_free=True)
    return Restart(after, made)


def _streak(history: RestartHistory, now: float) -> int:
    return 0 if now - history.last >= QUIET else history.streak


class Restarts:
    """Decides the restarts of one actor, until none follows any more.

    Args:
        options: Those of the actor: how often it may be restarted, and how soon.

    Attributes:
        last_exit: How the process ended that was restarted last.
        earlier_deaths: How each of the latest ended, in a line without its output.
        given_up: Why it will not be restarted, to be said after "is dead".
    """

    def __init__(self, options: ActorOptions) -> None:
        self.last_exit: Exit | None = None
        self.earlier_deaths: tuple[str, ...] = ()
        self.given_up = ""
        self._options = options
        self._history = RestartHistory()

    def __repr__(self) -> str:
        return f"<Restarts {self._history.total} of {self._options.max_restarts}>"

    @property
    def count(self) -> int:
        """Counts those that there were."""
        return self._history.total

    @property
    def has_lived(self) -> bool:
        """Whether the actor has been ready for calls."""
        return self._history.has_lived

    def is_ready(self) -> None:
        """Takes note that the actor is ready: what lost it before is past."""
        self._history = self._history._replace(has_lived=True, tries=0)

    @property
    def are_over(self) -> bool:
        """Whether the actor, once ready, will never be restarted again."""
        options = self._options
        if options.restart_window is not None and options.max_restarts:
            return False
        return self.count >= options.max_restarts >= 0

    def would_follow(self, how: Exit, now: float) -> bool:
        """Whether the actor would be restarted after such an end."""
        return isinstance(decide(self._options, self._history, how, now), Restart)

    def follows(
        self, how: Exit, now: float, fault: Fault = Fault.OWN
    ) -> Restart | GiveUp:
        """Decides what follows an end, and remembers it."""
        verdict = decide(self._options, self._history, how, now, fault)
        if isinstance(verdict, GiveUp):
            self.given_up = verdict.reason
        else:
            self._history = verdict.history
            self.last_exit = how
            self.earlier_deaths = (*self.earlier_deaths, _line(how))[-LATEST:]
        return verdict

    def in_words(self, now: float) -> str:
        """Says which restart this is and when, ``attempt 2 of 3, in 0.4 s``."""
        options, history = self._options, self._history
        text = f"attempt {history.total}"
        if options.max_restarts >= 0 and options.restart_window is None:
            text = f"{text} of {options.max_restarts}"
        elif options.max_restarts >= 0:
            text = (
                f"attempt {len(history.recent)} of {options.max_restarts} within "
                f"{options.restart_window:g} s"
            )
        if history.is_free:
            text = "which does not count"
        wait = history.last - now
        shown = f"{wait:.2g}" if wait < 10 else f"{wait:.0f}"
        return f"{text}, in {shown} s" if wait > 0 else text


def _line(how: Exit) -> str:
    # Without what it printed: that adds up, as a thousand of the dead are kept.
    reason = how.reason.partition("\n")[0]
    return str(replace(how, reason=reason, log_tail="", constructor=""))


def _wait(backoff: float, streak: int) -> float:
    if not streak:
        return 0.0
    # Beyond 64 doublings nothing is below the limit, and floats have an end.
    return min(backoff * 2.0 ** min(streak - 1, 64), max(LONGEST, backoff))


def _counts_recent(options: ActorOptions) -> bool:
    return options.restart_window is not None and options.max_restarts > 0


def _used_up(options: ActorOptions, history: RestartHistory) -> str:
    if not history.total:
        return ""
    restarts = f"{history.total} restart{'s' if history.total > 1 else ''}"
    window = options.restart_window
    within = f" within {window:g} s" if window is not None else ""
    return f" after {restarts} (max_restarts={options.max_restarts}{within})"
