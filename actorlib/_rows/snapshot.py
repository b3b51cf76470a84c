"""The state of a runtime at one moment, as rows."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import field, fields
from typing import (
    TYPE_CHECKING,
    Literal,
    NamedTuple,
    Protocol,
    TypeAlias,
    TypeVar,
    cast,
)

from actorlib._base.labels import Label, with_pid
from actorlib._base.public import public
from actorlib._base.validation import check_rows
from actorlib._base.value import dataclass
from actorlib._options.resources import format_bytes
from actorlib._options.shares import ActorShare

if TYPE_CHECKING:
    from rich.table import Table

    from actorlib._rows.tables import Column

T = TypeVar("T")


@public("actorlib.types")
@dataclass(frozen=True, slots=True, kw_only=True)
class ActorInfo:
    """The state of one actor.

    Attributes:
        actor_id: Its id in hex.
        class_name: The name of its class.
        state: ``pending``, ``starting``, ``alive``, ``suspended``, ``restarting``,
            ``draining`` or ``dead``.
        pid: Its process, or 0 while it has none.
        resources: The resources that it requested, by name; memory in bytes.
        devices: The part of each device that it holds, by the id of the device.
        device_nbytes: The bytes of each device that correspond to this part, by the id
            of the device; None if the memory of a device is unknown.
        mask: The value of its visibility variable; None if it holds no device.
        restarts: How often it was restarted.
        pending_calls: The number of its unanswered calls.
        made_calls: The number of calls that were sent to it, or wait until it is ready,
            since it was created. A call that was sent again counts again. Calls that
            came over a link from another worker do not count. 0 on Ray.
        death: The reason of its end; empty while it lives.
        earlier_deaths: Why it was restarted, a line for each of the latest 10 times,
            oldest first.
        name: The name by which ``get_actor`` finds it, or None.
        namespace: The namespace of that name.
        is_detached: True if it lives without a handle.
        placement_group: The id in hex of its placement group, or None.
        awaits_arguments: True if it is pending because an argument has no value yet.
        device_memory: The bytes that its processes used of each device that it shares,
            at the last check with NVML, by the id of the device; empty without such
            checks.
        created_at: The time of its creation, in seconds since the epoch; None on Ray.
        started_at: The time when it was first ready for calls, in seconds since the
            epoch; None until then. A restart does not change it.
        ended_at: The time when it was dead for good; None until then.
        repr_name: The result of its own ``__repr__``, or the empty string.
        slot: Its number among ``Replicas``; None if it is not one of them.
        share: Its share of devices, and how that share is enforced.
        host_memory: The bytes of the machine's memory that were resident in its
            processes at the last check. On Linux, actors that request ``memory`` are
            checked every 5 s. Pages that processes share count for each of them. None
            before the first check.
    """

    actor_id: str
    class_name: str
    state: str
    pid: int
    resources: dict[str, float]
    devices: dict[str, float]
    mask: str | None
    restarts: int
    pending_calls: int
    death: str
    device_nbytes: dict[str, int | None] = field(default_factory=dict[str, int | None])
    name: str | None = None
    namespace: str = ""
    is_detached: bool = False
    placement_group: str | None = None
    awaits_arguments: bool = False
    created_at: float | None = None
    started_at: float | None = None
    ended_at: float | None = None
    repr_name: str = ""
    earlier_deaths: tuple[str, ...] = ()
    share: ActorShare = field(default_factory=ActorShare)
    host_memory: int | None = None
    device_memory: dict[str, int] = field(default_factory=dict[str, int])
    made_calls: int = 0
    slot: int | None = None

    @property
    def label(self) -> str:
        """Its name in messages: ``Model 'm1'``, ``Model[2]`` or ``Model``."""
        return str(Label(self.class_name, self.name, self.repr_name, self.slot))

    def _repr_html_(self) -> str:
        """Returns a table for a notebook."""
        from actorlib._rows.tables import Column, clipped, html_of, table  # noqa: PLC0415  # rarely needed

        rows = _actor_columns()[1:]
        if self.death:
            rows.append(Column("death", lambda one: clipped(one.death, _LONGEST)))
        heads: Column[Column[ActorInfo]] = Column(self.label, lambda row: row.heading)
        cells: Column[Column[ActorInfo]] = Column(
            self.actor_id, lambda row: row.cell(self)
        )
        return html_of(table([heads, cells], rows))


@public("actorlib.types")
@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """A line that an actor or a function has printed, or a record that it has logged.

    Attributes:
        number: The number of the line in its runtime, from 1.
        time: When it was printed or logged, in seconds since the epoch.
        source: ``stdout`` or ``stderr`` for printed lines, ``log`` for records.
        actor_id: The id of its actor, in hex; empty for a function.
        label: The label of the actor at that time: ``Model 'm1'``; or ``function``.
        pid: Its process.
        text: The line, or the message.
        level: The level of a record; 0 for printed lines.
        logger: The name of the logger; empty for printed lines.
        method: The method whose call logged the record, or empty.
        call: The id of that call, as ``get_task_id()`` returns it, or empty.
        traceback: The traceback of the record, or empty.
        lost: How many lines were lost directly before this one: the runtime keeps the
            latest lines of each actor. If the lines of one actor were requested, they
            are of that actor, else of any.
    """

    number: int
    time: float
    source: str
    actor_id: str
    label: str
    pid: int
    text: str
    level: int = 0
    logger: str = ""
    method: str = ""
    call: str = ""
    traceback: str = ""
    lost: int = 0


class LogPage(NamedTuple):
    """Some lines of a runtime.

    Attributes:
        lost: How many lines were lost after the last of these.
        number: The position after these, where the next page begins.
    """

    lines: list[LogLine]
    lost: int
    number: int


@public("actorlib.types")
@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceInfo:
    """One device that a runtime may grant.

    Attributes:
        device: Its id, as in ``ActorInfo.devices``.
        kind: Its resource, for example ``"GPU"``.
        model: The product name, or None if unknown.
        nbytes: Bytes of its memory, or None if unknown.
        available: The free part of it, from 0 to 1.
        is_logical: True if it was declared and not found.
    """

    device: str
    kind: str
    model: str | None
    nbytes: int | None
    available: float
    is_logical: bool


@public("actorlib.types")
@dataclass(frozen=True, slots=True, kw_only=True)
class ClientInfo:
    """One client: a program that is attached to a runtime.

    Attributes:
        pid: Its process; 0 if the system does not report it.
        program: Its command line, as the client reports it.
        attached_at: When it was attached, in seconds since the epoch.
    """

    pid: int
    program: str
    attached_at: float


@public("actorlib.types")
@dataclass(frozen=True, slots=True, kw_only=True)
class BundleInfo:
    """One bundle of a placement group.

    Attributes:
        resources: The resources that it reserves, by name; memory in bytes.
        available: The part of them that its actors do not hold.
        devices: The part of each device that it has, by the id of the device; empty
            until it is reserved.
        device_nbytes: The bytes of each device that correspond to this part, by the id
            of the device; None if the memory of a device is unknown.
        actors: The ids in hex of its actors.
    """

    resources: dict[str, float]
    available: dict[str, float]
    devices: dict[str, float]
    actors: tuple[str, ...]
    device_nbytes: dict[str, int | None] = field(default_factory=dict[str, int | None])


@public("actorlib.types")
@dataclass(frozen=True, slots=True, kw_only=True)
class GroupInfo:
    """One placement group.

    Attributes:
        group_id: Its id in hex.
        name: The name by which ``get_placement_group`` finds it, or the empty string.
        strategy: How its bundles are placed on devices.
        state: ``PENDING``, ``CREATED``, ``INFEASIBLE`` (this machine can never reserve
            it), or ``REMOVED`` (its last processes are ending).
        bundles: Its bundles, in order.
        is_detached: True if it outlives its creator.
    """

    group_id: str
    name: str
    strategy: str
    state: str
    bundles: tuple[BundleInfo, ...]
    is_detached: bool = False


CallState: TypeAlias = Literal[
    "pending_arguments",
    "pending_actor",
    "pending_resources",
    "queued",
    "running",
    "sent",
]
"""The state of a call: an argument has no value yet; its actor is not ready; the
resources of a function are not free; it waits in the queue of its actor, or of the
function's process; it runs. It is ``sent`` if queued and running calls cannot be
distinguished: on Ray, and over links."""


@public("actorlib.types")
@dataclass(frozen=True, slots=True, kw_only=True)
class CallInfo:
    """One unanswered call.

    Attributes:
        actor_id: The id in hex of its actor; empty for a function.
        class_name: The name of that actor's class; empty for a function.
        method: The name of the method, or of the function's calls.
        state: ``pending_arguments``, ``pending_actor``, ``pending_resources``,
            ``queued`` or ``running``; see CallState. For an actor it is derived from
            the order of the calls and from the number of calls that the actor runs at
            once.
        actor_name: The name by which ``get_actor`` finds that actor, or None.
        name: The name of the call: that of ``options(name=...)``, or ``Class.method``.
        task_id: The result of ``get_task_id()`` in the call, in hex; empty until it was
            sent.
        age: Seconds since it was made, or was sent again, to about a tenth; None if
            unknown.
        caller: The call that made it, for example ``"Front.answer of 'm1' (pid 812)"``;
            empty if the program's own code did.
        variables: The context variables that are sent with it, by name, such as the id
            of a request; see ``propagate``.
        deadline: Seconds until its deadline; None if it has none, or if that is
            unknown.
    """

    actor_id: str
    class_name: str
    method: str
    state: CallState
    actor_name: str | None = None
    name: str = ""
    task_id: str = ""
    age: float | None = None
    caller: str = ""
    variables: dict[str, object] = field(default_factory=dict[str, object])
    deadline: float | None = None


@public("actorlib.types")
class AllCalls(NamedTuple):
    """The unanswered calls, including those that only workers know.

    Attributes:
        calls: First the calls that the program's process knows, then those that were
            sent from one actor to another over a link.
        silent: The actors that did not answer in time, because they run a plain method,
            or are stopped or stuck. Their calls to other actors over links are missing.
    """

    calls: list[CallInfo]
    silent: tuple[str, ...] = ()


@public("actorlib.types")
@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectStoreInfo:
    """The shared memory for large values.

    Attributes:
        live: Bytes of values that are held, in all processes together.
        warm: Bytes that are kept for the next values, and the padding to whole pages.
        limit: The maximum bytes of all processes together; 0 if nothing is shared.
    """

    live: int = 0
    warm: int = 0
    limit: int = 0

    @property
    def used(self) -> int:
        """The bytes that the system has allocated: live and warm."""
        return self.live + self.warm


ObjectOrder: TypeAlias = Literal["size", "age"]
"""The order of objects: the largest first, or the oldest first."""


@public("actorlib.types")
@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectInfo:
    """One entry of the object store.

    Attributes:
        kind: ``"block"``: a value in shared memory, or memory there that a process
            keeps for the next value. ``"ref"``: the object of a ref that was sent
            inside a value; it is kept as long as any process holds the ref.
        state: ``"live"``: a process holds it. ``"pending"``: a ref without a value yet.
            ``"warm"``: memory without a value.
        object_id: Its id in hex; empty for warm memory.
        nbytes: For a block, its bytes of memory; for a ref, the bytes outside of shared
            memory. None if unknown, as for the program's own objects.
        maker: Its creator: ``"the program"``, or ``"Model 'm1' (pid 812)"``.
        holders: Its holders, each with its number of references: views of its memory,
            refs, and calls and results that contain it. The program holds the values
            that wait for an actor.
        arguments_of: The calls with it among their arguments that wait in the program,
            or that may be sent again; at most the 10 oldest.
        block: For a ref, the id in hex of the block of its value, or empty.
        age: For a block, seconds since the program learned of it; None for other
            entries.
    """

    kind: Literal["block", "ref"]
    state: Literal["live", "pending", "warm"]
    object_id: str
    nbytes: int | None
    maker: str
    holders: dict[str, int] = field(default_factory=dict[str, int])
    arguments_of: tuple[str, ...] = ()
    block: str = ""
    age: float | None = None


@public("actorlib.types")
@dataclass(frozen=True, slots=True, kw_only=True)
class DemandInfo:
    """A request of several waiting actors or calls, all of them the same.

    Attributes:
        resources: The resources that each of them requests, by name; memory in bytes.
        count: How many request them.
        is_infeasible: True if this machine can never grant them.
    """

    resources: dict[str, float]
    count: int
    is_infeasible: bool


@public("actorlib.types")
@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerGroupInfo:
    """The calls of functions that request the same resources.

    Attributes:
        resources: The resources that each of them requests.
        waiting: How many wait in the queue.
        running: How many run.
        blocked: How many of these wait for a result, and have released their CPUs
            meanwhile.
        pids: The processes that run them, including idle ones.
        host_memory: The bytes of the machine's memory of each process and its children
            at the last check; None if the calls do not request ``memory``.
    """

    resources: str
    waiting: int
    running: int
    blocked: int
    pids: tuple[int, ...]
    host_memory: tuple[int | None, ...] = ()


@public("actorlib.types")
@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The state of a runtime at one moment.

    Attributes:
        total: The amount of each resource, by its name; memory in bytes.
        available: The free part of it.
        waiting: The waiting actors, calls and groups, in order, and their requests.
        actors: Every actor that lives or has a handle, then the latest dead actors
            without a handle, as many as ``init(actor_history=...)``.
        object_store: The shared memory for large values.
        groups: Every placement group.
        demands: The waiting requests; equal requests are counted together.
        worker_groups: Calls of functions and the processes that run them, by their
            requested resources.
        draining: Shares of devices whose worker has ended, and that are not granted
            before the driver has freed their memory: each with the processes that still
            use it.
        devices: Every device that may be granted, by kind and in index order; () on
            Ray.
        name: The name by which other processes find the runtime; empty if it has none.
        clients: The programs that are attached to it.
    """

    total: dict[str, float]
    available: dict[str, float]
    waiting: tuple[str, ...]
    actors: tuple[ActorInfo, ...]
    object_store: ObjectStoreInfo
    groups: tuple[GroupInfo, ...] = ()
    demands: tuple[DemandInfo, ...] = ()
    worker_groups: tuple[WorkerGroupInfo, ...] = ()
    draining: tuple[str, ...] = ()
    devices: tuple[DeviceInfo, ...] = ()
    name: str = ""
    clients: tuple[ClientInfo, ...] = ()

    def __repr__(self) -> str:
        """Returns the main facts in a few lines, and how many more rows there are."""
        from actorlib._rows.tables import clipped, in_words, some_of  # noqa: PLC0415  # rarely needed

        lines = [f"<Snapshot of {self._census()}"]
        if self.name:
            pids = some_of([str(client.pid) for client in self.clients], 8)
            attached = f"; attached: pid {', '.join(pids)}" if pids else ""
            lines.append(f"  name: {self.name}{attached}")
        if self.total:
            lines.append(f"  free: {in_words(self.available, self.total)}")
        if self.devices:
            free = [f"{one.device[:8]}: {one.available:g}" for one in self.devices]
            lines.append(f"  free of devices: {', '.join(some_of(free, 5))}")
        if self.object_store.limit:
            lines.append(f"  object store: {_of_store(self.object_store)}")
        lines += [f"  {row}" for row in some_of([*map(_line_of, self.actors)], 8)]
        if self.waiting:
            lines.append(f"  {len(self.waiting)} waiting:")
            lines += [f"    {row}" for row in some_of(self.waiting, 4)]
        if self.worker_groups:
            running = sum(group.running for group in self.worker_groups)
            waiting = sum(group.waiting for group in self.worker_groups)
            lines.append(f"  functions: {running} calls running, {waiting} waiting")
        if self.groups:
            states = Counter(group.state for group in self.groups)
            lines.append(f"  placement groups: {_counts(states)}")
        lines += [f"  draining: {row}" for row in some_of(self.draining, 2)]
        return "\n".join(map(clipped, lines)) + ">"

    def _repr_html_(self) -> str:
        """Returns tables for a notebook."""
        from actorlib._rows.tables import (  # noqa: PLC0415  # rarely needed
            Column,
            clipped,
            html_of,
            in_words,
            table,
        )

        def table_of(
            columns: "Sequence[Column[T]]", rows: Sequence[T]
        ) -> "Table | None":
            left_out = len(rows) - _MOST_ROWS
            some = rows[:_MOST_ROWS]
            return table(columns, some, left_out=left_out) if rows else None

        waiting = Column[str]("waiting", lambda row: clipped(row, _LONGEST))
        tables = (
            table_of(_device_columns(), self.devices),
            table_of(_actor_columns(), self.actors),
            table_of([waiting], self.waiting),
        )
        return html_of(
            f"Runtime: {self._census()}",
            f"Free: {in_words(self.available, self.total)}",
            *filter(None, tables),
        )

    def _census(self) -> str:
        count = len(self.actors)
        noun = "actor" if count == 1 else "actors"
        states = Counter(actor.state for actor in self.actors)
        return f"{count:,} {noun}" + (f" ({_counts(states)})" if states else "")


