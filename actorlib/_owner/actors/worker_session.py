"""Starts workers, serves the pipe to each until its end, and cleans up after it.

The end of a process is an awaited future and the end of file on its socket, never a
poll. After the first of them, the other is awaited with a limit: results that were
written before a crash are still read, and a process that closed its pipe and stays is
killed.

Most modules take part in the end of a worker. A module that begins to keep something
for a worker adds a step to the worker's cleanup, with its phase. So the end of a worker
costs only the steps that are necessary.
"""

from __future__ import annotations

import asyncio
import enum
import itertools
import sys
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, final

from actorlib._base.ids import BLOCK_KIND, kind_of
from actorlib._options.resources import MEMORY, counted
from actorlib._owner.actors.exit_reason import is_out_of_memory
from actorlib._owner.teardown import tear_down
from actorlib._wire.actor_config import ActorConfig
from actorlib._wire.async_channel import AsyncChannel
from actorlib._wire.codec import SCALARS
from actorlib._wire.errors import exception_of
from actorlib._wire.fd_passing import SegmentSharing
from actorlib._wire.messages import (
    FAILURE,
    ITEM,
    READY,
    RESULT,
    RESULT_SCALAR,
    START,
    STOP,
    Frame,
)
from actorlib._wire.serialization import dump
from actorlib._wire.worker_messages import check_frame
from actorlib.accelerators import Lease
from actorlib.exceptions import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Mapping

    from actorlib._base.ids import ActorId, CountedId
    from actorlib._enforcement.gpu_watch import GpuWatch
    from actorlib._options.runtime_options import RuntimeOptions
    from actorlib._owner.actors.actor_record import (
        ActorDefinition,
        ActorRecord,
        EncodedArguments,
    )
    from actorlib._owner.actors.actor_table import ActorTable
    from actorlib._owner.actors.gangs import Gangs
    from actorlib._owner.calls.router import WorkerRoute
    from actorlib._owner.machine import LocalNode
    from actorlib._processes.launcher import ProcessExit, WorkerProcess

_LAST_FRAMES = 1.0
"""Seconds after the end of a process for the frames that it has written."""


class AnswerSink(Protocol):
    """Receives the answers of a worker; see ``WorkerRoute``."""

    def settle(self, frame: Frame) -> None:
        """Receives the answer of a call."""
        ...

    def settle_scalar(self, number: int, value: object) -> None:
        """Receives the answer of a call, if that is a scalar."""
        ...

    def item(self, frame: Frame) -> None:
        """Receives an item of a stream."""
        ...


class CancelChildren(Protocol):
    """Cancels the calls that a call of a worker has made; see WorkerRequests."""

    def __call__(
        self, session: int, parent_call: int, *, by_force: bool = False
    ) -> None:
        """Cancels them, by the numbers of the session and of the call."""
        ...


class Phase(enum.IntEnum):
    """The order of the steps of a worker's cleanup."""

    ROUTES = 1
    """Nothing more is sent to the worker, and no call counts as running there."""
    ANSWERS = 2
    """Callers that wait for the worker's answers get an error."""
    REFERENCES = 3
    """The worker's references are released. After the answers, which keep the objects
    in them alive."""
    EVIDENCE = 4
    """Traces of the end in the worker's memory are read, before it is released."""
    MEMORY = 5
    """The worker's shared memory is forgotten when no process uses any of it."""
    ACTORS = 6
    """The actors that it has created end with it. Late, as other ends begin."""
    GROUPS = 7
    """The placement groups that it has created are removed. Last: they end actors."""


