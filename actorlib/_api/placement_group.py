"""Placement groups: bundles that are reserved together or not at all.

The strategies apply to the devices of one machine, separately for each kind of device.
CPUs and memory have no place:

* ``PACK``: the bundles are on as few devices as possible.
* ``SPREAD``: they are on different devices where possible.
* ``STRICT_PACK``: all are on one device; or, if they need more than one even on an idle
  machine, on that many devices that belong together: GPUs that are linked (NVLink,
  XGMI), directly or by other GPUs of the group, and neighbours by number for kinds that
  share links by number (TPU, Neuron, Gaudi). If there are no such devices, on any.
* ``STRICT_SPREAD``: each has devices of its own. A machine with too few refuses it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack, cast, overload

from actorlib._base.public import public
from actorlib._base.validation import check_seconds
from actorlib._core.engine import current_engine, find_engine
from actorlib._options.group_spec import PACK, GroupReference, GroupSpec, spec_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from actorlib._api.pipeline import Raises, Returns
    from actorlib._api.remote_function import RemoteFunction
    from actorlib._api.results import Results
    from actorlib._futures.object_ref import ObjectRef
    from actorlib._rows.snapshot import GroupInfo

R = TypeVar("R")


@public("actorlib")
class PlacementGroup(GroupReference):
    """Bundles that are reserved together. It is a value, which can be sent to actors.

    Two objects are equal if they are the same group. The group does not depend on this
    object: ``remove_placement_group`` removes it.

    Example:
        >>> @actorlib.remote(num_gpus=1)
        ... class Model:
        ...     def device(self):
        ...         return actorlib.get_gpu_ids()
        >>> group = await actorlib.placement_group([{"GPU": 1}]).ready()
        >>> inside = Model.options(placement_group=group).remote()
        >>> len(await inside.device.remote())
        1
    """

    __slots__ = ()

    def ready(self) -> ObjectRef[PlacementGroup]:
        """Returns a ref of this group that is done when all bundles are reserved.

        Raises:
            PlacementGroupUnschedulableError: When it is awaited: this machine can never
                reserve them. The message has the reason.
            PlacementGroupRemovedError: When it is awaited: the group was removed.
            RuntimeError: No runtime is running in this process.
        """
        ref: ObjectRef[PlacementGroup] = current_engine().groups.ready(self.id, self)
        return ref

    async def wait(self, timeout_seconds: float = 30) -> bool:
        """Waits until its bundles are reserved, up to a limit.

        Args:
            timeout_seconds: The limit. Default: 30.

        Returns:
            Whether they are reserved. If this is cancelled, the group still waits.

        Raises:
            PlacementGroupUnschedulableError: They never will be.
            PlacementGroupRemovedError: The group was removed.
        """
        check_seconds("timeout_seconds", timeout_seconds)
        ref = self.ready()
        try:
            async with asyncio.timeout(timeout_seconds):
                await ref
        except TimeoutError:
            ref.cancel()
            return False
        return True

    @overload
    def map(
        self,
        function: RemoteFunction[..., R],
        /,
        *iterables: Iterable[Any],
        progress: bool | str = ...,
        **options: Unpack[Raises],
    ) -> Results[R]: ...
    @overload
    def map(
        self,
        function: RemoteFunction[..., R],
        /,
        *iterables: Iterable[Any],
        progress: bool | str = ...,
        **options: Unpack[Returns],
    ) -> Results[R | Exception]: ...
    def map(
        self,
        function: RemoteFunction[..., R],
        /,
        *iterables: Iterable[Any],
        progress: bool | str = False,
        on_error: Literal["raise", "return"] = "raise",
        return_exceptions: bool = False,
    ) -> Results[Any]:
        """Calls a function once in each bundle, as ranks of one gang.

        Bundle ``i`` runs rank ``i`` in a separate process. All ranks are placed
        together when the group is reserved. If one fails, the others are ended, and the
        error names the first rank that failed.

        With ``torch=True`` the environment of a function has the variables of
        ``torch.distributed.init_process_group()``: ``RANK``, ``WORLD_SIZE``,
        ``LOCAL_RANK``, ``LOCAL_WORLD_SIZE``, ``MASTER_ADDR`` and ``MASTER_PORT``.

        If a process dies, or an exception of ``retry_exceptions`` is raised, the whole
        gang is created again, at most ``max_retries`` times. Each time it has another
        port. If this method raises, nothing was called.

        Args:
            function: A remote function that returns. Its resources are taken from the
                bundles.
            *iterables: The arguments of the calls, one iterable for each argument, with
                as many items as there are bundles: the first is for rank 0. Without
                iterables it is called without arguments.
            progress: Shows how many ranks are done, as for ``function.map``. Default:
                False.
            on_error: ``"return"`` returns the errors of ranks in the place of their
                results; ranks that were ended because of another error have a
                TaskCancelledError. Default: ``"raise"``.
            return_exceptions: The same as ``on_error="return"``. Default: False.

        Returns:
            ``await`` it, or in plain methods of actors ``get()`` it, for the list of
            results by rank; or iterate over it. The results arrive together, as the
            gang may have to be created again until its end. ``await`` raises the error
            or the end of the first rank that failed, with a note about the others. A
            cancelled wait ends the gang.

        Raises:
            TypeError: It is not a remote function, the arguments do not fit it, or they
                cannot be sent.
            ValueError: It does not fit into one of the bundles, there are more or fewer
                items than bundles, or it returns a stream or several refs.
            UnsupportedOptionError: The engine does not support an option.
            RuntimeError: No runtime is running in this process.

        Example:
            >>> @actorlib.remote
            ... def square(x):
            ...     return x * x
            >>> group = actorlib.placement_group([{"CPU": 1}] * 2)
            >>> await group.map(square, [3, 4])
            [9, 16]
        """
        from actorlib._api.gang import start_gang  # noqa: PLC0415  # few need it
        from actorlib._api.pipeline import is_error_returned  # noqa: PLC0415  # few need it

        return start_gang(
            spec_of(self),
            function,
            iterables,
            progress=progress,
            returns_errors=is_error_returned(on_error, return_exceptions),
        )


@public("actorlib")
def placement_group(
    bundles: Sequence[Mapping[str, float | str]],
    strategy: str = PACK,
    name: str = "",
    lifetime: str | None = None,
    *,
    priority: int = 0,
) -> PlacementGroup:
    """Reserves several bundles, all of them or none; returns at once.

    The reservation waits in the background, in the same queue as actors:
    ``await group.ready()`` waits for it. The reserved amounts are only for actors with
    ``.options(placement_group=group)``, even while there are none.

    Args:
        bundles: The amounts of each bundle by name: ``[{"GPU": 1, "CPU": 2}]``.
            ``"memory"`` and ``"gpu_memory"`` take bytes, or a size; the latter is
            memory of one GPU, instead of ``"GPU"`` or together with at most 1:
            ``[{"gpu_memory": "10GiB"}]`` reserves that part of a card.
        strategy: The arrangement of the bundles on devices: ``"PACK"`` on as few as
            possible, ``"SPREAD"`` on different ones where possible, ``"STRICT_PACK"``
            on one, or on linked ones if they need more, ``"STRICT_SPREAD"`` each on its
            own devices. Default: ``"PACK"``.
        name: The name by which ``get_placement_group`` finds it. Default: empty, for
            none.
        lifetime: ``"detached"`` lives until it is removed or the runtime ends. None
            ends it with the actor that made it, if an actor made it. Default: None.
        priority: Its priority among those that wait for resources; see
            ``ActorOptions``. Inside the group, the priorities of its actors and
            functions count. Default: 0.

    Raises:
        ValueError: An argument has a wrong type or value, or another group has its name
            (PlacementGroupAlreadyExistsError). Nothing is reserved.
        RuntimeError: No runtime is running in this process.

    Example:
        >>> bundles = [{"GPU": 1, "CPU": 1}, {"GPU": 1}]
        >>> group = actorlib.placement_group(bundles, strategy="SPREAD")
        >>> group = await group.ready()
        >>> group.bundle_count
        2
        >>> await actorlib.remove_placement_group(group)
    """
    spec = GroupSpec(
        bundles=cast("tuple[Mapping[str, float | str], ...]", bundles),
        strategy=strategy,
        name=name,
        lifetime=lifetime,
        priority=priority,
    )
    return PlacementGroup(current_engine().groups.reserve(spec))


@public("actorlib")
def remove_placement_group(group: PlacementGroup) -> asyncio.Future[None]:
    """Removes a group: its actors are killed, and their shares become free.

    Their calls, and those of actors that waited for the group, fail with
    ActorPlacementGroupRemoved. To remove a group again is allowed.

    Args:
        group: The group.

    Returns:
        A future that is done when their processes are gone; it need not be awaited.

    Raises:
        ValueError: It is not a group.
        RuntimeError: No runtime is running in this process.

    Example:
        >>> group = await actorlib.placement_group([{"GPU": 1}]).ready()
        >>> await actorlib.remove_placement_group(group)
        >>> actorlib.placement_group_table(group)["state"]
        'REMOVED'
    """
    return current_engine().groups.remove(_checked(group).id)


@public("actorlib")
def get_placement_group(name: str) -> PlacementGroup:
    """Returns a placement group by its name.

    Args:
        name: The name of ``placement_group(name=...)``.

    Raises:
        ValueError: The name is empty or not a string, or no group has it
            (PlacementGroupNotFoundError).
        RuntimeError: No runtime is running in this process.

    Example:
        >>> group = actorlib.placement_group([{"GPU": 1}], name="g1")
        >>> actorlib.get_placement_group("g1") == group
        True
    """
    if not isinstance(cast("object", name), str) or not name:
        raise ValueError(f"name takes the name of a group, not {name!r}")
    return PlacementGroup(current_engine().groups.find(name))


@public("actorlib")
def placement_group_table(group: PlacementGroup | None = None) -> dict[str, Any]:
    """Lists placement groups in Ray's layout.

    Args:
        group: The group, or None for all. Default: None.

    Returns:
        Its row, or the rows of all by their ids in hex. A group that no longer exists
        is ``REMOVED``.

    Raises:
        ValueError: It is not a group.
        RuntimeError: No runtime is running in this process.

    Example:
        >>> group = await actorlib.placement_group([{"GPU": 1}]).ready()
        >>> actorlib.placement_group_table(group)["state"]
        'CREATED'
    """
    engine = current_engine()
    node = engine.context.node_id
    rows = {info.group_id: _row(info, node) for info in engine.groups.infos()}
    if group is None:
        return rows
    spec = spec_of(_checked(group))
    from actorlib._rows.snapshot import GroupInfo  # noqa: PLC0415  # few programs need it

    gone = GroupInfo(
        group_id=spec.id.hex(),
        name=spec.name,
        strategy=spec.strategy,
        state="REMOVED",
        bundles=(),
    )
    bundles = dict(enumerate(map(dict, spec.bundles)))
    return rows.get(gone.group_id) or {**_row(gone, node), "bundles": bundles}


@public("actorlib")
def get_current_placement_group() -> PlacementGroup | None:
    """Returns the placement group of the calling actor, or None.

    Example:
        >>> @actorlib.remote
        ... class Member:
        ...     def group(self):
        ...         return actorlib.get_current_placement_group()
        >>> group = actorlib.placement_group([{"CPU": 1}])
        >>> member = Member.options(placement_group=group).remote()
        >>> await member.group.remote() == group
        True
    """
    engine = find_engine()
    group = None if engine is None else engine.context.group
    return None if group is None else PlacementGroup(group)


def _checked(group: object) -> PlacementGroup:
    if not isinstance(group, PlacementGroup):
        raise ValueError(  # noqa: TRY004  # as for actors
            f"this takes a result of placement_group(), not {group!r}"
        )
    return group


_SCHEDULING_STATES = {"PENDING": "QUEUED", "CREATED": "FINISHED"}
"""Ray's names for what the scheduler does with a group; the others are the same."""


def _row(info: GroupInfo, node: str) -> dict[str, Any]:
    where = node if info.state == "CREATED" else ""
    return {
        "placement_group_id": info.group_id,
        "name": info.name,
        "bundles": {place: b.resources for place, b in enumerate(info.bundles)},
        "bundles_to_node_id": dict.fromkeys(range(len(info.bundles)), where),
        "strategy": info.strategy,
        "state": info.state,
        # Ray's times of scheduling are 0: nothing measures them here.
        "stats": {
            "end_to_end_creation_latency_ms": 0.0,
            "scheduling_latency_ms": 0.0,
            "scheduling_attempt": 1,
            "highest_retry_delay_ms": 0.0,
            "scheduling_state": _SCHEDULING_STATES.get(info.state, info.state),
        },
    }
