"""One process's end of a queue: what it asks the queue's actor, and what it is told."""

from __future__ import annotations

import itertools
import pickle
import secrets
import weakref
from asyncio import InvalidStateError
from collections import deque
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

from actorlib._engine import Hold, collecting
from actorlib._handle import ActorHandle, hold_of
from actorlib._ids import ActorId
from actorlib._interface import READY, Interface
from actorlib._ref import ObjectRef, replier_of, watch
from actorlib._waiting import Several, refuse_loop
from actorlib._wire.payload import decode, encode, kept
from actorlib.exceptions import (
    ActorDiedError,
    ActorlibError,
    SerializationError,
    TaskCancelledError,
)

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

R = TypeVar("R")

_FACELESS = Interface("actor in a queue", READY, {})
"""A handle that is held for the sake of an item needs no methods."""

_STAYS = "what a queue gives waits in one process: await it, and send what comes"


class Reply(ObjectRef[R]):
    """What a queue answers; an item is loaded by who takes it, and returned if nobody.

    Attributes:
        under: The ref of the call to the queue's actor.
        refusal: What it fails with if the answer is a no.
    """

    __slots__ = ("_desk", "_items", "_many", "_trouble", "_value", "refusal", "under")

    def __init__(
        self,
        desk: Desk,
        under: ObjectRef[Any],
        refusal: Callable[[], Exception],
        *,
        many: bool,
    ) -> None:
        super().__init__(loop=under.get_loop())
        self.under = under
        self.refusal = refusal
        self._desk = desk
        self._many = many
        self._items: list[Any] | None = None
        self._value: Any = None
        self._trouble: SerializationError | None = None

    def settle(self, answer: Any) -> None:
        """Takes the answer of the queue's actor."""
        if answer is None or answer is False:
            self.set_exception(self.refusal())
            return
        if answer is not True:
            self._items = answer if self._many else [answer]
        self.set_result(cast("R", None))

    def result(self) -> R:
        """The item, loaded here and now if nobody has asked for it before.

        Raises:
            SerializationError: It cannot be loaded here.
        """
        super().result()
        if self._items is not None:
            self._load(self._items)
        if self._trouble is not None:
            raise self._trouble
        return cast("R", self._value)

    def _load(self, items: list[Any]) -> None:
        try:
            values = [decode(payload) for _, payload, _ in items]
            self._value = values if self._many else values[0]
        except Exception as error:  # noqa: BLE001  # it runs the user's code
            trouble = SerializationError(f"the item cannot be loaded here: {error}")
            trouble.__cause__ = error
            self._trouble = trouble
        self._items = None  # it is taken, also if it is of no use

    def __del__(self) -> None:
        if self._items is not None:
            self._desk.put_back(self._items)
        elif not self.done():
            self._desk.give_up(self.call)
        super().__del__()  # type: ignore[misc]  # pyright: ignore  # noqa: PGH003  # it tells of errors that nobody saw

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("what a queue gives is awaited before it travels")


