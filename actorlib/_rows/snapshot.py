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


@public("actorlib")
@dataclass(frozen=True, slots=True, kw_only=True)
class ActorInfo:
    """What is known of one actor.

    Attributes:
        actor_id: Its id in hex.
        class_name: The name of its class.
        state: ``pending``, ``starting``, ``alive``, ``suspended``, ``restarting``,
            ``draining`` or ``dead``.
        pid: Its process, or 0 while there is none.
        resources: What it asked for, by resource name; memory in bytes.
        devices: The part of each device that it holds, by the id of the device.
        device_nbytes: The bytes of each device that this part stands for, by the id of
            the device; None if the memory of a device is unknown.
        mask: The value of its visibility variable; None if it holds no device.
        restarts: How often it was restarted.
        pending_calls: How many of its calls have no answer yet.
        made_calls: How many calls were sent to it, or wait for it to be ready, since it
            was created. A call that was sent again counts again. Calls that came
            straight from another worker do not count. 0 on Ray.
        death: How it ended; empty while it lives.
        earlier_deaths: Why it was restarted, a line for each of the latest 10 times,
            oldest first.
        name: The name by which ``get_actor`` finds it, or None.
        namespace: The namespace of that name.
        is_detached: True if it lives without a handle.
        placement_group: The id in hex of the group that it is in, or None.
        awaits_arguments: True if it is pending because an argument has no value yet.
        device_memory: Bytes that its processes had of each device that it shares, when
            NVML was asked last, by the id of the device; empty if nobody watches.
        created_at: When it was made, in seconds since the epoch; None on Ray.
        started_at: When it was first ready for calls, in seconds since the epoch; None
            until then. A restart does not change it.
        ended_at: When it was dead for good; None until then.
        repr_name: What its own ``__repr__`` calls it, or the empty string.
        share: What it holds of devices, and what keeps it to that.
        host_memory: Bytes of the machine's memory that were resident in its processes
            at the last look. On Linux, actors that ask for ``memory`` are looked at
            every 5 s. Pages that processes share count for each of them. None if nobody
            has looked.
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

    @property
    def label(self) -> str:
        """What messages call it: ``Model 'm1'``, or ``Model`` if it has no name."""
        return str(Label(self.class_name, self.name, self.repr_name))

    def _repr_html_(self) -> str:
        """Tells of it in a table, for a notebook."""
        from actorlib._rows.tables import Column, clipped, html_of, table  # noqa: PLC0415  # few look

        rows = _actor_columns()[1:]
        if self.death:
            rows.append(Column("death", lambda one: clipped(one.death, _LONGEST)))
        heads: Column[Column[ActorInfo]] = Column(self.label, lambda row: row.heading)
        cells: Column[Column[ActorInfo]] = Column(
            self.actor_id, lambda row: row.cell(self)
        )
        return html_of(table([heads, cells], rows))


@public("actorlib")
@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """A line that an actor or a function has printed, or a record that it has logged.

    Attributes:
        number: Counts the lines of a runtime, from 1.
        time: When it was printed or logged, in seconds since the epoch.
        source: ``stdout`` or ``stderr`` of what was printed, ``log`` of a record.
        actor_id: Whose it is, in hex; empty of a function.
        label: What the actor was called then: ``Model 'm1'``; or ``function``.
        pid: Its process.
        text: The line, or the message.
        level: The level of a record; 0 of what was printed.
        logger: The name of the logger; empty of what was printed.
        method: The method whose call made the record, or empty.
        call: The id of that call, as ``get_task_id()`` says it, or empty.
        traceback: The traceback that the record has, or empty.
        lost: How many lines were lost directly before this one: the runtime keeps
            the last of each actor. They are of the same actor if lines of one were
            asked for, and else of any.
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
        lines: These.
        lost: How many lines were lost behind the last of these.
        number: The position behind these, where the next page begins.
    """

    lines: list[LogLine]
    lost: int
    number: int


@public("actorlib")
@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceInfo:
    """What is known of one device that a runtime may grant.

    Attributes:
        device: Its id, as ``ActorInfo.devices`` says it.
        kind: The resource that it counts as, for example ``"GPU"``.
        model: The product name, or None if unknown.
        nbytes: Bytes of its memory, or None if unknown.
        available: The part of it that nobody holds, from 0 to 1.
        is_logical: True if it was declared and not found.
    """

    device: str
    kind: str
    model: str | None
    nbytes: int | None
    available: float
    is_logical: bool


@public("actorlib")
@dataclass(frozen=True, slots=True, kw_only=True)
class ClientInfo:
    """What is known of one client: a program that is attached to a runtime.

    Attributes:
        pid: Its process; 0 where the system does not tell.
        program: What it runs, as it says: the words of its command line.
        attached_at: Since when, in seconds since the epoch.
    """

    pid: int
    program: str
    attached_at: float


@public("actorlib")
@dataclass(frozen=True, slots=True, kw_only=True)
class BundleInfo:
    """What is known of one bundle of a placement group.

    Attributes:
        resources: What it reserves, by resource name; memory in bytes.
        available: What of that no actor inside holds.
        devices: The part of each device that it has, by the id of the device; empty
            until it is reserved.
        device_nbytes: The bytes of each device that this part stands for, by the id of
            the device; None if the memory of a device is unknown.
        actors: The ids in hex of the actors that are inside.
    """

    resources: dict[str, float]
    available: dict[str, float]
    devices: dict[str, float]
    actors: tuple[str, ...]
    device_nbytes: dict[str, int | None] = field(default_factory=dict[str, int | None])


@public("actorlib")
@dataclass(frozen=True, slots=True, kw_only=True)
class GroupInfo:
    """What is known of one placement group.

    Attributes:
        group_id: Its id in hex.
        name: The name by which ``get_placement_group`` finds it, or the empty string.
        strategy: How its bundles lie on devices.
        state: ``PENDING``, ``CREATED``, ``INFEASIBLE`` (this machine can never reserve
            it), or ``REMOVED`` (the last processes inside are ending).
        bundles: Its bundles, in order.
        is_detached: True if it outlives whoever made it.
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
"""Where a call is: an argument has no value yet; its actor is not ready, or there is
not what a function asks for; it waits in the line of the actor, or of the function's
process; it runs. It is ``sent`` where either may be: on Ray, and over links."""


