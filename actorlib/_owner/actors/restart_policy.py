"""Restarts of actors: whether, how often, and when.

The first restart is immediate. An actor that dies again soon waits, twice as long each
time, up to a limit, so that a crash loop costs little. After a minute of life the
delays begin again.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from actorlib._options.actor_options import ActorOptions
    from actorlib.exceptions import Exit


LONGEST = 30.0
"""Seconds beyond which a delay is no longer doubled."""

QUIET = 60.0
"""Seconds of life after which the next death counts as the first in a row."""

LATEST = 10
"""How many ends of an actor that was restarted are listed, each in a line."""

TRIES = 10
"""How often in a row an actor is started that is lost before it is ready."""

_PAUSE, _LONGEST_PAUSE = 0.1, 2.0
"""Seconds before the second of those tries, and the limit."""


class Fault(Enum):
    """The responsibility for the end of a process, as far as restarts depend on it."""

    OWN = "own"
    """The actor itself, or the program that killed it."""
    LOST = "lost"
    """The template, or a GPU on which the fault of one process ends all: both are
    shared, and come back."""
    UNLAUNCHED = "unlaunched"
    """No process could be started."""


class RestartHistory(NamedTuple):
    """The restarts of an actor so far.

    Attributes:
        total: The number of restarts that count.
        streak: The number of all restarts in a row, without a quiet minute between.
        last: When the last one began.
        recent: The times of those decided within the actor's ``restart_window``.
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
    """The decision to restart the actor.

    Attributes:
        after: The delay in seconds.
        history: The restarts, including this one.
    """

    after: float
    history: RestartHistory


class GiveUp(NamedTuple):
    """The decision that the actor stays dead.

    Attributes:
        reason: Why it is not restarted, to follow "is dead"; may be empty.
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

    An end that is not the actor's fault does not count: an actor that was not ready yet
    is started again whatever its options, and one that may be restarted is restarted.

    Args:
        options: The options of the actor: how often it may be restarted, and how soon.
        history: The restarts so far.
        how: How it ended.
        now: The time, in seconds of the clock of the history.
        fault: Who is responsible.
    """
    if how.cause == "asked":
        return GiveUp("")
    if fault is Fault.LOST and how.cause == "failed to start":
        return _start_again(history, now)
    if how.cause == "failed to start" and not (history.total or history.has_lived):
        return GiveUp("")  # it never was ready, and would probably fail again
    if fault is Fault.UNLAUNCHED:
        # In the middle of a restart that counted.
        return _restart(options, history._replace(is_free=True), now)
    recent, window = history.recent, options.restart_window
    if window is not None:
        recent = tuple(when for when in recent if now - when < window)
    used = history.total if window is None else len(recent)
    if used >= options.max_restarts >= 0:
        return GiveUp(_describe_limit(options, history))
    if fault is Fault.LOST:
        return _restart(options, history._replace(is_free=True), now)
    is_counted = window is not None and options.max_restarts > 0
    recent = (*recent, now) if is_counted else ()
    total = history.total + 1
    counted = history._replace(total=total, recent=recent, is_free=False)
    return _restart(options, counted, now)


def _start_again(history: RestartHistory, now: float) -> Restart | GiveUp:
    if history.tries >= TRIES:
        return GiveUp(f" after {TRIES} tries")
    after = min(_wait(_PAUSE, history.tries), _LONGEST_PAUSE)
    tries = history.tries + 1
    return Restart(after, history._replace(tries=tries, last=now + after, is_free=True))


def _restart(options: ActorOptions, history: RestartHistory, now: float) -> Restart:
    streak = 0 if now - history.last >= QUIET else history.streak
    after = _wait(options.restart_backoff, streak)
    return Restart(after, history._replace(streak=streak + 1, last=now + after))


class Restarts:
    """Decides the restarts of one actor.

    Attributes:
        last_exit: The end that caused the last restart.
        earlier_deaths: The latest ends, each in a line without its output.
        given_up: Why it will not be restarted, to follow "is dead".
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
        """The number of restarts that count."""
        return self._history.total

    @property
    def has_lived(self) -> bool:
        return self._history.has_lived

    def is_ready(self) -> None:
        """Notes that the actor is ready, which ends a row of lost starts."""
        self._history = self._history._replace(has_lived=True, tries=0)

    @property
    def are_over(self) -> bool:
        """Whether the actor, once ready, will never be restarted again."""
        options = self._options
        if options.restart_window is not None and options.max_restarts:
            return False
        return self.count >= options.max_restarts >= 0

    def would_restart(self, how: Exit, now: float) -> bool:
        """Whether the actor would be restarted after such an end."""
        return isinstance(decide(self._options, self._history, how, now), Restart)

    def decide(
        self, how: Exit, now: float, fault: Fault = Fault.OWN
    ) -> Restart | GiveUp:
        """Decides what follows an end, and records it."""
        verdict = decide(self._options, self._history, how, now, fault)
        if isinstance(verdict, GiveUp):
            self.given_up = verdict.reason
        else:
            self._history = verdict.history
            self.last_exit = how
            self.earlier_deaths = (*self.earlier_deaths, _line(how))[-LATEST:]
        return verdict

    def in_words(self, now: float) -> str:
        """Describes the restart: ``attempt 2 of 3, in 0.4 s``."""
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
        seconds = f"{wait:.2g}" if wait < 10 else f"{wait:.0f}"
        return f"{text}, in {seconds} s" if wait > 0 else text


def _line(how: Exit) -> str:
    # Without its output: a thousand dead actors are kept.
    reason = how.reason.partition("\n")[0]
    return str(replace(how, reason=reason, log_tail="", constructor=""))


def _wait(backoff: float, streak: int) -> float:
    if not streak:
        return 0.0
    # 64 doublings exceed any limit, and floats are finite.
    return min(backoff * 2.0 ** min(streak - 1, 64), max(LONGEST, backoff))


def _describe_limit(options: ActorOptions, history: RestartHistory) -> str:
    if not history.total:
        return ""
    restarts = f"{history.total} restart{'s' if history.total > 1 else ''}"
    window = options.restart_window
    within = f" within {window:g} s" if window is not None else ""
    return f" after {restarts} (max_restarts={options.max_restarts}{within})"
