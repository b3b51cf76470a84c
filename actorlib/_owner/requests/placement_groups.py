"""Verbs of placement groups, for the owner's own code and for workers."""

from __future__ import annotations

import asyncio
import itertools
import weakref
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from actorlib._base.ids import GROUP_KIND, ID_SIZE, kind_of, maker_of
from actorlib._core.engine import PlacementGroups
from actorlib._futures.object_ref import ObjectRef
from actorlib._futures.runtime_portal import on_loop
from actorlib._loops.loop_thread import add_done_callback, block
from actorlib._options.group_spec import GroupId, GroupSpec
from actorlib._owner.objects.refcount import OWNER
from actorlib._owner.requests.untrusted import opened_as, opened_one
from actorlib._wire.messages import RESULT
from actorlib._wire.serialization import dump
from actorlib.exceptions import PlacementGroupRemovedError, ProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable

    from actorlib._futures.runtime_portal import RuntimePortal
    from actorlib._owner.requests.worker_calls import WorkerCall
    from actorlib._rows.snapshot import GroupInfo
    from actorlib._scheduler.placement_group import GroupTable
    from actorlib._shm.memory import Payload

Entry = ObjectRef[Any] | weakref.ref[ObjectRef[Any]]

_STAYS = "what is asked of a group waits in one process: await it, and send the group"


class GroupVerbs(PlacementGroups):
    """Serves the owner's own code, on any thread, what it asks of groups.

    Args:
        groups: All of them.
        portal: Crosses to the owner's loop.
        loop: The owner's loop.
        new_id: Gives a new group its id.
        check: Raises if the caller may not ask now.
    """

    def __init__(
        self,
        groups: GroupTable,
        portal: RuntimePortal,
        loop: asyncio.AbstractEventLoop,
        new_id: Callable[[], GroupId],
        check: Callable[[], None],
    ) -> None:
        self._groups = groups
        self.portal = portal
        self._loop = loop
        self._new_id = new_id
        self._check = check
        self._calls = itertools.count(1)
        self._refs: dict[int, Entry] = {}

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
        call = next(self._calls)
        ref.bind(self, call)
        self._refs[call] = ref

        def settle(error: BaseException | None) -> None:
            entry = self._refs.pop(call, None)
            found = entry() if isinstance(entry, weakref.ref) else entry
            if found is None or found.done():
                return
            if error is None:
                found.set_result(value)
            else:
                found.set_exception(error)

        when_ready(self._groups, group, settle)
        return ref

    @on_loop
    def remove(self, group: GroupId) -> asyncio.Future[None]:
        self._check()
        reason = "remove_placement_group() was called"
        return removed(self._groups, group, reason, self._loop)

    @on_loop
    def find(self, name: str) -> GroupSpec:
        self._check()
        return self._groups.named(name).spec

    @on_loop
    def infos(self) -> list[GroupInfo]:
        return [group.info() for group in self._groups]

    # Replier.

    def cancel(self, call: int, *, recursive: bool = True) -> None:
        """Forgets a wait for a group; see ResultOwner."""
        del recursive  # nothing was called for it
        self._refs.pop(call, None)

    def release_if_unused(self, ref: ObjectRef[Any]) -> None:
        """From now on it is dropped if nobody holds the ref; see ResultOwner."""
        call, refs = ref.call, self._refs
        if call in refs:
            refs[call] = weakref.ref(ref, lambda _: refs.pop(call, None))

    def watch(self, ref: ObjectRef[Any], then: Callable[[], None]) -> None:
        """Calls back once when a ref is done; see ResultOwner."""
        add_done_callback(ref, lambda _: then())

    def name(self) -> bytes:
        """Refuses: nobody else can speak of it; see ResultOwner."""
        raise TypeError(_STAYS)

    def travel(self, ref: ObjectRef[Any]) -> tuple[Any, ...]:
        """Refuses: nobody else can wait for it; see ResultOwner."""
        del ref
        raise TypeError(_STAYS)

    def wait(self, ref: ObjectRef[Any], timeout: float | None) -> None:
        """Blocks a thread beside the loop it comes through; see ResultOwner."""
        refusal = (
            "get() would block the event loop that places the group: await it instead"
        )
        block(ref, timeout, refusal)


def serve(
    groups: GroupTable,
    call: WorkerCall,
    maker: int,
    verb: str,
    payload: Payload,
) -> None:
    """Serves a question of a worker about groups.

    Args:
        groups: All of them.
        call: Who gets the answer.
        maker: The number of the worker's session.
        verb: What is asked; the name of a verb.
        payload: About what: pickled, with what is to be the answer of ``ready``.
    """

    def answer(value: object = None) -> None:
        call.answer((RESULT, 0, None, dump(value)))

    try:
        if verb == "infos":
            answer([group.info() for group in groups])
        elif verb == "find":
            answer(groups.named(opened_one(payload, str)).spec)
        elif verb == "reserve":
            groups.reserve(_new_spec(payload, groups, maker), maker)
            answer()
        elif verb == "remove":
            asking = call.session
            by = f"a {asking.title}" if asking.is_client else "an actor"
            reason = f"{by} called remove_placement_group()"
            group = GroupId(opened_one(payload, bytes))
            gone = removed(groups, group, reason, asyncio.get_running_loop())
            gone.add_done_callback(lambda _: answer())
        else:
            group, value = opened_as(payload, bytes, bytes)

            def settle(error: BaseException | None) -> None:
                if error is not None:
                    call.fail(error)
                else:
                    call.answer((RESULT, 0, None, value))

            when_ready(groups, group, settle)
    except ValueError as error:
        call.fail(error)


def _new_spec(payload: Payload, groups: GroupTable, maker: int) -> GroupSpec:
    """Reads a group that a worker makes, with an id of its own making.

    Raises:
        ProtocolError: It is none, or its id is another's.
    """
    spec = opened_one(payload, GroupSpec)
    made: Any = spec.id  # it was not checked when it was loaded
    if (
        not isinstance(made, bytes)
        or len(made) != ID_SIZE
        or kind_of(made) != GROUP_KIND
        or maker_of(made) != maker
        or groups.find(spec.id) is not None
    ):
        raise ProtocolError(f"a group of a worker's has the id {made!r}")
    return spec


def when_ready(
    groups: GroupTable, group: GroupId, settle: Callable[[BaseException | None], None]
) -> None:
    """Calls back when a group is reserved, or with why it never will be."""
    found = groups.find(group)
    if found is None:
        settle(PlacementGroupRemovedError(f"group {group.hex()} was removed"))
        return
    reserved = found.ready()
    if reserved.done():  # at once: a function that waits for it keeps its CPUs
        settle(reserved.exception())
    else:
        reserved.add_done_callback(lambda done: settle(done.exception()))


def removed(
    groups: GroupTable, group: GroupId, reason: str, loop: asyncio.AbstractEventLoop
) -> asyncio.Future[None]:
    """Removes a group; done when everything in it is gone."""
    found = groups.find(group)
    if found is not None:
        return groups.remove(found, reason)
    gone: asyncio.Future[None] = loop.create_future()
    gone.set_result(None)
    return gone
