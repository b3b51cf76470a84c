"""Actors that work until their time is over, on whichever engine."""

from __future__ import annotations

from typing import Any

import pytest

import actorlib
from actorlib.exceptions import ActorlibError, DeadlineExceededError
from helpers.actors import Log


def until_canceled() -> str:
    """What a plain method does that looks whether anybody still waits."""
    context = actorlib.get_runtime_context()
    while not context.is_canceled():
        pass
    return "stopped by itself"


class Worker(Log):
    """Works until nobody waits for it."""

    def work(self) -> str:
        """Notes how it ended."""
        return self.note(until_canceled())

    def ask(self, handle: Any, method: str, *args: Any) -> Any:
        """Asks another actor, and notes what came of it."""
        try:
            return actorlib.get(getattr(handle, method).remote(*args))
        except ActorlibError as error:
            self.note(type(error).__name__)
            raise

    def left(self) -> float | None:
        """What is left of its time."""
        return actorlib.get_runtime_context().time_left()


async def late(ref: Any) -> DeadlineExceededError:
    """What is raised by a call whose time is over."""
    with pytest.raises(DeadlineExceededError) as caught:
        await ref
    return caught.value
