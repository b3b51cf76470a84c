"""Every error a caller may catch, and the record of a death that explains one.

All of them derive from :class:`ActorlibError` except what the user's own code
raised: that arrives as an instance of its own class *and* of :class:`TaskError`.
Where Python has a word for the trouble already (``TimeoutError``, ``ValueError``),
the class derives from that too.
"""

from __future__ import annotations

import queue as _queue
import signal as _signal
from dataclasses import dataclass

__all__ = [
    "ActorAlreadyExistsError",
    "ActorDiedError",
    "ActorError",
    "ActorHandleNotFoundError",
    "ActorNotFoundError",
    "ActorPlacementGroupRemoved",
    "ActorUnavailableError",
    "ActorUnschedulableError",
    "ActorlibError",
    "ClusterError",
    "DeadlineExceededError",
    "DeadlockError",
    "DeviceMemoryExceeded",
    "Empty",
    "EnforcementRefused",
    "Exit",
    "Full",
    "GetTimeoutError",
    "InitError",
    "ObjectLostError",
    "ObjectStoreFullError",
    "PendingCallsLimitExceeded",
    "PlacementGroupAlreadyExistsError",
    "PlacementGroupNotFoundError",
    "PlacementGroupRemovedError",
    "PlacementGroupUnschedulableError",
    "ProtocolError",
    "RemoteTraceback",
    "RuntimeAlreadyExistsError",
    "RuntimeDrainingError",
    "RuntimeLostError",
    "RuntimeNotFoundError",
    "RuntimeNotStartedError",
    "RuntimeUnreachableError",
    "SerializationError",
    "SuspendError",
    "TaskCancelledError",
    "TaskError",
    "TaskPlacementGroupRemoved",
    "TaskUnschedulableError",
    "TemplateError",
    "UnknownOptionError",
    "UnserializableException",
    "UnsupportedOptionError",
    "WorkerCrashedError",
]


def __dir__() -> list[str]:
    return sorted(__all__)


class ActorlibError(Exception):
    """The base of every error that actorlib raises on its own account."""


class TaskError(ActorlibError):
    """The user's code raised in an actor.

    What is raised at the caller is an instance of a class made of this one and of the
    user's own, so ``except ValueError`` and ``except TaskError`` both see it. Its
    text and ``args`` are those of the original; the traceback of the other process is
    its ``__cause__``.

    Attributes:
        cause: The original exception, or an UnserializableException that tells of it.
        traceback_str: The traceback in the actor's process, as text.
        where: Which method of which actor, for example ``Model.ping (pid 123)``.
    """

    cause: BaseException | None = None
    traceback_str: str = ""
    where: str = ""

    def as_instanceof_cause(self) -> TaskError:
        """This error: it is an instance of the user's class already, if it can be one.

        For scripts that know it from Ray, whose errors are made so when they are
        raised.
        """
        return self


class RemoteTraceback(Exception):  # noqa: N818  # it reports an error, it is none
    """Carries the traceback of another process as text into this one's."""

    def __str__(self) -> str:
        """The text, set off from the traceback of this process."""
        return f'\n"""\n{self.args[0]}"""'


class UnserializableException(ActorlibError):  # noqa: N818  # Ray's name
    """Stands in for an exception that could not be sent, and has its text.

    Never raised itself: it is the ``cause`` of a TaskError.

    Args:
        summary: The last line of the traceback: its class and its message.
        traceback_str: The traceback in the other process, as text.

    Attributes:
        summary: See above.
        traceback_str: See above.
    """

    def __init__(self, summary: str, traceback_str: str = "") -> None:
        super().__init__(summary, traceback_str)
        self.summary = summary
        self.traceback_str = traceback_str

    def __str__(self) -> str:
        """Its class and its message, and its traceback."""
        return f"{self.summary}\n{self.traceback_str}".strip()


class TaskCancelledError(ActorlibError):
    """The call was cancelled before it had a result."""


class GetTimeoutError(ActorlibError, TimeoutError):
    """A result did not come in time; the call goes on."""


class Empty(ActorlibError, _queue.Empty):  # noqa: N818  # the standard library's name
    """A queue had no item, or got none in time."""


class Full(ActorlibError, _queue.Full):  # noqa: N818  # likewise
    """A queue had no room, or got none in time; nothing was put."""


class DeadlineExceededError(ActorlibError, TimeoutError):
    """A call was not done when its time was over; it was cancelled where it was.

    Attributes:
        timeout: How many seconds were given.
        is_inherited: Whether they were given to a call above it, which made this one.
    """

    def __init__(
        self, message: str, *, timeout: float = 0.0, is_inherited: bool = False
    ) -> None:
        super().__init__(message)
        self.timeout = timeout
        self.is_inherited = is_inherited


class DeadlockError(ActorlibError, RuntimeError):
    """A wait would never end, as what it waits for waits for it in turn.

    Raised where the wait was that closed the circle; the call that it waited for was
    dropped.
    """


