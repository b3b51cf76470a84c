"""Metrics of a runtime in Prometheus' data model; see ``prometheus``.

A call of the program is counted when its ref is filled, which costs little. To measure
its waiting and running time it has to be observed, which may cost as much as the call.
So at most about a hundred calls per second of each method are observed. Calls that
workers make are counted and measured by the reports of their callees. Everything else
is read from a snapshot when the metrics are scraped.
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
"""Seconds between two measured calls of a method, if there are many."""
_LONGEST_STRIDE: Final = 1 << 14
_MOST_METHODS: Final = 500
_MOST_GONE: Final = 1000
"""The number of ended actors that are kept, as an older snapshot may contain them."""
_NOTHING: Final = Snapshot(
    total={}, available={}, waiting=(), actors=(), object_store=ObjectStoreInfo()
)
_LABELS: Final = ("actor_class", "method")
_OTHER: Final = ("(other)", "(other)")
"""The labels of methods beyond that number."""


class Stride:
    """Chooses all calls if they are few, and every n-th call if they are many.

    It chooses at most about a hundred per second. The clock is read for these only: so
    after a burst, the next one is chosen late, unless ``begin`` is called.
    """

    __slots__ = ("_last", "_stride")

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Resets it."""
        self._last = -_BETWEEN
        self._stride = 1

    def take(self, now: float) -> int:
        """Chooses the current call; returns the number of calls to skip after it."""
        since, self._last = now - self._last, now
        if since < _BETWEEN:
            self._stride = min(2 * self._stride, _LONGEST_STRIDE)
        elif since > 2 * _BETWEEN:
            self._stride = max(1, int(self._stride * _BETWEEN / since))
        return self._stride - 1


class MethodFigures:
    """The figures of one method of a class, or of one function.

    Attributes:
        key: The labels of its metrics: the class and the method.
        stride: Chooses the calls that are measured.
        tally: The number of calls by outcome.
        times: The histograms of waiting and running times; None before the first
            measured call, as a histogram shows its labels from then on.
    """

    __slots__ = ("key", "stride", "tally", "times")

    def __init__(self, key: tuple[str, str]) -> None:
        self.key = key
        self.stride = Stride()
        self.tally = Tally()
        self.times: tuple[Histogram, Histogram] | None = None


class Lives:
    """The counts of actors over their lives, from snapshots.

    Attributes:
        placement: The times from the creation of actors until they were ready.
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
        """Adds the actors of a snapshot.

        Several threads may scrape at once, so snapshots come in any order.
        """
        with self._lock:
            for actor in actors:
                key, class_name = actor.actor_id, actor.class_name
                _, count = self._restarts.pop(key, ("", 0))
                self._restarts[key] = class_name, max(count, actor.restarts)
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
        """Returns the number of restarts of actors by their class."""
        with self._lock:
            restarts = Counter(self._forgotten)
            for class_name, count in self._restarts.values():
                restarts[class_name] += count
            return restarts


@final
class Metrics(Collector):
    """A middleware, and a collector of Prometheus; see ``prometheus``."""

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
        """Returns the tally of a call, or None to measure it; see CallCounter."""
        class_name = callee.class_name if isinstance(callee, BoundMethod) else ""
        figures = self._of(class_name, callee.name)
        tally = figures.tally
        if tally.left:
            return tally
        tally.left = figures.stride.take(time.monotonic())
        return None

    def before(self, call: ObservedCall) -> None:
        """Does nothing; see Middleware."""

    def after(self, call: ObservedCall, token: None, outcome: Outcome) -> None:
        """Counts a call; see Middleware."""
        del token
        self._of(call.class_name, call.method).tally.add(outcome.status)

    def ran(self, run: Run) -> None:
        """Adds the times of a run, and counts a worker's call; see RunListener."""
        figures = self._of(run.class_name, run.method)
        if not run.is_own:
            figures.tally.add(run.status)
        if figures.times is None:
            key = figures.key
            figures.times = self._queue.labels(*key), self._run.labels(*key)
        queue, ran = figures.times
        queue.observe(max(run.began - run.made, 0.0))  # two processes read the clock
        ran.observe(max(run.ended - run.began, 0.0))

    def _of(self, class_name: str, method: str) -> MethodFigures:
        key = class_name, method
        if key not in self._methods and len(self._methods) >= _MOST_METHODS:
            key = _OTHER  # a program may generate any number of names
        return self._methods.setdefault(key, MethodFigures(key))

    # The collector.

    def describe(self) -> list[Metric]:
        """Returns the names of all metrics, for the registry; reads no runtime."""
        return list(self.families(_NOTHING))

    def collect(self) -> Iterator[Metric]:
        """Reads the metrics; on other threads than the runtime's loop, waits for it."""
        engine: Any = find_engine()
        snapshot = None
        if hasattr(engine, "snapshot") and not engine.is_closed:
            snapshot = engine.snapshot()
        yield from self.families(snapshot)

    def metrics_text(self, snapshot: Snapshot) -> str:
        """Formats the metrics in Prometheus' text format."""
        registry = CollectorRegistry()
        registry.register(_Once(self, snapshot))
        return generate_latest(registry).decode()

    def metrics_rows(self, snapshot: Snapshot) -> list[dict[str, Any]]:
        """Returns the metrics as plain values."""
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
        """Yields the metrics; without a snapshot, those of calls and lives only."""
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
            # After each scrape, the next call is measured.
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
            "How often actors were restarted.",
            labels=["actor_class"],
        )
        for class_name, count in sorted(self._lives.restarts().items()):
            restarts.add_metric([class_name], count)
        yield restarts
        yield _histogram(self._lives.placement, "actor_class")


class _Once(Collector):
    """Collects the metrics of one snapshot."""

    def __init__(self, metrics: Metrics, snapshot: Snapshot) -> None:
        self._metrics = metrics
        self._snapshot = snapshot

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        return self._metrics.families(self._snapshot)


def _histogram(histogram: Histogram, *labels: str) -> HistogramMetricFamily:
    """Returns a histogram without the creation times of its series."""
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
        ("resources_available", "that are free", snapshot.available),
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
        "Memory of a device that the actors that share it used at the last check.",
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
        "Shared memory: of values that are held, and kept for the next values.",
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
