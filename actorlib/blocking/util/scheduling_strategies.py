"""The strategies of ``scheduling_strategy``, by Ray's names."""

from __future__ import annotations

from typing import Self

from actorlib._api.group_options import PlacementGroupSchedulingStrategy
from actorlib.blocking._verbs import get_runtime_context
from actorlib.exceptions import UnsupportedOptionError

__all__ = ["NodeAffinitySchedulingStrategy", "PlacementGroupSchedulingStrategy"]


class NodeAffinitySchedulingStrategy(str):  # noqa: SLOT000  # it has attributes
    """Equals ``"DEFAULT"``, as there is one machine; Ray's own on the Ray engine.

    Args:
        node_id: The id of this machine: ``get_runtime_context().get_node_id()``.
        soft: If True, any id is accepted.

    Raises:
        UnsupportedOptionError: It is another id, and ``soft`` is False.
    """

    node_id: str
    soft: bool

    def __new__(cls, node_id: str, soft: bool) -> Self:  # noqa: D102, FBT001  # as Ray's users write it
        if not soft and node_id != get_runtime_context().get_node_id():
            raise UnsupportedOptionError(
                f"NodeAffinitySchedulingStrategy({node_id!r}, soft={soft}): there is "
                "one machine, which has another id, so leave it out; choose its "
                "devices by options(device=..., near=..., apart_from=...) and by "
                "placement groups"
            )
        strategy = super().__new__(cls, "DEFAULT")
        strategy.node_id, strategy.soft = node_id, soft
        return strategy

    def __getnewargs__(self) -> tuple[str, bool]:  # type: ignore[override]
        return self.node_id, self.soft
