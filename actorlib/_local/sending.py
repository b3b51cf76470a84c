"""The owner's own calls on their way out: with their arguments, and in order.

A call whose arguments are refs waits here until they have their values, and those
behind it to the same actor wait with it.
"""

from __future__ import annotations

import itertools
from functools import partial
from typing import TYPE_CHECKING, Any

from actorlib._arguments import Arguments, when_done
from actorlib._local.birth import Sealed
from actorlib._local.holders import OWNER
from actorlib._wire.lanes import Lanes

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Mapping

    from actorlib._ids import ActorId
    from actorlib._interface import Method
    from actorlib._local.loans import Loans
    from actorlib._local.supervisor import Life
    from actorlib._reading import Reading
    from actorlib._ref import ObjectRef
    from actorlib._values import Sharing


class Sending:
    """What the owner's code sends to actors.

    Args:
        engine: Whose handles may be among the arguments.
        loans: Counts them.
        loop: The owner's loop.
    """

    def __init__(
        self, engine: Sharing, loans: Loans, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._engine = engine
        self._loans = loans
        self._loop = loop
        self._places = itertools.count(1)
        self.lanes: Lanes[ActorId, int] = Lanes()
        self._held_back: dict[int, Callable[[], None]] = {}

    def arguments(
        self, where: str, args: tuple[object, ...], kwargs: Mapping[str, object]
    ) -> Arguments:
        """Arguments as they are now; this process holds what is among them.

        Raises:
            SerializationError: One cannot be sent.
        """
        arguments = Arguments(self._engine, where, args, kwargs)
        self._loans.arrived(arguments.loans, OWNER)
        return arguments

    def sealed(
        self, arguments: Arguments
    ) -> Sealed | BaseException | asyncio.Future[Sealed]:
        """A constructor's arguments, why there are none, or a future of them."""
        if arguments.are_ready:
            return self.completed(arguments)
        later: asyncio.Future[Sealed] = self._loop.create_future()
        when_done(arguments.refs, partial(self._complete_into, later, arguments))
        return later

    def send(
        self,
        life: Life,
        ref: ObjectRef[Any] | Reading,
        method: Method,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
        told: dict[str, object] | None,
    ) -> None:
        """Sends a call, now or behind those to the actor that wait.

        Args:
            life: The actor.
            ref: Gets the answer.
            method: The method.
            args: Its positional arguments.
            kwargs: Its keyword arguments.
            told: What the caller says of the call.

        Raises:
            SerializationError: An argument cannot be sent.
        """
        where = life.record.called.method(method.name)
        arguments = self.arguments(where, args, kwargs)
        if arguments.refs or self.lanes:
            self._send_in_order(life, ref, method, arguments, told)
        else:
            sealed, loans = arguments.payload()
            sent = life.dispatch.send(ref, method.name, loans, sealed, told)
            ref.bind(life.dispatch, sent)

    def _send_in_order(
        self,
        life: Life,
        ref: ObjectRef[Any] | Reading,
        method: Method,
        arguments: Arguments,
        told: dict[str, object] | None,
    ) -> None:
        """Sends a call when its arguments are there and those before it have gone."""
        dispatch, lane = life.dispatch, life.record.id
        number = dispatch.hold_back(ref, method.name, told)
        ref.bind(dispatch, number)
        del ref  # from here on it may be abandoned

        def go() -> None:
            waiting = dispatch.let_go(number)
            completed = self.completed(arguments)
            if isinstance(completed, BaseException):
                if waiting is not None:
                    waiting.set_exception(completed)
            elif waiting is None:  # cancelled while it waited
                self._loans.returned(completed.loans or (), OWNER)
            else:
                payload, loans = completed
                sent = dispatch.send(waiting, method.name, loans, payload, told)
                waiting.bind(dispatch, sent)
            life.idle()

        place = next(self._places)
        ready, passes = arguments.are_ready, not method.keeps_order
        if self.lanes.post(lane, place, ready=ready, passes=passes):
            go()
            return
        self._held_back[place] = go

        def settled() -> None:
            for free in self.lanes.settled(lane, place, goes=True):
                self._held_back.pop(free)()

        when_done(arguments.refs, settled)

    def completed(self, arguments: Arguments) -> Sealed | BaseException:
        """The payload of arguments whose refs are done, or why there is none."""
        try:
            payload, loans = arguments.payload()
        except Exception as error:  # noqa: BLE001  # it becomes the answer
            self._loans.returned(arguments.loans, OWNER)
            return error
        if arguments.refs:
            self._loans.arrived(loans or (), OWNER)
            self._loans.returned(arguments.loans, OWNER)
        return Sealed(payload, loans)

    def _complete_into(
        self, later: asyncio.Future[Sealed], arguments: Arguments
    ) -> None:
        completed = self.completed(arguments)
        if isinstance(completed, Sealed):
            if later.done():
                self._loans.returned(completed.loans or (), OWNER)
            else:
                later.set_result(completed)
        elif not later.done():
            later.set_exception(completed)