_MOST_ROWS = 50
"""The maximum number of rows of each kind in a notebook."""
_LONGEST = 200
"""The maximum length of a text in a notebook."""
_BAR = 20


def _devices_of(info: ActorInfo) -> str:
    return ", ".join(f"{part:g} of {id_}" for id_, part in info.devices.items())


def _actor_columns() -> "list[Column[ActorInfo]]":
    from actorlib._rows.tables import Column  # noqa: PLC0415  # few look

    return [
        Column("actor", lambda actor: actor.label),
        Column("state", lambda actor: actor.state),
        Column("pid", lambda actor: str(actor.pid or "-")),
        Column("devices", lambda actor: _devices_of(actor) or "-"),
        Column("calls", lambda actor: str(actor.pending_calls)),
        Column("restarts", lambda actor: str(actor.restarts)),
    ]


def _device_columns() -> "list[Column[DeviceInfo]]":
    from rich.progress_bar import ProgressBar  # noqa: PLC0415  # rarely needed

    from actorlib._rows.tables import Column  # noqa: PLC0415  # few look

    return [
        Column("device", lambda one: f"{one.kind} {one.device}"),
        Column(
            "granted",
            lambda one: ProgressBar(total=1, completed=1 - one.available, width=_BAR),
        ),
        Column("free", _of_device),
    ]


