"""The errors that callers may catch, and the record of an actor's end.

All of them derive from :class:`ActorlibError`. An error of the user's own code arrives
as an instance of its own class *and* of :class:`TaskError`. Where Python has an error
for the same case (``TimeoutError``, ``ValueError``), the class derives from that too.
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
    "OutOfMemoryError",
    "OverloadedError",
    "OwnerDiedError",
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
    """The base of all errors of actorlib."""


class TaskError(ActorlibError):
    """The user's code raised an error in an actor or a function.

    The caller gets an instance of a class that derives from this one and from the
    user's, so ``except ValueError`` and ``except TaskError`` both catch it. Its text
    and ``args`` are those of the original; the traceback of the other process is its
    ``__cause__``.

    Attributes:
        cause: The original exception, or an UnserializableException with its text.
        traceback_str: The traceback in the actor's process, as text.
        where: The method and the actor, for example ``Model.ping (pid 123)``.
    """

    cause: BaseException | None = None
    traceback_str: str = ""
    where: str = ""

    def as_instanceof_cause(self) -> TaskError:
        """Returns this error, which is an instance of the user's class already.

        For scripts of Ray, where this method makes that instance.
        """
        return self


class RemoteTraceback(Exception):  # noqa: N818  # it is only a cause
    """Carries the traceback of another process, as text."""

    def __str__(self) -> str:
        """The text in quotes, so that it differs from the traceback of this process."""
        return f'\n"""\n{self.args[0]}"""'


class UnserializableException(ActorlibError):  # noqa: N818  # Ray's name
    """Stands for an exception that could not be sent, and has its text.

    It is not raised: it is the ``cause`` of a TaskError.

    Attributes:
        summary: The last line of the traceback: its class and its message.
        traceback_str: The traceback in the other process, as text.
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
    """A result did not arrive in time; the call goes on."""


class Empty(ActorlibError, _queue.Empty):  # noqa: N818  # the standard library's name
    """A queue had no item, or got none in time."""


class Full(ActorlibError, _queue.Full):  # noqa: N818  # the standard library's name
    """A queue had no room, or got none in time; nothing was put."""


class DeadlineExceededError(ActorlibError, TimeoutError):
    """A call was not done at its deadline; it was cancelled.

    Attributes:
        timeout: The seconds until the deadline.
        is_inherited: Whether the deadline is that of the calling call.
    """

    def __init__(
        self, message: str, *, timeout: float = 0.0, is_inherited: bool = False
    ) -> None:
        super().__init__(message)
        self.timeout = timeout
        self.is_inherited = is_inherited


class DeadlockError(ActorlibError, RuntimeError):
    """A wait would never end: the call that it waits for waits for it too.

    It is raised by the wait that closed the cycle; the call that it waited for was
    dropped.
    """


class PendingCallsLimitExceeded(ActorlibError):  # noqa: N818  # Ray's name
    """An actor has as many calls without an answer as ``max_pending_calls`` allows.

    Nothing was called. As soon as one is answered, another may be made.

    Attributes:
        limit: The limit for this process.
    """

    def __init__(self, message: str, *, limit: int = 0) -> None:
        super().__init__(message)
        self.limit = limit


