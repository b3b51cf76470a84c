"""The engine of the user's program, from the connection to the cluster to its end."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from actorlib._function_options import FunctionOptions
from actorlib._owner_thread import OwnerThread
from actorlib._ray.cluster import connect, disconnect
from actorlib._ray.crossing import House
from actorlib._ray.engine import RayEngine
from actorlib._ray.here import ARRIVALS, context_here
from actorlib._ray.home import Home, from_anywhere
from actorlib._ray.library import install_serializers, is_client, ray
from actorlib._ray.lookout import Lookout, unanswered
from actorlib._runtime_env import Heritage
from actorlib._snapshot import ObjectStoreInfo, Snapshot

if TYPE_CHECKING:
    from collections.abc import Callable

    from actorlib._bundles import GroupId
    from actorlib._ids import ActorId
    from actorlib._options import ActorOptions
    from actorlib._runtime_options import RuntimeOptions
    from actorlib._snapshot import CallInfo


_log = logging.getLogger("actorlib")


class OwnerEngine(RayEngine):
    """The engine of the process that has started the runtime; see Owner.

    Args:
        options: What was said of the runtime.
    """

    def __init__(self, options: RuntimeOptions) -> None:
        loop = asyncio.get_running_loop()
        home = Home(ARRIVALS, loop, owner=OwnerThread(loop), is_far=is_client())
        house = House(options.namespace, options.infeasible == "wait")
        super().__init__(home, context_here(options.namespace), house)
        env = options.runtime_env
        if env:
            self.heritage = Heritage(env)
            self.context = replace(self.context, runtime_env=env)
        self._grace = options.grace
        self._lookout = Lookout(self.asking, self.nodes)

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop that it was started on; see Owner."""
        return self.home.loop

    def abandon(self) -> Callable[[], None]:
        """Leaves the cluster, where the loop is closed; its actors end with that."""
        self.close()
        return cast("Callable[[], None]", ray.shutdown)

    async def aclose(self) -> None:
        """Ends every actor of this program, the busy ones after a grace."""
        try:
            living = [] if self.home.is_lost else self.living()
            ending = [self.end(key) for key in living]
            if ending:
                await asyncio.wait(ending, timeout=self._grace)
        except ConnectionError as error:  # its server's end is that of its actors
            _log.warning("the runtime ends without its cluster: %s", error)
        finally:
            self.close()
            await disconnect()

    @from_anywhere
    def snapshot(self) -> Snapshot:
        """What the cluster has and what lives in it; see Owner.

        Ray does not tell who waits, and for what: ``ray status`` does.
        """
        return Snapshot(
            total=self.total(),
            available=self.available(),
            waiting=(),
            actors=tuple(self.actors()),
            object_store=ObjectStoreInfo(),
            groups=tuple(self.groups.infos()),
        )

    @from_anywhere
    def calls(self) -> list[CallInfo]:
        """The calls of actors that this program waits for; see Owner.

        Of those that actors have made, ``ray list tasks`` tells, where the cluster has
        its dashboard.
        """
        return list(unanswered(self.home.pending))

    @from_anywhere
    def explain(self, actor: ActorId) -> str:
        """Where an actor is, or what it asks; see Owner."""
        self.home.check()
        return self._lookout.actor(self.actor(actor))

    @from_anywhere
    def survey(self, label: str, options: ActorOptions | FunctionOptions) -> str:
        """Which machines an actor, or a call, could go to now; see Owner."""
        self.home.check()
        asked = options.worker if isinstance(options, FunctionOptions) else options
        return self._lookout.survey(label, asked)

    @from_anywhere
    def explain_group(self, group: GroupId) -> str:
        """Where the bundles of a group are, or what it asks; see Owner."""
        self.home.check()
        return self._lookout.group(group.hex())


async def start(options: RuntimeOptions, address: str | None) -> OwnerEngine:
    """Connects to a cluster, or starts one, and makes the engine of this process.

    Raises:
        ClusterError: There is no cluster there.
    """
    await connect(options, address)
    install_serializers()
    return OwnerEngine(options)
