"""What a script has done and when: ``timeline()``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

import pytest
from helpers.actors import Counter, Echo

import actorlib.blocking as ray
from actorlib._api.actor_handle import pin_of
from actorlib._core.engine import current_engine
from actorlib._owner.tracing import KEPT, VARIABLE, kept_events

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A script that keeps the newest forty events."""
    monkeypatch.setenv(VARIABLE, "40")
    ray.init(num_cpus=2, num_gpus=0)
    yield
    ray.shutdown()


@ray.remote
def double(number: int) -> int:
    return 2 * number


@ray.remote
class Source:
    """Yields."""

    def items(self) -> Iterator[int]:
        yield from range(3)


def drawn() -> list[dict[str, Any]]:
    events = cast("list[dict[str, Any]]", ray.timeline())
    return [event for event in events if event["ph"] == "X"]


@pytest.mark.process
@pytest.mark.usefixtures("script")
def test_timeline_when_written_down_then_it_has_calls_and_lives(
    tmp_path: Path,
) -> None:
    echo, source, counter = Echo.remote(), Source.remote(), Counter.remote()
    ray.get(echo.echo.remote(1))
    ray.get(double.remote(2))
    assert ray.get(list(source.items.remote())) == [0, 1, 2]
    with pytest.raises(KeyError):
        ray.get(echo.fail.remote(KeyError("lost")))
    gone = current_engine().kill(pin_of(counter).actor_id)
    cast("Any", gone).get(20)

    told = {(e["cat"], e["name"], e["args"]["outcome"]) for e in drawn()}
    assert {
        ("task", "Echo.echo", "finished"),
        ("task", "double", "finished"),
        ("task", "Source.items", "finished"),
        ("actor", "Echo", "alive"),
    } <= told
    (fail,) = [outcome for _, name, outcome in told if name == "Echo.fail"]
    assert "KeyError" in fail
    (end,) = [outcome for _, name, outcome in told if name == "Counter"]
    assert end != "alive"
    for event in drawn():
        assert event.keys() == {"cat", "name", "pid", "tid", "ts", "dur", "ph", "args"}
        assert event["dur"] >= 0
    assert ray.timeline(str(tmp_path / "trace.json")) is None
    assert json.loads((tmp_path / "trace.json").read_text())


@pytest.mark.process
@pytest.mark.usefixtures("script")
def test_timeline_when_there_was_more_then_it_says_how_much_is_gone() -> None:
    echo = Echo.remote()
    ray.get([echo.echo.remote(number) for number in range(100)])

    events = cast("list[dict[str, Any]]", ray.timeline())

    assert len([event for event in drawn() if event["cat"] == "task"]) == 40
    (label,) = [event for event in events if event["name"] == "process_labels"]
    assert label["args"] == {"labels": "60 older events were not kept"}


@pytest.mark.parametrize(
    ("said", "kept"), [("", 0), ("0", 0), ("1", KEPT), ("500", 500)]
)
def test_timeline_variable_when_a_number_then_so_much_is_kept(
    said: str, kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, said)

    assert kept_events() == kept


def test_timeline_variable_when_no_number_then_it_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(VARIABLE, "yes")

    with pytest.raises(ValueError, match="ACTORLIB_TIMELINE takes 1"):
        kept_events()
