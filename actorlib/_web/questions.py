"""Asks about one actor, or the program itself: stack, calls, reasons; or ends one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, final

from actorlib._base.labels import with_pid
from actorlib._base.value import dataclass
from actorlib._features.runtime import worker_stacks
from actorlib._queries.protocol import BLOCKED
from actorlib.exceptions import RuntimeNotFoundError, RuntimeUnreachableError

if TYPE_CHECKING:
    from actorlib._queries.rows import Calls, Logs, Stacks, Standstill, Status
    from actorlib._rows.snapshot import ActorInfo
    from actorlib._web.watch import Ask, Watch

OWNER: Final = "owner"
"""The word for the program itself, in place of an actor's id."""
MOST_CALLS: Final = 200
"""How many calls are shown."""
MOST_LINES: Final = 1000
"""How many lines are shown at once: as many as are kept of an actor."""
_PATIENCE = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why an actor waits, or where it is."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Killed:
    """Whether an actor is being ended."""

    killed: bool


@final
class Questions:
    """Asks a runtime about one of its actors. Each method blocks until it is answered.

    Each raises RuntimeNotFoundError if there is no such actor or no process of it,
    RuntimeUnreachableError if nobody answers, and ValueError if the question is
    refused.

    Args:
        ask: Asks the runtime.
        watch: Knows what was seen of its actors.
    """

    def __init__(self, ask: Ask, watch: Watch) -> None:
        self._ask = ask
        self._watch = watch

    def stack(self, actor: str) -> Stacks:
        """Where the threads and the tasks of an actor's process stand."""
        if actor == OWNER:
            return self._owners()
        info, own = self._found(actor)
        if not info.pid or info.state == "dead":
            raise RuntimeNotFoundError(info.death or "It has no process yet.")
        if info.pid == own:
            return self._inline(info.label)
        return worker_stacks(info.pid, with_pid(info.class_name, info.pid))

    def calls(self, actor: str) -> Calls:
        """The calls of an actor that have no answer; of all, for the owner."""
        about: dict[str, Any] = {} if actor == OWNER else {"actor": actor}
        found: Calls = self._loop("calls", **about)
        left_out = found.left_out + max(0, len(found.calls) - MOST_CALLS)
        return replace(found, calls=found.calls[:MOST_CALLS], left_out=left_out)

    def logs(self, actor: str, after: int) -> Logs:
        """What an actor has printed and logged; what all have, for the owner.

        Args:
            actor: Its id.
            after: The number of the page behind which it begins; 0 for the latest.
        """
        about: dict[str, Any] = {} if actor == OWNER else {"actor": actor}
        logs: Logs = self._loop(
            "logs", after=after, most=MOST_LINES, newest=after == 0, **about
        )
        return logs

    def explain(self, actor: str) -> Explanation:
        """Why an actor waits, or where it is."""
        return Explanation(text=self._loop("explain", actor=actor))

    def kill(self, actor: str, *, is_restarted: bool) -> Killed:
        """Ends an actor at once; does not wait for its end."""
        return Killed(killed=self._loop("kill", actor=actor, restart=is_restarted))

    def _owners(self) -> Stacks:
        stacks: Stacks = self._ask("stack", patience=_PATIENCE).value
        return stacks

    def _inline(self, label: str) -> Stacks:
        """The threads of an actor that has no process of its own: they bear its name.

        Where several actors have no name, those of one class look alike.
        """
        stacks = self._owners()
        own = [one for one in stacks.threads if one.name.startswith(f"{label} ")]
        return replace(stacks, threads=tuple(own) or stacks.threads, tasks=())

    def _found(self, actor: str) -> tuple[ActorInfo, int]:
        """Finds an actor as it is now, and the process of the program.

        What was seen is used only if the loop is blocked: while nobody watches, it is
        as old as the last look.
        """
        answer = self._ask("status", patience=_PATIENCE, dead=True)
        if answer.outcome == BLOCKED:
            seen, own = self._watch.actor(actor), self._watch.own_pid
            if seen is None:
                raise _blocked(answer.value)
            return seen, own
        status: Status = answer.value
        for info in status.snapshot.actors:
            if info.actor_id == actor:
                return info, status.pid
        raise RuntimeNotFoundError("There is no such actor any more.")

    def _loop(self, verb: str, **options: Any) -> Any:
        answer = self._ask(verb, patience=_PATIENCE, **options)
        if answer.outcome == BLOCKED:
            raise _blocked(answer.value)
        return answer.value


def _blocked(standstill: Standstill) -> RuntimeUnreachableError:
    return RuntimeUnreachableError(
        "the event loop of the program does not answer, for at least "
        f"{standstill.seconds:.1f} s by now"
    )
