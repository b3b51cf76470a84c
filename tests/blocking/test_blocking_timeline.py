"""What a script has done and when: ``timeline()``."""

from __future__ import annotations

import json
import re
import time
from typing import TYPE_CHECKING, Any, cast

import pytest
from helpers.actors import Counter, Echo

import actorlib.blocking as ray
from actorlib._api.actor_handle import pin_of
from actorlib._core.engine import current_engine
from actorlib._script_runtime import KEPT, TIMELINE_VARIABLE, kept_events

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A script that keeps the newest forty calls and runs."""
    monkeypatch.setenv(TIMELINE_VARIABLE, "40")
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
    return cast("list[dict[str, Any]]", ray.timeline())


def outcomes(events: list[dict[str, Any]]) -> set[tuple[str, str, str]]:
    """The category, the name and the outcome of what ran."""
    return {
        (event["cat"], event["name"], event["args"]["outcome"])
        for event in events
        if event.get("cat") in ("run", "stream")
    }


@pytest.mark.process
@pytest.mark.usefixtures("script")
def test_timeline_when_asked_again_and_again_then_what_came_since_too(
    tmp_path: Path,
) -> None:
    before = time.time()
    echo, source, counter = Echo.remote(), Source.remote(), Counter.remote()
    ray.get(echo.echo.remote(1))
    first = drawn()
    assert outcomes(first) == {("run", "Echo.echo", "finished")}

    ray.get(double.remote(2))
    assert ray.get(list(source.items.remote())) == [0, 1, 2]
    with pytest.raises(KeyError):
        ray.get(echo.fail.remote(KeyError("lost")))
    gone = current_engine().kill(pin_of(counter).actor_id)
    cast("Any", gone).get(20)
    second = drawn()
    assert outcomes(second) - outcomes(first) == {
        ("run", "Echo.fail", "KeyError"),
        ("run", "double", "finished"),
        ("stream", "Source.items", "finished"),
    }
    names = {(event.get("cat"), event["name"].partition(":")[0]) for event in second}
    assert {
        ("call", "Echo.echo"),
        ("queue", "Echo.echo"),
        ("life", "alive"),
        ("death", "died"),
    } <= names
    times = [event["ts"] / 1e6 for event in second if event.get("cat") == "run"]
    assert before <= min(times)
    assert max(times) <= time.time()
    assert ray.timeline(str(tmp_path / "trace.json")) is None
    assert json.loads((tmp_path / "trace.json").read_text())

    # There was more than is kept.
    ray.get([echo.echo.remote(number) for number in range(100)])
    third = drawn()
    spans = [event for event in third if event["ph"] == "X"]
    for category in ("call", "run"):
        assert len([event for event in spans if event["cat"] == category]) == 40
    (label,) = [event for event in third if event["name"] == "process_labels"]
    text = label["args"]["labels"]
    assert re.fullmatch(r"12\d older calls and runs were not kept", text)


def test_timeline_variable_when_a_number_then_so_much_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for text, kept in (("", 0), ("0", 0), ("1", KEPT), ("500", 500)):
        monkeypatch.setenv(TIMELINE_VARIABLE, text)
        assert kept_events() == kept
    monkeypatch.setenv(TIMELINE_VARIABLE, "yes")
    with pytest.raises(ValueError, match="ACTORLIB_TIMELINE takes 1"):
        kept_events()
