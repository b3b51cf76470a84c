"""The result of a call, and the errors that it may end with."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest
from helpers.actors import Echo
from helpers.callers import error_of

import actorlib
import actorlib.blocking
from actorlib.exceptions import ActorDiedError, SerializationError, TaskError

if TYPE_CHECKING:
    from helpers.callees import Callee
    from helpers.callers import Api

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="module")]


def fail(error: BaseException) -> None:
    raise error


def return_nothing() -> None: ...


async def test_call_when_it_returns_then_its_value(api: Api, callee: Callee) -> None:
    ref = callee.run(divmod, 7, 3)

    assert await api.get(ref) == (2, 1)
    assert await api.get([callee.run(len, "x" * n) for n in range(20)]) == [*range(20)]
    assert await api.get(callee.run(return_nothing)) is None


async def test_call_when_it_raises_then_the_error_has_both_classes(
    api: Api, callee: Callee
) -> None:
    ref = callee.run(fail, KeyError("lost"))
    error = await error_of(api, ref)

    assert isinstance(error, KeyError)
    assert isinstance(error, TaskError)
    assert (error.args, type(error.cause)) == (("lost",), KeyError)
    assert "raise error" in error.traceback_str
    assert "run" in error.where
    assert isinstance(error, actorlib.blocking.exceptions.RayTaskError)
    assert isinstance(error.as_instanceof_cause(), KeyError)
    for _ in range(2):
        assert isinstance(await error_of(api, ref), KeyError)


async def test_result_when_it_cannot_be_sent_then_that_call_alone_fails(
    api: Api, callee: Callee
) -> None:
    error = await error_of(api, callee.run(threading.Lock))

    assert isinstance(error, TaskError)
    assert isinstance(error, TypeError)
    assert await api.get(callee.run(len, "ab")) == 2


async def test_argument_when_it_cannot_be_sent_then_refused_at_the_call(
    api: Api, callee: Callee
) -> None:
    with pytest.raises(SerializationError, match="run"):
        callee.run(len, asyncio.get_running_loop())
    with pytest.raises(TypeError, match="lock"):
        callee.run(len, threading.Lock())

    assert await api.get(callee.run(len, "ab")) == 2


def ask_and_fail(echo: Any) -> Any:
    yield echo.fail.remote(LookupError("far"))


async def test_error_when_it_crosses_two_calls_then_it_keeps_its_class(
    api: Api, callee: Callee
) -> None:
    error = await error_of(api, callee.run(ask_and_fail, Echo.remote()))

    assert isinstance(error, LookupError)
    assert str(error) == "far"


class Unborn:
    def __init__(self) -> None:
        raise ValueError("not today")

    def ping(self) -> None: ...


class AsyncUnborn(Unborn):
    async def idle(self) -> None: ...


@pytest.mark.parametrize("cls", [Unborn, AsyncUnborn])
@pytest.mark.usefixtures("runtime")
async def test_constructor_when_it_raises_then_every_call_has_its_error(
    api: Api, cls: type
) -> None:
    actor = actorlib.remote(cls).remote()

    for ref in (actor.ping.remote(), actor.ping.remote()):
        error = await error_of(api, ref)
        assert isinstance(error, ActorDiedError)
        assert isinstance(error.__cause__, ValueError)
        assert error.exit.cause == "failed to start"
    with pytest.raises(ActorDiedError):
        await api.ready(actor)
