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
runs. See ``Middleware``, ``ObservedCall`` and ``Outcome``; what runs where is said
there.
"""

from actorlib._core.middleware import (
    Middleware,
    ObservedCall,
    Outcome,
    Run,
    RunListener,
)

__all__ = [
    "Middleware",
    "ObservedCall",
    "Outcome",
    "Run",
    "RunListener",
]


def __dir__() -> list[str]:
    return sorted(__all__)