def _line_of(info: ActorInfo) -> str:
    devices = f" on {_devices_of(info)}" if info.devices else ""
    calls = f", {info.pending_calls} calls" if info.pending_calls else ""
    death = f": {info.death}" if info.death else ""
    label = with_pid(info.label, info.pid)
    return f"{label}: {info.state}{devices}{calls}{death}"


def _of_device(one: DeviceInfo) -> str:
    free = "free" if one.available == 1 else f"{one.available:g} free"
    about = [one.model or ("logical" if one.is_logical else "")]
    about += [format_bytes(one.nbytes)] if one.nbytes else []
    return ", ".join([free, *filter(None, about)])


def _of_store(store: ObjectStoreInfo) -> str:
    live, warm, limit = map(format_bytes, (store.live, store.warm, store.limit))
    return f"{live} live, {warm} warm of {limit}"


def _counts(states: Counter[str]) -> str:
    return ", ".join(f"{count:,} {state}" for state, count in states.most_common())


Filter: TypeAlias = tuple[str, str, object]
"""A condition: a column of a row, ``"="`` or ``"!="``, a value."""

STATES = (
    "pending",
    "starting",
    "alive",
    "suspended",
    "restarting",
    "draining",
    "dead",
)
WAITING_STATES = ("pending", "restarting", "suspended")
RAYS_STATES = ("dependencies_unready", "pending_creation")
"""States of Ray that no actor here has, and that a filter accepts."""


