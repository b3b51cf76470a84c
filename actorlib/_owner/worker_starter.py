"""Starts the workers of actors: the process, its pipe, and what it is told first."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path
from typing import TYPE_CHECKING, final

from actorlib._core.resources import counted
from actorlib._owner.worker_session import Session
from actorlib._wire.actor_config import ActorConfig
from actorlib._wire.messages import START, Frame
from actorlib._wire.serialization import dump
from actorlib.accelerators.base import Lease

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from actorlib._owner.actor_record import ActorRecord, Registry
    from actorlib._owner.creation import ActorDefinition, EncodedArguments
    from actorlib._owner.machine import LocalNode
    from actorlib._owner.refcount import BorrowedReferences, RefCount
    from actorlib._owner.router import CallRouter
    from actorlib._owner.shared_memory import Stores
    from actorlib._owner.teardown import WorkersGone
    from actorlib._processes.launcher import WorkerProcess


@final
class WorkerStarter:
    """Starts the workers of one runtime's actors, and ends what was kept for them.

    Args:
        loop: The owner's loop.
        node: Where they run.
        grace: Seconds a busy actor is given to end.
        namespace: Where a worker looks for names if nothing else is said.
        registry: Gives the prefixes of ids.
        references: Who holds what.
        loans: Counts what the first frame lends.
        stores: Shared memory.
        gone: Tells those who keep something for a worker that it is gone.
        serve: Serves what rises from a worker.
        entered: Told of each worker that is there.

    Attributes:
        loop: As given.
        grace: As given.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        node: LocalNode,
        *,
        grace: float,
        namespace: str,
        registry: Registry,
        references: RefCount,
        loans: BorrowedReferences,
        stores: Stores,
        gone: WorkersGone,
        serve: Callable[[Session, Frame], None],
        entered: Callable[[Session], None],
    ) -> None:
        self.loop = loop
        self.grace = grace
        self._node = node
        self._namespace = namespace
        self._registry = registry
        self._references = references
        self._loans = loans
        self._stores = stores
        self._gone = gone
        self._serve = serve
        self._entered = entered
        self._session_numbers = itertools.count(1)

    def launch(self, record: ActorRecord, lease: Lease) -> WorkerProcess:
        """Starts a process for an actor that holds a lease.

        Raises:
            TemplateError: It cannot be started.
            OSError: This process is out of descriptors.
        """
        return self._node.launch(record.label, lease)

    def open_session(
        self,
        record: ActorRecord,
        process: WorkerProcess,
        router: CallRouter,
        ready: Callable[[str], None],
    ) -> Session:
        """Opens the pipe to a worker.

        Args:
            record: Its actor.
            process: The worker.
            router: Gets the answers of its calls.
            ready: Called when the actor is there, with what it calls itself.
        """
        number = next(self._session_numbers)
        prefix = self._registry.prefix(number)
        self._references.enter(number, record.id)
        session = Session(
            self.loop,
            record.id,
            number,
            prefix,
            process,
            router.settle,
            router.streams.item,
            self._stores.showing(prefix),
            self._references,
            self._serve,
            ready,
        )
        self._entered(session)
        self._stores.enter(session, process.sock)
        return session

    def close_session(self, session: Session) -> None:
        """Has everything let go that was kept for a worker."""
        self._gone.tell(session)

    def start_frame(
        self,
        record: ActorRecord,
        definition: ActorDefinition,
        arguments: EncodedArguments,
        session: Session,
        lease: Lease,
        *,
        was_reconstructed: bool,
    ) -> Frame:
        """Makes the first frame that a worker gets; what that lends is counted.

        Args:
            record: Its actor.
            definition: What the actor is made from.
            arguments: For the constructor.
            session: The worker.
            lease: What the actor holds.
            was_reconstructed: Whether it had a worker before.
        """
        payload, loans = arguments
        if loans:
            self._loans.arrived(loans, session.number)  # it may be needed again
        values = self._config(
            record, definition, session.prefix, lease, was_reconstructed
        ).to_wire()
        made_of = definition.definition
        if made_of is None:
            return (START, values, b"", loans, payload)
        captured = made_of.loans
        self._loans.arrived(captured, session.number)
        both = (*(loans or ()), *captured) or None
        return (START, values, made_of.source, both, payload)

    def _config(
        self,
        record: ActorRecord,
        definition: ActorDefinition,
        prefix: bytes,
        lease: Lease,
        was_reconstructed: bool,  # noqa: FBT001  # a field
    ) -> ActorConfig:
        node, options, interface = self._node, record.options, record.interface
        if definition.runs is not None and not lease.shares:
            lease = Lease(amounts=definition.runs.amounts)  # that of what it runs
        environment = node.environment(lease, options)
        threads = environment.get("OMP_NUM_THREADS") or ""
        env = options.runtime_env or {}
        directory = env.get("working_dir")
        group, captures = options.group, options.placement_group_capture_child_tasks
        return ActorConfig(
            actor_id=record.id,
            class_name=record.called.class_name,
            name=options.name,
            namespace=self._namespace,
            prefix=prefix,
            node_id=node.id,
            runs_functions=definition.runs is not None,
            is_inline=node.is_shared,
            is_async=interface.is_async,
            limits=options.limits(is_async=interface.is_async),
            groups=interface.grouped(),
            max_unread=interface.max_unread,
            grace=self.grace,
            environment=environment,
            path=_path(directory),
            directory=directory,
            threads=int(threads) if threads.isdecimal() else None,
            runtime_env=env,
            resources=counted(lease.amounts),
            accelerator_ids=node.accelerator_ids(lease, options),
            was_reconstructed=was_reconstructed,
            placement_group=None if group is None else dump(group),
            captures_children=group is not None and bool(captures),
        )

    def is_memory_short(self) -> bool:
        """Whether the kernel has killed for lack of memory since the last look."""
        return self._node.is_memory_short()


def _path(directory: str | None) -> list[str]:
    """Where a worker imports from: the empty entry is the owner's own directory."""
    if directory is None:
        return sys.path
    return [directory, *(entry or str(Path.cwd()) for entry in sys.path)]
