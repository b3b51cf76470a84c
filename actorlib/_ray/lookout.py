"""What is told of calls, actors and groups: by this process, and by Ray to anybody.

Ray does not say what something waits for; then this says what it asks, and what each
machine has. Machines tell the cluster now and then, so that may be a second old.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from actorlib._ray.infos import state_of
from actorlib._ray.library import actor_table, free_by_node, ray
from actorlib._ray.nodes import granted, named, shown, wanted
from actorlib._ray.tasks import Task
from actorlib._ray.translate import exit_of
from actorlib._snapshot import CallInfo

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from actorlib._options import ActorOptions
    from actorlib._ray.actors import Actor
    from actorlib._ray.client import Asking
    from actorlib._ray.nodes import Nodes
    from actorlib._snapshot import CallState

_LATELY = "free, as the machines told last"


class Machine(NamedTuple):
    """A machine of the cluster.

    Attributes:
        node: Ray's id of it.
        address: Where it is.
        free: What nobody held when it told last.
        total: What it has.
    """

    node: str
    address: str
    free: Mapping[str, float]
    total: Mapping[str, float]

    def __str__(self) -> str:
        amounts = ", ".join(
            f"{named(name, self.free.get(name, 0))} of {shown(name, there)}"
            for name, there in sorted(granted(self.total).items())
        )
        return f"{self.address} ({amounts or 'nothing'})"


class Lookout:
    """Tells of what this process has asked, and of what others see of that.

    Args:
        asking: How it asks what Ray knows.
        nodes: What the machines have.
    """

    def __init__(self, asking: Asking, nodes: Nodes) -> None:
        self._asking = asking
        self._nodes = nodes

    def actor(self, actor: Actor) -> str:
        """Where an actor is, or what it asks as long as it is nowhere."""
        label = actor.label
        if actor.why is not None:
            return f"{label} was never made: {actor.why}"
        state, node, pid, death = self._asking(_told_of, actor.hex)
        if state == "dead":
            how = exit_of(death) if actor.died is None else actor.died.exit
            return f"{label} is dead: {how}"
        if state == "alive":
            return (
                f"{label} is alive on the machine {node}, in the process {pid}; which "
                "devices it holds, Ray tells that process alone (get_gpu_ids())"
            )
        asks = f"asks {actor.asks}" if actor.asks else "was made by somebody else"
        return (
            f"{label} is {state} and {asks}. What it waits for, Ray does not tell; "
            f"{_LATELY}: {self._free()}"
        )

    def survey(self, label: str, options: ActorOptions) -> str:
        """Which machines an actor could go to now."""
        fault = self._nodes.fault(label, options)
        if fault is not None:
            return str(fault)
        if options.group is not None:
            return f"{label} goes where its placement group is, if that has room"
        asked = wanted(options.request, options.accelerator_type)
        machines: list[Machine] = self._asking(machines_now)
        fit = [
            machine
            for machine in machines
            if all(machine.free.get(name, 0) >= amount for name, amount in asked)
        ]
        asks = f"{label} asks {options.request}"
        if not fit:
            return f"{asks}; no machine has that {_LATELY}: {_listed(machines)}"
        return f"{asks}; Ray chooses among those that have it {_LATELY}: {_listed(fit)}"

    def group(self, group: str) -> str:
        """Where the bundles of a group are, or what it asks as long as it waits."""
        table: Mapping[str, Any] = ray.util.placement_group_table()
        row = table.get(group)
        if row is None or row["state"] == "REMOVED":
            return f"the placement group {group} was removed, or there never was one"
        label = f"the placement group {row['name'] or group}"
        bundles = {n: _amounts(bundle) for n, bundle in row["bundles"].items()}
        if row["state"] == "CREATED":
            machines: list[Machine] = self._asking(machines_now)
            where = {machine.node: machine.address for machine in machines}
            places = row["bundles_to_node_id"]
            return f"{label} is reserved: " + ", ".join(
                f"{amounts} on {where.get(places[number], 'a machine that is gone')}"
                for number, amounts in bundles.items()
            )
        asks = "; ".join(bundles.values())
        why = row["stats"].get("scheduling_state", "nothing")
        return (
            f"{label} waits and asks {asks}, {row['strategy']} of machines. Ray says "
            f"{why} of it; {_LATELY}: {self._free()}"
        )

    def _free(self) -> str:
        return _listed(self._asking(machines_now))


def unanswered(pending: Iterable[object]) -> Iterator[CallInfo]:
    """The calls of actors that have no answer yet, in their order.

    Args:
        pending: What this process has asked.
    """
    held_up: set[str] = set()
    for task in pending:
        if not isinstance(task, Task) or task.asked is None or task.actor is None:
            continue
        asked, actor = task.asked, task.actor
        waits = any(other in pending for other in asked.waits)
        if waits and asked.keeps_order:
            held_up.add(actor.hex)
        state: CallState = "sent" if actor.is_ready else "pending_actor"
        if waits or (asked.keeps_order and actor.hex in held_up):
            state = "pending_arguments"
        yield CallInfo(
            actor_id=actor.hex,
            class_name=actor.label,
            method=asked.method,
            state=state,
            name=f"{actor.label}.{asked.method}",
        )


def machines_now() -> list[Machine]:
    """The machines of the cluster, as they told last."""
    free = free_by_node()
    return [
        Machine(
            node["NodeID"],
            node["NodeManagerAddress"],
            free.get(node["NodeID"], {}),
            node["Resources"],
        )
        for node in ray.nodes()
        if node.get("Alive")
    ]


def _told_of(actor: str) -> tuple[str, str, int, str]:
    """State, machine, process and end of an actor."""
    row = actor_table().get(actor)
    if row is None:
        return "pending", "", 0, ""
    where = row["Address"]["IPAddress"]
    return state_of(row), where, int(row.get("Pid") or 0), str(row["DeathCause"] or "")


def _listed(machines: Iterable[Machine]) -> str:
    return "; ".join(sorted(map(str, machines))) or "no machine"


def _amounts(bundle: Mapping[str, float]) -> str:
    return ", ".join(f"{name}={amount:g}" for name, amount in bundle.items())
