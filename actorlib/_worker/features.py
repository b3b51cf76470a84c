"""The features that a worker can have, each imported when the owner requests it.

The owner requests a feature by the name of its folder in ``_features``, whose module
``worker`` has one of these functions:

* ``prepare(entry)``, for an entry of ``features`` in START. It is called before the
  user's code is imported, and raises EnforcementRefused if the actor must not start.
* ``attach(engine, config)``, for the first FEATURE frame with this name, in START or
  later on the pipe. It returns an object whose method ``switch(events, *arguments)``
  gets the arguments of this frame and of the later ones, and sets or resets a consumer
  of ``RunEvents``.

The template imports the features that all its forks have, if they are installed.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from importlib import import_module
from traceback import format_exception
from typing import TYPE_CHECKING, Any, final

from actorlib._wire.messages import FAILURE, RAISED
from actorlib._wire.serialization import encode
from actorlib._worker.executors.run_events import RunEvents

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from actorlib._wire.actor_config import ActorConfig
    from actorlib._wire.messages import Frame
    from actorlib._worker.requests.engine import WorkerEngine
    from actorlib.exceptions import EnforcementRefused

PARTS = (
    "actorlib._features.frameworks.worker",
    "actorlib._features.logs.worker_records",
)
"""Modules that many workers import when they need them; the template does so ahead."""

LEFTOVERS = ("actorlib._features.cgroup.files",)
"""Modules that clean up after an owner that was killed. The template calls the function
``remove_leftovers`` of each with the owner's process id."""


def load_features(entries: Mapping[str, Any]) -> list[Callable[[], None]]:
    """Imports the features of START; returns the function that prepares each."""
    return [
        partial(_worker_module(name).prepare, entry) for name, entry in entries.items()
    ]


def _worker_module(feature: str) -> Any:
    return import_module(f"actorlib._features.{feature}.worker")


def refusal(error: EnforcementRefused, where: str) -> Frame:
    """Creates the frame that reports why an actor must not start."""
    text = "".join(format_exception(error))
    summary = f"EnforcementRefused: {error}"
    return (FAILURE, 0, RAISED, summary, text, where, None, encode(error))


def remove_leftovers(owner: int) -> None:
    """Removes what the features of a killed owner have left on the machine."""
    for name in LEFTOVERS:
        with suppress(ModuleNotFoundError):  # not installed, so it has left nothing
            import_module(name).remove_leftovers(owner)


def attach_to_process_and_forks() -> None:
    """Attaches features to the template and its forks, or to a spawned worker."""
    with suppress(ModuleNotFoundError):
        from actorlib._features.stacks import worker

        worker.offer_stacks()


def attach_to_forks() -> None:
    """Attaches the features that forks inherit from the template ready-made."""
    with suppress(ModuleNotFoundError):
        from actorlib._features.logs.worker import prepare

        prepare({})


def import_parts() -> None:
    """Imports the modules of ``PARTS`` that are installed."""
    for name in PARTS:
        with suppress(ModuleNotFoundError):
            import_module(name)


@final
class WorkerFeatures:
    """Attaches features to the engine of one worker.

    Attributes:
        events: Notifies consumers of the calls that run.
    """

    def __init__(self, engine: WorkerEngine, config: ActorConfig) -> None:
        self._engine = engine
        self._config = config
        self._attached: dict[str, Any] = {}  # also while switched off
        self.events = RunEvents()

    def switch(self, frame: Frame) -> RunEvents | None:
        """Attaches the feature of a FEATURE frame, or passes it a change.

        Returns:
            The new value of ``WorkerEngine.events``.
        """
        _, name, *arguments = frame
        if name not in self._attached:
            module = _worker_module(name)
            self._attached[name] = module.attach(self._engine, self._config)
        events = self.events
        self._attached[name].switch(events, *arguments)
        return None if events.recorder is None and events.observer is None else events
