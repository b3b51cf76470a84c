"""The features that a worker can have, each imported when the owner asks for it.

The owner asks by a frame: in START for what is to be there from the beginning, on the
pipe for what changes meanwhile. What the template has for all its forks it imports
itself, if this installation has it.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from importlib import import_module
from traceback import format_exception
from typing import TYPE_CHECKING, Any, final

from actorlib._wire.messages import FAILURE, LOG, OBSERVE, RAISED, RECORD_END
from actorlib._wire.serialization import encode
from actorlib._worker.executors.run_events import RunEvents

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from actorlib._core.engine import Engine
    from actorlib._wire.actor_config import ActorConfig
    from actorlib._wire.messages import Frame
    from actorlib.exceptions import EnforcementRefused

FEATURES = {
    "frameworks": "actorlib._features.frameworks.worker",
    "mps": "actorlib._features.mps.worker",
    "cgroup": "actorlib._features.cgroups.worker",
}
"""The module of each. Its function ``prepare`` gets the entry, before any of the user's
code is imported, and raises EnforcementRefused if the actor must not begin."""

PARTS = (
    "actorlib._features.frameworks.worker",
    "actorlib._features.logs.worker_records",
)
"""What many workers import when something asks for it; the template does ahead."""

LEFTOVERS = ("actorlib._features.cgroups.files",)
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


def attach_to_process_and_forks() -> None:
    """Attaches what the template has, with its forks, or a worker that is no fork."""
    with suppress(ModuleNotFoundError):
        from actorlib._features.stacks import worker  # noqa: PLC0415  # it may be missing

        worker.offer_stacks()


def attach_to_forks() -> None:
    """Attaches what forks of the template have: none of them does that itself."""
    with suppress(ModuleNotFoundError):
        from actorlib._features.logs.worker import send_records  # noqa: PLC0415  # likewise

        send_records({})


def import_parts() -> None:
    """Imports the ``PARTS`` that this installation has."""
    for name in PARTS:
        with suppress(ModuleNotFoundError):
            import_module(name)


def attach_to_process(frames: Iterable[Frame]) -> None:
    """Attaches what is there before any of the user's code is imported.

    Args:
        frames: Those of START.
    """
    for kind, *what in frames:
        if kind == LOG:
            from actorlib._features.logs.worker import send_records  # noqa: PLC0415  # inline none does

            send_records(*what)


@final
class WorkerFeatures:
    """Attaches features to the engine of one worker.

    Args:
        engine: The engine of the worker.
        config: What the owner says of the worker.
        post: Sends a frame to the owner now.
        gather: Sends a frame to the owner, at the latest with the answer that follows.

    Attributes:
        events: Tells consumers of the calls that run.
    """

    def __init__(
        self,
        engine: Engine,
        config: ActorConfig,
        post: Callable[[Frame], None],
        gather: Callable[[Frame], None],
    ) -> None:
        self._engine = engine
        self._config = config
        self._post = post
        self._gather = gather
        self.events = RunEvents()
        # Those that have been attached, also while they are off.
        self._observer: Any = None
        self._recorder: Any = None

    def switch(self, frame: Frame) -> RunEvents | None:
        """Attaches what a frame asks for, or switches it off.

        Args:
            frame: OBSERVE or RECORD.

        Returns:
            What ``WorkerEngine.events`` is from now on.
        """
        (self._observe if frame[0] == OBSERVE else self._record)(*frame[1:])
        events = self.events
        return None if events.recorder is None and events.observer is None else events

    def _observe(self, middlewares: bytes) -> None:
        if self._observer is None:
            from actorlib._features.middleware.worker import RunObserver  # noqa: PLC0415  # seldom

            self._observer = RunObserver(self._engine, self._config, self._gather)
        is_on = self._observer.switch(middlewares)
        self.events.observer = self._observer if is_on else None

    def _record(self, mode: int, number: int) -> None:
        if self._recorder is None:
            from actorlib._features.recording.worker import RunRecorder  # noqa: PLC0415  # seldom

            self._recorder = RunRecorder(self._post)
        self.events.recorder = None if mode == RECORD_END else self._recorder
        if number:
            self._recorder.send(number)