class Row(Protocol):
    """A row that can be filtered: it has a state and other columns."""

    @property
    def state(self) -> str: ...


RowT = TypeVar("RowT", bound=Row)


def checked_filters(
    filters: Iterable[Filter] | None,
    limit: int | None,
    row: type = ActorInfo,
    states: Collection[str] = STATES,
) -> tuple[Filter, ...]:
    """Checks the filters that a user wrote, and returns them.

    The states of the rows are in lower case.

    Raises:
        TypeError: A filter or the limit has the wrong type.
        ValueError: A filter has an unknown column or state, or the limit is below 1.
    """
    check_rows(limit)
    if isinstance(filters, str) or not isinstance(
        cast("object", filters or ()), Iterable
    ):
        raise TypeError(
            "filters takes a list of filters, for example [('state', '=', 'alive')], "
            f"not {filters!r} ({type(filters).__name__})"
        )
    columns = [field.name for field in fields(row)]
    return tuple(
        _checked_filter(condition, columns, states) for condition in filters or ()
    )


def _checked_filter(
    condition: object, columns: Collection[str], states: Collection[str]
) -> Filter:
    parts = cast("tuple[object, ...]", condition)
    if not isinstance(condition, tuple | list) or len(parts) != 3:
        raise TypeError(
            "a filter has a column, '=' or '!=', and a value, for example ('state', "
            f"'=', 'alive'), not {condition!r}"
        )
    key, relation, value = parts
    if key not in columns:
        raise ValueError(
            f"a filter names the column {key!r}, and the columns are "
            f"{', '.join(columns)}"
        )
    if relation not in ("=", "!="):
        raise ValueError(f"a filter compares by '=' or '!=', not {relation!r}")
    if key == "state":
        value = value.lower() if isinstance(value, str) else value
        if value not in states and value not in RAYS_STATES:
            raise ValueError(
                f"a filter names the state {value!r}, and the states are "
                f"{', '.join(states)}"
            )
    return str(key), str(relation), value


def matching(rows: Iterable[RowT], filters: Iterable[Filter]) -> list[RowT]:
    conditions = tuple(filters)
    return [
        row
        for row in rows
        if all(
            _has(row, key, value) == (relation == "=")
            for key, relation, value in conditions
        )
    ]


def _has(row: Row, key: str, value: object) -> bool:
    if key != "state":
        return bool(getattr(row, key) == value)
    if value in RAYS_STATES and isinstance(row, ActorInfo) and row.state in STATES:
        if row.awaits_arguments:
            return value == "dependencies_unready"
        is_coming = row.state in ("pending", "starting")
        return is_coming and value == "pending_creation"
    return row.state.lower() == value
