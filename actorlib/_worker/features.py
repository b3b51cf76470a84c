"""The features of a worker: the one list of what may be done there, by its key.

A feature is imported only if the START frame has an entry for it.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from importlib import import_module
from traceback import format_exception
from typing import TYPE_CHECKING, Any

from actorlib._wire.messages import FAILURE, RAISED
from actorlib._wire.serialization import encode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from actorlib._wire.messages import Frame
    from actorlib.exceptions import EnforcementRefused

FEATURES = {
    "frameworks": "actorlib._features.frameworks.worker",
    "mps": "actorlib._features.mps.worker",
    "cgroup": "actorlib._features.cgroups.worker",
}
"""The module of each. Its function ``prepare`` gets the entry, before any of the user's
code is imported, and raises EnforcementRefused if the actor must not begin."""

LEFTOVERS = ("actorlib._features.cgroups.leftovers",)
"""What removes what an owner leaves that was killed. Each has a function
``remove_leftovers``, which gets the owner's process id; the template calls it."""


def load_features(entries: Mapping[str, Any]) -> list[Callable[[], None]]:
    """Imports features, and returns what each does, in order.

    Args:
        entries: What each of them gets, by its key.
    """
    return [
        partial(import_module(FEATURES[key]).prepare, entry)
        for key, entry in entries.items()
    ]


def refusal(error: EnforcementRefused, where: str) -> Frame:
    """Makes the frame that tells why an actor must not begin.

    Args:
        error: What a feature has raised.
        where: What is being made.
    """
    text = "".join(format_exception(error))
    summary = f"EnforcementRefused: {error}"
    return (FAILURE, 0, RAISED, summary, text, where, None, encode(error))


def remove_leftovers(owner: int) -> None:
    """Removes what features have left of an owner that was killed.

    Args:
        owner: Its process id.
    """
    for name in LEFTOVERS:
        with suppress(ModuleNotFoundError):  # what is not installed has left nothing
            import_module(name).remove_leftovers(owner)
