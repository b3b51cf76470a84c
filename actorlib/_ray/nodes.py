"""What the machines of a cluster have, and whether one could ever hold an actor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from actorlib._kinds import UNITS
from actorlib._ray.library import ray
from actorlib._resources import MEMORY, Resources
from actorlib.exceptions import ActorUnschedulableError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actorlib._options import ActorOptions

_OF_RAY = ("node:", "object_store_memory", "bundle_group_", "accelerator_type:")


class Nodes:
    """The machines of the cluster; they are asked about again when one is too small."""

    def __init__(self) -> None:
        self._found: list[dict[str, float]] = []

    def fault(
        self, label: str, options: ActorOptions
    ) -> ActorUnschedulableError | None:
        """Why no machine could ever hold an actor; None if one could.

        Args:
            label: The name of its class.
            options: What it asks for.
        """
        asked = dict(wanted(options.request, options.accelerator_type))
        if not asked or options.group is not None or self._fits(asked):
            return None
        self._found = [node["Resources"] for node in ray.nodes() if node.get("Alive")]
        if self._fits(asked):
            return None
        model = options.accelerator_type
        of_model = f" of the type {model}" if model else ""
        there = "; ".join(sorted({_told(node) for node in self._found}))
        return ActorUnschedulableError(
            f"{label} asks {options.request}{of_model}; the machines of this cluster "
            f"have {there}. Ask for less, add a machine, or wait for one: "
            "init(infeasible='wait')"
        )

    def _fits(self, asked: Mapping[str, float]) -> bool:
        return any(
            all(node.get(name, 0) >= amount for name, amount in asked.items())
            for node in self._found
        )


def wanted(request: Resources, model: str | None) -> list[tuple[str, float]]:
    """What a machine has to have, in Ray's amounts."""
    asked = [
        (name, float(amount) if name == MEMORY else amount / UNITS)
        for name, amount in request.amounts.items()
    ]
    return [*asked, (f"accelerator_type:{model}", 0.001)] if model else asked


def granted(amounts: Mapping[str, Any]) -> dict[str, float]:
    """Amounts of a cluster without those that Ray keeps for itself."""
    return {
        name: amount
        for name, amount in amounts.items()
        if not name.startswith(_OF_RAY) and "_group_" not in name
    }


def named(name: str, amount: float) -> str:
    """An amount with its name, as users read it."""
    return f"{name}={shown(name, amount)}"


def shown(name: str, amount: float) -> str:
    """An amount without its name."""
    return f"{amount / 2**30:.4g} GiB" if name == MEMORY else f"{amount:g}"


def _told(node: Mapping[str, float]) -> str:
    listed = [named(name, amount) for name, amount in sorted(granted(node).items())]
    return ", ".join(listed) or "nothing"
