"""Metrics of a runtime in Prometheus' data model; see ``prometheus``.

A call of the program is counted as its ref is filled, which costs little. To tell how
long it waited and ran it has to be observed, which costs as much as many a call. So of
each method about a hundred calls a second are, at the most. Calls that workers make are
counted, and their times taken, as their callees tell of them.
All else is read from a snapshot when somebody scrapes.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, NoReturn, final

from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.registry import Collector

from actorlib._core.engine import find_engine
from actorlib._futures.tally import Tally
from actorlib._options.callee import BoundMethod
from actorlib._rows.snapshot import STATES, ObjectStoreInfo, Snapshot

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from prometheus_client.metrics_core import Metric

    from actorlib._options.call_events import ObservedCall, Outcome, Run
    from actorlib._options.callee import Callee
    from actorlib._rows.snapshot import ActorInfo

_CALLS: Final = (
    *(0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05),
    *(0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0),
)
_PLACEMENTS: Final = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800)
_BETWEEN: Final = 0.01
"""Seconds between two calls of a method whose times are taken, if there are many."""
_LONGEST_STRIDE: Final = 1 << 14
_MOST_METHODS: Final = 500
_MOST_GONE: Final = 1000
"""How many actors are known that are gone, as an older snapshot may still have them."""
_NOTHING: Final = Snapshot(
    total={}, available={}, waiting=(), actors=(), object_store=ObjectStoreInfo()
)
_LABELS: Final = ("actor_class", "method")
_OTHER: Final = ("(other)", "(other)")
"""The labels of methods beyond so many."""


class Stride:
    """Chooses every call where they are few, and every so many where they are many.

    It chooses about a hundred a second at the most. The clock is read for those alone:
    so when a burst is over, it takes long until the next one, or until a new beginning.
    """

    __slots__ = ("_last", "_stride")

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Begins again, as if there had been no call."""
        self._last = -_BETWEEN
        self._stride = 1

    def take(self, now: float) -> int:
        """Takes a call that is made now.

        Returns:
            How many calls are passed over until the next one that is taken.
        """
        since, self._last = now - self._last, now
        if since < _BETWEEN:
            self._stride = min(2 * self._stride, _LONGEST_STRIDE)
        elif since > 2 * _BETWEEN:
            self._stride = max(1, int(self._stride * _BETWEEN / since))
        return self._stride - 1


class MethodFigures:
    """What is known of the calls of one method of a class, or of one function.

    Args:
        key: The labels of its metrics: the class and the method.

    Attributes:
        key: As given.
        stride: Chooses the calls whose times are taken.
        tally: How many ended how.
        times: The times that calls waited and ran; None until one is taken, as a
            histogram shows its labels from then on.
    """

    __slots__ = ("key", "stride", "tally", "times")

    def __init__(self, key: tuple[str, str]) -> None:
        self.key = key
        self.stride = Stride()
        self.tally = Tally()
        self.times: tuple[Histogram, Histogram] | None = None


class Lives:
    """What is counted of actors over all their lives, as snapshots tell of them.

    Attributes:
        placement: How long actors took from being made to being ready.
    """

    def __init__(self) -> None:
        self.placement = Histogram(
            "actorlib_placement_seconds",
            "How long actors took from being made to being ready for calls.",
            ["actor_class"],
            registry=None,
            buckets=_PLACEMENTS,
        )
        self._lock = threading.Lock()
        self._restarts: dict[str, tuple[str, int]] = {}
        self._forgotten: Counter[str] = Counter()
        self._placed: set[str] = set()

    def look(self, actors: Collection[ActorInfo]) -> None:
        """Takes note of all actors that there are.

        Several threads may scrape at once, and come here with snapshots in any order.
        """
        with self._lock:
            for actor in actors:
                key, class_name = actor.actor_id, actor.class_name
                _, known = self._restarts.pop(key, ("", 0))
                self._restarts[key] = class_name, max(known, actor.restarts)
                began, ready = actor.created_at, actor.started_at
                if key in self._placed or began is None or ready is None:
                    continue
                self._placed.add(key)
                placement = self.placement.labels(class_name)
                placement.observe(max(ready - began, 0.0))
            while len(self._restarts) > len(actors) + _MOST_GONE:
                key = next(iter(self._restarts))
                class_name, count = self._restarts.pop(key)
                self._forgotten[class_name] += count
                self._placed.discard(key)

    def restarts(self) -> Counter[str]:
        """How often actors were started anew, by their class."""
        with self._lock:
            found = Counter(self._forgotten)
            for class_name, count in self._restarts.values():
                found[class_name] += count
            return found


