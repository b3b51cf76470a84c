"""Progress in the cell of a notebook: one output, which is updated."""

from __future__ import annotations

from typing import Any

from actorlib._api.progress_cell import ProgressCell, cell_of_notebook, html_of
from actorlib._api.progress_text import ProgressState


class Publisher:
    """Keeps what would be shown."""

    def __init__(self) -> None:
        self.shown: list[tuple[str, str, bool]] = []

    def publish(
        self, *, data: dict[str, str], transient: dict[str, Any], update: bool
    ) -> None:
        self.shown.append((transient["display_id"], data["text/plain"], update))


def state(done: int, total: int | None = 40) -> ProgressState:
    return ProgressState(label="<trials>", done=done, total=total, elapsed=2.0)


def test_show_when_repeated_then_the_same_output_is_updated_and_wiped() -> None:
    publisher = Publisher()
    cell = ProgressCell(publisher)
    cell.hide()  # nothing was shown
    cell.show(state(10))
    cell.show(state(20))
    cell.hide()

    ids, texts, updates = zip(*publisher.shown, strict=True)
    assert len(set(ids)) == 1
    assert texts == (
        "<trials> 10/40, 5.0/s, 6.0 s left",
        "<trials> 20/40, 10.0/s, 2.0 s left",
        "",
    )
    assert updates == (False, True, True)


def test_html_when_the_total_is_known_then_a_bar_else_words() -> None:
    bar = html_of(state(10))
    assert "width:25.0%" in bar
    assert "&lt;trials&gt;" in bar
    assert "10/40, 5.0/s, 6.0 s left" in bar
    assert html_of(state(3, None)) == "<div>&lt;trials&gt; 3, 1.5/s</div>"


def test_cell_when_this_is_no_kernel_then_none() -> None:
    assert cell_of_notebook() is None
