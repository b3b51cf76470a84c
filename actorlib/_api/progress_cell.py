"""Shows progress in the output of a notebook's cell, by IPython."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from actorlib._api.notebook import shell_of_kernel
from actorlib._rows.tables import html_of

if TYPE_CHECKING:
    from rich.progress import Progress as Bars


def cell_of_notebook() -> ProgressCell | None:
    """Returns the place for progress in a notebook; None outside of a kernel."""
    shell = shell_of_kernel()
    return None if shell is None else ProgressCell(shell.display_pub)


class ProgressCell:
    """Shows one progress in the output of the cell that begins it."""

    def __init__(self, publisher: Any) -> None:
        self._publisher = publisher
        self._display_id = ""

    def show(self, bars: Bars) -> None:
        task = bars.tasks[0]
        text = f"{task.description} {task.completed:g}/{task.total or '?'}".strip()
        self._put({"text/plain": text, "text/html": html_of(bars)})

    def hide(self) -> None:
        if self._display_id:
            self._put({"text/plain": "", "text/html": ""})

    def _put(self, data: dict[str, str]) -> None:
        is_update = bool(self._display_id)
        self._display_id = self._display_id or uuid.uuid4().hex
        transient = {"display_id": self._display_id}
        self._publisher.publish(data=data, transient=transient, update=is_update)
