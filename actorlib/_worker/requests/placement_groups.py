"""Requests placement groups from the owner for the code of a worker."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, final

from actorlib._base.ids import GROUP_KIND
from actorlib._core.engine import PlacementGroups, override
from actorlib._options.group_spec import GroupId, GroupSpec
from actorlib._wire.messages import GROUP
from actorlib._wire.serialization import dump

if TYPE_CHECKING:
    from actorlib._futures.object_ref import ObjectRef
    from actorlib._rows.snapshot import GroupInfo
    from actorlib._worker.requests.engine import WorkerEngine


@final
class GroupRequests(PlacementGroups):
    """Passes the operations of placement groups to the owner; see PlacementGroups."""

    def __init__(self, engine: WorkerEngine) -> None:
        self._engine = engine

    @override
    def reserve(self, spec: GroupSpec) -> GroupSpec:
        spec = replace(spec, id=GroupId(self._engine.new_id(GROUP_KIND)))
        if spec.name:  # another group may have the name
            self._ask("reserve", spec)
        else:
            self._engine.ask(GROUP, "reserve", dump(spec))
        return spec

    @override
    def ready(self, group: GroupId, value: object) -> ObjectRef[Any]:
        return self._engine.ask(GROUP, "ready", dump((group, dump(value))))

    @override
    def remove(self, group: GroupId) -> ObjectRef[None]:
        return self._engine.ask(GROUP, "remove", dump(group))

    @override
    def find(self, name: str) -> GroupSpec:
        spec: GroupSpec = self._ask("find", name)
        return spec

    @override
    def infos(self) -> list[GroupInfo]:
        infos: list[GroupInfo] = self._ask("infos", None)
        return infos

    def _ask(self, operation: str, argument: object) -> Any:
        return self._engine.ask_and_wait(GROUP, operation, dump(argument))
