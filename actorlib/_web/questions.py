"""Asks about one actor, or the program itself: stack, calls, reasons; or ends one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, final

from actorlib._door.protocol import BLOCKED
from actorlib._door.worker_stacks import worker_tasks, worker_threads
from actorlib._web.looks import label_of
from actorlib.exceptions import RuntimeNotFoundError, RuntimeUnreachableError

if TYPE_CHECKING:
    from actorlib._web.watch import Ask, Watch

Row = dict[str, Any]

OWNER: Final = "owner"
"""The word for the program itself, in place of an actor's id."""
MOST_CALLS: Final = 200
"""How many calls are shown."""
MOST_LINES: Final = 1000
"""How many lines are shown at once: as many as are kept of an actor."""
_PATIENCE = 2.0


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

    def stack(self, actor: str) -> Row:
        """Where the threads and the tasks of an actor's process stand."""
        if actor == OWNER:
            return self._owners()
        row, own = self._found(actor)
        if not row["pid"] or row["state"] == "dead":
            raise RuntimeNotFoundError(row["death"] or "It has no process yet.")
        if row["pid"] == own:
            return self._inline(label_of(row))
        title = f"{row['kind']} (pid {row['pid']})"
        threads = worker_threads(row["pid"], title)
        tasks, missing = worker_tasks(row["pid"], title, threads)
        return {"threads": threads, "tasks": tasks, "missing": missing}

    def calls(self, actor: str) -> Row:
        """The calls of an actor that have no answer; of all, for the owner."""
        about: dict[str, Any] = {} if actor == OWNER else {"actor": actor}
        told = self._loop("calls", **about)
        found = told["calls"]
        left_out = told["left_out"] + max(0, len(found) - MOST_CALLS)
        return {"calls": found[:MOST_CALLS], "left_out": left_out}

    def logs(self, actor: str, after: int) -> Row:
        """What an actor has printed and logged; what all have, for the owner.

        Args:
            actor: Its id.
            after: The number of the page behind which it begins; 0 for the latest.
        """
        about: dict[str, Any] = {} if actor == OWNER else {"actor": actor}
        told = self._loop(
            "logs", after=after, most=MOST_LINES, newest=after == 0, **about
        )
        return {name: told[name] for name in ("lines", "lost", "number")}

    def explain(self, actor: str) -> Row:
        """Why an actor waits, or where it is."""
        return {"text": self._loop("explain", actor=actor)}

    def kill(self, actor: str, *, is_restarted: bool) -> Row:
        """Ends an actor at once; does not wait for its end."""
        return {"killed": self._loop("kill", actor=actor, restart=is_restarted)}

    def _owners(self) -> Row:
        told = self._ask("stack", patience=_PATIENCE).value
        return {"threads": told["threads"], "tasks": told["tasks"], "missing": ""}

    def _inline(self, label: str) -> Row:
        """The threads of an actor that has no process of its own: they bear its name.

        Where several actors have no name, those of one class look alike.
        """
        told = self._owners()
        own = [one for one in told["threads"] if one["name"].startswith(f"{label} ")]
        return {"threads": own or told["threads"], "tasks": [], "missing": ""}

    def _found(self, actor: str) -> tuple[Row, int]:
        """Finds an actor as it is now, and the process of the program.

        What was seen is used only if the loop is blocked: while nobody watches, it is
        as old as the last look.
        """
        answer = self._ask("status", patience=_PATIENCE, dead=True)
        if answer.outcome == BLOCKED:
            row, own = self._watch.actor(actor), self._watch.own_pid
            if row is None:
                raise _blocked(answer.value)
            return row, own
        rows: list[Row] = answer.value["actors"]
        for row in rows:
            if row["actor_id"] == actor:
                named = {"kind": row["class_name"], "said": row["repr_name"]}
                return {**row, **named}, answer.value["pid"]
        raise RuntimeNotFoundError("There is no such actor any more.")

    def _loop(self, verb: str, **options: Any) -> Any:
        answer = self._ask(verb, patience=_PATIENCE, **options)
        if answer.outcome == BLOCKED:
            raise _blocked(answer.value)
        return answer.value


def _blocked(where: Row) -> RuntimeUnreachableError:
    return RuntimeUnreachableError(
        "the event loop of the program does not answer, for at least "
        f"{where['seconds']:.1f} s by now"
    )
