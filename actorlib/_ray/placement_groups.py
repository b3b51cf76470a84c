"""Placement groups on Ray, whose strategies concern machines, not devices."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, final

from actorlib._core.engine import PlacementGroups
from actorlib._futures.runtime_portal import on_loop
from actorlib._options.group_spec import GroupId, GroupSpec
from actorlib._options.resources import GPU_MEMORY, counted
from actorlib._ray.options import REFUSED
from actorlib._ray.ray_api import group_of, ray
from actorlib._ray.refs import FailedAnswer, RayTask
from actorlib._rows.snapshot import BundleInfo, GroupInfo
from actorlib.exceptions import (
    PlacementGroupAlreadyExistsError,
    PlacementGroupNotFoundError,
    PlacementGroupRemovedError,
    UnsupportedOptionError,
)

if TYPE_CHECKING:
    from actorlib._futures.object_ref import ObjectRef
    from actorlib._ray.process import ProcessState


@final
class RayPlacementGroups(PlacementGroups):
    """Creates and finds the placement groups of a cluster; see PlacementGroups.

    Attributes:
        portal: Runs operations on the loop of the user's program, and fills refs.
    """

    def __init__(self, process: ProcessState) -> None:
        self.portal = process

    @on_loop
    def reserve(self, spec: GroupSpec) -> GroupSpec:
        self.portal.check()
        if spec.name and self._row_of(spec.name) is not None:
            raise PlacementGroupAlreadyExistsError(
                f"a placement group is called {spec.name!r} already: take another name"
            )
        if spec.priority:
            raise UnsupportedOptionError(
                f"{spec.label} is to have priority={spec.priority}, and the Ray engine "
                f"cannot do that: {REFUSED['priority']}. The local engine can"
            )
        for place, bundle in enumerate(spec.amounts):
            if GPU_MEMORY in bundle.amounts:
                raise UnsupportedOptionError(
                    f"bundles[{place}] is to have {bundle}, and the Ray engine cannot "
                    f"do that: {REFUSED[GPU_MEMORY]}. The local engine can"
                )
        group = ray.util.placement_group(
            [counted(bundle.amounts) for bundle in spec.amounts],
            strategy=spec.strategy,
            name=spec.name,
            lifetime=spec.lifetime,
        )
        return replace(spec, id=GroupId(group.id.binary()))

    @on_loop
    def ready(self, group: GroupId, value: object) -> ObjectRef[Any]:
        self.portal.check()
        states = {row["placement_group_id"]: row["state"] for row in self._rows()}
        state = states.get(group.hex())
        if state in (None, "REMOVED"):
            task = RayTask(self.portal, None, "placement group")
            return task.filled(FailedAnswer(_removed(group)))

        def read(answer: Any) -> Any:
            return (
                FailedAnswer(_removed(group))
                if isinstance(answer, Exception)
                else value
            )

        ray_ref = group_of(group).ready()
        return RayTask(self.portal, ray_ref, "placement group", read=read).ref()

    @on_loop
    def remove(self, group: GroupId) -> ObjectRef[None]:
        """Removes a group; Ray ends the actors inside soon; see PlacementGroups."""
        self.portal.check()
        ray.util.remove_placement_group(group_of(group))
        return RayTask(self.portal, None, "placement group").filled(None)

    @on_loop
    def find(self, name: str) -> GroupSpec:
        self.portal.check()
        row = self._row_of(name)
        if row is None:
            raise PlacementGroupNotFoundError(f"no placement group is called {name!r}")
        return GroupSpec(
            id=GroupId(bytes.fromhex(row["placement_group_id"])),
            bundles=tuple(row["bundles"].values()),
            strategy=row["strategy"],
            name=name,
        )

    @on_loop
    def infos(self) -> list[GroupInfo]:
        return [_info(row) for row in self._rows() if row["state"] != "REMOVED"]

    def _row_of(self, name: str) -> Any:
        rows = [r for r in self._rows() if r["name"] == name]
        return next((row for row in rows if row["state"] != "REMOVED"), None)

    def _rows(self) -> list[Any]:
        return list(ray.util.placement_group_table().values())


def _removed(group: GroupId) -> PlacementGroupRemovedError:
    return PlacementGroupRemovedError(
        f"the placement group {group.hex()} was removed, or its creator has ended"
    )


def _info(row: Any) -> GroupInfo:
    bundles = tuple(
        BundleInfo(resources=dict(bundle), available={}, devices={}, actors=())
        for bundle in row["bundles"].values()
    )
    return GroupInfo(
        group_id=row["placement_group_id"],
        name=row["name"],
        strategy=row["strategy"],
        state=row["state"],
        bundles=bundles,
    )
