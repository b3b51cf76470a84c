"""The features that a worker can have, each imported when the owner requests it.

The owner requests a feature in START: by an entry of ``features``, which is prepared
before the user's code is imported, or by a frame of ``attached``, which may also come
later on the pipe. The template imports the features that all its forks have, if they
are installed.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from importlib import import_module
from traceback import format_exception
from typing import TYPE_CHECKING, Any, final

from actorlib._wire.messages import FAILURE, OBSERVE, RAISED, RECORD_END
from actorlib._wire.serialization import encode
from actorlib._worker.executors.run_events import RunEvents

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from actorlib._wire.actor_config import ActorConfig
    from actorlib._wire.messages import Frame
    from actorlib._worker.requests.engine import WorkerEngine
    from actorlib.exceptions import EnforcementRefused

FEATURES = {
    "frameworks": "actorlib._features.frameworks.worker",
    "mps": "actorlib._features.mps.worker",
    "logs": "actorlib._features.logs.worker",
    "cgroup": "actorlib._features.cgroups.worker",
}
"""The module of each feature, by the key of its entry in START. Its function
``prepare`` gets the entry before the user's code is imported, and raises
EnforcementRefused if the actor must not start."""

PARTS = (
    "actorlib._features.frameworks.worker",
    "actorlib._features.logs.worker_records",
)
"""Modules that many workers import when they need them; the template does so ahead."""

LEFTOVERS = ("actorlib._features.cgroups.files",)
"""Modules that clean up after an owner that was killed. The template calls the function
``remove_leftovers`` of each with the owner's process id."""


def load_features(entries: Mapping[str, Any]) -> list[Callable[[], None]]:
    """Imports features; returns the function that prepares each, in order."""
    return [
        partial(import_module(FEATURES[key]).prepare, entry)
        for key, entry in entries.items()
    ]


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
    """Attaches features to the engine of one worker."""

    def __init__(self, engine: WorkerEngine, config: ActorConfig) -> None:
        self._engine = engine
        self._config = config
        self.events = RunEvents()
        # These stay while the feature is switched off.
        self._observer: Any = None
        self._recorder: Any = None

    def switch(self, frame: Frame) -> RunEvents | None:
        """Attaches or detaches a feature; returns ``WorkerEngine.events``."""
        (self._observe if frame[0] == OBSERVE else self._record)(*frame[1:])
        events = self.events
        return None if events.recorder is None and events.observer is None else events

    def _observe(self, middlewares: bytes) -> None:
        if self._observer is None:
            from actorlib._features.middleware.worker import RunObserver

            engine = self._engine
            self._observer = RunObserver(engine, self._config, engine.gather)
        is_on = self._observer.switch(middlewares)
        self.events.observer = self._observer if is_on else None

    def _record(self, mode: int, number: int) -> None:
        if self._recorder is None:
            from actorlib._features.recording.worker import RunRecorder

            self._recorder = RunRecorder(self._engine.post)
        self.events.recorder = None if mode == RECORD_END else self._recorder
        if number:
            self._recorder.send(number)
