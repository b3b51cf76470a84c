"""Reports the state of a cluster: its actors, calls, groups and machines.

Ray does not report what a request waits for, so this reports the request and the free
resources of each machine. Machines report periodically, so these may be a second old.
This file also finds actors by name, and checks whether any machine could hold one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from actorlib._options.kinds import UNITS
from actorlib._options.resources import GPU_MEMORY, MEMORY, Resources, format_counted
from actorlib._ray.errors import exit_of
from actorlib._ray.options import refuse
from actorlib._ray.ray_api import actor_table, class_of, free_by_node, ray
from actorlib._ray.refs import RayTask
from actorlib._rows.snapshot import ActorInfo, CallInfo
from actorlib.exceptions import (
    ActorNotFoundError,
    ActorUnschedulableError,
    UnsupportedOptionError,
)

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping

    from actorlib._options.actor_options import ActorOptions, CommonOptions
    from actorlib._options.interface import Interface
    from actorlib._ray.actors import Actor, ActorTraits
    from actorlib._ray.client_mode import ClusterQuery
    from actorlib._rows.snapshot import CallState


_STATES = {
    "DEPENDENCIES_UNREADY": "pending",
    "PENDING_CREATION": "starting",
    "ALIVE": "alive",
    "RESTARTING": "restarting",
    "DEAD": "dead",
}


def infos_of(job: str, held: Container[str]) -> list[ActorInfo]:
    """Returns the living actors of a job, and the dead ones with handles here.

    ``held`` contains the ids in hex of the actors with handles here.
    """
    return [
        info_of(actor, row)
        for actor, row in actor_table().items()
        if row["JobID"] == job and (row["State"] != "DEAD" or actor in held)
    ]


def state_of(row: Mapping[str, Any]) -> str:
    return _STATES.get(row["State"], "pending")


def info_of(actor: str, row: Mapping[str, Any]) -> ActorInfo:
    cause: Any = row.get("DeathCause")
    return ActorInfo(
        actor_id=actor,
        class_name=row["ActorClassName"],
        state=state_of(row),
        pid=int(row.get("Pid") or 0),
        resources={},
        devices={},
        mask=None,
        restarts=int(row.get("NumRestarts") or 0),
        pending_calls=0,
        death=str(cause or "") if row["State"] == "DEAD" else "",
        name=row.get("Name") or None,
        namespace=row.get("Namespace", ""),
        is_detached=bool(row.get("IsDetached")),
        awaits_arguments=row["State"] == "DEPENDENCIES_UNREADY",
        started_at=_seconds(row.get("StartTime")),
        ended_at=_seconds(row.get("EndTime")),
    )


def _seconds(milliseconds: Any) -> float | None:
    return int(milliseconds) / 1000 if milliseconds else None


_OF_RAY = ("node:", "object_store_memory", "bundle_group_", "accelerator_type:")


class ClusterNodes:
    """Caches the resources of the machines; reads them again when none is enough."""

    def __init__(self) -> None:
        self._nodes: list[dict[str, float]] = []

    def fault(
        self, label: str, options: CommonOptions
    ) -> ActorUnschedulableError | None:
        """Returns why no machine could ever hold an actor or a call, or None."""
        amounts = dict(wanted(options.request, options.accelerator_type))
        if not amounts or options.group is not None or self._fits(amounts):
            return None
        self._nodes = [node["Resources"] for node in ray.nodes() if node.get("Alive")]
        if self._fits(amounts):
            return None
        model = options.accelerator_type
        of_model = f" of the type {model}" if model else ""
        there = "; ".join(sorted({_resources_of(node) for node in self._nodes}))
        return ActorUnschedulableError(
            f"{label} requests {options.request}{of_model}; the machines of this "
            f"cluster have {there}. Ask for less, add a machine, or wait for one: "
            "init(infeasible='wait')"
        )

    def _fits(self, amounts: Mapping[str, float]) -> bool:
        return any(
            all(node.get(name, 0) >= amount for name, amount in amounts.items())
            for node in self._nodes
        )


def wanted(request: Resources, model: str | None) -> list[tuple[str, float]]:
    """Returns a request in Ray's amounts."""
    amounts = [
        (name, float(amount) if name == MEMORY else amount / UNITS)
        for name, amount in request.amounts.items()
        if name != GPU_MEMORY  # it is refused when an actor is created
    ]
    return [*amounts, (f"accelerator_type:{model}", 0.001)] if model else amounts