@final
class Metrics(Collector):
    """A middleware that counts, and a collector of Prometheus'; see ``prometheus``."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._methods: dict[tuple[str, str], MethodFigures] = {}
        self._lives = Lives()
        self._queue = Histogram(
            "actorlib_call_queue_seconds",
            "How long calls waited from being made until their code ran; where there "
            "are many, of some.",
            _LABELS,
            registry=None,
            buckets=_CALLS,
        )
        self._run = Histogram(
            "actorlib_call_run_seconds",
            "How long the code of these calls ran.",
            _LABELS,
            registry=None,
            buckets=_CALLS,
        )
        registry.register(self)

    def __reduce__(self) -> NoReturn:
        raise TypeError("metrics are counted in the program, and are not sent")

    # The middleware.

    def tally_of(self, callee: Callee) -> Tally | None:
        """Counts a call, unless its times are to be taken; see CallCounter."""
        class_name = callee.class_name if isinstance(callee, BoundMethod) else ""
        figures = self._of(class_name, callee.name)
        tally = figures.tally
        if tally.left:
            return tally
        tally.left = figures.stride.take(time.monotonic())
        return None

    def before(self, call: ObservedCall) -> None:
        """Takes no note of a call that begins; see Middleware."""

    def after(self, call: ObservedCall, token: None, outcome: Outcome) -> None:
        """Counts a call; see Middleware."""
        del token
        self._of(call.class_name, call.method).tally.add(outcome.status)

    def ran(self, run: Run) -> None:
        """Takes the times of a run, and counts that of a worker's; see RunListener."""
        figures = self._of(run.class_name, run.method)
        if not run.is_own:
            figures.tally.add(run.status)
        if figures.times is None:
            key = figures.key
            figures.times = self._queue.labels(*key), self._run.labels(*key)
        queue, ran = figures.times
        queue.observe(max(run.began - run.made, 0.0))  # clocks are read apart
        ran.observe(max(run.ended - run.began, 0.0))

    def _of(self, class_name: str, method: str) -> MethodFigures:
        key = class_name, method
        if key not in self._methods and len(self._methods) >= _MOST_METHODS:
            key = _OTHER  # names that a program makes up are no labels
        return self._methods.setdefault(key, MethodFigures(key))

    # The collector.

    def describe(self) -> list[Metric]:
        """Names all, so that a registry has them once; it does not scrape for that."""
        return list(self.families(_NOTHING))

    def collect(self) -> Iterator[Metric]:
        """Reads what there is, and gives it to who scrapes.

        From another thread than that of the runtime's loop, it waits for the loop.
        """
        engine: Any = find_engine()
        snapshot = None
        if hasattr(engine, "snapshot") and not engine.is_closed:
            snapshot = engine.snapshot()
        yield from self.families(snapshot)

    def metrics_text(self, snapshot: Snapshot) -> str:
        """Writes the metrics down in Prometheus' text format.

        Args:
            snapshot: The state of the runtime.
        """
        registry = CollectorRegistry()
        registry.register(_Once(self, snapshot))
        return generate_latest(registry).decode()

    def metrics_rows(self, snapshot: Snapshot) -> list[dict[str, Any]]:
        """Writes the metrics down as plain values.

        Args:
            snapshot: The state of the runtime.
        """
        return [
            {
                "name": metric.name,
                "type": metric.type,
                "help": metric.documentation,
                "samples": [
                    {"name": s.name, "labels": dict(s.labels), "value": s.value}
                    for s in metric.samples
                ],
            }
            for metric in self.families(snapshot)
        ]

    def families(self, snapshot: Snapshot | None) -> Iterator[Metric]:
        """Gives the metrics.

        Args:
            snapshot: The state of the runtime; None where none runs.
        """
        yield from self._calls()
        if snapshot is not None:
            self._lives.look(snapshot.actors)
            yield from _actors(snapshot)
            yield from _machine(snapshot)
        yield from self._over_lives()

    def _calls(self) -> Iterator[Metric]:
        calls = CounterMetricFamily(
            "actorlib_calls",
            "Calls by how they ended.",
            labels=[*_LABELS, "outcome"],
        )
        for key, figures in sorted(self._methods.copy().items()):
            # Whoever scrapes now and then gets the times of all calls.
            figures.stride.begin()
            figures.tally.left = 0
            for outcome, count in figures.tally.outcomes().items():
                if count:
                    calls.add_metric([*key, outcome], count)
        yield calls
        yield _histogram(self._queue, *_LABELS)
        yield _histogram(self._run, *_LABELS)

    def _over_lives(self) -> Iterator[Metric]:
        restarts = CounterMetricFamily(
            "actorlib_restarts",
            "How often actors were started anew.",
            labels=["actor_class"],
        )
        for class_name, count in sorted(self._lives.restarts().items()):
            restarts.add_metric([class_name], count)
        yield restarts
        yield _histogram(self._lives.placement, "actor_class")


