"""Calls observed: by middlewares of one's own, and by what is built on them.

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

``runtime.add_middleware()`` and ``runtime.remove_middleware()`` do so while the program
runs. ``prometheus()`` and ``opentelemetry()`` make such objects.

Each call is seen on both sides: ``"caller"``, from where ``.remote()`` is written to
the answer, and ``"worker"``, while the code runs. Both have the same ``number``; no two
calls of a runtime have one. What ``before`` of the caller's side puts into
``call.carrier`` is in ``call.carrier`` of the worker's side. See ``Middleware``,
``ObservedCall`` and ``Outcome``.

In the program, ``before`` runs on the thread that makes the call, and ``after`` on that
of the runtime's loop. An object that can be pickled also runs in every worker, as a
copy of its own: there it sees what runs, and the calls that this makes, also of other
actors and over links. Nothing is shared between copies. They are loaded when the first
call is seen. Any other object sees the caller's side of the calls that the program
makes, and no more. One that has a method ``ran`` is told of all that ran, wherever that
was: see ``RunListener``.

What raises is logged once, and breaks no call. While there is no middleware none of
this is loaded, and calls cost what they cost without it: the verbs of an engine are
replaced when the first is added, and put back when the last is removed. A middleware
that is removed still hears the end of what it saw begin.

Of a stream, ``after`` is at its end; its items are not counted. A batch is one call.

In reading order:

* ``_signals``: makes the middlewares that come with actorlib.
* ``_metrics``: counts for Prometheus.
* ``_spans``: makes spans by OpenTelemetry's API.
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
