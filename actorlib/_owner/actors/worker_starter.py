"""Starts the workers of actors and functions: a process, its pipe, its first frame."""

from __future__ import annotations

from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, final

from actorlib._base.import_path import import_path
from actorlib._options.resources import MEMORY, counted
from actorlib._owner.actors.exit_reason import is_out_of_memory
from actorlib._owner.actors.worker_session import Phase, WorkerSession
from actorlib._wire.actor_config import ActorConfig
from actorlib._wire.messages import START, Frame
from actorlib._wire.serialization import dump
from actorlib.accelerators import Lease

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable

    from actorlib._base.ids import ActorId
    from actorlib._enforcement.gpu_watch import GpuWatch
    from actorlib._options.runtime_options import RuntimeOptions
    from actorlib._owner.actors.actor_record import (
        ActorDefinition,
        ActorRecord,
        EncodedArguments,
    )
    from actorlib._owner.actors.gangs import Gangs, Member
    from actorlib._owner.actors.worker_session import SessionTable
    from actorlib._owner.calls.router import WorkerRoute
    from actorlib._owner.machine import LocalNode
    from actorlib._owner.objects.shared_memory import ObjectStore
    from actorlib._processes.launcher import WorkerProcess


class OutputKeeper(Protocol):
    """Keeps the output of workers. An ``actor`` of None means functions."""

    def add_printed(
        self,
        actor: ActorId | None,
        source: str,
        label: str,
        pid: int,
        lines: Iterable[bytes],
    ) -> None:
        """Adds lines of a worker."""
        ...

    def tail(self, actor: ActorId | None, pid: int) -> str:
        """Returns the last lines of an ended process's standard error."""
        ...

    def shorten(self, actor: ActorId) -> None:
        """Keeps less of a dead actor without handles, which is still listed."""
        ...

    def forget(self, actor: ActorId) -> None:
        """Forgets an actor that is no longer listed."""
        ...


