"""The functions that are called in a runtime, and the queue of each."""

from __future__ import annotations

import asyncio
import itertools
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING

from actorlib._options.function_options import FunctionOptions
from actorlib._options.resources import CPU, GPU_MEMORY
from actorlib._options.runtime_env import refuse_env
from actorlib._owner.actors.placement import exclude_unfit
from actorlib._owner.actors.worker_session import Phase
from actorlib._owner.functions.task_queue import (
    MOST_SLOTS,
    FunctionCode,
    FunctionEntry,
    TaskQueue,
)
from actorlib._owner.functions.task_slots import GroupSlots, MachineSlots
from actorlib._owner.objects.refcount import OWNER
from actorlib._owner.requests.untrusted import load_items
from actorlib._scheduler.catalogue import Demand
from actorlib._scheduler.request import LeaseRequest, untyped
from actorlib._wire.function_code import pickle_function
from actorlib._wire.serialization import decode
from actorlib.exceptions import (
    ActorUnschedulableError,
    ProtocolError,
    TaskUnschedulableError,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actorlib._base.ids import CountedId
    from actorlib._options.function_options import FunctionSpec
    from actorlib._owner.actors.worker_session import WorkerSession
    from actorlib._owner.functions.task_slots import Slots
    from actorlib._owner.functions.task_worker import CalledFunction, FunctionQueue
    from actorlib._owner.functions.task_workers import TaskWorkers
    from actorlib._owner.machine import LocalNode
    from actorlib._owner.objects.refcount import BorrowedReferences
    from actorlib._scheduler.scheduler import Scheduler
    from actorlib._wire.arguments import SendingEngine

_REMEMBERED = 256
"""For how many options of a function the entries of workers are remembered."""


class FunctionTable:
    """Registers the functions of the owner and of the workers.

    Attributes:
        entries: The functions of this process that were called before; read by any
            thread.
    """

    def __init__(
        self,
        workers: TaskWorkers,
        references: BorrowedReferences,
        machine: LocalNode,
        scheduler: Scheduler,
    ) -> None:
        self._workers = workers
        self._scheduler = scheduler
        self._references = references
        self._loop = asyncio.get_running_loop()
        self._machine = machine
        self._numbers = itertools.count(1)
        self.entries: weakref.WeakKeyDictionary[FunctionSpec, CalledFunction] = (
            weakref.WeakKeyDictionary()
        )
        self._codes: weakref.WeakKeyDictionary[object, FunctionCode] = (
            weakref.WeakKeyDictionary()
        )
        self._registered: dict[tuple[int, int], FunctionCode] = {}

    def make_entry(self, engine: SendingEngine, spec: FunctionSpec) -> CalledFunction:
        """Makes the entry of a function of this process at its first call.

        Raises:
            SerializationError: It cannot be sent.
            UnsupportedOptionError: It has a runtime_env, and workers are threads.
        """
        if self._machine.is_shared:
            refuse_env(spec.options.runtime_env)
        code = self._codes.get(spec.source)
        if code is None:
            source, borrowed = pickle_function(engine, spec.name, spec.source)
            code = self._codes[spec.source] = self._code(spec.name, source, borrowed)
        entry = self._entry(code, spec.name, spec.options, is_stream=spec.is_stream)
        self.entries[spec] = entry
        return entry

    def register(
        self,
        session: WorkerSession,
        number: int,
        label: str,
        borrowed: Sequence[CountedId] | None,
        source: bytes,
    ) -> None:
        """Registers a function that a worker is about to call."""
        session.cleanup.add(Phase.REFERENCES, self.on_worker_gone)
        self._registered[session.number, number] = self._code(
            label, source, borrowed or ()
        )

    def entry_for_worker(
        self, session: int, number: int, description: bytes
    ) -> CalledFunction:
        """Returns the entry of a function that a worker calls.

        Args:
            session: The number of the worker's session.
            number: The number of the function there.
            description: Its label, its options, and whether it is a generator.
        """
        code = self._registered.get((session, number))
        if code is None:
            raise ProtocolError(f"function {number} is called and was never registered")
        entry: CalledFunction | None = code.entries.get(description)
        if entry is None:
            label, options, listed, is_stream = load_items(
                description, str, FunctionOptions, bytes, bool
            )
            try:
                options = options.updated({"retry_exceptions": decode(listed)})
            except Exception as error:  # noqa: BLE001  # the user's classes: no call of it runs
                entry = FunctionEntry(code, label, options, None, error)
            else:
                entry = self._entry(code, label, options, is_stream=is_stream)
            if len(code.entries) >= _REMEMBERED:
                code.entries.clear()  # each call has its own; names may be endless
            code.entries[description] = entry
        return entry

    def on_worker_gone(self, session: WorkerSession) -> None:
        """Forgets the functions that a worker has registered."""
        for key in [key for key in self._registered if key[0] == session.number]:
            del self._registered[key]

    def _code(
        self, label: str, source: bytes, borrowed: Sequence[CountedId]
    ) -> FunctionCode:
        loop, references = self._loop, self._references
        code = FunctionCode(next(self._numbers), label, source, borrowed)
        if borrowed:
            references.arrived(borrowed, OWNER)

            def return_references() -> None:
                with suppress(RuntimeError):  # the loop is closed
                    loop.call_soon_threadsafe(references.returned, borrowed, OWNER)

            weakref.finalize(code, return_references).atexit = False
        return code

    def _entry(
        self,
        code: FunctionCode,
        label: str,
        options: FunctionOptions,
        *,
        is_stream: bool,
    ) -> CalledFunction:
        try:
            queue = self._queue(label, options)
        except ActorUnschedulableError as error:
            return FunctionEntry(
                code, label, options, None, TaskUnschedulableError(str(error))
            )
        return FunctionEntry(code, label, options, queue, is_stream=is_stream)

    def adapt_to_machine(self, options: FunctionOptions) -> FunctionOptions:
        """Returns the options of a function on this machine.

        A function that requests a device and sets no num_cpus holds no CPUs. The kinds
        of devices that plugins have added are known only here.
        """
        amounts = options.request.amounts
        if options.num_cpus is not None or CPU not in amounts:
            return options
        devices = {*self._scheduler.ledger.pools, GPU_MEMORY}
        if devices.isdisjoint(amounts):
            return options
        return options.updated({"num_cpus": 0})

    def start_error(self, options: FunctionOptions) -> str:
        """Returns why no further worker can be started; empty if that is not known."""
        queue = self._workers.queues.get(options.worker_key)
        return "" if queue is None else queue.start_error

    def _queue(self, label: str, options: FunctionOptions) -> FunctionQueue:
        """Returns the queue of functions with such options.

        Raises:
            ActorUnschedulableError: The machine can never grant the request.
        """
        key = options.worker_key
        existing = self._workers.queues.get(key)
        if existing is not None:
            return existing
        scheduler = self._scheduler
        options = self.adapt_to_machine(options)
        enforcement, worker = self._machine.enforcement, options.worker
        demand = scheduler.catalogue.demand(label, worker)
        demand = exclude_unfit(enforcement, label, worker, demand)
        slots: Slots
        if options.group is not None:
            demand = Demand(untyped(demand.resources), demand.constraints)
            index = options.placement_group_bundle_index
            slots = GroupSlots(
                scheduler.groups, options.group, label, demand, index, options.priority
            )
        elif refusal := scheduler.refusal(LeaseRequest(label, *demand)):
            raise ActorUnschedulableError(refusal)
        else:
            slots = MachineSlots(scheduler, demand, options.priority)
        pools = scheduler.ledger.pools
        amounts, is_async = demand.resources.amounts, bool(options.max_concurrency)
        is_per_worker = any(is_async or name in pools for name in amounts)
        queue: FunctionQueue = TaskQueue(
            slots,
            demand,
            worker if is_per_worker else options.slotless_worker,
            is_per_worker=is_per_worker,
            most_workers=self._machine.parallel if is_async else MOST_SLOTS,
        )
        self._workers.queues[key] = queue
        return queue
