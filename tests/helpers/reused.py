"""Actors that one test after the other uses, where each is an interpreter of its own.

Elsewhere, and in workers, they are made as any other. Workers import this module, so
it imports little.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, final

from actorlib._api.actor_handle import pin_of
from helpers import actors

if TYPE_CHECKING:
    from collections.abc import Callable

_PATIENCE = 3.0
"""Seconds in which an actor has to answer, else the next test gets another."""


@final
class ReusedActors:
    """The actors of one runtime that no test uses, and those of the test that runs."""

    def __init__(self) -> None:
        self._idle: dict[object, list[Any]] = {}
        self._used: list[tuple[object, Any]] = []

    def take(self, name: object, make: Callable[[], Any]) -> Any:
        """Returns an idle actor of a name, or a new one."""
        idle = self._idle.get(name)
        actor = idle.pop() if idle else make()
        self._used.append((name, actor))
        return actor

    async def give_back(self) -> set[Any]:
        """Keeps those of the test that are as new.

        Returns:
            The ids of all actors that are kept.
        """
        used, self._used = self._used, []
        for (name, actor), is_new in zip(
            used,
            await asyncio.gather(*(_renew(actor) for _, actor in used)),
            strict=True,
        ):
            if is_new:
                self._idle.setdefault(name, []).append(actor)
        return {
            pin_of(actor).actor_id for idle in self._idle.values() for actor in idle
        }


REUSED: list[ReusedActors] = []
"""Those of the runtime that the test uses, if its engine is slow to make actors."""


async def _renew(actor: Any) -> bool:
    """Makes an actor as new; False if it has ended or is busy."""
    try:
        ref = actor.__ray_call__.remote(_begin_again)
        return bool(await asyncio.wait_for(ref, _PATIENCE))
    except Exception:  # noqa: BLE001  # whatever became of it, it is not used again
        return False


def _begin_again(actor: Any) -> bool:
    actor.__dict__.clear()
    actor.__init__()
    return True


@final
class Reusable:
    """Stands for a class whose actors are reused if nothing is said of them.

    Args:
        cls: The class, whose constructor needs no argument.
    """

    def __init__(self, cls: Any) -> None:
        self._cls = cls

    def remote(self) -> Any:
        """An actor as new."""
        if not REUSED:
            return self._cls.remote()
        return REUSED[-1].take(self, self._cls.remote)

    def options(self, **options: Any) -> Any:
        """The class with options; its actors are always new."""
        return self._cls.options(**options)


Echo = Reusable(actors.Echo)
Gate = Reusable(actors.Gate)
