"""Whether an actor is ready, and how it is ended: what is known by asking its host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from actorlib._ray.library import ray
from actorlib._ray.tasks import Failed, Task

if TYPE_CHECKING:
    import asyncio

    from actorlib._ray.actors import Actor
    from actorlib._ray.home import Home
    from actorlib._ref import ObjectRef


class Endings:
    """Beginnings and ends of the actors that one process knows.

    Args:
        home: Where its refs are filled.
    """

    def __init__(self, home: Home) -> None:
        self._home = home

    def ready(self, actor: Actor) -> ObjectRef[Any]:
        """Done when the actor is ready; see Engine."""
        if actor.why is not None or actor.died is not None:
            error = cast("BaseException", actor.why or actor.died)
            return self._task(actor).filled(Failed(error))
        if actor.readiness is None:
            actor.readiness = self.asked_ready(actor)
        return actor.readiness

    def asked_ready(self, actor: Actor) -> ObjectRef[Any]:
        """Asks for the first sign of life; a restart is waited for."""

        def read(answer: Any) -> Any:
            if isinstance(answer, str):
                actor.incarnation = answer
                return None
            return answer

        times = -1 if actor.traits.restarts else 0
        name = f"{actor.label}.ready"
        ask = actor.handle.ready.options(max_task_retries=times, name=name)
        ref = Task(self._home, ask.remote(), actor.label, actor, read).ref()
        ref.add_done_callback(_look)
        return ref

    def end(self, actor: Actor) -> ObjectRef[None]:
        """Ends the actor behind what it was sent; see Engine."""
        if actor.handle is None:
            return self._task(actor).filled(None)
        # A client's handles have no other way than what the host itself has.
        way = (
            actor.handle.leave if self._home.is_far else actor.handle.__ray_terminate__
        )
        ray_ref = way.remote()
        return Task(self._home, ray_ref, actor.label, actor, _gone).ref()

    def kill(self, actor: Actor, *, restart: bool) -> ObjectRef[None]:
        """Ends the actor at once; see Engine."""
        done = self._task(actor)
        if actor.handle is None:
            return done.filled(None)
        actor.readiness = None
        ref = done.unasked()
        ray.kill(actor.handle, no_restart=not restart)
        self._ask_until_gone(actor, done, restart=restart)
        return ref

    def _ask_until_gone(self, actor: Actor, done: Task, *, restart: bool) -> None:
        """Asks for a sign of life; its process is gone when there is none from it.

        Ray kills behind the back of whoever asks it to, so the first ones may come.
        """
        before = actor.incarnation

        def read(answer: Any) -> Any:
            if isinstance(answer, str) and (not restart or answer == before):
                self._ask_until_gone(actor, done, restart=restart)
            else:
                done.settle(None)
            return None

        ask = actor.handle.ready.options(max_task_retries=0)
        Task(self._home, ask.remote(), actor.label, actor, read).ref()

    def _task(self, actor: Actor) -> Task:
        return Task(self._home, None, actor.label, actor)


def _gone(answer: Any) -> None:
    """What an ending comes to: whatever Ray says of it, the actor is gone."""
    del answer


def _look(ref: asyncio.Future[Any]) -> None:
    """Nobody has to be told of an error here: every call of the actor tells it."""
    if not ref.cancelled():
        ref.exception()
