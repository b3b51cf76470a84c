"""What a runtime asks of the engine in the owner's process, besides the verbs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from actorlib._engine import Engine

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from actorlib._bundles import GroupId
    from actorlib._function_options import FunctionOptions
    from actorlib._ids import ActorId
    from actorlib._options import ActorOptions
    from actorlib._snapshot import CallInfo, Snapshot


class Owner(Engine, Protocol):
    """The engine of the user's program."""

    def snapshot(self) -> Snapshot:
        """The state of the runtime now."""
        ...

    def calls(self) -> list[CallInfo]:
        """The calls that have no answer yet."""
        ...

    def explain(self, actor: ActorId) -> str:
        """Why an actor is not placed yet, or where it is."""
        ...

    def survey(self, label: str, options: ActorOptions | FunctionOptions) -> str:
        """Where an actor, or a call, would go now, or what stands in its way."""
        ...

    def explain_group(self, group: GroupId) -> str:
        """Why a placement group waits, or where its bundles are."""
        ...

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop that it was started on."""
        ...

    @property
    def is_closed(self) -> bool:
        """Whether it refuses everything by now, whoever has ended it."""
        ...

    def abandon(self) -> Callable[[], None]:
        """Ends everything where that loop is closed.

        Returns:
            Blocks until nothing is left.
        """
        ...

    async def aclose(self) -> None:
        """Ends every actor, the busy ones after a grace, and leaves nothing behind."""
        ...