class Desk:
    """One process's end of a queue: it asks the actor, and is its refs' Replier."""

    def __init__(self, actor: ActorHandle[Any]) -> None:
        self.actor = actor
        self._engine = hold_of(actor).engine
        own = self._engine.context.actor_id
        self._own = None if own is None else bytes.fromhex(own)
        self._name = secrets.token_bytes(8)
        self._count = itertools.count(1)
        # Gets are held by who waits alone: an item that nobody takes stays.
        self._refs: dict[int, Reply[Any] | weakref.ref[Reply[Any]]] = {}
        self._unsent: deque[tuple[str, object]] = deque()

    # Asking.

    def put(
        self, item: object, patience: float | None, refusal: Callable[[], Exception]
    ) -> Reply[None]:
        number = self._next()
        _, payload, handles = self._sealed(item)
        asked = self.actor.put.remote(self._token(number), patience, payload, handles)
        reply: Reply[None] = Reply(self, asked, refusal, many=False)
        self._refs[number] = reply
        return self._asked(number, reply)

    def put_all(
        self, items: list[Any], refusal: Callable[[], Exception]
    ) -> Reply[None]:
        number = self._next()
        asked = self.actor.put_all.remote([self._sealed(item) for item in items])
        reply: Reply[None] = Reply(self, asked, refusal, many=False)
        self._refs[number] = reply
        return self._asked(number, reply)

    def get(
        self, patience: float | None, refusal: Callable[[], Exception]
    ) -> Reply[Any]:
        number = self._next()
        asked = self.actor.get.remote(self._token(number), patience, self._own)
        reply: Reply[Any] = Reply(self, asked, refusal, many=False)
        self._refs[number] = weakref.ref(reply)
        return self._asked(number, reply)

    def get_many(
        self, number_of_items: int, refusal: Callable[[], Exception]
    ) -> Reply[list[Any]]:
        number = self._next()
        asked = self.actor.get_many.remote(number_of_items)
        reply: Reply[list[Any]] = Reply(self, asked, refusal, many=True)
        self._refs[number] = weakref.ref(reply)
        return self._asked(number, reply)

    def _asked(self, number: int, reply: Reply[R]) -> Reply[R]:
        reply.bind(self, number)
        watch(reply.under, partial(self._answered, number, reply.under))
        return reply

    def look(self, method: str) -> ObjectRef[Any]:
        if self._unsent:
            self._tell()
        return cast("ObjectRef[Any]", getattr(self.actor, method).remote())

    def _next(self) -> int:
        if self._unsent:  # who gave up must not get what is put now
            self._tell()
        return next(self._count)

    def _token(self, number: int) -> bytes:
        return self._name + number.to_bytes(8, "big")

    def _sealed(self, item: object) -> list[Any]:
        """An item that only its taker looks into, and the handles that it needs."""
        if isinstance(item, ObjectRef):
            raise TypeError("a queue takes values: await the ref, and put its value")
        try:
            with collecting(self._engine) as loans:
                payload = kept(encode(item))
        except Exception as error:
            raise SerializationError(
                f"the item, a {type(item).__qualname__}, cannot be sent to another "
                f"process: {error}"
            ) from error
        # Refs inside of the item are held likewise, by their ids.
        holds = [Hold(self._engine, ActorId(loan), _FACELESS) for loan in loans]
        handles = [ActorHandle[Any](hold) for hold in holds] or None
        if type(payload) is list:
            return [0, [pickle.PickleBuffer(part) for part in payload], handles]
        return [0, payload, handles]

    def _answered(self, number: int, asked: ObjectRef[Any]) -> None:
        entry = self._refs.pop(number, None)
        reply = entry() if isinstance(entry, weakref.ref) else entry
        error: BaseException | None = TaskCancelledError("the call was cancelled")
        if not asked.cancelled():
            error = asked.exception()
        if reply is None or reply.done():
            if error is None and isinstance(answer := asked.result(), list) and answer:
                items = cast("list[Any]", answer)
                self.put_back(items if isinstance(items[0], list) else [items])
            return
        with suppress(InvalidStateError):  # another thread cancels it right now
            if error is None:
                reply.settle(asked.result())
                return
            reply.set_exception(error)
            if isinstance(error, ActorDiedError) and error.exit.cause == "asked":
                reply.exception()  # whoever ended the queue knows

    # Giving up, also from destructors.

    def put_back(self, items: list[Any]) -> None:
        """Gives back what was taken and is not used."""
        back = [
            [
                place,
                [pickle.PickleBuffer(part) for part in cast("list[Any]", payload)]
                if type(payload) is list
                else payload,
                handles,
            ]
            for place, payload, handles in items
        ]
        self._tell_soon("put_back", back)

    def give_up(self, number: int) -> None:
        """Nobody waits for a call any more."""
        self._tell_soon("withdraw", self._token(number))

    def _tell_soon(self, method: str, what: object) -> None:
        self._unsent.append((method, what))
        self._engine.later(self._tell)

    def _tell(self) -> None:
        while self._unsent:
            with suppress(IndexError):  # another thread was quicker
                method, what = self._unsent.popleft()
                with suppress(ActorlibError, RuntimeError):  # it is gone, with all
                    told = getattr(self.actor, method).remote(what)
                    told.add_done_callback(unheard)

    # The replier of its refs.

    def cancel(self, call: int, *, recursive: bool = True) -> None:
        """Stops waiting; see Replier."""
        del recursive  # nothing was called for it
        self._refs.pop(call, None)
        self._unsent.append(("withdraw", self._token(call)))
        self._tell()

    def loosen(self, ref: ObjectRef[Any]) -> None:
        """From now on it is given up if nobody holds the ref; see Replier."""
        if ref.call in self._refs:
            self._refs[ref.call] = weakref.ref(cast("Reply[Any]", ref))

    def watch(self, ref: ObjectRef[Any], then: Callable[[], None]) -> None:
        """Calls back once when it is done; see Replier."""
        replier_of(cast("Reply[Any]", ref).under).watch(ref, then)

    def name(self) -> bytes:
        """Refuses: nobody else can speak of it; see Replier."""
        raise TypeError(_STAYS)

    def travel(self, ref: ObjectRef[Any]) -> tuple[Any, ...]:
        """Refuses: nobody else can wait for it; see Replier."""
        del ref
        raise TypeError(_STAYS)

    def wait(self, ref: ObjectRef[Any], timeout: float | None) -> None:
        """Blocks this thread until it is done; see Replier."""
        refuse_loop(ref)
        given = ref.refs if isinstance(ref, Several) else (ref,)
        under = next(reply.under for reply in given if isinstance(reply, Reply))
        replier_of(under).wait(ref, timeout)


def unheard(ref: asyncio.Future[Any]) -> None:
    """An error that nobody asks for: the actor is gone, and that was the aim."""
    if not ref.cancelled():
        ref.exception()