class OverloadedError(ActorlibError):
    """Replicas have as many calls without an answer as ``max_pending`` allows.

    Nothing was called. A server answers with status 503 and ``Retry-After``.

    Attributes:
        retry_after: Seconds after which the calls of now will have ended, estimated
            from those that ended recently; 1 if none has ended yet.
    """

    def __init__(self, message: str, *, retry_after: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class SerializationError(ActorlibError, TypeError):
    """A value cannot be sent to another process, or cannot be loaded there."""


class ObjectLostError(ActorlibError):
    """The value of a ref is gone, or the process that would produce it has ended."""


class OwnerDiedError(ObjectLostError):
    """The actor that made a call ended before the call had a result."""


class ObjectStoreFullError(ActorlibError):
    """A value has no room in shared memory, and pipes may not be used for it."""


class ProtocolError(ActorlibError):
    """The other side of a pipe broke the protocol: a bug, or a foreign process."""


class TemplateError(ActorlibError):
    """The process that starts workers could not start, or has died."""


class UnknownOptionError(ActorlibError, TypeError, ValueError):
    """An option does not exist, or is for something else; nothing was made.

    It is a TypeError, as for any unknown keyword. Until version 0.5 it is a ValueError
    too.
    """


class UnsupportedOptionError(ActorlibError, ValueError):
    """The engine does not support an option; nothing was made."""


class InitError(UnsupportedOptionError, RuntimeError):
    """A script's ``init()`` has an unsupported option; nothing was started."""


class EnforcementRefused(ActorlibError, ValueError):  # noqa: N818  # an answer
    """The tier of ``enforcement=`` is not available, or does not work."""


class RuntimeNotStartedError(ActorlibError, RuntimeError):
    """A runtime is needed, and none is running in this process."""


class RuntimeDrainingError(ActorlibError, RuntimeError):
    """The runtime finishes its calls and accepts no new ones; nothing was called."""


class RuntimeNotFoundError(ActorlibError, LookupError):
    """There is no runtime, or no actor, of the name that another process looks for."""


class RuntimeUnreachableError(ActorlibError):
    """A runtime does not answer, or does not accept this process."""


class RuntimeAlreadyExistsError(ActorlibError, ValueError):
    """Another runtime of this user has the name; none was started."""


class RuntimeLostError(ActorlibError, ConnectionError):
    """The runtime that this process was a client of has ended or closed the session."""


class ClusterError(ActorlibError, ConnectionError):
    """There is no cluster at the address, or it does not accept this process."""


class ActorError(ActorlibError):
    """An actor has a fault that does not depend on the call.

    Attributes:
        actor_id: The actor's id in hex, or the empty string if it has none.
    """

    def __init__(self, message: str, *, actor_id: str = "") -> None:
        super().__init__(message)
        self.actor_id = actor_id


class SuspendError(ActorError, RuntimeError):
    """An actor cannot be suspended, or resumed; it is as it was before."""


class ActorHandleNotFoundError(ActorlibError, ValueError):
    """The handle belongs to a runtime that was shut down."""


class ActorAlreadyExistsError(ActorlibError, ValueError):
    """A living actor has the name; nothing was made."""


class ActorNotFoundError(ActorlibError, ValueError):
    """No living actor has that name in that namespace."""


class ActorUnschedulableError(ActorError):
    """The actor asks for more than this machine can ever grant."""


class TaskUnschedulableError(ActorlibError):
    """The call of a function asks for more than this machine can ever grant."""


class WorkerCrashedError(ActorlibError):
    """The process that ran the call of a function ended before it had a result.

    The call was sent again as often as ``max_retries`` allows.

    Attributes:
        exit: How the process ended.
    """

    def __init__(self, message: str, *, exit: Exit | None = None) -> None:  # noqa: A002  # the name of the attribute
        super().__init__(message)
        self.exit = exit or Exit(cause="lost")

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.args, vars(self))


class PlacementGroupRemovedError(ActorlibError):
    """The placement group was removed, or the actor that made it has ended."""


class TaskPlacementGroupRemoved(WorkerCrashedError, PlacementGroupRemovedError):  # noqa: N818  # Ray's name
    """The placement group of the call was removed."""


class ActorDiedError(ActorError):
    """The actor is gone: it crashed, was killed, or could not be made.

    An error of its constructor is the ``__cause__``.

    Attributes:
        exit: How it ended.
    """

    def __init__(self, message: str, *, exit: Exit, actor_id: str = "") -> None:  # noqa: A002  # the name of the attribute
        super().__init__(message, actor_id=actor_id)
        self.exit = exit

    @property
    def actor_init_failed(self) -> bool:
        """Whether its constructor raised; the ``__cause__`` shows that traceback."""
        return bool(self.exit.constructor)

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.args, vars(self), self.__cause__)


class ActorPlacementGroupRemoved(ActorDiedError):  # noqa: N818  # Ray's name
    """The actor is gone because its placement group was removed."""


