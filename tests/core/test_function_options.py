from __future__ import annotations

import typing
from typing import Any

import cloudpickle
import pytest
from helpers.engine import FakeEngine

import actorlib
from actorlib import ObjectRefGenerator
from actorlib._base.validation import names_of
from actorlib._core.engine import set_engine
from actorlib._options.actor_options import CommonOptions
from actorlib._options.function_options import (
    FunctionOptions,
)
from actorlib._options.group_spec import GroupSpec
from actorlib.exceptions import UnknownOptionError
from actorlib.types import RemoteFunction

if typing.TYPE_CHECKING:
    from collections.abc import Iterator


SPEC = GroupSpec(bundles=({"GPU": 1}, {"GPU": 1}))


@actorlib.remote
def add(first: int, second: int = 0, *, scale: int = 1) -> int:
    """Adds."""
    return (first + second) * scale


def plain() -> None: ...


@pytest.fixture
async def engine() -> typing.AsyncIterator[FakeEngine]:
    engine = FakeEngine()
    set_engine(engine)
    yield engine
    set_engine(None)


def test_worker_when_a_function_asks_then_it_asks_for_the_same() -> None:
    options = FunctionOptions(
        num_gpus=0.5, device=1, name="f", torch=True, retry_exceptions=True
    )
    worker = options.worker

    assert (worker.request, worker.devices) == (options.request, ("1",))
    assert (worker.name, worker.torch, worker.retry_exceptions) == (None, False, False)
    assert str(FunctionOptions().worker.request) == "CPU=1"


@pytest.mark.parametrize(
    ("options", "request_"),
    [
        ({}, "CPU=1"),
        ({"num_cpus": 0}, "nothing"),
        ({"resources": {"x": 2}}, "CPU=1, x=2"),
        # Who asks for an accelerator and for no CPU gets none.
        ({"gpu_memory": "1GiB"}, "gpu_memory=1 GiB"),
        ({"num_gpus": 0.25}, "GPU=0.25"),
        ({"resources": {"TPU": 4}}, "TPU=4"),
        ({"num_cpus": 2, "num_gpus": 1}, "CPU=2, GPU=1"),
        # Nothing of an accelerator is asked here, only where one is, or none at all.
        ({"num_gpus": 0}, "CPU=1"),
        ({"accelerator_type": "H100"}, "CPU=1"),
    ],
    ids=repr,
)
def test_request_when_a_function_says_little_then_one_cpu_or_an_accelerator(
    options: dict[str, Any], request_: str
) -> None:
    assert str(FunctionOptions(**options).request) == request_


def test_calling_it_directly_names_remote() -> None:
    with pytest.raises(TypeError, match=r"add\.remote\(\.\.\.\)"):
        add(1)


async def test_function_when_arguments_do_not_fit_then_nothing_is_called(
    engine: FakeEngine,
) -> None:
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        add.remote()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unexpected keyword argument 'third'"):
        add.remote(1, third=2)  # type: ignore[call-arg]
    assert engine.runs == []


async def test_function_when_called_then_the_engine_knows_all_it_takes(
    engine: FakeEngine,
) -> None:
    add.options(num_gpus=0.5, name="sum").remote(1, scale=2)

    ((spec, args, kwargs),) = engine.runs
    assert (spec.source, spec.name, args, kwargs) == (add, "sum", (1,), {"scale": 2})
    assert str(spec.options.request) == "GPU=0.5"


def test_function_when_no_runtime_is_there_then_runtime_error() -> None:
    with pytest.raises(RuntimeError, match="no runtime"):
        add.remote(1)


@pytest.mark.parametrize("name", ["max_restarts", "lifetime", "near", "num_return"])
def test_an_unknown_option_is_refused(name: str) -> None:
    with pytest.raises(UnknownOptionError, match=f"{name}=1"):
        add.options(**{name: 1})  # type: ignore[arg-type]


def test_a_word_of_actors_or_functions_points_to_that_of_the_others() -> None:
    with pytest.raises(ValueError, match="The word for functions is max_retries="):
        actorlib.remote(max_task_retries=1)(plain)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="The word for actors is max_task_retries="):
        actorlib.remote(max_retries=1)(int)
    with pytest.raises(ValueError, match="The word for actors is max_task_retries="):
        actorlib.remote(int).options(max_retries=1)  # type: ignore[call-arg]


