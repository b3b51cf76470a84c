"""Metrics of calls, actors and devices, as Prometheus reads them."""

from __future__ import annotations

import asyncio
import pickle
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from helpers.actors import running

import actorlib
from actorlib.__main__ import main
from actorlib._cli import metrics as command
from actorlib._core.engine import find_engine
from actorlib._features.runtime import find_query
from actorlib._options.function_options import FunctionOptions, FunctionSpec
from actorlib._queries.queries import begin_query
from actorlib._rows.snapshot import ObjectStoreInfo
from actorlib.observe import Run
from actorlib.observe import prometheus as made
from actorlib.types import ActorInfo, Snapshot

pytest.importorskip("prometheus_client")
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from actorlib.observe._metrics import Stride

if TYPE_CHECKING:
    from collections.abc import Iterable

LABELS = {
    "actor_class",
    "device",
    "kind",
    "le",
    "method",
    "outcome",
    "resource",
    "state",
}
CALLS, RUN_COUNT = "actorlib_calls_total", "actorlib_call_run_seconds_count"


@actorlib.remote(num_gpus=0.5)
class Model:
    def predict(self, x: int) -> int:
        return x

    def fail(self) -> None:
        raise KeyError("no")

    async def wait(self) -> None:
        await asyncio.Event().wait()


@actorlib.remote
def double(x: int) -> int:
    return 2 * x


def values(text: str) -> dict[tuple[str, ...], float]:
    """The samples, each by its name and the values of its labels in their order."""
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): (
            sample.value
        )
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def prometheus(registry: Any) -> Any:
    """As it is made for users, who need none of its methods."""
    return made(registry)


def told(number: int = 1, **fields: Any) -> Run:
    run: dict[str, Any] = {
        "actor_id": "aa",
        "class_name": "Model",
        "actor_name": None,
        "method": "predict",
        "caller_id": "",
        "made": 0.0,
        "began": 0.002,
        "ended": 2.002,
        "status": "ok",
        "error": "",
        "pid": 1,
    }
    return Run(number, **{**run, **fields})


def snapshot(*actors: ActorInfo) -> Snapshot:
    return Snapshot(
        total={},
        available={},
        waiting=(),
        actors=actors,
        object_store=ObjectStoreInfo(live=3, warm=4, limit=9),
    )


def actor(actor_id: str, **known: Any) -> ActorInfo:
    info: dict[str, Any] = {
        "class_name": "Model",
        "state": "alive",
        "pid": 1,
        "resources": {},
        "devices": {},
        "mask": None,
        "restarts": 0,
        "pending_calls": 0,
        "death": "",
    }
    return ActorInfo(actor_id=actor_id, **{**info, **known})


@pytest.mark.memory
async def test_metrics_when_scraped_then_they_say_what_was_done_and_what_there_is() -> (
    None
):
    registry = CollectorRegistry()
    metrics = prometheus(registry)
    async with running(num_gpus=2, middleware=[metrics]) as runtime:
        model = Model.remote()
        assert [await model.predict.remote(i) for i in range(3)] == [0, 1, 2]
        with pytest.raises(KeyError):
            await model.fail.remote()
        assert await double.remote(2) == 4
        cancelled = model.wait.remote()
        await model.predict.remote(3)
        actorlib.cancel(cancelled)
        lost = model.wait.remote()
        await model.predict.remote(4)
        text = generate_latest(registry).decode()
        assert metrics.metrics_text(runtime.snapshot()) == text
        from_thread = await asyncio.to_thread(generate_latest, registry)
        assert from_thread.decode().splitlines()[:9] == text.splitlines()[:9]
        actorlib.kill(model)
        with pytest.raises(actorlib.exceptions.ActorDiedError):
            await lost
        await asyncio.sleep(0)
        after = values(generate_latest(registry).decode())

    found = values(text)
    assert found[CALLS, "Model", "predict", "ok"] == 5
    assert found[CALLS, "Model", "fail", "error"] == 1
    assert found[CALLS, "Model", "wait", "cancelled"] == 1
    assert found[CALLS, "", "double", "ok"] == 1
    timed = found[RUN_COUNT, "Model", "predict"]
    assert 1 <= timed <= 5
    assert found["actorlib_call_queue_seconds_count", "Model", "predict"] == timed
    assert found["actorlib_actors", "alive"] == 1
    assert found["actorlib_device_share", *device(found, 0.5), "GPU"] == 0.5
    assert found["actorlib_resources", "GPU"] == 2
    assert found["actorlib_resources_available", "GPU"] == 1.5
    assert found["actorlib_pending_calls", "Model"] == 1
    assert found["actorlib_placement_seconds_count", "Model"] == 1
    assert after[CALLS, "Model", "wait", "lost"] == 1
    assert after["actorlib_actors", "alive"] == 0
    # Nothing runs: what was counted is still there.
    assert values(generate_latest(registry).decode())[CALLS, "", "double", "ok"] == 1