class DeviceMemoryExceeded(ActorDiedError):  # noqa: N818  # an event
    """The actor was ended because it used more of a device's memory than its share.

    It happens with ``init(device_memory_overuse="kill")``. A function of
    ``device_memory_overuse`` gets one as its argument.

    Attributes:
        device: The name of the device, for example ``"GPU 0"``.
        asked: The actor's share of it.
        granted: The bytes of that share.
        used: The bytes that its processes used.
        moments: The times of the largest use, in seconds since the epoch, each with its
            bytes; the largest first.
    """

    def __init__(
        self,
        message: str,
        *,
        exit: Exit,  # noqa: A002  # the name of the attribute
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


OUT_OF_MEMORY = "out of memory"
"""The cause of an ``Exit`` for lack of memory."""


class OutOfMemoryError(ActorDiedError, WorkerCrashedError):
    """The process was ended because memory was short.

    Either actorlib ended it, as more than ``init(memory_threshold=)`` of the memory was
    in use, or the kernel killed it. It counts as a crash: functions run again by
    ``max_retries``, actors restart by ``max_restarts``. Calls of an actor that restarts
    raise ActorUnavailableError, whose ``exit.cause`` is ``"out of memory"``.

    Attributes:
        workers: The names and the bytes of the largest workers at that time, the
            largest first; empty if the kernel killed the process.
        threshold: The part of the memory from which on a worker is ended; 0 if the
            kernel killed the process.
    """

    def __init__(
        self,
        message: str,
        *,
        exit: Exit,  # noqa: A002  # the word users look for
        actor_id: str = "",
        workers: tuple[tuple[str, int], ...] = (),
        threshold: float = 0.0,
    ) -> None:
        super().__init__(message, exit=exit, actor_id=actor_id)
        self.workers = workers
        self.threshold = threshold


class ActorUnavailableError(ActorError):
    """The actor has died and is being restarted; the call is not sent again.

    A call that was sent may have run or not. ``await handle`` waits until the actor is
    ready again; with ``max_task_retries`` calls are sent again.

    Attributes:
        exit: How its last process ended.
    """

    def __init__(self, message: str, *, exit: Exit, actor_id: str = "") -> None:  # noqa: A002  # the name of the attribute
        super().__init__(message, actor_id=actor_id)
        self.exit = exit

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.args, vars(self))


def _rebuild(
    kind: type[ActorlibError],
    args: tuple[object, ...],
    attributes: dict[str, object],
    cause: BaseException | None = None,
) -> ActorlibError:
    """Makes an error after pickling, without its constructor.

    Pickle passes no keyword arguments, which the constructor needs.
    """
    error = kind.__new__(kind, *args)
    vars(error).update(attributes)
    error.__cause__ = cause
    return error


class PlacementGroupUnschedulableError(ActorlibError):
    """The placement group asks for more than this machine can ever reserve."""


class PlacementGroupNotFoundError(ActorlibError, ValueError):
    """No placement group has that name."""


class PlacementGroupAlreadyExistsError(ActorlibError, ValueError):
    """Another placement group has the name; nothing was made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    """How one actor's process ended.

    Attributes:
        cause: One of ``"asked"`` (kill, end of its block, shutdown), ``"exited"``
            (its code ended the process, for example by ``sys.exit``), ``"crashed"`` (a
            signal), ``"out of memory"``, ``"device memory exceeded"`` (it used more of
            a device than its share), ``"failed to start"``, ``"lost"`` (the process
            that watches over the workers died with it), ``"restarted"`` (killed in
            order to be restarted).
        code: The exit code, or None if it was ended by a signal or never ran.
        signal: The number of the signal that ended it, or None.
        reason: One sentence for people.
        log_tail: The last lines of its standard error.
        method: The method that was running, or None.
        others: The number of other calls that were running.
        pid: Its process id, or 0 if it never ran.
        constructor: The traceback of its constructor, or empty.
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
        """One line about the end, then a traceback and the last lines of output."""
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
    """Returns the name of a signal, ``SIGKILL`` for 9."""
    try:
        return _signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
