"""The strategies of ``scheduling_strategy``, by Ray's names."""

from __future__ import annotations

from actorlib._api.group_options import PlacementGroupSchedulingStrategy
from actorlib.exceptions import UnsupportedOptionError

__all__ = ["NodeAffinitySchedulingStrategy", "PlacementGroupSchedulingStrategy"]


class NodeAffinitySchedulingStrategy:
    """Refuses: there is one machine.

    Raises:
        UnsupportedOptionError: Always.
    """

    def __init__(self, node_id: str, soft: bool) -> None:  # noqa: FBT001  # as Ray's users write it
        raise UnsupportedOptionError(
            f"NodeAffinitySchedulingStrategy({node_id!r}, soft={soft}): there is one "
            "machine, so leave it out; choose its devices by "
            "options(device=..., near=..., apart_from=...) and by placement groups"
        )
