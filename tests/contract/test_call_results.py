"""The result of a call, and the errors that it may end with."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest
from helpers.actors import Echo
from helpers.callers import error_of

from actorlib.exceptions import SerializationError, TaskError

if TYPE_CHECKING:
    from helpers.callees import Callee
    from helpers.callers import Api

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="module")]


def fail(error: BaseException) -> None:
    raise error


async def test_call_when_it_returns_then_its_value(api: Api, callee: Callee) -> None:
    ref = callee.run(divmod, 7, 3)

    assert await api.get(ref) == (2, 1)
    assert await api.get([callee.run(len, "x" * n) for n in range(20)]) == [*range(20)]


async def test_call_when_it_raises_then_the_error_has_both_classes(
    api: Api, callee: Callee
) -> None:
    error = await error_of(api, callee.run(fail, KeyError("lost")))

    assert isinstance(error, KeyError)
    assert isinstance(error, TaskError)
    assert (error.args, type(error.cause)) == (("lost",), KeyError)
    assert "raise error" in error.traceback_str


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

    assert await api.get(callee.run(len, "ab")) == 2


def ask_and_fail(echo: Any) -> Any:
    yield echo.fail.remote(LookupError("far"))


async def test_error_when_it_crosses_two_calls_then_it_keeps_its_class(
    api: Api, callee: Callee
) -> None:
    error = await error_of(api, callee.run(ask_and_fail, Echo.remote()))

    assert isinstance(error, LookupError)
    assert str(error) == "far"
