"""The machine a runtime works on: what there is, and how workers start there."""

from __future__ import annotations

import asyncio
import hashlib
import platform
import re
import sys
import time
from contextlib import AsyncExitStack
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, final

from actorlib._base.log import warn
from actorlib._enforcement.caps import thread_caps
from actorlib._enforcement.enforcement import Enforcement
from actorlib._enforcement.tiers import INLINE
from actorlib._loops.fork_copies import close_in_forks
from actorlib._options.kinds import GPU, KINDS, UNITS
from actorlib._options.resources import CPU, MEMORY, Resources, bytes_of, counted
from actorlib._options.runtime_env import variables_of
from actorlib._owner.actors.exit_reason import is_out_of_memory
from actorlib._owner.actors.worker_session import WorkerSession
from actorlib._owner.teardown import Phase
from actorlib._scheduler.catalogue import type_names
from actorlib._wire.actor_config import ActorConfig
from actorlib._wire.messages import START, Frame
from actorlib._wire.serialization import dump
from actorlib.accelerators import (
    Host,
    Inventory,
    Lease,
    accelerator_ids,
    discover,
    environment,
    families,
    inventory,
)
from actorlib.accelerators.claims import DeviceClaims, describe_claims

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence

    from actorlib._base.ids import ActorId
    from actorlib._enforcement.checkpoints import Checkpoints
    from actorlib._enforcement.gpu_watch import GpuWatch
    from actorlib._enforcement.tiers import Site, Tier
    from actorlib._options.actor_options import ActorOptions
    from actorlib._options.runtime_options import RuntimeOptions
    from actorlib._options.shares import ActorShare
    from actorlib._owner.actors.actor_record import ActorRecord
    from actorlib._owner.actors.creation import ActorDefinition, EncodedArguments
    from actorlib._owner.actors.gangs import Gangs, Member
    from actorlib._owner.actors.worker_session import SessionTable
    from actorlib._owner.calls.router import WorkerRoute
    from actorlib._owner.objects.refcount import BorrowedReferences
    from actorlib._owner.objects.shared_memory import ObjectStore
    from actorlib._processes.launcher import Launcher, WorkerProcess
    from actorlib.accelerators import Device

HIDE_SWITCH = "ACTORLIB_HIDE_DEVICES"
_LOOK_INTERVAL = 1.0
"""Seconds between two looks at what the kernel killed that nobody needs by itself."""