def granted(amounts: Mapping[str, Any]) -> dict[str, float]:
    """Returns the amounts of a cluster without Ray's internal ones."""
    return {
        name: amount
        for name, amount in amounts.items()
        if not name.startswith(_OF_RAY) and "_group_" not in name
    }


def named(name: str, amount: float) -> str:
    return f"{name}={format_counted(name, amount)}"


def _resources_of(node: Mapping[str, float]) -> str:
    listed = [named(name, amount) for name, amount in sorted(granted(node).items())]
    return ", ".join(listed) or "nothing"


_LATELY = "free, by the last reports of the machines"


class Node(NamedTuple):
    """A machine of the cluster, with its free resources at its last report."""

    node: str
    address: str
    free: Mapping[str, float]
    total: Mapping[str, float]

    def __str__(self) -> str:
        amounts = ", ".join(
            f"{named(name, self.free.get(name, 0))} of {format_counted(name, there)}"
            for name, there in sorted(granted(self.total).items())
        )
        return f"{self.address} ({amounts or 'nothing'})"


class Explainer:
    """Explains the requests and the machines of actors and groups."""

    def __init__(self, query: ClusterQuery, nodes: ClusterNodes) -> None:
        self._query = query
        self._nodes = nodes

    def actor(self, actor: Actor) -> str:
        """Describes the machine of an actor, or its request before its placement."""
        label = actor.label
        if actor.creation_error is not None:
            return f"{label} was never made: {actor.creation_error}"
        state, node, pid, death = self._query(_describe_actor, actor.hex)
        if state == "dead":
            how = exit_of(death) if actor.died is None else actor.died.exit
            return f"{label} is dead: {how}"
        if state == "alive":
            return (
                f"{label} is alive on the machine {node}, in the process {pid}; only "
                "that process knows its devices (get_gpu_ids())"
            )
        asks = (
            f"requests {actor.requested}"
            if actor.requested
            else "was created by another process"
        )
        return (
            f"{label} is {state} and {asks}. Ray does not report what it waits for; "
            f"{_LATELY}: {self._free()}"
        )

    def survey(self, label: str, options: ActorOptions) -> str:
        """Describes the machines that have room for an actor now."""
        try:
            refuse(label, options)
        except UnsupportedOptionError as error:
            return str(error)
        fault = self._nodes.fault(label, options)
        if fault is not None:
            return str(fault)
        if options.group is not None:
            return f"{label} is placed in its placement group, if that has room"
        amounts = wanted(options.request, options.accelerator_type)
        machines: list[Node] = self._query(nodes_now)
        fit = [
            machine
            for machine in machines
            if all(machine.free.get(name, 0) >= amount for name, amount in amounts)
        ]
        asks = f"{label} requests {options.request}"
        if not fit:
            return f"{asks}; no machine has that {_LATELY}: {_listed(machines)}"
        return f"{asks}; Ray chooses among those that have it {_LATELY}: {_listed(fit)}"

    def group(self, group: str) -> str:
        """Describes the machines of a group, or its request while it waits."""
        table: Mapping[str, Any] = ray.util.placement_group_table()
        row = table.get(group)
        if row is None or row["state"] == "REMOVED":
            return f"the placement group {group} was removed, or never existed"
        label = f"the placement group {row['name'] or group}"
        bundles = {n: _amounts(bundle) for n, bundle in row["bundles"].items()}
        if row["state"] == "CREATED":
            machines: list[Node] = self._query(nodes_now)
            where = {machine.node: machine.address for machine in machines}
            places = row["bundles_to_node_id"]
            return f"{label} is reserved: " + ", ".join(
                f"{amounts} on {where.get(places[number], 'a machine that is gone')}"
                for number, amounts in bundles.items()
            )
        asks = "; ".join(bundles.values())
        why = row["stats"].get("scheduling_state", "nothing")
        return (
            f"{label} waits and requests {asks}, {row['strategy']} of machines. Ray "
            f"says {why} of it; {_LATELY}: {self._free()}"
        )

    def _free(self) -> str:
        return _listed(self._query(nodes_now))


