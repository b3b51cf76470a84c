"""Attaches the logs to a runtime: what workers print, and the records they log."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, ClassVar, final

from actorlib._features.logs.runtime_lines import ActorLogs
from actorlib._features.logs.runtime_records import WorkerRecords, program_levels
from actorlib._processes.worker_output import style_of
from actorlib._wire.messages import LOG

if TYPE_CHECKING:
    from actorlib._core.engine import RuntimeEngine
    from actorlib._options.runtime_options import RuntimeOptions
    from actorlib._owner.engine import LocalEngine
    from actorlib._queries.queries import Asked, Parameters


@final
class Logs:
    """The logs of one runtime; see ``RuntimeEngine.attached``."""

    command: ClassVar[str] = "actorlib logs"
    on_ray: ClassVar[str] = (
        "the output of actors is in Ray's own files, which the command 'ray logs' shows"
    )

    def __init__(self, engine: LocalEngine) -> None:
        self._machine = engine.machine
        self._table = engine.actor_table
        self._requests = engine.requests
        self.lines = self._table.starter.output = ActorLogs()

    def receive_records(self, options: RuntimeOptions) -> None:
        """Receives the log records of workers from now on."""
        style = style_of(self._machine.environ(), is_shown=options.log_to_driver)
        find = self._table.by_id.get
        records = WorkerRecords(find, self.lines, is_shown=style.is_shown)
        self._requests.others[LOG] = records.receive
        if not self._machine.is_shared:  # else they use the program's own loggers
            self._table.starter.features["logs"] = program_levels(options.log_level)


def logs(engine: RuntimeEngine, parameters: Parameters) -> Asked:
    """Returns lines of actors, even if the loop is blocked: see ``ActorLogs.read``.

    The parameters are ``actor``, ``after``, ``most``, ``since`` and ``newest``.
    """
    from actorlib._queries.protocol import MOST_LINES  # noqa: PLC0415  # rarely used
    from actorlib._queries.queries import Asked  # noqa: PLC0415
    from actorlib._queries.rows import Logs as LogRows  # noqa: PLC0415

    actor = parameters.actor_if_any()
    after = parameters.take("after", 0)
    if type(after) is not int or after < 0:
        raise ValueError(f"after takes the number of a page, not {after!r}")
    most = parameters.count("most", MOST_LINES, MOST_LINES, "lines")
    since = parameters.take("since", 0.0)
    if type(since) not in (int, float):
        raise ValueError(f"since takes seconds since the epoch, not {since!r}")
    is_newest = parameters.flag("newest")
    lines = engine.attached(Logs, "runtime.logs()").lines

    def read(_: None) -> LogRows:
        page = lines.read(
            actor, after=after, most=most, since=since, is_newest=is_newest
        )
        return LogRows(
            pid=os.getpid(),
            lines=tuple(page.lines),
            lost=page.lost,
            number=page.number,
        )

    return Asked(None, read)
