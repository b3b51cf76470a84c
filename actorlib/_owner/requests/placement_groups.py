"""Operations on placement groups, for the owner's own code and for workers."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from actorlib._base.ids import GROUP_KIND, ID_SIZE, kind_of, maker_of
from actorlib._core.engine import PlacementGroups
from actorlib._futures.object_ref import ObjectRef
from actorlib._futures.runtime_portal import on_loop
from actorlib._options.group_spec import GroupId, GroupSpec
from actorlib._owner.objects.refcount import OWNER
from actorlib._owner.requests.untrusted import load_items, load_one
from actorlib._wire.messages import RESULT
from actorlib._wire.serialization import dump
from actorlib.exceptions import PlacementGroupRemovedError, ProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable

    from actorlib._futures.runtime_portal import RuntimePortal
    from actorlib._owner.actors.actor_table import ActorTable
    from actorlib._owner.requests.worker_calls import WorkerCall
    from actorlib._rows.snapshot import GroupInfo
    from actorlib._scheduler.placement_group import GroupTable
    from actorlib._shm.memory import Payload


class GroupOperations(PlacementGroups):
    """The operations on groups for the owner's own code, on any thread."""

    def __init__(
        self, table: ActorTable, portal: RuntimePortal, check: Callable[[], None]
    ) -> None:
        self._groups = table.groups
        self.portal = portal
        self._loop = table.loop
        self._new_id = table.ids.new_group_id
        self._check = check
        self._objects = table.objects

    @on_loop
    def reserve(self, spec: GroupSpec) -> GroupSpec:
        self._check()
        spec = replace(spec, id=self._new_id())
        self._groups.reserve(spec, OWNER)
        return spec

    @on_loop
    def ready(self, group: GroupId, value: object) -> ObjectRef[Any]:
        self._check()
        ref: ObjectRef[Any] = ObjectRef(loop=self._loop)
        ref.bind(self._objects, 0)

        def settle(error: BaseException | None) -> None:
            if ref.done():
                return
            if error is None:
                ref.set_result(value)
            else:
                ref.set_exception(error)

        when_ready(self._groups, group, settle)
        return ref

    @on_loop
    def remove(self, group: GroupId) -> asyncio.Future[None]:
        self._check()
        reason = "remove_placement_group() was called"
        return remove_group(self._groups, group, reason, self._loop)

    @on_loop
    def find(self, name: str) -> GroupSpec:
        self._check()
        return self._groups.named(name).spec

    @on_loop
    def infos(self) -> list[GroupInfo]:
        return [group.info() for group in self._groups]


def serve(groups: GroupTable, call: WorkerCall, verb: str, payload: Payload) -> None:
    """Serves an operation of a worker on groups.

    Args:
        groups: All groups.
        call: Gets the answer.
        verb: The name of the operation.
        payload: Its arguments, pickled; for ``ready`` with the value of the answer.
    """
    session = call.session

    def answer(value: object = None) -> None:
        call.answer((RESULT, 0, None, dump(value)))

    try:
        if verb == "infos":
            answer([group.info() for group in groups])
        elif verb == "find":
            answer(groups.named(load_one(payload, str)).spec)
        elif verb == "reserve":
            maker = session.number
            groups.reserve(_new_spec(payload, groups, maker), maker)
            answer()
        elif verb == "remove":
            by = f"a {session.title}" if session.is_client else "an actor"
            reason = f"{by} called remove_placement_group()"
            group = GroupId(load_one(payload, bytes))
            removal = remove_group(groups, group, reason, asyncio.get_running_loop())
            removal.add_done_callback(lambda _: answer())
        else:
            group, value = load_items(payload, bytes, bytes)

            def settle(error: BaseException | None) -> None:
                if error is not None:
                    call.fail(error)
                else:
                    call.answer((RESULT, 0, None, value))

            when_ready(groups, group, settle)
    except ValueError as error:
        call.fail(error)


def _new_spec(payload: Payload, groups: GroupTable, maker: int) -> GroupSpec:
    """Loads the spec of a worker's new group, and checks the id that it has chosen.

    Raises:
        ProtocolError: It is not a spec, or the worker may not use the id.
    """
    spec = load_one(payload, GroupSpec)
    group: Any = spec.id  # unpickling does not validate
    if (
        not isinstance(group, bytes)
        or len(group) != ID_SIZE
        or kind_of(group) != GROUP_KIND
        or maker_of(group) != maker
        or groups.find(spec.id) is not None
    ):
        raise ProtocolError(f"a worker's group has the id {group!r}")
    return spec


def when_ready(
    groups: GroupTable, group: GroupId, settle: Callable[[BaseException | None], None]
) -> None:
    """Calls ``settle`` when a group is reserved, or with the error if it never is."""
    placement_group = groups.find(group)
    if placement_group is None:
        settle(PlacementGroupRemovedError(f"group {group.hex()} was removed"))
        return
    ready = placement_group.ready()
    if ready.done():  # at once: a function that waits for it keeps its CPUs
        settle(ready.exception())
    else:
        ready.add_done_callback(lambda done: settle(done.exception()))


def remove_group(
    groups: GroupTable, group: GroupId, reason: str, loop: asyncio.AbstractEventLoop
) -> asyncio.Future[None]:
    """Removes a group; done when all its members have ended."""
    placement_group = groups.find(group)
    if placement_group is not None:
        return groups.remove(placement_group, reason)
    removal: asyncio.Future[None] = loop.create_future()
    removal.set_result(None)
    return removal
