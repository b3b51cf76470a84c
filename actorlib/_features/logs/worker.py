"""Takes the log records of a worker, and has them sent once there is one.

Every worker has this handler: the template puts it there for its forks, and whoever
came before that, or is no fork, loads this small file. What sends (``worker_records``)
is loaded by the first record.
"""

from __future__ import annotations

import functools
import logging
from typing import TYPE_CHECKING, Any, final

from actorlib._core.engine import find_engine

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from actorlib._features.logs.worker_records import RecordSender


def prepare(levels: Mapping[str, int]) -> None:
    """Sends what is logged in this process to the owner from now on.

    Args:
        levels: The levels of the program's loggers, by name; the root's is empty.
    """
    root = logging.getLogger()
    if not any(isinstance(handler, RecordHandler) for handler in root.handlers):
        handler = RecordHandler()
        root.addHandler(handler)
        _let_basic_config_work(handler)
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)


def _let_basic_config_work(handler: RecordHandler) -> None:
    """Has ``basicConfig()`` configure what it would without our handler."""
    root, configure = logging.getLogger(), logging.basicConfig

    @functools.wraps(configure)
    def basic_config(**options: Any) -> None:
        is_there = handler in root.handlers
        root.removeHandler(handler)
        try:
            configure(**options)
        finally:
            if is_there:
                root.addHandler(handler)

    logging.basicConfig = basic_config


@final
class RecordHandler(logging.Handler):
    """Sends records to the owner.

    Args:
        find: Finds the engine of this worker, once there is one.
    """

    def __init__(self, find: Callable[[], object] = find_engine) -> None:
        super().__init__()
        self._find = find
        self._sender: RecordSender | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Sends a record; see logging.Handler. ``handle`` holds the lock."""
        try:
            if self._sender is None:
                from actorlib._features.logs.worker_records import RecordSender  # noqa: PLC0415  # few log

                self._sender = RecordSender(self.lock, self._find)
            self._sender.send(record)
        except Exception:  # noqa: BLE001  # what the user's objects raise
            self.handleError(record)

    def close(self) -> None:
        """Sends what waits as the process ends, and says what could not be sent."""
        if self._sender is not None:
            self._sender.close()
        super().close()
