"""The actor of a ``Queue``: it has the encoded items and the waiting calls.

Its worker loads this file and none of the user's modules: the takers decode the items.
``Buffer`` decides, in plain values: items keep their place, so an item that is put back
is before all later ones.
"""

from __future__ import annotations

import asyncio
import itertools
import pickle
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

from actorlib._api.decorators import remote
from actorlib._base.ids import ActorId
from actorlib._core.engine import current_engine

if TYPE_CHECKING:
    from collections.abc import Iterable


Token: TypeAlias = bytes
Item: TypeAlias = list[Any]
"""A place, a payload, and the handles in it."""


class Answer(NamedTuple):
    """The answer to a waiting put or get."""

    token: Token
    items: list[Item] | None  # of a get


class Buffer:
    """The items of a queue, in order, and the waiting calls."""

    def __init__(self, maxsize: int) -> None:
        self._maxsize = maxsize
        self._items: deque[Item] = deque()
        self._getters: dict[Token, None] = {}
        self._putters: dict[Token, Item] = {}
        self._places = itertools.count()

    def __len__(self) -> int:
        return len(self._items)

    @property
    def is_full(self) -> bool:
        """Whether a put would wait."""
        return 0 < self._maxsize <= len(self._items)

    def put(self, token: Token, item: Item) -> list[Answer]:
        """Puts an item at the end, or waits for room behind earlier puts."""
        if self._putters or self.is_full:
            self._putters[token] = item
            return []
        return [*self._accept([item]), Answer(token, None)]

    def put_all(self, items: list[Item]) -> list[Answer] | None:
        """Puts several items; returns None if there is no room for all."""
        room = self._maxsize - len(self._items)
        if self._maxsize and (self._putters or len(items) > room):
            return None
        return self._accept(items)

    def put_back(self, items: list[Item]) -> list[Answer]:
        """Puts unused items back to their places, even if there is no room.

        The call that has waited longest gets the first item.
        """
        self._items = deque(sorted([*self._items, *items], key=_place_of))
        return self._deal()

    def get(self, token: Token) -> list[Answer]:
        """Removes the first item, or waits for one behind earlier gets."""
        self._getters[token] = None
        return self._deal()

    def get_many(self, number: int) -> tuple[list[Item] | None, list[Answer]]:
        """Removes a number of items; returns None if there are fewer."""
        if number > len(self._items):
            return None, []
        items = [self._items.popleft() for _ in range(number)]
        return items, self._refill()

    def leave(self, token: Token) -> None:
        """Removes a call, if it waits."""
        self._getters.pop(token, None)
        self._putters.pop(token, None)

    def _accept(self, items: list[Item]) -> list[Answer]:
        for _, payload, handles in items:
            self._items.append([next(self._places), payload, handles])
        return self._deal()

    def _deal(self) -> list[Answer]:
        """Passes items to waiting gets, and the room to waiting puts."""
        answers: list[Answer] = []
        while self._items and self._getters:
            token = next(iter(self._getters))
            del self._getters[token]
            answers.append(Answer(token, [self._items.popleft()]))
        return [*answers, *self._refill()]

    def _refill(self) -> list[Answer]:
        answers: list[Answer] = []
        while self._putters and not self.is_full:
            token = next(iter(self._putters))
            item = self._putters.pop(token)
            answers += [*self._accept([item]), Answer(token, None)]
        return answers


def _place_of(item: Item) -> int:
    place: int = item[0]
    return place


_MANY = 1 << 30