def device(found: dict[tuple[str, ...], float], share: float) -> tuple[str]:
    [(_, name, _)] = [
        key
        for key, value in found.items()
        if key[0] == "actorlib_device_share" and value == share
    ]
    return (name,)


def test_names_when_read_then_they_follow_the_conventions() -> None:
    metrics = prometheus(CollectorRegistry())
    metrics.ran(told())
    text = metrics.metrics_text(snapshot(actor("aa", created_at=1.0, started_at=2.0)))

    families = list(text_string_to_metric_families(text))

    for family in families:
        assert re.fullmatch(r"actorlib_[a-z]+(_[a-z]+)*", family.name)
        assert family.documentation.endswith(".")
        is_counter = f"# TYPE {family.name}_total counter" in text
        assert is_counter == (family.type == "counter")
        assert not family.name.endswith(("_total", "_count", "_sum", "_bucket"))
        for sample in family.samples:
            assert sample.labels.keys() <= LABELS
        if family.type == "histogram":
            assert family.name.endswith("_seconds")
            check_buckets(family.samples)
    assert len({family.name for family in families}) == len(families) == 16


def check_buckets(samples: Any) -> None:
    buckets = [s.value for s in samples if s.name.endswith("_bucket")]
    (count,) = [s.value for s in samples if s.name.endswith("_count")]
    assert buckets == sorted(buckets)
    assert buckets[-1] == count == 1


def test_times_when_counted_then_they_are_in_their_buckets() -> None:
    metrics = prometheus(CollectorRegistry())
    metrics.ran(told(made=5.0, began=4.9, ended=5.0))  # clocks are read apart
    metrics.ran(told(made=0.0, began=0.001, ended=400.0))

    found = values(metrics.metrics_text(snapshot()))

    queue, run = "actorlib_call_queue_seconds", "actorlib_call_run_seconds"
    assert found[f"{queue}_bucket", "Model", "0.0001", "predict"] == 1
    assert found[f"{queue}_bucket", "Model", "0.001", "predict"] == 2
    assert found[f"{queue}_sum", "Model", "predict"] == 0.001
    assert found[f"{run}_bucket", "Model", "300.0", "predict"] == 1
    assert found[f"{run}_bucket", "Model", "+Inf", "predict"] == 2


def taken_of(stride: Stride, times: Iterable[float]) -> list[int]:
    """The numbers of the calls that are taken, of some that are made at these times."""
    taken: list[int] = []
    left = 0
    for number, now in enumerate(times):
        if left:
            left -= 1
        else:
            left = stride.take(now)
            taken.append(number)
    return taken


@pytest.mark.parametrize(
    ("rate", "seconds", "least", "most"),
    [(50, 2.0, 100, 100), (1_000, 2.0, 100, 260), (100_000, 1.0, 60, 260)],
)
def test_stride_when_calls_come_fast_then_some_are_taken_from_everywhere(
    rate: int, seconds: float, least: int, most: int
) -> None:
    count = int(rate * seconds)

    taken = taken_of(Stride(), (n / rate for n in range(count)))

    assert least <= len(taken) <= most
    assert taken[0] == 0
    assert max(taken) > 0.8 * count


def test_stride_when_a_burst_is_over_then_all_are_taken_again() -> None:
    stride = Stride()
    taken_of(stride, (n / 100_000 for n in range(5_000)))

    seldom = taken_of(stride, (10.0 + n for n in range(2_000)))

    assert len(seldom) > 500
    assert seldom[-3:] == [1_997, 1_998, 1_999]


