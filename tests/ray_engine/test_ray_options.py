from __future__ import annotations

from typing import Any

import pytest

import actorlib
from actorlib._base.validation import names_of
from actorlib._options.actor_options import ActorOptions
from actorlib._options.call_options import CallOptions
from actorlib._options.function_options import FunctionOptions
from actorlib._options.interface import interface_of
from actorlib._ray.options import (
    AMOUNTS,
    ASYNC_LIMIT,
    HANDLED,
    PASSED,
    REFUSED,
    actor_options,
    call_options,
    function_options,
)
from actorlib.exceptions import UnsupportedOptionError


class Model:
    def ping(self) -> None: ...

    @actorlib.method(backpressure=2)
    def items(self) -> Any:
        yield

    @actorlib.method(max_task_retries=3, concurrency_group="io")
    def load(self) -> None: ...


def translated(*, is_async: bool = False, **options: Any) -> dict[str, Any]:
    return actor_options("Model", ActorOptions(**options), is_async=is_async)


def call(name: str, *, is_async: bool = False) -> dict[str, Any]:
    method = interface_of(Model).methods[name]
    return call_options("Model", method, is_async=is_async)


def test_options_when_compared_with_the_tables_then_each_is_in_one() -> None:
    kinds = ActorOptions, CallOptions, FunctionOptions
    options = {name for kind in kinds for name in names_of(kind)}
    told = [*AMOUNTS, *PASSED, *HANDLED, *REFUSED]

    assert sorted(told) == sorted(options)


def test_actor_when_it_asks_for_nothing_then_it_holds_nothing() -> None:
    options = translated()

    assert (options["num_cpus"], options["num_gpus"], options["resources"]) == (
        0,
        0,
        {},
    )
    assert "memory" not in options
    assert "runtime_env" not in options


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"num_gpus": 0.5}, {"num_gpus": 0.5}),
        ({"num_gpus": 1 / 6}, {"num_gpus": 0.1666}),
        ({"num_cpus": 2 / 3, "resources": {"a": 1 / 7}}, {"resources": {"a": 0.1428}}),
        ({"num_cpus": 2 / 3}, {"num_cpus": 0.6666}),
        ({"memory": 10.9}, {"memory": 10}),
        ({"resources": {"TPU": 4}}, {"resources": {"TPU": 4}}),
        ({"num_gpus": 1, "accelerator_type": "H100"}, {"accelerator_type": "H100"}),
        ({"name": "a", "namespace": "b"}, {"name": "a", "namespace": "b"}),
        ({"lifetime": "detached"}, {"lifetime": "detached"}),
        ({"max_restarts": -1}, {"max_restarts": -1}),
        ({"max_task_retries": 2}, {"max_task_retries": 2}),
        ({"max_concurrency": 4}, {"max_concurrency": 4}),
        ({"placement": "pack"}, {}),
        (
            {"max_unread_items": 5},
            {"_actor_generator_backpressure_num_objects": 5},
        ),
        (
            {"runtime_env": {"env_vars": {"A": "1"}}},
            {"runtime_env": {"env_vars": {"A": "1"}}},
        ),
    ],
    ids=str,
)
def test_option_when_ray_has_it_then_it_is_said_in_rays_words(
    given: dict[str, Any], expected: dict[str, Any]
) -> None:
    options = translated(**given)

    assert {name: options[name] for name in expected} == expected


def test_limits_when_the_actor_has_a_loop_then_its_host_counts() -> None:
    options = translated(is_async=True, max_concurrency=2)

    assert options["max_concurrency"] == ASYNC_LIMIT


ASKED: dict[str, Any] = {
    "device": {"device": 0, "num_gpus": 1},
    "near": {"near": (b"other",), "num_gpus": 1},
    "apart_from": {"apart_from": (b"other",), "num_gpus": 1},
    "placement": {"placement": "spread", "num_gpus": 1},
    "priority": {"priority": 5},
    "enforcement": {"enforcement": "watchdog", "num_gpus": 0.5},
    "mps_thread_percentage": {"num_gpus": 0.5, "mps_thread_percentage": 50},
    "device_memory_overuse": {"device_memory_overuse": "kill"},
    "torch": {"torch": True},
    "gpu_memory": {"gpu_memory": "10GiB"},
    "restart_window": {"restart_window": 5.0},
    "restart_backoff": {"restart_backoff": 5.0},
}


@pytest.mark.parametrize("name", REFUSED)
def test_option_when_ray_has_none_then_the_refusal_names_it(name: str) -> None:
    with pytest.raises(UnsupportedOptionError, match=f"Model is to have {name}="):
        translated(**ASKED[name])


def test_unread_items_when_the_actor_has_a_loop_then_they_are_refused() -> None:
    with pytest.raises(UnsupportedOptionError, match="max_unread_items"):
        translated(is_async=True, max_unread_items=5)


def test_call_when_translated_then_it_has_a_name_for_the_dashboard() -> None:
    assert call("ping") == {"name": "Model.ping"}


def test_call_when_it_has_options_then_they_are_said_in_rays_words() -> None:
    options = call("load")

    assert (options["max_task_retries"], options["concurrency_group"]) == (3, "io")


def test_call_when_of_a_generator_then_it_streams() -> None:
    options = call("items")

    assert options["num_returns"] == "streaming"
    assert options["_generator_backpressure_num_objects"] == 2
    with pytest.raises(UnsupportedOptionError, match="backpressure=2"):
        call("items", is_async=True)


def test_function_when_it_asks_for_nothing_then_it_holds_a_cpu() -> None:
    @actorlib.remote(max_retries=2)
    def work() -> None: ...

    options = function_options("work", work._options, is_stream=False)

    assert (options["num_cpus"], options["max_retries"]) == (1, 2)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"accelerators": "hide"}, "accelerators"),
        ({"runtime_env": {"working_dir": "/tmp"}}, "working_dir"),
    ],
)
def test_function_when_it_wants_a_process_its_way_then_it_is_refused_by_name(
    options: Any, name: str
) -> None:
    with pytest.raises(UnsupportedOptionError, match=name):
        function_options("f", FunctionOptions(**options), is_stream=False)