def pending_calls(pending: Iterable[object]) -> Iterator[CallInfo]:
    """Yields the unanswered calls of actors among requests, in order."""
    held_up: set[str] = set()
    for task in pending:
        if (
            not isinstance(task, RayTask)
            or task.pending_call is None
            or task.actor is None
        ):
            continue
        call, actor = task.pending_call, task.actor
        waits = any(other in pending for other in call.waits)
        if waits and call.keeps_order:
            held_up.add(actor.hex)
        state: CallState = "sent" if actor.is_ready else "pending_actor"
        if waits or (call.keeps_order and actor.hex in held_up):
            state = "pending_arguments"
        yield CallInfo(
            actor_id=actor.hex,
            class_name=actor.label,
            method=call.method,
            state=state,
            name=f"{actor.label}.{call.method}",
        )


def nodes_now() -> list[Node]:
    """Returns the machines of the cluster, by their last reports."""
    free = free_by_node()
    return [
        Node(
            node["NodeID"],
            node["NodeManagerAddress"],
            free.get(node["NodeID"], {}),
            node["Resources"],
        )
        for node in ray.nodes()
        if node.get("Alive")
    ]


def _describe_actor(actor: str) -> tuple[str, str, int, str]:
    """Returns the state, machine, process and end of an actor."""
    row = actor_table().get(actor)
    if row is None:
        return "pending", "", 0, ""
    where = row["Address"]["IPAddress"]
    return state_of(row), where, int(row.get("Pid") or 0), str(row["DeathCause"] or "")


def _listed(machines: Iterable[Node]) -> str:
    return "; ".join(sorted(map(str, machines))) or "no machine"


def _amounts(bundle: Mapping[str, float]) -> str:
    return ", ".join(f"{name}={amount:g}" for name, amount in bundle.items())


def find_actor(
    query: ClusterQuery, name: str, namespace: str
) -> tuple[Any, Interface, ActorTraits]:
    """Returns Ray's handle of the actor of a name, its methods and traits.

    Raises:
        ActorNotFoundError: No actor of actorlib has that name.
    """
    # With ray.get_actor, a client server would hold it until this program ends.
    handle, interface, traits = query(_find, name, namespace)
    if handle is None:
        others = [repr(other) for where, other in actor_names() if where == namespace]
        raise ActorNotFoundError(
            f"no living actor is called {name!r} in the namespace {namespace!r}; "
            f"there are {', '.join(sorted(others)) or 'none'}"
        )
    if interface is None:
        raise ActorNotFoundError(
            f"the actor {name!r} in the namespace {namespace!r} is one of Ray's "
            "own, not made by actorlib: call it by ray.get_actor()"
        )
    return handle, interface, traits


def actor_names() -> list[tuple[str, str]]:
    """Lists the namespaces and names of actors."""
    rows = ray.util.list_named_actors(all_namespaces=True)
    return [(row["namespace"], row["name"]) for row in rows]


def _find(name: str, namespace: str) -> tuple[Any, Any, Any]:
    try:
        handle = ray.get_actor(name, namespace)
    except ValueError:
        return None, None, None
    cls = class_of(handle)
    return handle, getattr(cls, "interface", None), getattr(cls, "traits", None)
