"""The verbs of all engines: each is implemented or refused, as it is declared."""

from __future__ import annotations

import asyncio
import importlib
import inspect
from typing import TYPE_CHECKING, Any

import pytest

from actorlib._client.engine import AttachedEngine, refusals_of_client
from actorlib._core.engine import Engine, PlacementGroups, RuntimeEngine
from actorlib._owner.engine import LocalEngine
from actorlib._owner.requests.placement_groups import GroupOperations
from actorlib._worker.executors.serial_executor import SerialOwnerClient
from actorlib._worker.executors.task_executor import TaskOwnerClient
from actorlib._worker.requests.async_client import AsyncOwnerClient
from actorlib._worker.requests.placement_groups import GroupRequests

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ENGINES: list[tuple[type, type]] = [
    (LocalEngine, RuntimeEngine),
    (AttachedEngine, RuntimeEngine),
    (SerialOwnerClient, Engine),
    (AsyncOwnerClient, Engine),
    (TaskOwnerClient, Engine),
    (GroupOperations, PlacementGroups),
    (GroupRequests, PlacementGroups),
]
"""What implements verbs, each with the class that declares them."""
ON_RAY = [
    ("actorlib._ray.engine", "RayEngine", Engine),
    ("actorlib._ray.cluster", "OwnerEngine", RuntimeEngine),
    ("actorlib._ray.placement_groups", "RayPlacementGroups", PlacementGroups),
]
WIDER = {"later"}
"""Verbs whose arguments may be of more types in a worker than elsewhere."""


def verbs_of(declaring: type) -> Iterator[tuple[str, Any]]:
    for name in dir(declaring):
        verb = getattr(declaring, name)
        if inspect.isfunction(verb) and not name.startswith("_"):
            yield name, verb


def refuses(declared: Any) -> bool:
    return "_refusal" in declared.__code__.co_names


def signature_of(name: str, verb: Any) -> list[tuple[object, ...]]:
    return [
        (one.name, one.kind, one.default, None if name in WIDER else one.annotation)
        for one in inspect.signature(verb).parameters.values()
    ]


def check_signatures(engine: type, declaring: type) -> None:
    for name, declared in verbs_of(declaring):
        verb = getattr(engine, name)
        assert signature_of(name, verb) == signature_of(name, declared), name
        is_async = inspect.iscoroutinefunction
        assert is_async(verb) == is_async(declared), name


def check_each_is_implemented_or_refused(engine: type, declaring: type) -> None:
    table = {**getattr(engine, "refusals", {})}
    if engine is AttachedEngine:
        table |= refusals_of_client("runtime 'x'", 7)
    for name, declared in verbs_of(declaring):
        if getattr(engine, name) is declared:
            has_body = declared.__code__.co_names
            assert has_body, f"{engine.__name__} does not implement {name}"
            is_complete = name in table or not refuses(declared)
            assert is_complete, f"{engine.__name__} has no reason to refuse {name}"
    declared_names = {name for name, _ in verbs_of(declaring)}
    assert set(table) <= declared_names


def named(value: object) -> str:
    return value.__name__ if isinstance(value, type) else ""


@pytest.mark.parametrize(("engine", "declaring"), ENGINES, ids=named)
def test_verb_when_an_engine_has_it_then_its_signature_is_the_declared_one(
    engine: type, declaring: type
) -> None:
    check_signatures(engine, declaring)


@pytest.mark.parametrize(("engine", "declaring"), ENGINES, ids=named)
def test_verb_when_an_engine_does_not_implement_it_then_its_table_says_why(
    engine: type, declaring: type
) -> None:
    check_each_is_implemented_or_refused(engine, declaring)


@pytest.mark.ray
@pytest.mark.parametrize(("module", "name", "declaring"), ON_RAY)
def test_verb_when_ray_has_it_then_its_signature_and_table_are_complete(
    module: str, name: str, declaring: type
) -> None:
    pytest.importorskip("ray")
    engine = getattr(importlib.import_module(module), name)

    check_signatures(engine, declaring)
    check_each_is_implemented_or_refused(engine, declaring)


@pytest.mark.parametrize(
    ("kind", "verb"),
    [
        (SerialOwnerClient, "share"),
        (AsyncOwnerClient, "loads"),
        (TaskOwnerClient, "suspend"),
        (LocalEngine, "interface"),
        (LocalEngine, "leave"),
        (AttachedEngine, "leave"),
        (AttachedEngine, "interface"),
        *((AttachedEngine, verb) for verb in refusals_of_client("runtime 'x'", 7)),
    ],
)
def test_verb_when_it_is_refused_then_the_error_is_that_of_the_table(
    kind: Callable[..., Any], verb: str
) -> None:
    engine: Any = object.__new__(kind)  # refusing needs nothing else of it
    if kind is AttachedEngine:
        engine.refusals = {
            **AsyncOwnerClient.refusals,
            **refusals_of_client("runtime 'x'", 7),
        }
    bound = getattr(engine, verb)
    required = [
        parameter
        for parameter in inspect.signature(bound).parameters.values()
        if parameter.default is parameter.empty
    ]
    why, error = engine.refusals[verb]

    async def call() -> None:
        answer = bound(*[None for _ in required])
        await answer  # an async verb raises when it is awaited

    with pytest.raises(error) as raised:
        asyncio.run(call())

    assert str(raised.value) == why