class PendingCallsLimitExceeded(ActorlibError):  # noqa: N818  # Ray's name
    """An actor has as many calls without an answer as ``max_pending_calls`` allows.

    Nothing was called. As soon as one is answered, another may be made.

    Attributes:
        limit: How many this process may have.
    """

    def __init__(self, message: str, *, limit: int = 0) -> None:
        super().__init__(message)
        self.limit = limit


class SerializationError(ActorlibError, TypeError):
    """A value cannot be sent to another process, or cannot be loaded there."""


class ObjectLostError(ActorlibError):
    """The value of a ref is gone, or whoever was to give it has ended."""


class ObjectStoreFullError(ActorlibError):
    """A value has no room in shared memory, and may not go another way."""


class ProtocolError(ActorlibError):
    """The other side of a pipe broke the rules: a bug, or a foreign process."""


class TemplateError(ActorlibError):
    """The process that workers are started from could not start or has died."""


class UnknownOptionError(ActorlibError, TypeError, ValueError):
    """An option has a name that does not exist, or not for this; nothing was made.

    It is a TypeError, as for any unknown keyword. Until version 0.5 it is a ValueError
    too.
    """


class UnsupportedOptionError(ActorlibError, ValueError):
    """The engine that runs cannot do what an option asks; nothing was made."""


class InitError(UnsupportedOptionError, RuntimeError):
    """A script asks ``init()`` for what actorlib does not have; nothing was started."""


class EnforcementRefused(ActorlibError, ValueError):  # noqa: N818  # an answer
    """The tier that ``enforcement=`` names cannot be had, or does not hold."""


class RuntimeNotStartedError(ActorlibError, RuntimeError):
    """A runtime is needed, and none is running in this process."""


class RuntimeDrainingError(ActorlibError, RuntimeError):
    """The runtime finishes what it has and takes nothing new; nothing was called."""


class RuntimeNotFoundError(ActorlibError, LookupError):
    """A runtime, or an actor of one, is asked for from outside and is not there."""


class RuntimeUnreachableError(ActorlibError):
    """A runtime is there, and does not answer or does not let this process in."""


class RuntimeAlreadyExistsError(ActorlibError, ValueError):
    """A runtime of this user has the name that another was to get; none was started."""


class RuntimeLostError(ActorlibError, ConnectionError):
    """The runtime that this process is a client of has ended, or let it go."""


class ClusterError(ActorlibError, ConnectionError):
    """There is no cluster at the address, or it does not let this process in."""


class ActorError(ActorlibError):
    """Something is wrong with an actor, whatever was called on it.

    Attributes:
        actor_id: The actor's id in hex, or the empty string if it has none.
    """

    def __init__(self, message: str, *, actor_id: str = "") -> None:
        super().__init__(message)
        self.actor_id = actor_id


class SuspendError(ActorlibError, RuntimeError):
    """An actor cannot be suspended, or resumed; it is as it was before."""


class ActorHandleNotFoundError(ActorlibError, ValueError):
    """The handle is of a runtime that was shut down."""


class ActorAlreadyExistsError(ActorlibError, ValueError):
    """A living actor has the name that another was to get; nothing was made."""


class ActorNotFoundError(ActorlibError, ValueError):
    """No living actor has that name in that namespace."""


class ActorUnschedulableError(ActorError):
    """The actor asks for what this machine can never give."""


class TaskUnschedulableError(ActorlibError):
    """The call of a function asks for what this machine can never give."""


class WorkerCrashedError(ActorlibError):
    """The process that ran the call of a function ended before it had a result.

    It was made again as often as ``max_retries`` allows.

    Attributes:
        exit: How the process ended.
    """

    def __init__(self, message: str, *, exit: Exit | None = None) -> None:  # noqa: A002  # the word users look for
        super().__init__(message)
        self.exit = exit or Exit(cause="lost")

    def __reduce__(self) -> tuple[object, ...]:
        return _crashed, (type(self), str(self), self.exit)


class TaskPlacementGroupRemoved(WorkerCrashedError):  # noqa: N818  # Ray's name
    """The placement group that the call was to run in was removed."""


class ActorDiedError(ActorError):
    """The actor is gone: it crashed, was killed, or never came to life.

    The exception that a constructor raised is the ``__cause__``.

    Attributes:
        exit: How it ended.
    """

    def __init__(self, message: str, *, exit: Exit, actor_id: str = "") -> None:  # noqa: A002  # the word users look for
        super().__init__(message, actor_id=actor_id)
        self.exit = exit

    @property
    def actor_init_failed(self) -> bool:
        """Whether its constructor raised; the ``__cause__`` shows that traceback."""
        return bool(self.exit.constructor)

    def __reduce__(self) -> tuple[object, ...]:
        made = type(self), str(self), self.exit, self.actor_id, self.__cause__
        return _died, made


class ActorPlacementGroupRemoved(ActorDiedError):  # noqa: N818  # Ray's name
    """The actor is gone because the placement group that it was in was removed."""


