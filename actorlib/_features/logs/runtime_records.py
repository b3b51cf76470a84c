"""Passes the log records of workers to the program's own loggers.

A record arrives as plain values (``LOG``). The program's own record factory makes it a
record of this process. It goes to the logger of its name, whose levels, filters and
handlers apply as if the program had logged it. It also has ``actor`` (the class, or the
function), ``actor_id``, ``actor_name``, ``pid``, ``method`` and ``request_id`` (the id
of the call; None outside of calls), unless the user's code set one by ``extra=``.

If the program has no handler at all, Python writes warnings to standard error. Here
they are written as lines of the actor's own output, with its name.
"""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from contextvars import Context
from typing import TYPE_CHECKING, Any, cast, final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from actorlib._base.ids import ActorId
    from actorlib._features.logs.runtime_lines import ActorLogs
    from actorlib._owner.actors.actor_record import ActorRecord
    from actorlib._owner.actors.supervisor import ActorSupervisor
    from actorlib._owner.actors.worker_session import WorkerSession

_MOST_LEVELS = 1000
_MOST_LOGGERS = 10_000
_STANDARD = frozenset(vars(logging.LogRecord("", 0, "", 0, "", (), None))) | {
    "message",
    "asctime",
    "taskName",
}
_KINDS: Mapping[str, type] = {
    "funcName": str,
    "lineno": int,
    "pathname": str,
    "stack_info": str,
    "taskName": str,
    "thread": int,
    "threadName": str,
}
"""The standard attributes that a worker may set, and their types."""


def program_levels(log_level: int | str | None) -> dict[str, int]:
    """Returns the current levels of the program's loggers, for its workers.

    The root logger has the empty name, and is left out if it has Python's default. Its
    level is ``log_level``, if there is one.
    """
    root = logging.getLogger()
    levels: dict[str, int] = {}
    of_root = log_level if isinstance(log_level, int) else root.level
    if of_root != logging.WARNING:
        levels[""] = of_root
    for name, logger in list(root.manager.loggerDict.items())[:_MOST_LEVELS]:
        if isinstance(logger, logging.Logger) and logger.level != logging.NOTSET:
            levels[name] = logger.level
    return levels


@final
class WorkerRecords:
    """Receives the log records of all workers of a runtime.

    Args:
        is_shown: Whether the program's loggers get them.
    """

    def __init__(
        self,
        find: Callable[[ActorId], ActorSupervisor | None],
        logs: ActorLogs,
        *,
        is_shown: bool,
    ) -> None:
        self._find = find
        self._logs = logs
        self._is_shown = is_shown
        self._new_loggers = 0

    def receive(
        self,
        session: WorkerSession,
        level: int,
        name: str,
        seconds: float,
        call: int,
        method: str,
        attributes: Mapping[str, object],
        traceback: str | None,
        message: str,
    ) -> None:
        supervisor = self._find(session.actor)
        if supervisor is None:
            return
        record = supervisor.record
        request = f"{session.prefix.hex()}{call:016x}" if call else None
        self._logs.add_record(
            record.id if record.is_actor else None,
            seconds,
            "log",
            record.label,
            record.pid,
            message,
            level,
            name,
            method,
            request or "",
            traceback or "",
        )
        logger = self._logger(name)
        if not self._is_shown or not logger.isEnabledFor(level):
            return
        values = _origin(record, method, request)
        values.update(_attributes(attributes, record.label))
        values.update(_of_time(seconds))
        values.update(
            name=name or "root",
            levelno=level,
            levelname=logging.getLevelName(level),
            exc_text=traceback,
            process=record.pid,
        )
        event = attributes.get("msg")
        if isinstance(event, dict) and "_name" in attributes:
            # An event of structlog, whose formatter needs these.
            values.update(msg=_lists(cast("object", event)), _logger=logger)
        else:
            values["msg"] = message
        # The context of this callback is that of the actor's creation.
        with suppress(Exception):  # standard error may be closed
            Context().run(_pass_on, logger, values, record)

    def _logger(self, name: str) -> logging.Logger:
        """Returns the logger of a name; its parent if there are too many.

        Loggers live as long as the program, and a worker may invent any names.
        """
        loggers = logging.getLogger().manager.loggerDict
        while name and name not in loggers and self._new_loggers >= _MOST_LOGGERS:
            name = name.rpartition(".")[0]
        if name and name not in loggers:
            self._new_loggers += 1
        return logging.getLogger(name or None)


def _pass_on(
    logger: logging.Logger, values: dict[str, Any], actor: ActorRecord
) -> None:
    record = logging.makeLogRecord(values)
    try:
        _handle(logger, record, actor)
    except Exception:  # noqa: BLE001  # a filter or a handler of the user's may raise
        # Reported as by handlers, depending on logging.raiseExceptions.
        logging.Handler().handleError(record)


def _handle(
    logger: logging.Logger, record: logging.LogRecord, actor: ActorRecord
) -> None:
    if logger.hasHandlers():
        logger.handle(record)
        return
    last = logging.lastResort
    if last is None or record.levelno < last.level or actor.process is None:
        return
    if not logger.disabled and logger.filter(record):
        actor.process.show(last.format(record))


def _origin(record: ActorRecord, method: str, request: str | None) -> dict[str, Any]:
    is_actor = record.is_actor
    return {
        "actor": record.called.class_name,
        "actor_id": record.id.hex() if is_actor else None,
        "actor_name": record.options.name if is_actor else None,
        "pid": record.pid,
        "method": method or None,
        "request_id": request,
        "processName": record.label,
    }


def _attributes(attributes: Mapping[str, object], label: str) -> dict[str, Any]:
    """Returns the attributes that a worker may set."""
    path = attributes.get("pathname")
    path = path if isinstance(path, str) else ""
    name = os.path.basename(path)  # noqa: PTH119  # no pathlib in the owner
    result: dict[str, Any] = {
        "processName": label,
        "filename": name,
        "module": os.path.splitext(name)[0],  # noqa: PTH122
    }
    for key, value in attributes.items():
        kind = _KINDS.get(key)
        if kind is not None:
            if type(value) is kind:
                result[key] = value
        elif key not in _STANDARD:
            result[key] = _lists(value)
    return result


def _lists(value: object) -> object:
    """Restores lists, which arrive as tuples."""
    if isinstance(value, tuple):
        return [_lists(item) for item in cast("tuple[object, ...]", value)]
    if isinstance(value, dict):
        items = cast("dict[str, object]", value).items()
        return {name: _lists(item) for name, item in items}
    return value


def _of_time(seconds: float) -> dict[str, float]:
    here = logging.LogRecord("", 0, "", 0, "", (), None)
    return {
        "created": seconds,
        "msecs": float(int((seconds % 1) * 1000)),
        "relativeCreated": here.relativeCreated - (here.created - seconds) * 1000,
    }
