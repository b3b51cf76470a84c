"""The ends of actors, for tests of both APIs.

Workers import this module with the module of a test, so it imports little.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

import actorlib
from actorlib._api.actor_handle import pin_of
from actorlib._core.engine import find_engine
from actorlib.exceptions import ActorError
from helpers.actors import LIMIT, gone
from helpers.actors import end_of as awaited_end_of

if TYPE_CHECKING:
    from helpers.callers import Api


remote = cast("Any", actorlib.remote)
"""``actorlib.remote``, with handles that are not typed."""


def end_of(api: Api, actor: Any) -> asyncio.Future[None]:
    """Done when an actor has ended.

    Args:
        api: How the test waits.
        actor: Its handle, which is not kept.
    """
    if not api.is_blocking:
        return awaited_end_of(actor)
    engine = cast("Any", find_engine())
    number = pin_of(actor).actor_id
    if not hasattr(engine, "actor_table"):  # another process has the actor
        ready = engine.ready(number)
        return asyncio.ensure_future(_end_elsewhere(engine, ready, number.hex()))
    ended: Future[None] = Future()

    def tell(_: object) -> None:
        ended.set_result(None)

    def watch() -> None:
        engine.actor_table.by_id[number].ended.add_done_callback(tell)

    engine.loop.call(watch)
    return asyncio.wrap_future(ended)


async def _end_elsewhere(engine: Any, ready: Any, key: str) -> None:
    with suppress(ActorError):  # it has ended meanwhile
        await asyncio.to_thread(ready.get, LIMIT)
    actors = await asyncio.to_thread(engine.actors)
    await asyncio.gather(*(gone(info.pid) for info in actors if info.actor_id == key))


async def restarted(api: Api, actor: Any) -> None:
    """Waits until an actor is back, also where ``await handle`` is not possible."""
    if api.is_blocking:
        await api.get(ready_again(actor))
    else:
        await api.ready(actor)


def ready_again(actor: Any) -> Any:
    """The ref of a call that waits until an actor is back."""
    return actor.__ray_ready__.options(max_task_retries=-1).remote()


def id_of(actor: Any) -> str:
    """The id of an actor in hex."""
    return str(pin_of(actor).actor_id.hex())


def info_of(actor: Any) -> Any:
    """What ``list_actors()`` tells of an actor."""
    (info,) = [info for info in actorlib.list_actors() if info.actor_id == id_of(actor)]
    return info


def leave(code: int | None = None) -> None:
    """Ends the actor in which it runs.

    Args:
        code: The exit code. Default: None, for ``exit_actor()``.
    """
    if code is None:
        actorlib.exit_actor()
    raise SystemExit(code)


def add(instance: Any) -> int:
    """Counts the calls of this function in an actor; for ``__ray_call__``."""
    instance.number = getattr(instance, "number", 0) + 1
    return cast("int", instance.number)


def keep(instance: Any, value: Any) -> None:
    """Keeps a value in an actor, for ``__ray_call__``."""
    instance.value = value


def kept(instance: Any) -> Any:
    """The value that ``keep`` has kept, for ``__ray_call__``."""
    return instance.value
