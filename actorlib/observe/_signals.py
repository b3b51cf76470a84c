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
    """Returns a middleware that collects metrics for Prometheus.

    It needs the extra ``metrics``: ``pip install actorlib[metrics]``. Pass it to a
    runtime, and serve the registry from your own app::

        async with actorlib.init(middleware=[actorlib.observe.prometheus()]):
            app.mount("/metrics", prometheus_client.make_asgi_app())  # Starlette's

    or from a port of its own (``prometheus_client.start_http_server(9000)``);
    ``actorlib metrics`` prints it at any terminal of the same user.

    * ``actorlib_calls_total``: calls by ``actor_class`` (empty for functions),
      ``method`` and ``outcome``, which is ok, error, cancelled or lost
    * ``actorlib_call_queue_seconds``: the waiting time of calls, a histogram
    * ``actorlib_call_run_seconds``: the running time of their code, a histogram
    * ``actorlib_actors``: actors by ``state``
    * ``actorlib_pending_calls``: unanswered calls, by ``actor_class``
    * ``actorlib_placement_seconds``: the time from the creation of an actor until it is
      ready, a histogram by ``actor_class``
    * ``actorlib_restarts_total``: restarts by ``actor_class``
    * ``actorlib_waiting``: requests that wait for resources
    * ``actorlib_resources``, ``actorlib_resources_available``: by ``resource``
    * ``actorlib_device_share``: the granted share of a device, from 0 to 1, by ``kind``
      and ``device``
    * ``actorlib_device_memory_bytes``: the memory that actors use of shared devices
    * ``actorlib_device_memory_limit_bytes``: the memory of a device
    * ``actorlib_host_memory_bytes``: the memory of actors that request ``memory``
    * ``actorlib_object_store_bytes``: shared memory by ``state``, live or warm
    * ``actorlib_object_store_limit_bytes``: the limit of shared memory

    All calls of the program are counted, and the calls of workers whose code ran. The
    times of all calls are measured if a method is called less than a hundred times per
    second. Otherwise some calls are measured, so the ``_count`` of a histogram is not
    the number of calls. Everything else is read from the runtime when the metrics are
    scraped: at once on the thread of its loop, and through the loop on other threads.
    After 500 methods, all others count as one, ``(other)``. With another middleware,
    all calls are observed, which costs more; see ``benchmarks/observing.py``.

    Args:
        registry: The registry. Default: None, for the default registry of
            ``prometheus_client``.

    Returns:
        The middleware, for ``init(middleware=[...])`` or ``add_middleware()``.

    Raises:
        ImportError: ``prometheus_client`` is not installed.
        ValueError: The registry has these metrics already.

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
        from prometheus_client import REGISTRY  # noqa: PLC0415  # an extra

        registry = REGISTRY
    return Metrics(registry)


@public("actorlib.observe")
def opentelemetry(
    tracer_provider: TracerProvider | None = None,
    *,
    setup: Callable[[], object] | None = None,
) -> Middleware:
    """Returns a middleware that makes OpenTelemetry spans of calls.

    It needs the extra ``otel``, which is OpenTelemetry's API:
    ``pip install actorlib[otel]``. Provide your own providers and exporters; without
    them nothing is recorded. Workers are separate processes, and call ``setup`` before
    their first span::

        def setup():
            provider = TracerProvider(resource=Resource.create({"service.name": "m"}))
            provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
            trace.set_tracer_provider(provider)

        setup()
        spans = actorlib.observe.opentelemetry(setup=setup)
        async with actorlib.init(middleware=[spans]):
            ...

    Each call has two spans, both named ``Model/predict``. The caller's span has the
    kind CLIENT and lasts from the call to its answer; its parent is the current span of
    the caller. The worker's span has the kind SERVER, lasts while the code runs, and is
    a child of the caller's span. It is the current span there, so it is the parent of
    spans that the code makes, and of its calls.

    They have the attributes ``rpc.system`` (``"actorlib"``), ``rpc.service`` (the
    class; ``functions`` for functions), ``rpc.method``, ``error.type`` with the class
    of an error, ``actorlib.status`` (ok, error, cancelled, lost),
    ``actorlib.call.number``, ``actorlib.actor.id`` and ``actorlib.actor.name``. The
    caller's span has events: ``actorlib.began`` and ``actorlib.ended``
    (``actorlib.stream.ended`` for a stream) with the times of the code,
    ``actorlib.retried`` with the number of retries, and ``actorlib.process.lost`` if
    the process ended. The global propagators choose the context that is sent, by
    default a W3C trace context and baggage.

    Args:
        tracer_provider: Makes the spans of this process. Default: None, for the global
            one.
        setup: Called once in each worker with an observed call, before its first span;
            it is pickled as functions of actors are. A worker of a killed actor exports
            nothing more. Default: None, for workers whose provider is set where their
            code is imported, or by the variables
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
