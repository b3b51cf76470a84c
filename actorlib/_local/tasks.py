"""Calls of functions: what they are of, who waits for them, how often they are made."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from actorlib._local.ahead import AT_LEAST
from actorlib._local.retries import Retries
from actorlib._ref import ObjectRef

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from actorlib._engine import LoanId
    from actorlib._function_options import FunctionOptions
    from actorlib._local.crew import Crew, Hand
    from actorlib._local.dispatch import Asker
    from actorlib._wire.frames import Frame, Payload

    Reply: TypeAlias = ObjectRef[Any] | weakref.ref[ObjectRef[Any]] | Asker


class Code:
    """A function as it is sent, once to each worker that runs it.

    Args:
        number: Its number in this runtime.
        label: Its name.
        source: The pickled function.
        loans: What is in it and counted.

    Attributes:
        method: What its calls are called on the pipe.
        depth: How many of its calls one worker has at once.
        plans: What is known of its calls, by how they came to be described.
    """

    __slots__ = (
        "__weakref__",
        "depth",
        "label",
        "loans",
        "method",
        "number",
        "plans",
        "source",
    )

    def __init__(
        self, number: int, label: str, source: bytes, loans: Sequence[LoanId]
    ) -> None:
        self.number = number
        self.label = label
        self.source = source
        self.loans = loans
        self.method = f"{number}:{label}"
        self.depth = AT_LEAST
        self.plans: dict[bytes, Plan] = {}


class Plan:
    """What all calls of a function with the same options have in common.

    Args:
        code: The function.
        label: What a call is called in messages.
        options: What it asks for.
        crew: Who runs it; None if nobody ever can.
        trouble: Why nobody can.
    """

    __slots__ = ("code", "crew", "label", "max_calls", "retries", "told", "trouble")

    def __init__(
        self,
        code: Code,
        label: str,
        options: FunctionOptions,
        crew: Crew | None,
        trouble: BaseException | None = None,
    ) -> None:
        self.code = code
        self.label = label
        self.crew = crew
        self.trouble = trouble
        self.retries = Retries(options.max_retries, options.retried)
        limit = options.max_calls
        on_device = crew is not None and crew.is_on_device
        self.max_calls = int(on_device) if limit is None else limit
        self.told = {"name": options.name} if options.name else None


class Ended(Protocol):
    """What is told of the answer of a call; see Pool."""

    def answered(self, task: Task, frame: Frame) -> None:
        """An answer came."""
        ...


class Task:
    """One call of a function; the asker of whoever runs it.

    Attributes:
        number: Its number in this runtime.
        plan: What it is a call of.
        reply: Whom the answer is for; None if nobody wants it any more.
        loans: What is in its arguments and counted, held until it is over.
        payload: The arguments.
        retries: How often it may still be made again.
        hand: The worker that has it, if one has.
        sent_as: Its number there.
        was_forced: Whether that worker is ended for its sake.
    """

    __slots__ = (
        "hand",
        "loans",
        "number",
        "payload",
        "plan",
        "pool",
        "reply",
        "retries",
        "sent_as",
        "was_forced",
    )

    def __init__(
        self,
        pool: Ended,
        number: int,
        plan: Plan,
        reply: Reply,
        loans: Collection[LoanId] | None,
        payload: Payload,
    ) -> None:
        self.pool = pool
        self.number = number
        self.plan = plan
        self.reply: Reply | None = reply
        self.loans = loans
        self.payload = payload
        self.retries = plan.retries
        self.hand: Hand | None = None
        self.sent_as = 0
        self.was_forced = False

    def answer(self, frame: Frame) -> None:
        """An answer came from the worker; see Asker."""
        self.pool.answered(self, frame)

    def fail(self, error: BaseException) -> None:
        """Nothing: what becomes of it is decided when the worker is gone; see Asker."""


class Lesson:
    """Who asks a worker to learn a function: nobody waits for the answer."""

    def answer(self, frame: Frame) -> None:
        """It knows it; see Asker."""

    def fail(self, error: BaseException) -> None:
        """It is gone; see Asker."""
