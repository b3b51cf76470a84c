"""What a call may ask about itself."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest
from helpers.actors import Caller

import actorlib

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    from actorlib import ActorHandle, Runtime

    Lend = Callable[[], AbstractAsyncContextManager[Runtime]]

pytestmark = [
    pytest.mark.memory,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.usefixtures("runtime"),
]


def names() -> tuple[Any, ...]:
    context = actorlib.get_runtime_context()
    return (
        context.get_task_id(),
        context.get_task_name(),
        context.get_task_function_name(),
        context.deadline,
        context.time_left(),
        context.is_canceled(),
    )


NOTHING = (None, None, None, None, None, False)


class Asker:
    """Tells what it is told."""

    def __init__(self) -> None:
        self._first = names()

    def first(self) -> Any:
        """What the constructor was told."""
        return self._first

    def ask(self) -> Any:
        """What a plain method is told."""
        return names()

    def thread(self) -> Any:
        """What a thread without a context is told."""
        told: list[Any] = []
        thread = threading.Thread(target=lambda: told.append(names()))
        thread.start()
        thread.join()
        return told[0]

    def other(self, handle: ActorHandle[Any]) -> Any:
        """What another actor is told, in a call of this one's."""
        return actorlib.get(handle.ask.options(name="theirs").remote()), names()

    def context(self) -> actorlib.RuntimeContext:
        """The context itself."""
        return actorlib.get_runtime_context()

    def held(self) -> dict[str, float]:
        """What it holds."""
        return actorlib.get_runtime_context().get_assigned_resources()


class LoopedAsker(Asker):
    """The same, with an event loop."""

    async def ask_later(self) -> Any:
        """What a task of an async method is told."""
        return await asyncio.create_task(_names())


async def _names() -> Any:
    return names()


KINDS = {
    "serial": actorlib.remote(Asker),
    "threaded": actorlib.remote(max_concurrency=2)(Asker),
    "looped": actorlib.remote(LoopedAsker),
}
each_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


@each_kind
async def test_the_id_of_a_call_is_hex_and_its_own(kind: Any) -> None:
    asker, other = kind.remote(), kind.remote()

    ids = [(await handle.ask.remote())[0] for handle in (asker, asker, other)]

    assert len(set(ids)) == 3
    assert all(len(bytes.fromhex(task)) == 16 for task in ids)
    worker = await asker.__ray_call__.remote(_worker_id)
    assert ids[0].startswith(worker)


def _worker_id(_: object) -> str:
    return actorlib.get_runtime_context().get_worker_id()


async def test_the_owner_is_in_no_call() -> None:
    assert names() == NOTHING


@each_kind
async def test_neither_is_a_constructor_nor_a_thread(kind: Any) -> None:
    asker = kind.remote()

    assert await asker.first.remote() == NOTHING
    assert await asker.thread.remote() == NOTHING


@each_kind
async def test_a_call_is_called_by_its_method_or_by_the_name_it_is_given(
    kind: Any,
) -> None:
    asker = kind.remote()
    cls = "LoopedAsker" if kind is KINDS["looped"] else "Asker"

    _, name, function, *_ = await asker.ask.remote()
    _, given, same, *_ = await asker.ask.options(name="nightly").remote()

    assert (name, given) == (f"{cls}.ask", "nightly")
    assert function == same == f"{__name__}.{cls}.ask"


async def test_tasks_of_an_async_method_are_in_its_call() -> None:
    asker = KINDS["looped"].remote()

    task, name, function, *_ = await asker.ask_later.options(name="mine").remote()

    assert task is not None
    assert (name, function) == ("mine", f"{__name__}.LoopedAsker.ask_later")


async def test_what_a_call_makes_is_called_by_its_own_name() -> None:
    front, back = KINDS["serial"].remote(), KINDS["serial"].remote()

    theirs, own = await front.other.options(name="mine").remote(back)

    assert (theirs[1], own[1]) == ("theirs", "mine")


async def test_a_name_is_of_a_call_and_not_of_a_method() -> None:
    options: Any = {"name": "x"}

    with pytest.raises(TypeError, match=r"write \.options\(name=\.\.\.\)"):
        actorlib.method(**options)


@pytest.mark.parametrize(
    ("name", "error"), [(1, TypeError), ("", ValueError), (" ", ValueError)]
)
async def test_a_name_that_is_none_is_refused(
    name: Any, error: type[Exception]
) -> None:
    with pytest.raises(error, match="name takes a name"):
        Caller.remote().run.options(name=name)


async def test_the_session_has_a_name_and_the_machine_no_labels() -> None:
    here = actorlib.get_runtime_context()
    there: actorlib.RuntimeContext = await KINDS["serial"].remote().context.remote()

    assert here.get_session_name() == f"session_{here.get_job_id()}"
    assert there.get_session_name() == here.get_session_name()
    assert here.get_node_labels() == {}


async def test_only_what_was_asked_for_is_assigned() -> None:
    kind: Any = KINDS["serial"]

    assert await kind.remote().held.remote() == {}
    assert await kind.options(num_cpus=4).remote().held.remote() == {"CPU": 4.0}


async def test_context_when_it_has_arrived_then_it_knows_the_place_and_no_call() -> (
    None
):
    asker = KINDS["serial"].remote()

    context: actorlib.RuntimeContext = await asker.context.remote()

    assert bytes.fromhex(context.get_actor_id() or "")
    assert context.get_task_id() is None
    assert context.is_canceled() is False


async def test_context_when_asked_for_again_then_the_same() -> None:
    assert actorlib.get_runtime_context() is actorlib.get_runtime_context()