class DeviceMemoryExceeded(ActorDiedError):  # noqa: N818  # says what happened
    """The actor was ended because it took more of a device's memory than its share.

    ``init(device_memory_overuse="kill")`` asks for that; whoever is called back gets
    one that was not raised.

    Attributes:
        device: What the device is called, for example ``"GPU 0"``.
        asked: The part of it that the actor holds.
        granted: Bytes that this stands for.
        used: Bytes that its processes had.
        moments: When they had most, in seconds since the epoch, and how many bytes;
            the largest first.
    """

    def __init__(
        self,
        message: str,
        *,
        exit: Exit,  # noqa: A002  # the word users look for
        actor_id: str = "",
        device: str = "",
        asked: float = 0.0,
        granted: int = 0,
        used: int = 0,
        moments: tuple[tuple[float, int], ...] = (),
    ) -> None:
        super().__init__(message, exit=exit, actor_id=actor_id)
        self.device = device
        self.asked = asked
        self.granted = granted
        self.used = used
        self.moments = moments

    def __reduce__(self) -> tuple[object, ...]:
        figures = self.device, self.asked, self.granted, self.used, self.moments
        return _exceeded, (str(self), self.exit, self.actor_id, *figures)


class ActorUnavailableError(ActorError):
    """The actor has died and is being restarted; the call will not be made again.

    A call that was on its way may have run, or not. ``await handle`` waits until the
    actor is back; ``max_task_retries`` sends calls again.

    Attributes:
        exit: How its last process ended.
    """

    def __init__(self, message: str, *, exit: Exit, actor_id: str = "") -> None:  # noqa: A002  # as above
        super().__init__(message, actor_id=actor_id)
        self.exit = exit

    def __reduce__(self) -> tuple[object, ...]:
        return _unavailable, (str(self), self.exit, self.actor_id)


def _unavailable(message: str, how: Exit, actor_id: str) -> ActorUnavailableError:
    return ActorUnavailableError(message, exit=how, actor_id=actor_id)


def _crashed(
    kind: type[WorkerCrashedError], message: str, how: Exit
) -> WorkerCrashedError:
    return kind(message, exit=how)


def _exceeded(
    message: str,
    how: Exit,
    actor_id: str,
    device: str,
    asked: float,
    granted: int,
    used: int,
    moments: tuple[tuple[float, int], ...],
) -> DeviceMemoryExceeded:
    return DeviceMemoryExceeded(
        message,
        exit=how,
        actor_id=actor_id,
        device=device,
        asked=asked,
        granted=granted,
        used=used,
        moments=moments,
    )


def _died(
    kind: type[ActorDiedError],
    message: str,
    how: Exit,
    actor_id: str,
    cause: BaseException | None,
) -> ActorDiedError:
    error = kind(message, exit=how, actor_id=actor_id)
    error.__cause__ = cause
    return error


class PlacementGroupUnschedulableError(ActorlibError):
    """The placement group asks for what this machine can never reserve."""


class PlacementGroupRemovedError(ActorlibError):
    """The placement group was removed, or whoever made it is gone."""


class PlacementGroupNotFoundError(ActorlibError, ValueError):
    """No placement group has that name."""


class PlacementGroupAlreadyExistsError(ActorlibError, ValueError):
    """A placement group has the name that another was to get; nothing was made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    """How one actor's process ended.

    Attributes:
        cause: One of ``"asked"`` (kill, end of its block, shutdown), ``"exited"``
            (its code left, for example by ``sys.exit``), ``"crashed"`` (a signal),
            ``"out of memory"``, ``"device memory exceeded"`` (it had more of a
            device than it was granted, and was ended for that), ``"failed to start"``,
            ``"lost"`` (the process that watches over the workers died with it),
            ``"restarted"`` (killed to be started anew).
        code: The exit code, or None if it was ended by a signal or never ran.
        signal: The number of the signal that ended it, or None.
        reason: One sentence for people.
        log_tail: The last lines of its standard error.
        method: The method that was running, or None.
        others: How many other calls were under way, as several may run at once.
        pid: The process id it had, or 0 if it never ran.
        constructor: The traceback of its constructor, if that raised.
    """

    cause: str
    code: int | None = None
    signal: int | None = None
    reason: str = ""
    log_tail: str = ""
    method: str | None = None
    others: int = 0
    pid: int = 0
    constructor: str = ""

    def __str__(self) -> str:
        """What happened, in one line; then a traceback, and the last of its output."""
        text = self.reason or self.cause
        if self.signal is not None:
            text = f"{text} ({signal_name(self.signal)})"
        elif self.code is not None:
            text = f"{text} (exit code {self.code})"
        if self.method and self.others:
            others = "1 other" if self.others == 1 else f"{self.others} others"
            text = f"{text}, with {self.method} and {others} under way"
        elif self.method:
            text = f"{text}, while it ran {self.method}"
        if self.constructor:
            text = f"{text}. Its constructor raised:\n{_quoted(self.constructor)}"
        if self.log_tail:
            end = "\n" if self.constructor else ". "
            tail = _quoted(self.log_tail)
            text = f"{text}{end}The end of its standard error:\n{tail}"
        return text


def _quoted(text: str) -> str:
    return "\n".join(f"  | {line}" for line in text.splitlines())


def signal_name(number: int) -> str:
    """The name of a signal, ``SIGKILL`` for 9."""
    try:
        return _signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
