"""Shows where the threads and tasks of an actor or of the owner stand.

It is ``actorlib stack``. ``Stacks`` is the document that ``--json`` prints: the names
of its fields are promises.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING

from actorlib._cli.choosing import find_actor, title_of
from actorlib._cli.documents import write_document
from actorlib._cli.pages import console, printable
from actorlib._features.runtime import worker_stacks
from actorlib._queries.client import ask, ask_loop, named_process, the_runtime
from actorlib._queries.protocol import BLOCKED
from actorlib._rows.rows import encode_row
from actorlib.exceptions import RuntimeNotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from actorlib._queries.addresses import Address
    from actorlib._queries.rows import Frame, Stacks, Status, Task

_PATIENCE = 2.0
_RUNS_CALLS = "Coroutines."
OWNER = "owner"
"""The word for the program itself, in place of an actor."""


def show(
    word: str, *, as_json: bool, has_all: bool = False, pid: int | None = None
) -> int:
    """Prints where a process stands.

    Args:
        word: Which actor: see ``find_actor``; ``"owner"`` for the program itself. The
            pid of an actor will do while the program does not answer, too.
        as_json: Whether to print one JSON document instead of text.
        has_all: Whether the frames of actorlib and of Python are shown, too.
        pid: The process of the runtime, if there are several.

    Returns:
        The exit code, 0.

    Raises:
        RuntimeNotFoundError: There is no such runtime, or no such actor.
        RuntimeUnreachableError: It does not answer.
    """
    address = the_runtime(pid)
    found = _owners(address) if word == OWNER else _workers(address, word)
    if as_json:
        write_document(encode_row(found))
    else:
        console().print(text_of(found, has_all=has_all), soft_wrap=True)
    return 0


def _owners(address: Address) -> Stacks:
    stacks: Stacks = ask(address, "stack").value
    return replace(stacks, title=named_process(address.pid))


def _workers(address: Address, word: str) -> Stacks:
    if word.isdecimal() and ask(address, "status").outcome == BLOCKED:
        return worker_stacks(int(word), f"pid {word}")
    status: Status = ask_loop(address, "status", patience=_PATIENCE, dead=True)
    actor = find_actor(status.snapshot.actors, word)
    title = title_of(actor)
    if actor.state == "dead":
        raise RuntimeNotFoundError(f"{title} is dead: {actor.death}")
    if not actor.pid:
        why = status.reasons.get(actor.actor_id, "")
        raise RuntimeNotFoundError(f"{title} has no process yet: {why}")
    return worker_stacks(actor.pid, title)


def text_of(found: Stacks, *, has_all: bool = False) -> str:
    """Makes a text of stacks for people.

    Args:
        found: The stacks.
        has_all: Whether the frames of actorlib and of Python are shown, too.
    """
    found = printable(found)
    lines = [found.title]
    for thread in found.threads:
        number = "" if thread.number is None else f" ({thread.number})"
        lines.append(f"\nthread {thread.name}{number}")
        lines += _frames(thread.frames, has_all=has_all)
    for task in found.tasks:
        state = ", which runs now" if task.is_running else ""
        lines.append(f"\ntask {task.name}: {_work_of(task)}{state}")
        lines += _frames(task.frames, has_all=has_all)
    if found.tasks_missing:
        lines.append(f"\ntasks are missing: {found.tasks_missing}")
    return "\n".join(lines)


def _work_of(task: Task) -> str:
    if not task.method:
        return task.coroutine
    call = f"call {task.call} of {task.method}"
    # What runs the calls is ours; what they have started has a name of the user's.
    is_call = task.coroutine.startswith(_RUNS_CALLS)
    return call if is_call else f"{task.coroutine} in {call}"


def _frames(frames: Sequence[Frame], *, has_all: bool) -> Iterator[str]:
    for shown, part in groupby(frames, key=lambda f: has_all or f.is_users):
        some = list(part)
        if shown or some[-1] is frames[-1]:
            # What is called last is always shown: it says what is waited for.
            hidden, some = ([], some) if shown else (some[:-1], some[-1:])
        else:
            hidden, some = some, []
        if hidden:
            yield f"  ... {len(hidden)} frames of actorlib and Python"
        for frame in some:
            yield f"  {frame.file}:{frame.line} in {frame.function}"
            if frame.code:
                yield f"    {frame.code}"