class LocalNode:
    """Knows what a machine has, and launches processes there.

    Args:
        host: The window on it.
        found: The devices that may be granted.
        capacity: Everything that may be granted, devices included.
        launcher: Starts workers.
        claims: Tells other programs which of the devices this one has.
        enforcement: Makes shares of the devices hold.

    Attributes:
        inventory: The devices that may be granted, and why not more.
        capacity: As given.
        enforcement: As given.
        id: Its own, in hex.
    """

    def __init__(
        self,
        host: Host,
        found: Inventory,
        capacity: Resources,
        launcher: Launcher,
        claims: DeviceClaims,
        enforcement: Enforcement,
    ) -> None:
        self.inventory = found
        self.capacity = capacity
        self.enforcement = enforcement
        self.id = hashlib.blake2b(platform.node().encode(), digest_size=16).hexdigest()
        self._host = host
        self._launcher = launcher
        self._claims = claims
        self._oom_kills = _oom_kills(host)
        self._next_look = 0.0

    @classmethod
    async def open(
        cls,
        options: RuntimeOptions,
        launcher: Launcher,
        make_tiers: Callable[[Site], Sequence[Tier]],
        meanwhile: Callable[[], object] | None = None,
    ) -> LocalNode:
        """Looks around and makes ready to start workers.

        Args:
            options: What was declared, and how workers are started.
            launcher: Starts them; closed if this fails.
            make_tiers: Makes what enforces shares there, the weakest first.
            meanwhile: Called in another thread while the template starts.

        Raises:
            ValueError: More is declared than the owner may see, or than is free.
            EnforcementRefused: No device can have the enforcement that is asked.
            TimeoutError: Another program keeps choosing free devices.
            TemplateError: Workers cannot be started.
        """
        host = Host()
        claims = DeviceClaims(host)
        close_in_forks(claims, DeviceClaims.release)
        starting = asyncio.get_running_loop().create_task(launcher.start())
        try:
            found, enforcement = await asyncio.to_thread(
                _look_around,
                host,
                claims,
                options,
                make_tiers,
                meanwhile,
                is_inline=launcher.environment is None,
            )
            capacity = _capacity(host, found, options)
            await starting
        except BaseException:
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
            claims.release()
            await launcher.aclose()
            raise
        enforcement.watch(asyncio.get_running_loop())
        return cls(host, found, capacity, launcher, claims, enforcement)

    @property
    def is_shared(self) -> bool:
        """Whether workers live in this process."""
        return self._launcher.environment is None

    def launch(self, name: str, lease: Lease) -> WorkerProcess:
        """Starts a worker for an actor that holds a lease.

        Raises:
            TemplateError: It cannot be started.
            OSError: This process is out of descriptors.
        """
        return self._launcher.launch(name, has_devices=bool(lease.shares))

    def settings(
        self, number: int, lease: Lease, options: ActorOptions
    ) -> tuple[dict[str, str | None], dict[str, object]]:
        """Makes what a worker sets before it imports the user's code.

        Args:
            number: That of its session.
            lease: What it holds.
            options: What is asked.

        Returns:
            Its variables, and what features do there.
        """
        its_own = self._launcher.environment
        if its_own is None:
            return {}, {}
        environ = self._host.environ
        own = variables_of(options.runtime_env, environ)
        # A copy of the environment takes as long as the rest of a placement's options.
        known = {**environ, **own} if own else environ
        hide = options.accelerators != "inherit"
        if options.accelerators is None:
            hide = environ.get(HIDE_SWITCH, "1").lower() not in ("0", "false")
        made: dict[str, str | None] = {
            **its_own,
            **thread_caps(lease.amounts.get(CPU, 0), known),
            **environment(lease, self.inventory, hide=hide, environ=environ),
            **own,  # the user's word is the last
        }
        if not _is_limited(lease, options, self.enforcement):
            return made, {}
        grant = self.enforcement.grant(lease, options)
        entries: dict[str, object] = {}
        for tier in grant.tiers:
            # The user's word is among what was known.
            settings = tier.settings(number, grant, own, known)
            made |= settings.variables
            if settings.entry is not None:
                entries[tier.word] = settings.entry
        return made, entries

    def environ(self) -> dict[str, str]:
        """Copies the environment of this process: to ask that itself is slow."""
        return dict(self._host.environ)

    def share(
        self, lease: Lease, options: ActorOptions, environ: Mapping[str, str]
    ) -> ActorShare:
        """Tells what is held, and what makes it hold.

        Args:
            lease: What is held.
            options: What is asked.
            environ: The environment of this process.
        """
        own = variables_of(options.runtime_env, environ)
        return self.enforcement.shown(
            lease, options, {**environ, **own} if own else environ
        )

    def mask(
        self, lease: Lease, options: ActorOptions, environ: Mapping[str, str]
    ) -> str | None:
        """Says what the visibility variable of a worker with this lease is.

        Args:
            lease: What is held.
            options: What is asked.
            environ: The environment of this process.
        """
        if self.is_shared:
            return None
        own = variables_of(options.runtime_env, environ)
        # What hides other families changes nothing of what opens those that are held.
        shown = environment(lease, self.inventory, hide=False, environ=environ)
        grant = self.enforcement.grant(lease, options)
        for tier in grant.tiers:
            shown |= tier.visible(grant)
        shown |= own
        held = {share.device.family for share in lease.shares}
        masks = [
            shown.get(family.visible_env)
            for family in self.inventory.families
            if family.family in held
        ]
        return next(iter(masks), None)

    @cached_property
    def checkpoints(self) -> Checkpoints:
        """Has the driver save and restore the processes of workers."""
        from actorlib._enforcement.checkpoints import Checkpoints  # noqa: PLC0415  # few ask for it

        return Checkpoints(self._host.environ)

    def suspension_fault(self, lease: Lease, options: ActorOptions) -> str:
        """Says why a worker's work cannot be taken off what it holds.

        Args:
            lease: What it holds.
            options: What is asked.

        Returns:
            Empty if it can, as far as is known before the driver is asked.
        """
        if self.is_shared:
            return INLINE
        if options.torch:
            return (
                "it is a rank of torch.distributed, and the other ranks would wait for "
                "it"
            )
        grant = self.enforcement.grant(lease, options)
        for tier in grant.tiers:
            if why := tier.suspension_fault(grant):
                return why
        from actorlib._enforcement.checkpoints import lease_fault  # noqa: PLC0415  # few ask for it

        return lease_fault(lease, self._host.system)

    def accelerator_ids(
        self, lease: Lease, options: ActorOptions
    ) -> dict[str, list[int | str]]:
        """Gives the ids of a lease's devices by kind, as the user is told them."""
        own = variables_of(options.runtime_env, self._host.environ)
        return accelerator_ids(lease, self.inventory, own)

    def is_memory_short(self) -> bool:
        """Whether the kernel has killed for lack of memory since the last look."""
        before, self._oom_kills = self._oom_kills, _oom_kills(self._host)
        self._next_look = time.monotonic() + _LOOK_INTERVAL
        return self._oom_kills > before

    def note_memory_kills(self) -> None:
        """Looks as ``is_memory_short`` does, for ends that need no reason.

        What was killed before such an end is not to blame for a later one. But they
        come in hundreds, and a look takes 50 us: it is not taken again within a second.
        """
        if time.monotonic() >= self._next_look:
            self.is_memory_short()

    @property
    def parallel(self) -> int:
        """Says how many workers without a slot are worth their memory."""
        return max(2, self.capacity.amounts.get(CPU, 0) // UNITS)

    def has_little_memory(self) -> bool:
        """Whether less than a twentieth of the memory is available."""
        meminfo = self._host.read_text("/proc/meminfo") or ""
        there = dict(
            re.findall(r"^(MemTotal|MemAvailable):\s+(\d+)", meminfo, re.MULTILINE)
        )
        if len(there) < 2:
            return False
        return int(there["MemAvailable"]) * 20 < int(there["MemTotal"])

    def shareable(self, options: RuntimeOptions) -> int:
        """Says how many bytes of shared memory large values may take."""
        if self.is_shared:
            return 0  # the workers are threads: there is nobody to share with
        if options.object_store_memory is None:
            return self._host.memory() * 3 // 10
        return bytes_of("object_store_memory", options.object_store_memory)

    def show_output(self) -> None:
        """Shows all that workers have printed by now; see Launcher."""
        self._launcher.show_output()

    def abandon(self) -> Callable[[], None]:
        """Ends everything, where the loop is closed; gives what waits for that."""
        wait, remove_rest = self._launcher.abandon(), self.enforcement.abandon()

        def wait_for_all() -> None:
            wait()
            remove_rest()
            self._claims.release()

        return wait_for_all

    async def aclose(self) -> None:
        """Ends everything that still runs and leaves nothing."""
        # The last one first, and each whatever the others raise. Until the workers are
        # gone the devices are not free.
        async with AsyncExitStack() as steps:
            steps.callback(self._claims.release)
            steps.push_async_callback(self.enforcement.aclose)
            steps.push_async_callback(self._launcher.aclose)


class OutputKeeper(Protocol):
    """Keeps the lines that workers print. For an actor, None stands for functions."""

    def add_printed(
        self,
        actor: ActorId | None,
        source: str,
        label: str,
        pid: int,
        lines: Iterable[bytes],
    ) -> None:
        """Adds lines that a worker has just printed."""
        ...

    def tail(self, actor: ActorId | None, pid: int) -> str:
        """Gives the last lines of a process's standard error; for who died."""
        ...

    def shorten(self, actor: ActorId) -> None:
        """An actor is dead and has no handle, and is still listed."""
        ...

    def forget(self, actor: ActorId) -> None:
        """An actor is not listed any more."""
        ...


@final
class WorkerStarter:
    """Starts the workers of one runtime's actors, and ends what was kept for them.

    Args:
        sessions: Those of the runtime.
        node: Where they run.
        options: How the runtime behaves.
        references: Counts what the first frame lends.
        object_store: Shared memory.
        find: Finds the supervisor of an actor; None if it is forgotten.

    Attributes:
        loop: The owner's loop.
        node: As given, like references.
        grace: Seconds a busy actor is given to end.
        output: Keeps what workers print; None while nobody wants it.
        attached: The frames that attach features to workers that start, by their kinds.
    """

    def __init__(
        self,
        sessions: SessionTable,
        node: LocalNode,
        options: RuntimeOptions,
        references: BorrowedReferences,
        object_store: ObjectStore,
        find: Callable[[ActorId], Member | None],
    ) -> None:
        self.loop = sessions.loop
        self.node = node
        self.grace = options.grace
        self._namespace = options.namespace
        self._sessions = sessions
        self.references = references
        self._object_store = object_store
        self._find = find
        self.output: OutputKeeper | None = None
        self.attached: dict[int, Frame] = {}

    @cached_property
    def gangs(self) -> Gangs:
        """Knows the ranks of actors with ``torch=True``."""
        from actorlib._owner.actors.gangs import Gangs  # noqa: PLC0415  # few need it

        return Gangs(self._find)

    def launch(self, record: ActorRecord, lease: Lease) -> WorkerProcess:
        """Starts a process for an actor that holds a lease.

        Raises:
            ActorUnschedulableError: Its device cannot have the enforcement it asks.
            TemplateError: It cannot be started.
            OSError: This process is out of descriptors.
        """
        if not record.options.torch:
            return self._launched(record, lease)
        self.gangs.join(record)
        try:
            return self._launched(record, lease)
        except BaseException:
            self.gangs.ended(record)
            raise

    def _launched(self, record: ActorRecord, lease: Lease) -> WorkerProcess:
        node, enforcement = self.node, self.node.enforcement
        if not _is_limited(lease, record.options, enforcement):
            return node.launch(record.label, lease)
        grant = enforcement.admit(record.label, lease, record.options)
        process = node.launch(record.label, lease)
        process = enforcement.launched(process, record.label, grant)
        asked = lease.amounts.get(MEMORY)
        if asked and record.is_actor:
            enforcement.watch_memory(
                process, lambda: record.label, asked, record.options
            )
        return process

    def open_session(
        self,
        record: ActorRecord,
        process: WorkerProcess,
        route: WorkerRoute,
        ready: Callable[[str], None],
    ) -> WorkerSession:
        """Opens the pipe to a worker.

        Args:
            record: Its actor.
            process: The worker.
            route: Gets the answers of its calls.
            ready: Called when the actor is there, with what it calls itself.
        """
        whose = record.id if record.is_actor else None
        if self.output is not None:
            process.keep_output(partial(self.output.add_printed, whose))
        session = WorkerSession(self._sessions, record.id, process, route, ready)
        store, gpus = self._object_store, self.node.enforcement.gpus
        if gpus is not None and gpus.occupants.find(process) is not None:
            session.complete_failure = partial(_with_users, gpus, process)
        store.enter(session, process.sock)
        session.cleanup.add(
            Phase.EVIDENCE,
            lambda gone: route.note_cells(store.call_cells(gone.prefix), record),
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
        """Limits a worker from outside before it begins; see Tier."""
        if not lease.shares:
            return None
        grant = self.node.enforcement.grant(lease, record.options)
        limits = (tier.limit(session.number, process, grant) for tier in grant.tiers)
        return next(filter(None, limits), None)

    def entered(self, record: ActorRecord) -> None:
        """Takes a worker in whose work is put back on the devices of its lease."""
        process, lease = record.process, record.lease
        if process is not None and lease is not None and not process.exited.done():
            enforcement = self.node.enforcement
            grant = enforcement.grant(lease, record.options)
            enforcement.enter(process, record.label, grant)

    def log_tail(self, record: ActorRecord, process: WorkerProcess) -> str:
        """Gives the last lines of a worker's standard error, whole once it is gone."""
        if self.output is None:
            return ""
        return self.output.tail(record.id if record.is_actor else None, process.pid)

    def close_session(self, session: WorkerSession) -> int:
        """Has everything let go that was kept for a worker.

        Returns:
            The ``memory`` that the worker asked for, in bytes, if it was killed for
            more; else 0.
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
        """Makes the first frame that a worker gets; what that lends is counted.

        Args:
            record: Its actor.
            definition: What the actor is made from.
            arguments: For the constructor.
            session: The worker.
            lease: What the actor holds.
            was_reconstructed: Whether it had a worker before.
        """
        payload, borrowed = arguments
        if borrowed:
            self.references.arrived(borrowed, session.number)  # it may be needed again
        config = self._config(record, definition, session, lease, was_reconstructed)
        made_of = definition.definition
        if made_of is None:
            return (START, vars(config), b"", borrowed, payload)
        captured = made_of.borrowed
        self.references.arrived(captured, session.number)
        both = (*(borrowed or ()), *captured) or None
        return (START, vars(config), made_of.source, both, payload)

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
            lease = Lease(amounts=definition.runs.amounts)  # that of what it runs
        environment, features = node.settings(session.number, lease, options)
        threads = environment.get("OMP_NUM_THREADS") or ""
        is_async = interface.is_async
        env = options.runtime_env or {}
        if options.torch:
            own = env.get("env_vars", {})  # the user's word is the last
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
            runs_functions=definition.runs is not None,
            is_inline=node.is_shared,
            is_async=is_async,
            limits=options.limits(is_async=is_async),
            groups=interface.grouped(),
            max_unread=interface.max_unread,
            grace=self.grace,
            environment=environment,
            features=features,
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


def _is_limited(lease: Lease, options: ActorOptions, enforcement: Enforcement) -> bool:
    """Whether anything may be made to hold in the worker of a lease."""
    return bool(
        lease.shares
        or lease.amounts.get(MEMORY)
        or options.enforcement
        or enforcement.is_named
    )


def _with_users(gpus: GpuWatch, process: WorkerProcess, frame: Frame) -> Frame:
    """Adds to a failure by which a device is full who had what there."""
    if not is_out_of_memory(frame[3]):
        return frame
    users = gpus.who_has_what(process)
    text = f"{frame[4]}\n(at the last look at its devices: {users})"
    return (*frame[:4], text, *frame[5:])


def _look_around(
    host: Host,
    claims: DeviceClaims,
    options: RuntimeOptions,
    make_tiers: Callable[[Site], Sequence[Tier]],
    meanwhile: Callable[[], object] | None,
    *,
    is_inline: bool,
) -> tuple[Inventory, Enforcement]:
    """Finds out what may be granted, and what makes shares of it hold."""
    if meanwhile is not None:
        meanwhile()
    found = _inventory(host, claims, options)
    return found, Enforcement.open(
        make_tiers, host, found, options, sys.path, is_inline=is_inline
    )


def _inventory(host: Host, claims: DeviceClaims, options: RuntimeOptions) -> Inventory:
    """Finds out what may be granted, and claims the devices among it."""
    detections = discover(host)
    every = [device for detection in detections for device in detection.devices]
    declared, form = _declared(options), options.mask_form
    memory = options.memory_of_devices
    if options.devices == "free" and every:
        with claims.choosing():
            taken = claims.claimants(every)
            found = inventory(
                detections,
                declared,
                mask_form=form,
                claimed=taken,
                device_memory=memory,
            )
            claims.claim(_physical(found))
        if taken:
            warn(
                "devices='free' leaves to other runtimes of this user what they have: "
                "%s",
                describe_claims(taken),
            )
        return found
    found = inventory(detections, declared, mask_form=form, device_memory=memory)
    here = _physical(found)
    claims.claim(here)
    if shared := claims.claimants(here):
        warn(
            "other runtimes of this user have devices that this one may grant, too: "
            "%s. Take only what nobody has by init(devices='free')",
            describe_claims(shared),
        )
    return found


def _physical(found: Inventory) -> list[Device]:
    return [
        device
        for devices in found.devices.values()
        for device in devices
        if not device.logical
    ]


def _declared(options: RuntimeOptions) -> dict[str, int]:
    """Counts the devices there are to be, by kind; what is not said is found."""
    said = dict(options.resources or {})
    if options.num_gpus is not None:
        said[GPU.name] = options.num_gpus
    known = {kind.name for kind in (*KINDS.values(), *(f.kind for f in families()))}
    return {name: int(count) for name, count in said.items() if name in known}


def _capacity(host: Host, found: Inventory, options: RuntimeOptions) -> Resources:
    there: dict[str, int] = {
        kind: len(devices) * UNITS for kind, devices in found.devices.items()
    }
    if options.num_cpus is None:
        there[CPU] = host.cpu_count() * UNITS
    if options.memory is None:
        there[MEMORY] = host.memory()
    types = dict.fromkeys(type_names(found.devices), UNITS)
    return Resources.of({**types, **options.capacity.amounts, **there})


def _oom_kills(host: Host) -> int:
    """Counts how often the kernel has killed for lack of memory, if it does."""
    counters = host.read_text("/proc/vmstat") or ""
    found = re.search(r"^oom_kill (\d+)$", counters, re.MULTILINE)
    return int(found[1]) if found else 0


def _path(directory: str | None) -> list[str]:
    """Where a worker imports from: the empty entry is the owner's own directory."""
    if directory is None:
        return sys.path
    return [directory, *(entry or str(Path.cwd()) for entry in sys.path)]
