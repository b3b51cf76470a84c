"""Translates Ray's errors, by the names of their classes or by their texts."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from actorlib import exceptions as ours
from actorlib._ray.messages import UserFailure
from actorlib._wire.errors import exception_of, task_error
from actorlib._wire.messages import RAISED
from actorlib.exceptions import Exit

if TYPE_CHECKING:
    from collections.abc import Callable

_CODE = re.compile(r"exit code (\d+)")
_METHOD = re.compile(r"while it ran (\w+)")
_PID = re.compile(r"\bpid: (\d+)")
_ASKED = (
    "INTENDED",
    "requested to exit",
    "killed by `ray.kill`",
    "out of scope",
    "references to the actor were removed",
    "owner has died",
)
_NODE = ("node has died", "node died", "Node was dead", "was terminated")
_COLOUR = re.compile(r"\x1b\[\d+m")


def translate(error: Any, where: str, actor_id: str = "") -> BaseException:
    """Translates an error of Ray for the caller.

    ``actor_id`` is in hex, and empty for a function.
    """
    names = [cls.__name__ for cls in type(error).__mro__]
    if "RayTaskError" in names:
        return _of_task(error, where, actor_id)
    text = _COLOUR.sub("", str(error))
    for name in names:
        make = _TRANSLATIONS.get(name)
        if make is not None:
            return make(error, text, where, actor_id)
    return ours.ActorlibError(f"Ray could not do {where}: {names[0]}: {text}")


def exit_of(text: str, *, ran: bool = True) -> Exit:
    """Parses Ray's message about the end of an actor.

    ``ran`` says whether it had started.
    """
    code = _CODE.search(text)
    pid = _PID.search(text)
    method = _METHOD.search(text)
    cause, number = "crashed", None
    if any(word in text for word in _ASKED):
        cause = "asked"
    elif "memory" in text and "OutOfMemory" in text:
        cause = "out of memory"
    elif code is not None:
        cause, number = "exited", int(code[1])
    elif any(word in text for word in _NODE):
        cause = "lost"
    elif not ran:
        cause = "failed to start"
    return Exit(
        cause=cause,
        code=number,
        reason=_reason(text),
        method=None if method is None else method[1],
        pid=0 if pid is None else int(pid[1]),
    )


def _reason(text: str) -> str:
    """Returns the sentences of Ray's message, without the list of facts before them."""
    if "requested to exit" in text or "exit_actor() is called" in text:
        # Two messages for one end: that of the worker, or that of the node.
        return "its own code called exit_actor()"
    lines = [line for line in text.splitlines() if line and not line.startswith("\t")]
    useful = [line for line in lines if "unexpectedly before finishing" not in line]
    return " ".join(useful or lines)


def _of_task(error: Any, where: str, actor_id: str) -> BaseException:
    cause = error.cause
    if isinstance(cause, UserFailure) and len(cause.args) == 4:
        summary, text, at, payload = cause.args
        return exception_of(RAISED, summary, text, at, payload)
    names = [cls.__name__ for cls in type(cause).__mro__]
    if "RayError" in names:  # the error of an argument, or of Ray in the task
        return translate(cause, where, actor_id)
    if "TaskCancelledError" in [cls.__name__ for cls in type(error).__mro__]:
        return ours.TaskCancelledError("the call was cancelled")
    text = _COLOUR.sub("", error.traceback_str)
    at = f"{where} (pid {error.pid})"
    return task_error(cause, f"{type(cause).__name__}: {cause}", text, at)


def _died(error: Any, text: str, where: str, actor_id: str) -> BaseException:
    argument = error.args[0] if error.args else None
    failure = getattr(argument, "cause", None)
    if isinstance(failure, UserFailure):
        cause = exception_of(RAISED, *failure.args)
        how = Exit(
            cause="failed to start",
            reason=f"it could not be made: {failure.args[0]}",
            constructor=failure.args[1],
        )
        died = ours.ActorDiedError(f"{where}: {how}", exit=how, actor_id=actor_id)
        died.__cause__ = cause
        return died
    how = exit_of(text, ran="never ran" not in text)
    if "lacement group" in text and "removed" in text:
        return _removed(error, how.reason, where, actor_id)
    return ours.ActorDiedError(
        f"{where}: the actor is dead: {how}", exit=how, actor_id=actor_id
    )


def without_restart(error: BaseException, where: str) -> BaseException:
    """Converts an error of a call of an actor that is never restarted.

    After the end of a process, Ray may report the actor as unavailable before it
    reports it as dead.
    """
    if not isinstance(error, ours.ActorUnavailableError) or error.exit.code is None:
        return error
    how = error.exit
    text = f"{where}: the actor is dead: {how}"
    return ours.ActorDiedError(text, exit=how, actor_id=error.actor_id)


def _unavailable(_: Any, text: str, where: str, actor_id: str) -> BaseException:
    how = exit_of(text)
    return ours.ActorUnavailableError(
        f"{where}: the actor has died and is being restarted: {how}. The call may have "
        "run, or not; max_task_retries= makes calls again",
        exit=how,
        actor_id=actor_id,
    )


def _removed(_: Any, text: str, where: str, actor_id: str) -> BaseException:
    how = Exit(cause="asked", reason="its placement group was removed")
    return ours.ActorPlacementGroupRemoved(
        f"{where}: {text}", exit=how, actor_id=actor_id
    )