class Cleanup:
    """Runs the cleanup steps of a worker when it has ended.

    Args:
        always: The steps of every worker, with their phases.
    """

    __slots__ = ("_phases",)

    def __init__(
        self, always: Mapping[Callable[[WorkerSession], object], Phase]
    ) -> None:
        self._phases = dict(always)

    def add(self, phase: Phase, step: Callable[[WorkerSession], object]) -> None:
        """Adds a step; it runs once even if it is added several times.

        Args:
            phase: The phase; in one phase steps run in the order in which they were
                added.
            step: Gets the session of the worker.
        """
        self._phases[step] = phase

    def run(self, session: WorkerSession) -> None:
        """Runs all steps; see ``tear_down``."""
        steps = sorted(self._phases, key=self._phases.__getitem__)
        tear_down(session, *(partial(step, session) for step in steps))


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
        ids: Makes ids.
        references: Counts which process holds what: a worker lends only what it holds
            or has made.
        object_store: The shared memory.
        cleanup: The steps at the end of every session, with their phases.
        numbers: The numbers of the next sessions.
        serve: Receives the request frames of a worker; WorkerRequests sets it, and
            cancel_children.
        cancel_children: Cancels the calls that a call of a worker has made.
        output: Keeps the output of workers, or None.
        attached: The frames that attach features to new workers, by their kinds.
        features: The entries of features for new workers.
    """

    serve: Callable[[WorkerSession, Frame], None]
    cancel_children: CancelChildren

    def __init__(
        self,
        table: ActorTable,
        node: LocalNode,
        options: RuntimeOptions,
        cleanup: Mapping[Callable[[WorkerSession], object], Phase],
    ) -> None:
        self.loop = table.loop
        self.node = node
        self.grace = options.grace
        self.ids = table.ids
        self.references = table.references
        self.object_store = table.object_store
        self.cleanup = cleanup
        self.numbers = itertools.count(1)
        self.output: OutputKeeper | None = None
        self.attached: dict[int, Frame] = {}
        self.features: dict[str, object] = {}
        self._namespace = options.namespace
        self._find = table.by_id.get

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
        session = WorkerSession(self, record.id, process, route, ready)
        store, gpus = self.object_store, self.node.enforcement.gpus
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


class WorkerSession:
    """Serves the pipe to one worker until its end.

    Args:
        starter: The state that all sessions of the runtime share.
        actor: The actor of the worker.
        process: The worker.
        answers: Receives the answers of the worker.
        ready: Called when the actor is ready, with its own name.

    Attributes:
        channel: The pipe.
        number: Its number among the sessions of the runtime.
        prefix: The prefix of the ids of actors that it creates.
        cleanup: The steps at its end.
        sharing: The segments of shared memory that it and the owner know.
        cancel_children: See WorkerStarter.
        constructor_error: What the constructor raised, if it did.
        constructor_summary: The last line of its traceback.
        constructor_traceback: The whole traceback.
        protocol_error: The fault in the worker's frames, if any.
        when_answered: Receives the numbers of calls of a waiting worker as they are
            answered.
        complete_failure: Adds to a FAILURE what the owner knows of it; None if nothing.
        is_client: Whether it is an attached program instead of a worker.
        title: Its name for people, if it is a client.
    """

    is_client = False
    title = ""

    def __init__(
        self,
        starter: WorkerStarter,
        actor: ActorId,
        process: WorkerProcess,
        answers: AnswerSink,
        ready: Callable[[str], None],
    ) -> None:
        self.actor = actor
        self.number = next(starter.numbers)
        self.prefix = starter.ids.prefix(self.number)
        self.constructor_error: BaseException | None = None
        self.constructor_summary = ""
        self.constructor_traceback = ""
        self.protocol_error: Exception | None = None
        self.when_answered: Callable[[int], None] | None = None
        self.complete_failure: Callable[[Frame], Frame] | None = None
        loop = self._loop = starter.loop
        self._process = process
        self._settle = answers.settle
        self._settle_scalar = answers.settle_scalar
        self._item = answers.item
        self._references = starter.references
        self._serve = starter.serve
        self.cancel_children = starter.cancel_children
        self._ready = ready
        self.cleanup = Cleanup(starter.cleanup)
        self._patience: asyncio.TimerHandle | None = None
        self._has_ended = False  # the pipe
        self._woken: asyncio.Future[None] = loop.create_future()
        self.sharing = SegmentSharing(starter.object_store.memory, self.prefix)
        self.channel = AsyncChannel(
            loop, process.sock, self._receive, self._lost, sharing=self.sharing
        )
        self._references.enter(self.number, actor)

    def __repr__(self) -> str:
        return f"<Session {self.number} of actor {self.actor.hex()}>"

    @property
    def local_call_cells(self) -> list[int] | None:
        """The cells for the calls of a worker in this process; None for others."""
        return self._process.call_cells

    async def run(self, start: Frame, grace: float) -> ProcessExit:
        """Starts the actor and waits for the end of its process.

        Args:
            start: The START frame.
            grace: Seconds that a process which closed its pipe may stay.
        """
        self.channel.send(start)
        del start  # else 3 KiB in a dozen objects live as long as the worker
        exited, killing = self._process.exited, None
        exited.add_done_callback(self._wake)
        try:
            # One future for both: ``asyncio.wait`` keeps a dozen objects per actor.
            await self._woken
            if not exited.done():
                killing = self._loop.call_later(grace, self._process.kill)
            elif not self._has_ended:
                self._woken = self._loop.create_future()
                await asyncio.wait({self._woken}, timeout=_LAST_FRAMES)
            return await exited
        finally:
            self.channel.close()
            for timer in (self._patience, killing):
                if timer is not None:
                    timer.cancel()

    async def refuse(self, error: Exception) -> ProcessExit:
        """Ends a worker that has not been started, and waits for its end.

        Args:
            error: The reason, reported like an error of the constructor.
        """
        self.constructor_error = error
        self.constructor_summary = f"{type(error).__name__}: {error}"
        self._process.kill()
        return await self._process.exited

    def stop(self, grace: float) -> None:
        """Asks the actor to end after the calls that it was sent.

        Args:
            grace: Seconds after which it is killed.
        """
        self.channel.send((STOP,))
        if self._patience is None:
            self._patience = self._loop.call_later(grace, self._process.kill)

    def _receive(self, frames: list[Frame]) -> None:
        settle, settle_scalar = self._settle, self._settle_scalar
        try:
            for frame in frames:
                # The usual answers are checked here, all other frames by check_frame.
                if frame[0] == RESULT_SCALAR:
                    _, call, value = frame
                    if type(call) is not int or type(value) not in SCALARS:
                        check_frame(frame, self.prefix)
                    settle_scalar(call, value)
                elif frame[0] == RESULT:
                    _, call, borrowed, value = frame
                    if (
                        borrowed is not None
                        or type(value) is not bytes
                        or type(call) is not int
                    ):
                        self._check_lent(check_frame(frame, self.prefix))
                    settle(frame)
                else:
                    self._take(frame)
        except ProtocolError as error:
            self._break(error)
        except Exception as error:  # noqa: BLE001  # around a session: nothing may hang
            fault = ProtocolError(f"a frame that makes no sense came: {error!r}")
            fault.__cause__ = error
            self._break(fault)

    def _take(self, frame: Frame) -> None:
        borrowed = check_frame(frame, self.prefix)
        if borrowed:
            self._check_lent(borrowed)
        kind = frame[0]
        if kind == ITEM:
            self._item(frame)
        elif kind == FAILURE:
            if not frame[1]:
                self._constructor_failed(frame)
            elif self.complete_failure is not None:
                self._settle(self.complete_failure(frame))
            else:
                self._settle(frame)
        elif kind == READY:
            self._process.identify(frame[2])
            self._ready(frame[1])
        else:
            self._serve(self, frame)

    def _check_lent(self, borrowed: tuple[CountedId, ...]) -> None:
        """Refuses a block that the worker neither made nor was lent.

        The maker of a block is told when no process holds it. A worker that lends a
        block which it does not hold could free the memory of another.

        Raises:
            ProtocolError: It lends such a block.
        """
        for block in borrowed:
            if (
                kind_of(block) == BLOCK_KIND
                and not block.startswith(self.prefix)
                and not self._references.has(block, self.number)
            ):
                raise ProtocolError(
                    f"it lends block {block.hex()}, which it has not got"
                )

    def _constructor_failed(self, frame: Frame) -> None:
        _, _, kind, summary, text, where, _, payload = frame
        self.constructor_summary = summary
        self.constructor_traceback = text
        self.constructor_error = exception_of(kind, summary, text, where, payload)

    def _break(self, error: Exception) -> None:
        self.protocol_error = error
        self.channel.close()
        self._process.kill()
        self._end()

    def _lost(self, error: Exception | None) -> None:
        if error is not None:
            self.protocol_error = error
            self._process.kill()
        self._end()

    def _end(self) -> None:
        self._has_ended = True
        self._wake()

    def _wake(self, _: object = None) -> None:
        if not self._woken.done():
            self._woken.set_result(None)


def _with_users(gpus: GpuWatch, process: WorkerProcess, frame: Frame) -> Frame:
    """Adds the users of a device to the failure of an out-of-memory error there."""
    if not is_out_of_memory(frame[3]):
        return frame
    users = gpus.who_has_what(process)
    text = f"{frame[4]}\n(at the last look at its devices: {users})"
    return (*frame[:4], text, *frame[5:])


def _path(directory: str | None) -> list[str]:
    """Returns a worker's sys.path; an empty entry is the owner's own directory."""
    if directory is None:
        return sys.path
    return [directory, *(entry or str(Path.cwd()) for entry in sys.path)]