@final
class WorkerStarter:
    """Starts the workers of one runtime, and closes their sessions.

    Attributes:
        loop: The owner's loop.
        node: The machine.
        grace: Seconds that a busy actor may take to end.
        references: Counts the borrowed references of the first frame.
        output: Keeps the output of workers, or None.
        attached: The frames that attach features to new workers, by the feature.
        features: The entries of features for new workers.
    """

    def __init__(
        self,
        sessions: SessionTable,
        node: LocalNode,
        options: RuntimeOptions,
        object_store: ObjectStore,
        find: Callable[[ActorId], Member | None],
    ) -> None:
        self.loop = sessions.loop
        self.node = node
        self.grace = options.grace
        self.references = sessions.references
        self._sessions = sessions
        self._object_store = object_store
        self.output: OutputKeeper | None = None
        self.attached: dict[str, Frame] = {}
        self.features: dict[str, object] = {}
        self._namespace = options.namespace
        self._find = find

    @cached_property
    def gangs(self) -> Gangs:
        """The ranks of actors with ``torch=True``."""
        from actorlib._owner.actors.gangs import Gangs  # noqa: PLC0415  # rarely used

        return Gangs(self._find)

    def launch(self, record: ActorRecord, lease: Lease) -> WorkerProcess:
        """Starts a process for an actor that holds a lease.

        Raises:
            ActorUnschedulableError: Its device cannot have the requested enforcement.
            TemplateError: It cannot be started.
            OSError: This process is out of descriptors.
        """
        if not record.options.torch:
            return self._launch(record, lease)
        self.gangs.join(record)
        try:
            return self._launch(record, lease)
        except BaseException:
            self.gangs.ended(record)
            raise

    def _launch(self, record: ActorRecord, lease: Lease) -> WorkerProcess:
        node, enforcement = self.node, self.node.enforcement
        if not node.may_limit(lease, record.options):
            return node.launch(record.label, lease)
        grant = enforcement.admit(record.label, lease, record.options)
        process = node.launch(record.label, lease)
        process = enforcement.launched(process, record.label, grant)
        memory = lease.amounts.get(MEMORY)
        if memory and record.is_actor:
            enforcement.watch_memory(
                process, lambda: record.label, memory, record.options
            )
        return process

    def open_session(
        self,
        record: ActorRecord,
        process: WorkerProcess,
        route: WorkerRoute,
        ready: Callable[[str], None],
    ) -> WorkerSession:
        """Opens the pipe to a worker."""
        actor = record.id if record.is_actor else None
        if self.output is not None:
            process.keep_output(partial(self.output.add_printed, actor))
        session = WorkerSession(self._sessions, record.id, process, route, ready)
        store, gpus = self._object_store, self.node.enforcement.gpus
        if gpus is not None and gpus.occupants.find(process) is not None:
            session.complete_failure = partial(_with_users, gpus, process)
        store.enter(session, process.sock)
        session.cleanup.add(
            Phase.EVIDENCE,
            lambda ended: route.note_cells(store.call_cells(ended.prefix)),
        )
        if record.options.torch:
            session.cleanup.add(Phase.ACTORS, lambda _: self.gangs.ended(record))
        return session

    def limit(
        self,
        record: ActorRecord,
        session: WorkerSession,
        process: WorkerProcess,
        lease: Lease,
    ) -> Coroutine[Any, Any, None] | None:
        """Limits a worker from outside before it starts; see ``Tier.limit``."""
        if not lease.shares:
            return None
        grant = self.node.enforcement.grant(lease, record.options)
        limits = (tier.limit(session.number, process, grant) for tier in grant.tiers)
        return next(filter(None, limits), None)

    def entered(self, record: ActorRecord) -> None:
        """Enters a resumed worker into the enforcement of its new lease."""
        process, lease = record.process, record.lease
        if process is not None and lease is not None and not process.exited.done():
            enforcement = self.node.enforcement
            grant = enforcement.grant(lease, record.options)
            enforcement.enter(process, record.label, grant)

    def log_tail(self, record: ActorRecord, process: WorkerProcess) -> str:
        """Returns the last lines of a worker's standard error; complete at its end."""
        if self.output is None:
            return ""
        return self.output.tail(record.id if record.is_actor else None, process.pid)

    def close_session(self, session: WorkerSession) -> int:
        """Runs the cleanup of a worker.

        Returns:
            The requested ``memory`` in bytes if the worker was killed for more; else 0.
        """
        tiers = self.node.enforcement.made
        exceeded = max((tier.ended(session.number) for tier in tiers), default=0)
        session.cleanup.run(session)
        return exceeded

    def start_frame(
        self,
        record: ActorRecord,
        definition: ActorDefinition,
        arguments: EncodedArguments,
        session: WorkerSession,
        lease: Lease,
        *,
        was_reconstructed: bool,
    ) -> Frame:
        """Creates the first frame of a worker, and counts its borrowed references."""
        payload, borrowed = arguments
        if borrowed:
            self.references.arrived(borrowed, session.number)  # a restart needs them
        config = self._config(record, definition, session, lease, was_reconstructed)
        class_definition = definition.definition
        if class_definition is None:
            return (START, vars(config), b"", borrowed, payload)
        captured = class_definition.borrowed
        self.references.arrived(captured, session.number)
        both = (*(borrowed or ()), *captured) or None
        return (START, vars(config), class_definition.source, both, payload)

    def _config(
        self,
        record: ActorRecord,
        definition: ActorDefinition,
        session: WorkerSession,
        lease: Lease,
        was_reconstructed: bool,  # noqa: FBT001  # a field
    ) -> ActorConfig:
        node, options, interface = self.node, record.options, record.interface
        if definition.runs is not None and not lease.shares:
            lease = Lease(amounts=definition.runs.amounts)  # of the functions it runs
        environment, features = node.settings(session.number, lease, options)
        threads = environment.get("OMP_NUM_THREADS") or ""
        runs_functions = definition.runs is not None
        is_async = interface.is_async or (
            runs_functions and options.max_concurrency is not None
        )
        env = options.runtime_env or {}
        if options.torch:
            own = env.get("env_vars", {})  # the user's values override the ranks
            ranks = self.gangs.variables(record).items()
            environment |= {name: value for name, value in ranks if name not in own}
        directory = env.get("working_dir")
        group, captures = options.group, options.placement_group_capture_child_tasks
        return ActorConfig(
            actor_id=record.id,
            class_name=record.called.class_name,
            slot=record.slot,
            name=options.name,
            namespace=self._namespace,
            prefix=session.prefix,
            node_id=node.id,
            runs_functions=runs_functions,
            is_inline=node.is_shared,
            is_async=is_async,
            limits=options.limits(is_async=is_async),
            groups=interface.grouped(),
            max_unread=interface.max_unread,
            grace=self.grace,
            environment=environment,
            features={**self.features, **features},
            path=_path(directory),
            directory=directory,
            threads=int(threads) if threads.isdecimal() else None,
            runtime_env=env,
            resources=counted(lease.amounts),
            accelerator_ids=node.accelerator_ids(lease, options),
            was_reconstructed=was_reconstructed,
            placement_group=None if group is None else dump(group),
            captures_children=group is not None and bool(captures),
            attached=tuple(self.attached.values()),
        )


def _with_users(gpus: GpuWatch, process: WorkerProcess, frame: Frame) -> Frame:
    """Adds the users of a device to the failure of an out-of-memory error there."""
    if not is_out_of_memory(frame[3]):
        return frame
    users = gpus.who_has_what(process)
    text = f"{frame[4]}\n(at the last look at its devices: {users})"
    return (*frame[:4], text, *frame[5:])


def _path(directory: str | None) -> list[str]:
    """Returns a worker's sys.path; an empty entry is the owner's own directory."""
    entries = import_path()
    if directory is None:
        return entries
    return [directory, *(entry or str(Path.cwd()) for entry in entries)]
