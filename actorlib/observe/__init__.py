"""Middlewares, which observe calls, and those that come with actorlib.

A *middleware* is an object with two methods::

    class Slow:
        def before(self, call):
            return time.monotonic()

        def after(self, call, token, outcome):
            took = time.monotonic() - token
            if took > 1:
                print(f"{call.side} {call.class_name}.{call.method}: {took:.1f} s")

    async with actorlib.init(middleware=[Slow()]) as runtime:
        ...

``runtime.add_middleware()`` and ``runtime.remove_middleware()`` change the list while
the program runs. ``prometheus()`` and ``opentelemetry()`` return middlewares.

Each call is observed on both sides: on the side ``"caller"`` from ``.remote()`` to the
answer, and on the side ``"worker"`` while the code runs. Both sides have the same
``number``, which is unique in the runtime. The worker's ``call.carrier`` contains what
the caller's ``before`` has put into it. See ``Middleware``, ``ObservedCall`` and
``Outcome``.

In the program, ``before`` runs on the thread that makes the call, and ``after`` on the
thread of the runtime's loop. A middleware that can be pickled also runs in each worker,
as a copy: there it observes the calls that run, and the calls that their code makes,
even over links. Copies share nothing. They are loaded with the first observed call.
Other middlewares observe only the caller's side of the calls that the program makes. A
middleware with a method ``ran`` is called for all runs, in any process: see
``RunListener``.

An exception in a middleware is logged once, and breaks no call. Without a middleware
none of this is loaded, and calls have no additional cost: the operations of an engine
are replaced when the first one is added, and restored when the last one is removed. A
removed middleware still gets ``after`` for the calls whose ``before`` it got.

For a stream, ``after`` is called at its end; items are not observed. A batch is one
call.

In reading order:

* ``_signals``: ``prometheus`` and ``opentelemetry``.
* ``_metrics``: the metrics for Prometheus.
* ``_spans``: the spans for OpenTelemetry.
"""

from actorlib._options.call_events import (
    Middleware,
    ObservedCall,
    Outcome,
    Run,
    RunListener,
)
from actorlib.observe._signals import opentelemetry, prometheus

__all__ = [
    "Middleware",
    "ObservedCall",
    "Outcome",
    "Run",
    "RunListener",
    "opentelemetry",
    "prometheus",
]


def __dir__() -> list[str]:
    return sorted(__all__)