@remote(max_concurrency=_MANY)  # a waiting call blocks no others
class QueueActor:
    """Serves a queue; see ``Queue``."""

    def __init__(self, maxsize: int) -> None:
        self._buffer = Buffer(maxsize)
        self._waiting: dict[Token, asyncio.Future[list[Item] | None]] = {}
        self._taker: dict[Token, bytes] = {}

    async def put(
        self, token: bytes, limit: float | None, payload: Any, handles: Any
    ) -> bool:
        """Puts an item; returns False if there is no room in time.

        Args:
            token: The token of the call.
            limit: Seconds to wait for room, or None for no limit.
            payload: The item in bytes, or in several buffers.
            handles: The handles in it, which are kept with it.
        """
        answers = self._buffer.put(token, [0, payload, handles])
        return await self._answered(token, limit, answers) is not None

    async def put_all(self, items: list[list[Any]]) -> bool:
        """Puts several items, or returns False if there is no room for all."""
        answers = self._buffer.put_all(items)
        if answers is None:
            return False
        self._give(answers)
        return True

    async def get(
        self, token: bytes, limit: float | None, taker: bytes | None
    ) -> Item | None:
        """Removes an item for an actor or the program; None if there is none."""
        answers = self._buffer.get(token)
        if taker is not None:
            self._taker[token] = taker
        try:
            items = await self._answered(token, limit, answers)
        finally:
            self._taker.pop(token, None)
        return sendable(items[0]) if items else None

    async def get_many(self, number: int) -> list[Item] | None:
        """Removes a number of items; returns None if there are fewer."""
        items, answers = self._buffer.get_many(number)
        self._give(answers)
        if items is None:
            return None
        return [sendable(item) for item in items]

    async def put_back(self, items: list[Item]) -> None:
        self._give(self._buffer.put_back(items))

    async def withdraw(self, token: bytes) -> None:
        self._expire(token)

    async def qsize(self) -> int:
        return len(self._buffer)

    async def empty(self) -> bool:
        return not self._buffer

    async def full(self) -> bool:
        return self._buffer.is_full

    async def _answered(
        self, token: Token, limit: float | None, answers: list[Answer]
    ) -> list[Item] | None:
        """Waits for an answer: a list, or None if it does not arrive in time."""
        loop = asyncio.get_running_loop()
        waiting: asyncio.Future[list[Item] | None] = loop.create_future()
        self._waiting[token] = waiting
        self._give(answers, caller=token)
        if limit == 0:
            self._expire(token)
        timer = None
        if limit and not waiting.done():
            timer = loop.call_later(limit, self._expire, token)
        try:
            return await waiting
        except asyncio.CancelledError:
            self._expire(token)
            if waiting.done() and not waiting.cancelled():
                self._give(self._buffer.put_back(waiting.result() or []))
            raise
        finally:
            if timer is not None:
                timer.cancel()

    def _expire(self, token: Token) -> None:
        self._buffer.leave(token)
        waiting = self._waiting.pop(token, None)
        if waiting is not None and not waiting.done():
            waiting.set_result(None)

    def _give(self, answers: Iterable[Answer], caller: Token | None = None) -> None:
        for token, items in answers:
            waiting = self._waiting.pop(token)
            if waiting.done():  # cancelled in this turn of the loop
                self._give(self._buffer.put_back(items or []))
                continue
            taker = self._taker.get(token)
            if items and taker is not None and token != caller:
                self._watch(taker, items)
            waiting.set_result(items or [])

    def _watch(self, taker: bytes, items: list[Item]) -> None:
        """Puts items back if the actor that waited for them has died.

        The request is sent before the items, on the same pipe: an actor that was dead
        when the request was answered has not received them.
        """
        ready = current_engine().ready(ActorId(taker))
        ready.add_done_callback(partial(self._put_back_if_dead, items))

    def _put_back_if_dead(self, items: list[Item], ready: asyncio.Future[None]) -> None:
        if ready.cancelled() or ready.exception() is not None:
            self._give(self._buffer.put_back(items))


def sendable(item: Item) -> Item:
    """Returns an item whose buffers are sent beside the frame, without a copy."""
    place, payload, handles = item
    if type(payload) is list:
        parts = cast("list[Any]", payload)
        return [place, [pickle.PickleBuffer(part) for part in parts], handles]
    return item
