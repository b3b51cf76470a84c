"""The machine, the actor and the call that code is running in."""

from __future__ import annotations

import time
from dataclasses import field, fields
from typing import TYPE_CHECKING, Any, Protocol

from actorlib._base.public import public
from actorlib._base.value import dataclass
from actorlib._core.current_call import deadline_of, is_late, running

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from actorlib._options.group_spec import GroupSpec
    from actorlib._options.runtime_env import RuntimeEnv


def _no_env() -> RuntimeEnv:
    return {}


class CallLookup(Protocol):
    """Describes the calls that run in a worker.

    The worker's ``OwnerClient`` and, on Ray, ``Host`` implement it.
    """

    def was_canceled(self, call: int) -> bool:
        """Whether a running call was cancelled."""
        ...

    def function_name(self, method: str) -> str:
        """Returns the full name of a method or function: module, class and name."""
        ...


_OF_ENGINES = frozenset({"captures", "group", "own", "process"})


@public("actorlib.types")
@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeContext:
    """The place where code is running: its actor, its call and its devices.

    The methods about a call describe the call whose code calls them. Outside of calls
    (in the owner, in a constructor, in a thread that your code has started) they return
    None or False.

    Attributes:
        namespace: The default namespace of actors.
        job_id: The id of the runtime, in hex.
        node_id: The id of the machine, in hex.
        worker_id: The id of the process, in hex: a new one for each incarnation of an
            actor.
        actor_id: The actor's id in hex, or None in the owner.
        actor_name: The actor's name, or None if it has none.
        runtime_env: The ``runtime_env`` of the actor, including inherited settings.
        class_name: The actor's class, or empty in the owner.
        accelerator_ids: The ids of its devices, by kind; every kind has an entry.
        resources: The resources that it holds, by name, as it requested them.
        was_current_actor_reconstructed: True if the actor was restarted after a death.
        group: The placement group of the actor, or None.
        captures: Whether the actors that it creates join that group by default.

    Example:
        >>> @actorlib.remote(num_gpus=1)
        ... class Model:
        ...     def where(self):
        ...         context = actorlib.get_runtime_context()
        ...         return context.get_task_name(), context.get_assigned_resources()
        >>> await Model.remote().where.remote()
        ('Model.where', {'GPU': 1.0})
    """

    namespace: str = "default"
    job_id: str = ""
    node_id: str = ""
    worker_id: str = ""
    actor_id: str | None = None
    actor_name: str | None = None
    runtime_env: RuntimeEnv = field(default_factory=_no_env)
    class_name: str = ""
    own: Callable[[], Any] | None = field(default=None, repr=False)
    process: CallLookup | None = field(default=None, repr=False, compare=False)
    accelerator_ids: Mapping[str, list[int | str]] = field(
        default_factory=dict[str, "list[int | str]"]
    )
    resources: Mapping[str, float] = field(default_factory=dict[str, float])
    was_current_actor_reconstructed: bool = False
    group: GroupSpec | None = None
    captures: bool = False

    def __dir__(self) -> list[str]:
        """Omits the fields for engines."""
        return sorted(set(object.__dir__(self)) - _OF_ENGINES)

    def __reduce__(self) -> tuple[object, ...]:
        # In another process it still describes this process, without its calls.
        values = {option.name: getattr(self, option.name) for option in fields(self)}
        return _loaded, ({**values, "process": None},)

    def get(self) -> dict[str, str]:
        """Returns the ids of the runtime, the machine, the call and the actor.

        Each is there by its name in Ray: ``job_id``, ``node_id``, ``namespace``, and in
        a call ``task_id`` and ``actor_id``.
        """
        ids = {
            "job_id": self.job_id,
            "node_id": self.node_id,
            "namespace": self.namespace,
            "task_id": self.get_task_id(),
            "actor_id": self.actor_id,
        }
        return {name: value for name, value in ids.items() if value is not None}

    def get_actor_id(self) -> str | None:
        """Returns the id of the calling actor, in hex; None in the owner."""
        return self.actor_id

    def get_actor_name(self) -> str | None:
        """Returns the name of the calling actor; None if it has none."""
        return self.actor_name

    def get_job_id(self) -> str:
        """Returns the id of the runtime, in hex."""
        return self.job_id

    def get_node_id(self) -> str:
        """Returns the id of the machine, in hex."""
        return self.node_id

    def get_placement_group_id(self) -> str | None:
        """Returns the id of this actor's placement group, in hex, or None."""
        return None if self.group is None else self.group.id.hex()

    def get_worker_id(self) -> str:
        """Returns the id of this process among those of the runtime, in hex."""
        return self.worker_id

    @property
    def current_actor(self) -> Any:
        """A handle of the calling actor: to call it later, or to pass on.

        It does not keep the actor alive here; a process that receives it does.

        Raises:
            RuntimeError: The caller is not the code of an actor.
        """
        if self.own is None:
            raise RuntimeError(
                "current_actor is the handle of the actor whose code runs, but no "
                "actor runs this code: use the handle that .remote() returned"
            )
        return self.own()

    def get_accelerator_ids(self) -> dict[str, list[str]]:
        """Returns the ids of the devices of this actor, by kind.

        They are the owner's numbers of the devices of the machine and do not change in
        the actor's lifetime. Frameworks in the actor number the visible devices from 0.
        """
        return {kind: list(map(str, ids)) for kind, ids in self.accelerator_ids.items()}

    def get_assigned_resources(self) -> dict[str, float]:
        """Returns the resources of this actor, by name; memory in bytes."""
        return dict(self.resources)

    def get_task_id(self) -> str | None:
        """Returns the id of the call, in hex; a new one each time it is sent."""
        call = running.get()
        return None if call is None else f"{self.worker_id}{call[0]:016x}"

    def get_task_name(self) -> str | None:
        """Returns the call's name: ``options(name=...)``, or ``Class.method``."""
        call = running.get()
        if call is None:
            return None
        _, method, headers = call
        name = f"{self.class_name}.{method}" if self.class_name else method
        return name if headers is None else headers.get("name", name)

    def get_task_function_name(self) -> str | None:
        """Returns the full name of the method: module, class and name."""
        call = running.get()
        if call is None or self.process is None:
            return None
        return self.process.function_name(call[1])

    @property
    def deadline(self) -> float | None:
        """The call's deadline, a time of ``time.monotonic()``, or None."""
        call = running.get()
        deadline = None if call is None else deadline_of(call[2])
        return None if deadline is None else deadline[0]

    def time_left(self) -> float | None:
        """Returns the seconds until the call's deadline; None if it has none."""
        deadline = self.deadline
        return None if deadline is None else max(0.0, deadline - time.monotonic())

    def is_canceled(self) -> bool:
        """Whether the call was cancelled, or its deadline has passed.

        It is for plain methods, which are not interrupted, and is cheap enough for a
        loop. An ``async def`` method gets CancelledError as well.
        """
        call = running.get()
        if call is None:
            return False
        if is_late(call[2]):
            return True
        return self.process is not None and self.process.was_canceled(call[0])

    def get_session_name(self) -> str:
        """Returns the name of the runtime, which stays the same for its lifetime."""
        return f"session_{self.job_id}"

    def get_node_labels(self) -> dict[str, str]:
        """Returns the labels of the machine: none."""
        return {}


def _loaded(values: dict[str, Any]) -> RuntimeContext:
    return RuntimeContext(**values)
