"""A runtime that is asked from another thread of its own process."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest
from helpers.actors import Echo

import actorlib
from actorlib._core.engine import find_engine
from actorlib._features.runtime import find_query
from actorlib._queries.local_client import LocalClient
from actorlib._queries.protocol import OK
from actorlib.exceptions import RuntimeUnreachableError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

LIMIT = 20.0
NOBODY = "ab" * 16


@pytest.fixture
async def server() -> AsyncIterator[LocalClient]:
    async with actorlib.init(engine="inline", num_cpus=1):
        engine: Any = find_engine()
        yield LocalClient(engine, find_query)


async def test_runtime_when_asked_then_it_answers_as_at_its_socket(
    server: LocalClient,
) -> None:
    echo = Echo.options(name="m1").remote()
    await echo

    status = await asyncio.to_thread(server.ask, "status")
    stack = await asyncio.to_thread(server.ask, "stack")

    assert (status.outcome, stack.outcome) == (OK, OK)
    assert [row.name for row in status.value.snapshot.actors] == ["m1"]
    assert "MainThread" in [thread.name for thread in stack.value.threads]


@pytest.mark.parametrize(
    ("verb", "options", "words"),
    [
        ("nothing", {}, "has no query 'nothing'"),
        ("status", {"dead": 1}, "dead takes true or false"),
        ("explain", {"actor": "zz"}, "takes the id of an actor in hex"),
        ("explain", {"actor": NOBODY}, NOBODY),
    ],
)
async def test_runtime_when_a_question_is_none_then_it_refuses_it(
    server: LocalClient, verb: str, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        await asyncio.to_thread(server.ask, verb, **options)


async def test_runtime_when_it_ends_then_who_waits_is_told(server: LocalClient) -> None:
    seen: list[BaseException] = []

    def ask() -> None:
        try:
            server.ask("status", patience=LIMIT)
        except RuntimeUnreachableError as error:
            seen.append(error)

    asking = threading.Thread(target=ask)
    asking.start()
    server.close()
    asking.join(LIMIT)  # on the loop, which does not answer

    assert [str(error) for error in seen] == ["this runtime has ended"]