def _crashed(_: Any, text: str, where: str, actor_id: str) -> BaseException:
    how = exit_of(text)
    if actor_id:
        return ours.ActorDiedError(f"{where}: {text}", exit=how, actor_id=actor_id)
    return ours.WorkerCrashedError(f"{where}: {text}", exit=how)


def _out_of_memory(_: Any, text: str, where: str, actor_id: str) -> BaseException:
    text = f"OutOfMemory: {text}"
    how = exit_of(text)
    return ours.OutOfMemoryError(f"{where}: {text}", exit=how, actor_id=actor_id)


def _not_started(_: Any, text: str, where: str, actor_id: str) -> BaseException:
    how = Exit(cause="failed to start", reason=text)
    return ours.ActorDiedError(f"{where}: {text}", exit=how, actor_id=actor_id)


def _unschedulable(_: Any, text: str, where: str, actor_id: str) -> BaseException:
    return ours.ActorUnschedulableError(f"{where}: {text}", actor_id=actor_id)


def _plain(kind: type[Exception]) -> Callable[..., BaseException]:
    def make(_: Any, text: str, where: str, _actor_id: str) -> BaseException:
        return kind(f"{where}: {text}")

    return make


def _cancelled(*_: Any) -> BaseException:
    return ours.TaskCancelledError("the call was cancelled")


def _undelivered(_: Any, text: str, where: str, _actor_id: str) -> BaseException:
    if "Connection" in text:
        return ours.ClusterError(
            f"{where}: the connection to the client server was lost: {text}"
        )
    return ours.ActorlibError(f"{where}: the client server did not pass it on: {text}")


_TRANSLATIONS: dict[str, Callable[..., BaseException]] = {
    "ActorDiedError": _died,
    "ActorUnavailableError": _unavailable,
    "ActorPlacementGroupRemoved": _removed,
    "TaskPlacementGroupRemoved": _plain(ours.TaskPlacementGroupRemoved),
    "ActorUnschedulableError": _unschedulable,
    "TaskUnschedulableError": _plain(ours.TaskUnschedulableError),
    "TaskCancelledError": _cancelled,
    "GetTimeoutError": _plain(ours.GetTimeoutError),
    "WorkerCrashedError": _crashed,
    "NodeDiedError": _crashed,
    "OutOfMemoryError": _out_of_memory,
    "RuntimeEnvSetupError": _not_started,
    "ObjectStoreFullError": _plain(ours.ObjectStoreFullError),
    "OutOfDiskError": _plain(ours.ObjectStoreFullError),
    "ObjectLostError": _plain(ours.ObjectLostError),
    "Undelivered": _undelivered,
    "PendingCallsLimitExceeded": _plain(ours.PendingCallsLimitExceeded),
}
"""The translation of each error of Ray; the first base of an error counts."""


# Errors of failed connections.


def connection_error(
    address: str | None, message: str, version: str, python: str
) -> ours.ClusterError:
    """Makes the error of a failed connection, with advice.

    ``address`` is None for a new cluster. The versions are those of this process.
    """
    text = " ".join(message.split())
    where = "on this machine" if address is None else f"at {address!r}"
    there = re.search(r"cluster was started with: Ray: (\S+) Python: (\S+)", text)
    if there is not None:
        ray_there, python_there = there.groups()
        return ours.ClusterError(
            f"the cluster {where} runs Ray {ray_there} on Python {python_there}, and "
            f"this process has Ray {version} on Python {python}: "
            f"write pip install 'ray=={ray_there}' here, under Python {python_there}, "
            "or start the cluster again with the versions of this process"
        )
    if "uthenticat" in text or "token" in text.lower():
        return ours.ClusterError(
            f"the cluster {where} does not let this process in: {text}. Copy the "
            "cluster's token to RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH here, with "
            "RAY_AUTH_MODE=token"
        )
    if address == "auto":
        return ours.ClusterError(
            "address='auto' found no cluster on this machine: start one with 'ray "
            "start --head', write its address (address='10.0.0.5:6379'), or leave "
            f"address out to start one for this program. Ray says: {text}"
        )
    if address is None:
        return ours.ClusterError(f"Ray could not be started on this machine: {text}")
    if address.startswith("ray://"):
        return _client_error(where, text)
    return ours.ClusterError(
        f"no cluster answers {where}: {text}. Write the address that 'ray start "
        "--head' has printed there (address='10.0.0.5:6379'), or address='auto' on one "
        "of its machines"
    )


def is_transient(error: Exception) -> bool:
    """Whether another attempt to connect may succeed.

    A client server forks a process for each client while its own threads run, and one
    in four of those processes died at once (Ray 2.60; none if the cluster was started
    with GRPC_ENABLE_FORK_SUPPORT=false).
    """
    return "Starting Ray client server failed" in str(error)


def _client_error(where: str, text: str) -> ours.ClusterError:
    if "requires pip package" in text:
        return ours.ClusterError(
            "'ray://' addresses need Ray's client, which is not installed here: pip "
            "install 'actorlib[ray]'"
        )
    if "No module named 'actorlib" in text:
        return ours.ClusterError(
            f"the cluster {where} has no actorlib: install it on every machine there, "
            "for the Python that Ray was started with"
        )
    return ours.ClusterError(
        f"no client server answers {where}: {text}. 'ray start --head' starts one on "
        "port 10001 of its machine, where --ray-client-server-port does not say "
        "another; on a machine of the cluster write address='auto' instead"
    )
