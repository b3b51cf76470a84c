"""Shows the stacks of the threads and tasks of an actor or of the owner.

It is ``actorlib stack``. ``--json`` prints a ``Stacks``, whose field names are stable.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING

from actorlib._cli.choosing import ask_actor, title_of
from actorlib._cli.pages import console, printable, write_document
from actorlib._features.runtime import worker_stacks
from actorlib._queries.client import ask, named_process, the_runtime
from actorlib._queries.protocol import BLOCKED
from actorlib._rows.rows import encode_row
from actorlib.exceptions import RuntimeNotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from actorlib._queries.addresses import Address
    from actorlib._queries.rows import Frame, Stacks, Task

_PATIENCE = 2.0
_RUNS_CALLS = "Coroutines."
OWNER = "owner"
"""The word for the program itself instead of an actor."""


def show(word: str, *, as_json: bool, has_all: bool, pid: int | None) -> None:
    """Prints the stacks of an actor, or of the program for the word ``"owner"``.

    The pid of an actor works even while the program does not answer.
    """
    address = the_runtime(pid)
    stacks = _owners(address) if word == OWNER else _workers(address, word)
    if as_json:
        write_document(encode_row(stacks))
    else:
        console().print(text_of(stacks, has_all=has_all), soft_wrap=True)


def _owners(address: Address) -> Stacks:
    stacks: Stacks = ask(address, "stack").value
    return replace(stacks, title=named_process(address.pid))


def _workers(address: Address, word: str) -> Stacks:
    if word.isdecimal() and ask(address, "status").outcome == BLOCKED:
        return worker_stacks(int(word), f"pid {word}")
    status, actor = ask_actor(address, word, _PATIENCE)
    title = title_of(actor)
    if actor.state == "dead":
        raise RuntimeNotFoundError(f"{title} is dead: {actor.death}")
    if not actor.pid:
        why = status.reasons.get(actor.actor_id, "")
        raise RuntimeNotFoundError(f"{title} has no process yet: {why}")
    return worker_stacks(actor.pid, title)


def text_of(stacks: Stacks, *, has_all: bool = False) -> str:
    """Formats stacks; with ``has_all``, the frames of actorlib and Python, too."""
    stacks = printable(stacks)
    lines = [stacks.title]
    for thread in stacks.threads:
        number = "" if thread.number is None else f" ({thread.number})"
        lines.append(f"\nthread {thread.name}{number}")
        lines += _frames(thread.frames, has_all=has_all)
    for task in stacks.tasks:
        state = ", which runs now" if task.is_running else ""
        lines.append(f"\ntask {task.name}: {_work_of(task)}{state}")
        lines += _frames(task.frames, has_all=has_all)
    if stacks.tasks_missing:
        lines.append(f"\ntasks are missing: {stacks.tasks_missing}")
    return "\n".join(lines)


def _work_of(task: Task) -> str:
    if not task.method:
        return task.coroutine
    call = f"call {task.call} of {task.method}"
    # Coroutines that run calls are actorlib's; those that calls have started are not.
    is_call = task.coroutine.startswith(_RUNS_CALLS)
    return call if is_call else f"{task.coroutine} in {call}"


def _frames(frames: Sequence[Frame], *, has_all: bool) -> Iterator[str]:
    for is_shown, part in groupby(frames, key=lambda f: has_all or f.is_users):
        some = list(part)
        if is_shown or some[-1] is frames[-1]:
            # The last frame is always shown: it is where the code waits.
            hidden, some = ([], some) if is_shown else (some[:-1], some[-1:])
        else:
            hidden, some = some, []
        if hidden:
            yield f"  ... {len(hidden)} frames of actorlib and Python"
        for frame in some:
            yield from frame.lines()