@public("actorlib")
@dataclass(frozen=True, slots=True, kw_only=True)
class CallInfo:
    """What is known of a call that has no answer yet.

    Attributes:
        actor_id: The id in hex of the actor that it is for; empty for a function.
        class_name: The name of that actor's class; empty for a function.
        method: The name of the method, or what calls of the function are called.
        state: ``pending_arguments``, ``pending_actor``, ``pending_resources``,
            ``queued`` or ``running``; see CallState. In an actor it follows from the
            order of the calls and from how many the actor runs at once.
        actor_name: The name by which ``get_actor`` finds that actor, or None.
        name: Returns the name of the call: that of ``options(name=...)``, or
            ``Class.method``.
        task_id: What ``get_task_id()`` returns in the call, in hex; empty until it was
            sent.
        age: Seconds since it was made, or was sent again, to a tenth or so; None if
            that is unknown.
        caller: The call that made it, as ``"Front.answer of 'm1' (pid 812)"``; empty
            if that is the program's own code.
        variables: The context variables that travel with it, by name, such as the id of
            a request; see ``propagate``.
        deadline: Seconds until its time is over; None if it has no deadline, or if that
            is unknown.
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


@public("actorlib")
class AllCalls(NamedTuple):
    """The calls that have no answer, also those of which only workers know.

    Attributes:
        calls: First the calls that the program's process has seen, then those that went
            straight from one actor to another.
        silent: The actors that did not answer in time, as they run a plain method, or
            are stopped or stuck. Their straight calls to other actors are missing.
    """

    calls: list[CallInfo]
    silent: tuple[str, ...] = ()


@public("actorlib")
@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectStoreInfo:
    """What is known of the shared memory that large values lie in.

    Attributes:
        live: Bytes of values that somebody holds, in all processes together.
        warm: Bytes that are kept for the next values, and what is lost to whole pages.
        limit: The most bytes that all may have together; 0 if nothing is shared.
    """

    live: int = 0
    warm: int = 0
    limit: int = 0

    @property
    def used(self) -> int:
        """Bytes that the system has given: live and warm."""
        return self.live + self.warm


ObjectOrder: TypeAlias = Literal["size", "age"]
"""Which objects come first: the largest, or those that have been there longest."""


@public("actorlib")
@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectInfo:
    """What is known of one thing that the object store keeps.

    Attributes:
        kind: ``"block"``: a value in shared memory, or memory there that a process
            keeps for the next value. ``"ref"``: what a ref stands for that was sent
            inside of a value, kept for as long as anybody has the ref.
        state: ``"live"``: somebody holds it. ``"pending"``: a ref without a value yet.
            ``"warm"``: memory that nobody holds a value in.
        object_id: Its id in hex; empty for warm memory.
        nbytes: Bytes of memory of a block; of a ref those that lie outside of shared
            memory. None where nobody knows, as of the program's own objects.
        maker: Who made it: ``"the program"``, or ``"Model 'm1' (pid 812)"``.
        holders: Who holds it, and by how many references: views of its memory, refs,
            and calls and answers that have it inside. The program holds what waits for
            an actor.
        arguments_of: The calls that wait in the program with it among their arguments,
            or that may be sent again with it; the 10 oldest at the most.
        block: Of a ref, the id in hex of the block that its value lies in, or empty.
        age: Seconds since the program came to know of the block; None for everything
            else.
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


@public("actorlib")
@dataclass(frozen=True, slots=True, kw_only=True)
class DemandInfo:
    """What several who wait in line ask for, all of them the same.

    Attributes:
        resources: What each of them asks for, by resource name; memory in bytes.
        count: How many ask for it.
        is_infeasible: True if this machine can never give it.
    """

    resources: dict[str, float]
    count: int
    is_infeasible: bool


