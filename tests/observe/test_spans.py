"""Spans of calls, by OpenTelemetry's SDK: at the caller, in the worker, and between."""

from __future__ import annotations

import asyncio
import pickle
from typing import TYPE_CHECKING, Any

import pytest
from helpers.actors import running

import actorlib
from actorlib.observe import ObservedCall, Outcome, opentelemetry

pytest.importorskip("opentelemetry.sdk")
from opentelemetry import baggage, context, trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

if TYPE_CHECKING:
    from actorlib import ActorHandle

EXPORTED = InMemorySpanExporter()


def recording() -> tuple[TracerProvider, InMemorySpanExporter]:
    exported = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exported))
    return provider, exported


def record_here() -> None:
    """Records the spans of a worker, in that worker."""
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(EXPORTED))
    trace.set_tracer_provider(provider)


@actorlib.remote
class Traced:
    """Makes spans of its own, and tells what was exported here."""

    async def inner(self) -> str:
        with trace.get_tracer("code").start_as_current_span("code"):
            await asyncio.sleep(0)
        return str(baggage.get_baggage("tenant"))

    async def outer(self, this: ActorHandle[Any]) -> str:
        return str(await this.inner.remote())

    async def exported(self) -> list[tuple[str, str, int, int, int]]:
        return [row(span) for span in EXPORTED.get_finished_spans()]


def row(span: ReadableSpan) -> tuple[str, str, int, int, int]:
    """A span: name, kind, trace, its own id, and that of its parent or 0."""
    own, parent = span.context, span.parent
    assert own is not None
    return (
        span.name,
        span.kind.name,
        own.trace_id,
        own.span_id,
        0 if parent is None else parent.span_id,
    )


@pytest.mark.memory
async def test_spans_when_calls_cross_processes_then_they_are_of_one_trace() -> None:
    provider, exported = recording()
    spans = opentelemetry(provider, setup=record_here)
    async with running(middleware=[spans]):
        traced = Traced.remote()
        with provider.get_tracer("test").start_as_current_span("test"):
            token = context.attach(baggage.set_baggage("tenant", "t1"))
            assert await traced.outer.remote(traced) == "t1"
            context.detach(token)
        rows = [row(span) for span in exported.get_finished_spans()]
        rows += await traced.exported.remote()

    found = {(name, kind): (mine, parent) for name, kind, _, mine, parent in rows}
    above = [
        ("test", "INTERNAL"),
        ("Traced/outer", "CLIENT"),
        ("Traced/outer", "SERVER"),
        ("Traced/inner", "CLIENT"),
        ("Traced/inner", "SERVER"),
        ("code", "INTERNAL"),
    ]
    assert [found[key][1] for key in above] == [0, *(found[key][0] for key in above)][
        : len(above)
    ]
    assert len({trace_id for _, _, trace_id, *_ in rows}) == 1


def call(side: Any = "caller", **known: Any) -> ObservedCall:
    fields: dict[str, Any] = {
        "actor_id": "aa",
        "class_name": "Model",
        "actor_name": "m1",
        "method": "predict",
        "caller_id": "",
        "is_stream": False,
        "carrier": {},
    }
    return ObservedCall(side, 7, **{**fields, **known})


def ended(outcome: Outcome, **known: Any) -> ReadableSpan:
    """The span of a call at its caller."""
    provider, exported = recording()
    spans = opentelemetry(provider)
    made = call(**known)
    spans.after(made, spans.before(made), outcome)
    (span,) = exported.get_finished_spans()
    return span


def test_span_when_its_call_is_done_then_it_says_what_it_was() -> None:
    span = ended(Outcome("ok", "", 1.0, 2.0, 1))

    assert (span.name, span.kind) == ("Model/predict", SpanKind.CLIENT)
    assert dict(span.attributes or {}) == {
        "rpc.system": "actorlib",
        "rpc.service": "Model",
        "rpc.method": "predict",
        "actorlib.actor.id": "aa",
        "actorlib.actor.name": "m1",
        "actorlib.call.number": 7,
        "actorlib.status": "ok",
    }
    began, over = span.events
    assert (began.name, over.name) == ("actorlib.began", "actorlib.ended")
    assert over.timestamp - began.timestamp == pytest.approx(1e9, abs=1e3)
    assert span.status.status_code is StatusCode.UNSET


def test_span_when_its_stream_failed_or_its_process_died_then_its_events_say_so() -> (
    None
):
    span = ended(
        Outcome("error", "KeyError", 1.0, 2.0, 3),
        is_stream=True,
        actor_id="",
        class_name="",
        actor_name=None,
        method="f",
    )
    lost = ended(Outcome("lost", "ActorDiedError"))

    assert [event.name for event in span.events] == [
        "actorlib.began",
        "actorlib.stream.ended",
        "actorlib.retried",
    ]
    assert (span.events[-1].attributes or {})["actorlib.retries"] == 2
    assert span.name == "functions/f"
    assert (span.attributes or {})["error.type"] == "KeyError"
    assert [event.name for event in lost.events] == ["actorlib.process.lost"]
    assert span.status.status_code is lost.status.status_code is StatusCode.ERROR


def test_span_when_it_is_the_workers_then_it_is_current_until_its_end() -> None:
    provider, exported = recording()
    spans = opentelemetry(provider)
    made = call()
    mine = spans.before(made)
    there = call("worker", carrier=made.carrier)

    before = trace.get_current_span()
    token = spans.before(there)
    current = trace.get_current_span()
    spans.after(there, token, Outcome("cancelled", "TaskCancelledError", 1.0, 2.0, 1))
    after = trace.get_current_span()
    spans.after(made, mine, Outcome("cancelled", "TaskCancelledError"))

    worker, caller = exported.get_finished_spans()
    assert current.get_span_context() == worker.context
    assert before == after
    assert worker.parent is not None
    assert caller.context is not None
    assert worker.parent.span_id == caller.context.span_id
    assert worker.status.status_code is StatusCode.UNSET
    assert list(made.carrier) == ["traceparent"]


def test_setup_when_it_is_no_function_then_it_is_refused() -> None:
    setup: Any = "setup"

    with pytest.raises(TypeError, match="setup takes a function"):
        opentelemetry(setup=setup)


def test_spans_when_they_are_sent_then_their_setup_is_done_there() -> None:
    done.clear()

    pickle.loads(pickle.dumps(opentelemetry(TracerProvider(), setup=note)))

    assert done == ["done"]


done: list[str] = []


def note() -> None:
    done.append("done")