def test_stride_when_somebody_looks_then_the_next_call_is_taken() -> None:
    metrics = prometheus(CollectorRegistry())
    callee: Any = FunctionSpec(source=double, name="double", options=FunctionOptions())
    while metrics.tally_of(callee) is None:
        pass

    metrics.metrics_text(snapshot())

    assert metrics.tally_of(callee) is None


def test_methods_when_they_are_too_many_then_the_others_are_one() -> None:
    metrics = prometheus(CollectorRegistry())

    for number in range(505):
        metrics.ran(told(method=f"m{number}"))

    calls = next(metrics.families(None))
    found = {s.labels["method"]: s.value for s in calls.samples}
    assert found["(other)"] == 5
    assert found["m499"] == 1


def test_registry_when_it_has_one_then_another_is_refused() -> None:
    registry = CollectorRegistry()
    metrics = prometheus(registry)

    with pytest.raises(ValueError, match="Duplicated"):
        prometheus(registry)
    with pytest.raises(TypeError, match="are not sent"):
        pickle.dumps(metrics)


@pytest.mark.memory
async def test_query_server_when_a_program_counts_then_it_tells_that() -> None:
    metrics = prometheus(CollectorRegistry())

    def asked(**options: bool) -> Any:
        question = begin_query(find_query, engine, "metrics", options)
        assert question.on_loop is not None
        return question.finish(question.on_loop())

    async with running() as runtime:
        engine: Any = find_engine()
        with pytest.raises(ValueError, match="counts nothing: give it metrics"):
            asked()
        runtime.add_middleware(metrics)
        text, rows = asked(), asked(rows=True)
        with pytest.raises(ValueError, match="takes no parameter 'color'"):
            asked(color=True)

    assert values(text)["actorlib_waiting",] == 0
    (waiting,) = [row for row in rows if row["name"] == "actorlib_waiting"]
    assert waiting["samples"] == [
        {"name": "actorlib_waiting", "labels": {}, "value": 0}
    ]
    assert (waiting["type"], waiting["help"][-1]) == ("gauge", ".")


@pytest.mark.parametrize(
    ("words", "told", "printed"),
    [([], "a 1\n", "a 1\n"), (["--json"], [{"name": "a"}], '[\n  {\n    "name": "a"')],
)
def test_command_when_a_runtime_tells_then_it_prints_that(
    words: list[str],
    told: Any,
    printed: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def ask(address: str, verb: str, *, rows: bool) -> Any:
        assert (address, verb, rows) == ("pid 7", "metrics", bool(words))
        return told

    monkeypatch.setattr(command, "the_runtime", lambda pid: f"pid {pid}")
    monkeypatch.setattr(command, "ask_loop", ask)

    assert main(["metrics", "--pid", "7", *words]) == 0
    assert capsys.readouterr().out.startswith(printed)


def test_restarts_and_placements_when_lives_come_and_go_then_each_counts_once() -> None:
    metrics = prometheus(CollectorRegistry())

    def scraped(*actors: ActorInfo) -> tuple[float, float]:
        found = values(metrics.metrics_text(snapshot(*actors)))
        placed = found["actorlib_placement_seconds_count", "Model"]
        return found["actorlib_restarts_total", "Model"], placed

    first = actor("aa", restarts=2, created_at=1.0, started_at=2.0)
    second = actor("bb", restarts=1, created_at=1.0, started_at=2.0)
    assert scraped(first) == (2, 1)
    assert scraped(second) == (3, 2)
    assert scraped(first) == (3, 2)  # taken before, and looked at later
    assert scraped(replace(first, restarts=1), second) == (3, 2)
    assert scraped(replace(second, restarts=2)) == (4, 2)
    assert scraped() == (4, 2)


def test_metrics_when_many_actors_have_ended_then_their_restarts_count_on() -> None:
    metrics = prometheus(CollectorRegistry())
    for number in range(1100):
        text = metrics.metrics_text(snapshot(actor(f"{number}", restarts=1)))

    assert values(text)["actorlib_restarts_total", "Model"] == 1100
