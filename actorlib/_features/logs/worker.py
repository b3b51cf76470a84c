"""The log handler of a worker, which sends records to the owner.

Every worker has this handler. The template installs it for its forks; earlier forks and
other workers load this small file. The first record loads ``worker_records``, which
sends records.
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
    """Sends the log records of this process to the owner from now on.

    Args:
        levels: The levels of the program's loggers, by name; empty for the root logger.
    """
    root = logging.getLogger()
    if not any(isinstance(handler, RecordHandler) for handler in root.handlers):
        handler = RecordHandler()
        root.addHandler(handler)
        _let_basic_config_work(handler)
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)


def _let_basic_config_work(handler: RecordHandler) -> None:
    """Makes ``basicConfig()`` ignore our handler: it does nothing if there is one."""
    root, configure = logging.getLogger(), logging.basicConfig

    @functools.wraps(configure)
    def basic_config(**options: Any) -> None:
        is_installed = handler in root.handlers
        root.removeHandler(handler)
        try:
            configure(**options)
        finally:
            if is_installed:
                root.addHandler(handler)

    logging.basicConfig = basic_config


@final
class RecordHandler(logging.Handler):
    """Sends records to the owner.

    Args:
        find: Returns the engine of this worker, or None before it exists.
    """

    def __init__(self, find: Callable[[], object] = find_engine) -> None:
        super().__init__()
        self._find = find
        self._sender: RecordSender | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Sends a record; see logging.Handler. ``handle`` holds the lock."""
        try:
            if self._sender is None:
                from actorlib._features.logs.worker_records import RecordSender  # noqa: PLC0415  # few workers log

                self._sender = RecordSender(self.lock, self._find)
            self._sender.send(record)
        except Exception:  # noqa: BLE001  # what the user's objects raise
            self.handleError(record)

    def close(self) -> None:
        """Sends waiting records as the process ends, and reports the others."""
        if self._sender is not None:
            self._sender.close()
        super().close()
