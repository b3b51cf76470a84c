"""Callbacks that threads post to the loop of a runtime, served many at a time."""

from __future__ import annotations

from contextvars import Context, ContextVar
from typing import cast

from actorlib._loops.loop_thread import ThreadedLoop, new_loop

whose: ContextVar[str] = ContextVar("whose", default="nobody's")


def as_actor(loop: ThreadedLoop, seen: list[str]) -> None:
    """Posts as the code of an actor in the owner's process does."""
    whose.set("an actor's")
    loop.post(lambda: seen.append(whose.get()))


def test_callback_when_an_actor_woke_the_loop_then_it_runs_in_its_own_context() -> None:
    loop = cast("ThreadedLoop", new_loop(ThreadedLoop))
    loop.begin()
    seen: list[str] = []
    Context().run(as_actor, loop, seen)

    loop.call_soon_threadsafe(lambda: seen.append(whose.get()))
    loop.call_soon_threadsafe(loop.stop)
    loop.run_forever()
    loop.close()

    assert seen == ["nobody's", "nobody's"]