class _Once(Collector):
    """Collects from a snapshot that was taken before."""

    def __init__(self, metrics: Metrics, snapshot: Snapshot) -> None:
        self._metrics = metrics
        self._snapshot = snapshot

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        return self._metrics.families(self._snapshot)


def _histogram(histogram: Histogram, *labels: str) -> HistogramMetricFamily:
    """Gives a histogram without the times at which its series began."""
    (metric,) = histogram.collect()
    family = HistogramMetricFamily(metric.name, metric.documentation, labels=labels)
    family.samples = [s for s in metric.samples if not s.name.endswith("_created")]
    return family


def _actors(snapshot: Snapshot) -> Iterator[Metric]:
    states = Counter(actor.state for actor in snapshot.actors)
    yield _gauge(
        "actorlib_actors",
        "Actors by state; of the dead those that are still listed.",
        ["state"],
        {(state,): float(states[state]) for state in STATES},
    )
    pending: Counter[tuple[str, ...]] = Counter()
    memory: Counter[tuple[str, ...]] = Counter()
    for actor in snapshot.actors:
        if actor.state != "dead":
            pending[actor.class_name,] += actor.pending_calls
            memory[actor.class_name,] += actor.host_memory or 0
    yield _gauge(
        "actorlib_pending_calls",
        "Calls of actors without an answer.",
        ["actor_class"],
        pending,
    )
    yield _gauge(
        "actorlib_host_memory_bytes",
        "Memory resident in the processes of actors that ask for memory.",
        ["actor_class"],
        {key: value for key, value in memory.items() if value},
    )
    yield _gauge(
        "actorlib_waiting",
        "Actors, calls of functions and placement groups that wait for resources.",
        [],
        {(): len(snapshot.waiting)},
    )


def _machine(snapshot: Snapshot) -> Iterator[Metric]:
    for name, what, amounts in (
        ("resources", "that may be granted", snapshot.total),
        ("resources_available", "that nobody holds", snapshot.available),
    ):
        yield _gauge(
            f"actorlib_{name}",
            f"Resources {what}; memory in bytes.",
            ["resource"],
            {(resource,): amount for resource, amount in amounts.items()},
        )
    kinds = {device.device: device.kind for device in snapshot.devices}
    used: Counter[tuple[str, ...]] = Counter()
    for actor in snapshot.actors:
        for device, nbytes in actor.device_memory.items():
            used[kinds.get(device, ""), device] += nbytes
    yield _gauge(
        "actorlib_device_share",
        "The part of a device that is granted, from 0 to 1.",
        ["kind", "device"],
        {(d.kind, d.device): 1.0 - d.available for d in snapshot.devices},
    )
    yield _gauge(
        "actorlib_device_memory_bytes",
        "Memory of a device that actors which share it had at the last look.",
        ["kind", "device"],
        used,
    )
    yield _gauge(
        "actorlib_device_memory_limit_bytes",
        "Memory of a device.",
        ["kind", "device"],
        {(d.kind, d.device): d.nbytes for d in snapshot.devices if d.nbytes},
    )
    store = snapshot.object_store
    yield _gauge(
        "actorlib_object_store_bytes",
        "Shared memory: of values that somebody holds, and kept for the next.",
        ["state"],
        {("live",): store.live, ("warm",): store.warm},
    )
    yield _gauge(
        "actorlib_object_store_limit_bytes",
        "The most shared memory that there may be.",
        [],
        {(): store.limit},
    )


def _gauge(
    name: str, what: str, labels: list[str], values: Mapping[Any, float]
) -> GaugeMetricFamily:
    gauge = GaugeMetricFamily(name, what, labels=labels)
    for key, value in sorted(values.items()):
        gauge.add_metric(key, value)
    return gauge
