"""Spans of calls, with OpenTelemetry's API only; see ``opentelemetry``."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple, final

from opentelemetry import context, propagate, trace
from opentelemetry.trace import SpanKind, Status, StatusCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from opentelemetry.context import Context
    from opentelemetry.trace import Span, Tracer, TracerProvider

    from actorlib._options.call_events import ObservedCall, Outcome

_SYSTEM: Final = "actorlib"
_NANOSECONDS: Final = 1_000_000_000


class _Worker(NamedTuple):
    """The span of the worker's side, and the token to restore the context."""

    span: Span
    token: Any


@final
class Spans:
    """A middleware that makes spans; see ``opentelemetry``."""

    def __init__(
        self,
        provider: TracerProvider | None,
        setup: Callable[[], object] | None,
    ) -> None:
        self._provider = provider
        self._setup = setup
        self._tracer: Tracer | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        # A provider has threads, so it is not sent.
        return _in_worker, (self._setup,)

    def before(self, call: ObservedCall) -> Span | _Worker:
        """Begins a span; see Middleware."""
        if call.side == "caller":
            span = self._begin(call, SpanKind.CLIENT, None)
            propagate.inject(call.carrier, trace.set_span_in_context(span))
            return span
        parent = propagate.extract(call.carrier)
        span = self._begin(call, SpanKind.SERVER, parent)
        return _Worker(span, context.attach(trace.set_span_in_context(span, parent)))

    def after(
        self, call: ObservedCall, token: Span | _Worker, outcome: Outcome
    ) -> None:
        """Ends a span; see Middleware."""
        if isinstance(token, _Worker):
            context.detach(token.token)
            token = token.span
        if call.side == "caller":
            self._add_events(token, call, outcome)
        if outcome.error:
            token.set_attribute("error.type", outcome.error)
        if outcome.status in ("error", "lost"):
            token.set_status(Status(StatusCode.ERROR, outcome.error))
        token.set_attribute("actorlib.status", outcome.status)
        token.end()

    def _begin(
        self, call: ObservedCall, kind: SpanKind, parent: Context | None
    ) -> Span:
        tracer = self._tracer
        if tracer is None:
            tracer = self._tracer = trace.get_tracer(
                _SYSTEM, vars(sys.modules["actorlib"])["__version__"], self._provider
            )
        service = call.class_name or "functions"
        return tracer.start_span(
            f"{service}/{call.method}",
            parent,
            kind,
            {
                "rpc.system": _SYSTEM,
                "rpc.service": service,
                "rpc.method": call.method,
                "actorlib.call.number": call.number,
                **_of_actor(call),
            },
        )

    def _add_events(self, span: Span, call: ObservedCall, outcome: Outcome) -> None:
        now, clock = time.time_ns(), time.monotonic()

        def when(then: float) -> int:
            return now - int((clock - then) * _NANOSECONDS)

        if outcome.began is not None and outcome.ended is not None:
            span.add_event("actorlib.began", timestamp=when(outcome.began))
            name = "actorlib.stream.ended" if call.is_stream else "actorlib.ended"
            span.add_event(name, timestamp=when(outcome.ended))
        if outcome.runs > 1:
            retries = {"actorlib.retries": outcome.runs - 1}
            span.add_event("actorlib.retried", retries)
        if outcome.status == "lost":
            lost = {"error.type": outcome.error}
            span.add_event("actorlib.process.lost", lost)


def _of_actor(call: ObservedCall) -> dict[str, str]:
    attributes: dict[str, str] = {}
    if call.actor_id:
        attributes["actorlib.actor.id"] = call.actor_id
    if call.actor_name is not None:
        attributes["actorlib.actor.name"] = call.actor_name
    return attributes


def _in_worker(setup: Callable[[], object] | None) -> Spans:
    """Makes the copy in a worker, after its provider."""
    if setup is not None:
        setup()
    return Spans(None, setup)
