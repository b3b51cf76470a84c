"""Queries about one actor or the program: stack, calls, logs, placement; kills it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, final

from actorlib._base.labels import with_pid
from actorlib._features.runtime import worker_stacks
from actorlib._queries.protocol import BLOCKED
from actorlib.exceptions import RuntimeNotFoundError, RuntimeUnreachableError

if TYPE_CHECKING:
    from actorlib._queries.rows import Calls, Logs, Stacks, Standstill, Status
    from actorlib._rows.snapshot import ActorInfo
    from actorlib._web.watch import Ask, Watch

OWNER: Final = "owner"
"""The word for the program itself instead of the id of an actor."""
MOST_CALLS: Final = 200
"""The most calls that are shown."""
MOST_LINES: Final = 1000
"""The most lines that are shown at once: as many as are kept of an actor."""
_PATIENCE = 2.0


@final
class Questions:
    """Sends queries about one actor; each method blocks until the answer.

    Each raises RuntimeNotFoundError if there is no such actor or process,
    RuntimeUnreachableError if the runtime does not answer, and ValueError if it refuses
    the query.
    """

    def __init__(self, ask: Ask, watch: Watch) -> None:
        self._ask = ask
        self._watch = watch

    def stack(self, actor: str) -> Stacks:
        """Returns the stacks of the threads and tasks of an actor's process."""
        if actor == OWNER:
            return self._owners()
        info, own = self._find(actor)
        if not info.pid or info.state == "dead":
            raise RuntimeNotFoundError(info.death or "It has no process yet.")
        if info.pid == own:
            return self._inline(info.label)
        return worker_stacks(info.pid, with_pid(info.class_name, info.pid))

    def calls(self, actor: str) -> Calls:
        """Returns the unanswered calls of an actor; of all actors, for the owner."""
        calls: Calls = self._loop("calls", **_of(actor))
        left_out = calls.left_out + max(0, len(calls.calls) - MOST_CALLS)
        return replace(calls, calls=calls.calls[:MOST_CALLS], left_out=left_out)

    def logs(self, actor: str, after: int) -> Logs:
        """Returns lines of an actor, or of all for the owner, after those of a page.

        After 0 come the latest lines.
        """
        logs: Logs = self._loop(
            "logs", after=after, most=MOST_LINES, newest=after == 0, **_of(actor)
        )
        return logs

    def explain(self, actor: str) -> dict[str, object]:
        """Explains why an actor waits, or its placement."""
        return {"text": self._loop("explain", actor=actor)}

    def kill(self, actor: str, *, is_restarted: bool) -> dict[str, object]:
        """Kills an actor; does not wait for its end."""
        return {"killed": self._loop("kill", actor=actor, restart=is_restarted)}

    def _owners(self) -> Stacks:
        stacks: Stacks = self._ask("stack", patience=_PATIENCE).value
        return stacks

    def _inline(self, label: str) -> Stacks:
        """Returns the threads of an inline actor, by their names.

        Unnamed actors of one class cannot be distinguished.
        """
        stacks = self._owners()
        own = [one for one in stacks.threads if one.name.startswith(f"{label} ")]
        return replace(stacks, threads=tuple(own) or stacks.threads, tasks=())

    def _find(self, actor: str) -> tuple[ActorInfo, int]:
        """Returns the current state of an actor, and the process of the program.

        The latest sample is used only if the loop is blocked: it may be old, as no
        samples are taken without an open page.
        """
        answer = self._ask("status", patience=_PATIENCE, dead=True)
        if answer.outcome == BLOCKED:
            row, own = self._watch.actor(actor), self._watch.own_pid
            if row is None:
                raise _blocked_error(answer.value)
            return row, own
        status: Status = answer.value
        for info in status.snapshot.actors:
            if info.actor_id == actor:
                return info, status.pid
        raise RuntimeNotFoundError("There is no longer such an actor.")

    def _loop(self, verb: str, **options: Any) -> Any:
        answer = self._ask(verb, patience=_PATIENCE, **options)
        if answer.outcome == BLOCKED:
            raise _blocked_error(answer.value)
        return answer.value


def _of(actor: str) -> dict[str, str]:
    """Returns the parameter of a query about an actor, or about all of them."""
    return {} if actor == OWNER else {"actor": actor}


def _blocked_error(standstill: Standstill) -> RuntimeUnreachableError:
    return RuntimeUnreachableError(
        "the event loop of the program does not answer, for at least "
        f"{standstill.seconds:.1f} s by now"
    )
