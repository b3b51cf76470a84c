"""What is in a queue, and who waits for it: every decision of ``Queue``, as values.

Items keep their places: one that is put back stands where it stood, before everything
that came later. Whoever asks is known by a token, and each method says who is answered.
"""

from __future__ import annotations

import itertools
from collections import deque
from typing import Any, NamedTuple, TypeAlias

Token: TypeAlias = bytes
Item: TypeAlias = list[Any]
"""A place, a payload, and the handles in it."""


class Answer(NamedTuple):
    """What somebody who asked is told.

    Attributes:
        token: Who asked.
        items: What was taken; None for who has put something.
    """

    token: Token
    items: list[Item] | None


class Buffer:
    """The items of a queue, in order.

    Args:
        maxsize: How many there may be; 0 for any number.
    """

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
        """Puts an item at the end, or waits for room behind those that do."""
        if self._putters or self.is_full:
            self._putters[token] = item
            return []
        return [*self._accept([item]), Answer(token, None)]

    def put_all(self, items: list[Item]) -> list[Answer] | None:
        """Puts several items, or none of them: None, if there is no room for all."""
        room = self._maxsize - len(self._items)
        if self._maxsize and (self._putters or len(items) > room):
            return None
        return self._accept(items)

    def put_back(self, items: list[Item]) -> list[Answer]:
        """Puts what was taken, and not used, where it was, also if there is no room.

        Whoever waits longest gets what stood first.
        """
        self._items = deque(sorted([*self._items, *items], key=_place_of))
        return self._deal()

    def get(self, token: Token) -> list[Answer]:
        """Takes the first item, or waits for one behind those that do."""
        self._getters[token] = None
        return self._deal()

    def get_many(self, number: int) -> tuple[list[Item] | None, list[Answer]]:
        """Takes so many items, or None if there are not so many."""
        if number > len(self._items):
            return None, []
        taken = [self._items.popleft() for _ in range(number)]
        return taken, self._refill()

    def leave(self, token: Token) -> None:
        """Somebody waits no more; harmless if they do not."""
        self._getters.pop(token, None)
        self._putters.pop(token, None)

    def _accept(self, items: list[Item]) -> list[Answer]:
        for _, payload, handles in items:
            self._items.append([next(self._places), payload, handles])
        return self._deal()

    def _deal(self) -> list[Answer]:
        """Gives what there is to those who wait for it, and takes in what waits."""
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