@public("actorlib")
@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerGroupInfo:
    """What is known of the calls of functions that ask for the same.

    Attributes:
        resources: What each of them asks for.
        waiting: How many wait in line.
        running: How many run.
        blocked: How many of these wait for a result, and have given their CPUs back
            meanwhile.
        pids: The processes that run them, also those that have nothing to do.
        host_memory: Bytes of the machine's memory that each process had at the last
            look, with all that it started; None if they asked for no ``memory``.
    """

    resources: str
    waiting: int
    running: int
    blocked: int
    pids: tuple[int, ...]
    host_memory: tuple[int | None, ...] = ()


@public("actorlib")
@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The state of a runtime at one moment.

    Attributes:
        total: How much of each resource there is, by its name; memory in bytes.
        available: How much of that nobody holds.
        waiting: Who waits in line, in order, and for what.
        actors: Every actor that lives or that somebody still holds, then the latest of
            the dead that nobody holds: ``init(actor_history=...)`` says how many.
        object_store: The shared memory that large values lie in.
        groups: Every placement group.
        demands: What those in line ask for; equal requests are counted together.
        worker_groups: Calls of functions and the processes that run them, by what
            they ask for.
        draining: Shares of devices whose worker has ended, and that nobody may have
            before the driver has freed what was there: each with who still holds what.
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
        """Tells the most of it in a few lines, and how many more there are of each."""
        from actorlib._rows.tables import clipped, in_words, some_of  # noqa: PLC0415  # few look

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
        lines += [f"  {row}" for row in some_of([*map(_told, self.actors)], 8)]
        if self.waiting:
            lines.append(f"  {len(self.waiting)} in line:")
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
        """Tells of it in tables, for a notebook."""
        from actorlib._rows.tables import (  # noqa: PLC0415  # few look
            Column,
            clipped,
            html_of,
            in_words,
            table,
        )

        def shown(columns: "Sequence[Column[T]]", rows: Sequence[T]) -> "Table | None":
            left_out = len(rows) - _MOST_SHOWN
            some = rows[:_MOST_SHOWN]
            return table(columns, some, left_out=left_out) if rows else None

        waiting = Column[str]("in line", lambda row: clipped(row, _LONGEST))
        tables = (
            shown(_device_columns(), self.devices),
            shown(_actor_columns(), self.actors),
            shown([waiting], self.waiting),
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


_MOST_SHOWN = 50
"""How many rows a notebook is shown of each kind."""
_LONGEST = 200
"""How long a text is there."""
_BAR = 20


def _held(info: ActorInfo) -> str:
    return ", ".join(f"{part:g} of {id_}" for id_, part in info.devices.items())


def _actor_columns() -> "list[Column[ActorInfo]]":
    from actorlib._rows.tables import Column  # noqa: PLC0415  # few look

    return [
        Column("actor", lambda actor: actor.label),
        Column("state", lambda actor: actor.state),
        Column("pid", lambda actor: str(actor.pid or "-")),
        Column("devices", lambda actor: _held(actor) or "-"),
        Column("calls", lambda actor: str(actor.pending_calls)),
        Column("restarts", lambda actor: str(actor.restarts)),
    ]


def _device_columns() -> "list[Column[DeviceInfo]]":
    from rich.progress_bar import ProgressBar  # noqa: PLC0415  # few look

    from actorlib._rows.tables import Column  # noqa: PLC0415  # few look

    return [
        Column("device", lambda one: f"{one.kind} {one.device}"),
        Column(
            "granted",
            lambda one: ProgressBar(total=1, completed=1 - one.available, width=_BAR),
        ),
        Column("free", _of_device),
    ]


def _told(info: ActorInfo) -> str:
    held = f" on {_held(info)}" if info.devices else ""
    calls = f", {info.pending_calls} calls" if info.pending_calls else ""
    death = f": {info.death}" if info.death else ""
    label = with_pid(info.label, info.pid)
    return f"{label}: {info.state}{held}{calls}{death}"


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
"""Words of Ray's that no actor's state is, and that a filter understands."""


class Row(Protocol):
    """What can be filtered: it has a state besides its other columns."""

    @property
    def state(self) -> str:
        """Where it is in its life."""
        ...


RowT = TypeVar("RowT", bound=Row)


def checked_filters(
    filters: Iterable[Filter] | None,
    limit: int | None,
    row: type = ActorInfo,
    states: Collection[str] = STATES,
) -> tuple[Filter, ...]:
    """The filters that a user wrote.

    Args:
        filters: What was written.
        limit: How many rows were asked for.
        row: The dataclass of the rows.
        states: What the state of a row may be, in lower case.

    Raises:
        TypeError: A filter or the limit has the wrong type.
        ValueError: A filter names no column or no state, or the limit is below 1.
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
            f"'=', 'alive'), and {condition!r} has not"
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
    """The rows for which every filter holds."""
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
