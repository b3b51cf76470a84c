"""Makes the middlewares that come with actorlib; each loads a library when made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actorlib._base.public import public

if TYPE_CHECKING:
    from collections.abc import Callable

    from opentelemetry.trace import TracerProvider
    from prometheus_client import CollectorRegistry

    from actorlib._options.call_events import Middleware


@public("actorlib.observe")
def prometheus(registry: CollectorRegistry | None = None) -> Middleware:
    """Makes a middleware that counts for Prometheus.

    It needs the extra ``metrics``: ``pip install actorlib[metrics]``. Give it to a
    runtime, and serve what the registry has from your own app::

        async with actorlib.init(middleware=[actorlib.observe.prometheus()]):
            app.mount("/metrics", prometheus_client.make_asgi_app())  # Starlette's

    or from a port of its own (``prometheus_client.start_http_server(9000)``);
    ``actorlib metrics`` prints it at any terminal of the same user.

    * ``actorlib_calls_total``: calls by ``actor_class`` (empty for functions),
      ``method`` and ``outcome``, which is ok, error, cancelled or lost
    * ``actorlib_call_queue_seconds``: how long calls waited, a histogram
    * ``actorlib_call_run_seconds``: how long their code ran, a histogram
    * ``actorlib_actors``: actors by ``state``
    * ``actorlib_pending_calls``: calls without an answer, by ``actor_class``
    * ``actorlib_placement_seconds``: how long actors took from being made to being
      ready, a histogram by ``actor_class``
    * ``actorlib_restarts_total``: restarts by ``actor_class``
    * ``actorlib_waiting``: how many wait for resources
    * ``actorlib_resources``, ``actorlib_resources_available``: by ``resource``
    * ``actorlib_device_share``: what is granted of a device, from 0 to 1, by ``kind``
      and ``device``
    * ``actorlib_device_memory_bytes``: what actors had of a device that they share
    * ``actorlib_device_memory_limit_bytes``: the memory of a device
    * ``actorlib_host_memory_bytes``: what actors have that ask for memory
    * ``actorlib_object_store_bytes``: shared memory by ``state``, live or warm
    * ``actorlib_object_store_limit_bytes``: the most that there may be

    All calls of the program are counted, and so are those of workers whose code ran.
    If a method is called less than a hundred times a second, all its times are taken;
    of a method that is called more often, the times of some calls are taken, so the
    ``_count`` of a histogram is not the number of calls. Everything else is read from
    the runtime when somebody scrapes: on the thread of its loop at once, from another
    thread by way of the loop. After 500 methods, all others count as one, ``(other)``.
    Beside another middleware every call is observed, which costs more; see
    ``benchmarks/observing.py``.

    Args:
        registry: Where it is registered. Default: None, for that of
            ``prometheus_client`` itself.

    Returns:
        The middleware, for ``init(middleware=[...])`` or ``add_middleware()``.

    Raises:
        ImportError: ``prometheus_client`` is not installed.
        ValueError: The registry has one already.

    Example:
        >>> from prometheus_client import CollectorRegistry
        >>> registry = CollectorRegistry()
        >>> metrics = actorlib.observe.prometheus(registry)
        >>> async def main():
        ...     async with actorlib.init(engine="inline", middleware=[metrics]):
        ...         return registry.get_sample_value("actorlib_waiting")
        >>> actorlib.run(main())
        0.0
    """
    try:
        from actorlib.observe._metrics import Metrics  # noqa: PLC0415  # an extra
    except ImportError as error:
        raise ImportError(_missing("metrics", error)) from error
    if registry is None:
        from prometheus_client import REGISTRY  # noqa: PLC0415  # it is there

        registry = REGISTRY
    return Metrics(registry)


@public("actorlib.observe")
def opentelemetry(
    tracer_provider: TracerProvider | None = None,
    *,
    setup: Callable[[], object] | None = None,
) -> Middleware:
    """Makes a middleware that gives spans of calls to OpenTelemetry.

    It needs the extra ``otel``, which is OpenTelemetry's API:
    ``pip install actorlib[otel]``. Providers and exporters are yours; without one
    nothing is recorded. Workers are processes of their own: what ``setup`` does there
    is done before their first span::

        def setup():
            provider = TracerProvider(resource=Resource.create({"service.name": "m"}))
            provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
            trace.set_tracer_provider(provider)

        setup()
        spans = actorlib.observe.opentelemetry(setup=setup)
        async with actorlib.init(middleware=[spans]):
            ...

    Each call has two spans, both named ``Model/predict``: one at the caller, of the
    kind CLIENT, from where it is made to its answer; and below it one in the worker, of
    the kind SERVER, while its code runs. That one is the current span there, so spans
    of the code are below it, and so are calls that it makes. The span at the caller is
    below the span that is current where the call is made.

    They have the attributes ``rpc.system`` (``"actorlib"``), ``rpc.service`` (the
    class; ``functions`` for functions), ``rpc.method``, ``error.type`` with the class
    of an error, ``actorlib.status`` (ok, error, cancelled, lost),
    ``actorlib.call.number``, ``actorlib.actor.id`` and ``actorlib.actor.name``. At the
    caller the events ``actorlib.began`` and ``actorlib.ended``
    (``actorlib.stream.ended`` of a stream) say when its code ran, ``actorlib.retried``
    how often it was made again after an error, and ``actorlib.process.lost`` that the
    process ended. What crosses is what the global propagators say, by default a W3C
    trace context and baggage.

    Args:
        tracer_provider: Makes the spans of this process. Default: None, for the global
            one.
        setup: Called once in each worker that is told of a call, before its first span;
            it is pickled, as functions of actors are. A worker that ends because its
            actor is killed exports nothing more. Default: None, for workers whose
            provider is set where their code is imported, or by the variables
            ``OTEL_PYTHON_TRACER_PROVIDER`` and others.

    Returns:
        The middleware, for ``init(middleware=[...])`` or ``add_middleware()``.

    Raises:
        ImportError: OpenTelemetry's API is not installed.
        TypeError: ``setup`` cannot be called.

    Example:
        >>> spans = actorlib.observe.opentelemetry()
        >>> async def main():
        ...     async with actorlib.init(engine="inline", middleware=[spans]):
        ...         return await ref_of_a_call()
        >>> async def ref_of_a_call():
        ...     return "traced"
        >>> actorlib.run(main())
        'traced'
    """
    try:
        from actorlib.observe._spans import Spans  # noqa: PLC0415  # an extra
    except ImportError as error:
        raise ImportError(_missing("otel", error)) from error
    if setup is not None and not callable(setup):
        raise TypeError(f"setup takes a function, not {setup!r}")
    return Spans(tracer_provider, setup)


def _missing(extra: str, error: ImportError) -> str:
    return f"{error}: it comes with the extra, pip install 'actorlib[{extra}]'"
