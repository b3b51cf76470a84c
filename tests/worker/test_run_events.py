"""Events of the calls that run in a worker, and who is told of them."""

from __future__ import annotations

from contextvars import ContextVar, copy_context
from typing import TYPE_CHECKING, Any, cast

import msgpack  # pyright: ignore[reportMissingTypeStubs]  # it ships none
import pytest

from actorlib._features.recording.worker import BEGIN, END
from actorlib._wire.messages import (
    CALL,
    CALL_WITH,
    FEATURE,
    RAN,
    RECORDED,
    STREAM_ACK,
)
from actorlib._wire.serialization import dump
from actorlib._worker.features import WorkerFeatures

if TYPE_CHECKING:
    from actorlib._wire.messages import Frame
    from actorlib.observe import ObservedCall, Outcome

PLAIN: Frame = (CALL, 1, "work", None, b"")
SEEN: Any = (7, b"", 1.5, {})
PLACE: ContextVar[str] = ContextVar("place", default="")
TOLD: list[Outcome] = []


class Config:
    """Of an actor's worker."""

    runs_functions = False
    prefix = bytes(8)
    actor_id = b"actor"
    class_name = "Model"
    name = None


class Engine:
    """Makes no calls, and keeps the frames that it sends."""

    def __init__(self, sent: list[Frame]) -> None:
        self.post = self.gather = sent.append

    def call(self) -> None: ...

    def stream(self) -> None: ...


class Copy:
    """A middleware that sets a variable for the code, and puts it back."""

    def before(self, call: ObservedCall) -> Any:
        return PLACE.set(call.method)

    def after(self, _: ObservedCall, token: Any, outcome: Outcome) -> None:
        PLACE.reset(token)  # raises in another context
        TOLD.append(outcome)


@pytest.fixture
def sent() -> list[Frame]:
    TOLD.clear()
    return []


@pytest.fixture
def features(sent: list[Frame]) -> WorkerFeatures:
    return WorkerFeatures(cast("Any", Engine(sent)), cast("Any", Config()))


def pieces(features: WorkerFeatures, sent: list[Frame]) -> list[list[Any]]:
    """The runs of all pieces."""
    features.switch((FEATURE, "recording", END, 1))
    found = [cast("Any", msgpack).unpackb(f[3]) for f in sent if f[0] == RECORDED]
    return [run for runs, _ in found for run in runs]


def recorded(features: WorkerFeatures, sent: list[Frame]) -> list[tuple[Any, ...]]:
    """The same without their times."""
    return [(*run[:2], *run[4:]) for run in pieces(features, sent)]


def test_run_when_recorded_then_its_end_is_there(
    features: WorkerFeatures, sent: list[Frame]
) -> None:
    features.switch((FEATURE, "recording", BEGIN, 0))

    features.events.started(PLAIN).finish()
    features.events.started(PLAIN).finish(KeyError("no"))
    features.events.started(PLAIN).finish(is_cancelled=True)

    assert recorded(features, sent) == [
        (1, "work", "", False),
        (1, "work", "KeyError", False),
        (1, "work", "TaskCancelledError", False),
    ]
    assert features.switch((FEATURE, "middleware", b"")) is None


def test_stream_when_it_was_paused_then_each_part_has_its_own_times(
    features: WorkerFeatures, sent: list[Frame]
) -> None:
    features.switch((FEATURE, "recording", BEGIN, 0))

    run = features.events.started((CALL_WITH, 1, "items", None, {"stream": 1}, b""))
    run.pause()
    run.resume()
    run.finish(KeyError("no"))

    first, second = pieces(features, sent)
    assert first[2] <= first[3] <= second[2] <= second[3]
    assert [part[4:] for part in (first, second)] == [["", True], ["KeyError", True]]


def test_consumer_when_it_comes_late_then_it_hears_the_rest_and_no_end_alone(
    features: WorkerFeatures, sent: list[Frame]
) -> None:
    headers = {"stream": 1, "observed": SEEN}
    features.switch((FEATURE, "middleware", dump([dump(Copy())])))
    woken = features.events.started((STREAM_ACK, 1, "items", None, headers, b""))
    plain = features.events.started(PLAIN)
    features.switch((FEATURE, "recording", BEGIN, 0))

    woken.finish()
    plain.finish()

    assert TOLD == []
    assert recorded(features, sent) == [(1, "items", "", True), (1, "work", "", False)]


def test_middleware_when_a_call_is_observed_then_it_acts_where_the_code_runs(
    features: WorkerFeatures, sent: list[Frame]
) -> None:
    features.switch((FEATURE, "middleware", dump([dump(Copy())])))
    headers = {"observed": SEEN}
    context = copy_context()
    assert features.events.sets_context(headers)
    assert not features.events.sets_context({})

    run = features.events.started((CALL_WITH, 1, "3:work", None, headers, b""), context)
    in_code = context.run(PLACE.get)
    features.switch((FEATURE, "middleware", b""))
    run.finish(KeyError("no"))

    assert (in_code, PLACE.get()) == ("work", "")
    assert [told[:2] for told in TOLD] == [("error", "KeyError")]
    [(kind, number, method, *_, status, error)] = sent
    assert (kind, number, method, status, error) == (
        *(RAN, 7, "work"),
        *("error", "KeyError"),
    )