def test_max_calls_belongs_to_the_decorator() -> None:
    with pytest.raises(ValueError, match="max_calls"):
        add.options(max_calls=1)  # type: ignore[call-arg]
    assert actorlib.remote(max_calls=2)(plain)


def test_streaming_and_backpressure_are_for_generators() -> None:
    def count() -> Iterator[int]:
        yield 1

    assert actorlib.remote(num_returns="streaming", backpressure=2)(count)
    with pytest.raises(ValueError, match="add is not a generator"):
        add.options(num_returns="streaming")
    with pytest.raises(ValueError, match="add is not a generator"):
        add.options(backpressure=2)


def test_dynamic_is_deprecated() -> None:
    def count() -> Iterator[int]:
        yield 1

    with pytest.warns(DeprecationWarning, match="streaming"):
        function = actorlib.remote(num_returns="dynamic")(count)
    assert function._options.num_returns == "streaming"


async def test_a_generator_function_gives_a_generator(
    engine: FakeEngine,
) -> None:
    def count() -> Iterator[int]:
        yield 1

    function = actorlib.remote(count).options(backpressure=3)

    assert isinstance(function.remote(), ObjectRefGenerator)
    ((spec, _, _),) = engine.runs
    assert (spec.is_stream, spec.headers) == (True, {"stream": 3})


def test_options_when_chained_then_what_was_given_before_stays() -> None:
    function = add.options(num_gpus=0.5).options(max_retries=0)

    assert str(function._options.request) == "GPU=0.5"
    assert function._options.max_retries == 0
    assert str(add._options.request) == "CPU=1"


def test_pickle_when_a_module_has_it_then_it_is_the_very_same() -> None:
    assert cloudpickle.loads(cloudpickle.dumps(add)) is add


def test_pickle_when_it_is_local_then_it_travels_by_value() -> None:
    @actorlib.remote
    def local(number: int) -> Any:
        return local, number

    made = cloudpickle.loads(cloudpickle.dumps(local.options(num_cpus=2)))

    assert str(made._options.request) == "CPU=2"
    itself, number = made.__wrapped__(3)
    assert (type(itself), number) == (RemoteFunction, 3)


OTHER_WORKERS: dict[str, dict[str, Any]] = {
    "num_cpus": {"num_cpus": 2},
    "num_gpus": {"num_gpus": 0.25},
    "gpu_memory": {"gpu_memory": "1GiB"},
    "memory": {"memory": 1},
    "resources": {"resources": {"lane": 1}},
    "accelerator_type": {"accelerator_type": "H100"},
    "placement": {"placement": "spread"},
    "device": {"device": "0"},
    "priority": {"priority": 5},
    "placement_group": {"placement_group": SPEC},
    "placement_group_bundle_index": {
        "placement_group": SPEC,
        "placement_group_bundle_index": 0,
    },
    "placement_group_capture_child_tasks": {
        "placement_group_capture_child_tasks": True
    },
    "accelerators": {"accelerators": "inherit"},
    "enforcement": {"enforcement": "off"},
    "mps_thread_percentage": {"mps_thread_percentage": 50},
    "device_memory_overuse": {"device_memory_overuse": "kill"},
    "runtime_env": {"runtime_env": {"env_vars": {"A": "1"}}},
    "max_concurrency": {"max_concurrency": 5},
}
"""Options of a process, each with a value that needs another process."""


def test_worker_key_when_an_option_of_the_process_differs_then_it_does() -> None:
    plain = {"num_gpus": 0.5}
    keys = {
        FunctionOptions(**(plain | given)).worker_key
        for given in OTHER_WORKERS.values()
    }

    assert len(keys | {FunctionOptions(**plain).worker_key}) == len(OTHER_WORKERS) + 1


def test_worker_key_when_options_are_listed_then_every_one_of_a_process_is() -> None:
    of_code = {"name", "torch", "retry_exceptions", "scheduling_strategy"}

    assert OTHER_WORKERS.keys() | of_code == set(names_of(CommonOptions))


def test_worker_key_when_only_retries_differ_then_workers_are_shared() -> None:
    first, second = FunctionOptions(max_retries=1), FunctionOptions(name="f")

    assert first.worker_key == second.worker_key
