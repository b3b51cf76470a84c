"""Progress in the cell of a notebook: one output, which is updated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from actorlib._api.progress import ProgressCell, bars_of

if TYPE_CHECKING:
    from rich.progress import Progress as Bars


class Publisher:
    """Keeps what would be shown."""

    def __init__(self) -> None:
        self.shown: list[tuple[str, str, bool]] = []
        self.html = ""

    def publish(
        self, *, data: dict[str, str], transient: dict[str, Any], update: bool
    ) -> None:
        self.shown.append((transient["display_id"], data["text/plain"], update))
        self.html = data["text/html"]


def so_far(done: int, total: int | None = 40) -> Bars:
    bars = bars_of("<trials>", total, 0.0, lambda: 2.0)
    bars.update(bars.task_ids[0], completed=done)
    return bars


def test_show_when_repeated_then_the_same_output_is_updated_and_wiped() -> None:
    publisher = Publisher()
    cell = ProgressCell(publisher)
    cell.hide()  # nothing was shown
    cell.show(so_far(10))
    cell.show(so_far(20))
    cell.hide()

    ids, texts, updates = zip(*publisher.shown, strict=True)
    assert len(set(ids)) == 1
    assert texts == (
        "<trials> 10/40",
        "<trials> 20/40",
        "",
    )
    assert updates == (False, True, True)


@pytest.mark.parametrize(("total", "said"), [(40, "10/40"), (None, "10/?")])
def test_html_when_it_is_shown_then_a_bar_and_words(
    total: int | None, said: str
) -> None:
    publisher = Publisher()
    ProgressCell(publisher).show(so_far(10, total))

    for shown in ("━", "&lt;trials&gt;", said, "0:00:02"):
        assert shown in publisher.html
