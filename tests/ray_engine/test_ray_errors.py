"""Errors of Ray's are told apart by the names of their classes: these have the same."""

from __future__ import annotations

from typing import Any

import pytest

from actorlib import exceptions as ours
from actorlib._ray.errors import exit_of, translate, without_restart
from actorlib._ray.messages import UserFailure, failure_of


class RayError(Exception): ...


class RayTaskError(RayError):
    def __init__(self, cause: BaseException) -> None:
        super().__init__(cause)
        self.cause = cause
        self.traceback_str = "Traceback"
        self.pid = 7


class ActorDiedError(RayError): ...


class ActorUnavailableError(RayError): ...


def ray_error(name: str, text: str = "what Ray says") -> Any:
    return type(name, (RayError,), {})(text)


def of_user(error: Exception) -> UserFailure:
    try:
        raise error  # noqa: TRY301  # as a method does
    except Exception as caught:  # noqa: BLE001  # as a host does
        return failure_of(caught, "Model.ping (pid 7)", retried=False)


def test_users_error_when_it_crosses_then_it_is_of_its_own_class_too() -> None:
    error = translate(RayTaskError(of_user(KeyError("lost"))), "Model.ping")

    assert isinstance(error, KeyError)
    assert isinstance(error, ours.TaskError)
    assert (error.args, error.where) == (("lost",), "Model.ping (pid 7)")
    assert "KeyError" in error.traceback_str


def test_arguments_error_when_it_comes_from_another_call_then_it_is_that_one() -> None:
    inner = RayTaskError(of_user(LookupError("far")))

    assert isinstance(translate(RayTaskError(inner), "Model.ping"), LookupError)


def test_rays_own_trouble_when_in_a_task_then_it_is_a_task_error() -> None:
    error = translate(RayTaskError(TypeError("no")), "Model.ping")

    assert isinstance(error, TypeError)
    assert isinstance(error, ours.TaskError)


def test_constructor_when_it_raised_then_the_death_has_its_error() -> None:
    died = ActorDiedError(RayTaskError(of_user(ValueError("not today"))))
    error = translate(died, "Model.ping", "aa")

    assert isinstance(error, ours.ActorDiedError)
    assert isinstance(error.__cause__, ValueError)
    assert (error.exit.cause, error.actor_id) == ("failed to start", "aa")


def test_restart_when_under_way_then_the_error_says_how_it_ended() -> None:
    unavailable = ActorUnavailableError("UnexpectedSystemExit: exit code 3.")
    error = translate(unavailable, "Model.ping")

    assert isinstance(error, ours.ActorUnavailableError)
    assert (error.exit.cause, error.exit.code) == ("exited", 3)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("TaskCancelledError", ours.TaskCancelledError),
        ("GetTimeoutError", ours.GetTimeoutError),
        ("WorkerCrashedError", ours.WorkerCrashedError),
        ("OutOfMemoryError", ours.OutOfMemoryError),
        ("ActorPlacementGroupRemoved", ours.ActorPlacementGroupRemoved),
        ("TaskPlacementGroupRemoved", ours.TaskPlacementGroupRemoved),
        ("ActorUnschedulableError", ours.ActorUnschedulableError),
        ("TaskUnschedulableError", ours.TaskUnschedulableError),
        ("ObjectStoreFullError", ours.ObjectStoreFullError),
        ("ObjectLostError", ours.ObjectLostError),
        ("RuntimeEnvSetupError", ours.ActorDiedError),
        ("SomethingNewError", ours.ActorlibError),
    ],
)
def test_error_when_of_rays_then_it_has_a_class_of_ours(
    name: str, kind: type[Exception]
) -> None:
    assert type(translate(ray_error(name), "Model.ping")) is kind


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("The actor is dead because it was killed by `ray.kill`.", "asked"),
        ("exit type: INTENDED_USER_EXIT ... exit_actor() is called.", "asked"),
        ("exit type: SYSTEM_ERROR ... exits with an exit code 3.", "exited"),
        ("exits with a connection error code 2. End of file.", "crashed"),
        ("OutOfMemoryError: the node was low on memory", "out of memory"),
        ("The actor died because its node has died.", "lost"),
    ],
)
def test_end_when_told_by_ray_then_its_cause_is_one_of_ours(
    text: str, cause: str
) -> None:
    assert exit_of(text).cause == cause


def test_end_when_a_method_left_then_it_is_named() -> None:
    how = exit_of(
        "\tpid: 12\nexits with an exit code 3. Its code left while it ran go."
    )

    assert (how.code, how.method, how.pid) == (3, "go", 12)


@pytest.mark.parametrize(
    "told",
    [
        "exit type: INTENDED_USER_EXIT ... exit_actor() is called.",
        "The actor is dead because User requested to exit the actor.",
    ],
)
def test_exit_when_the_actors_own_code_asked_for_it_then_it_says_so(told: str) -> None:
    how = exit_of(told)

    assert (how.cause, how.reason) == ("asked", "its own code called exit_actor()")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Worker exits with an exit code 3.", ours.ActorDiedError),
        ("the connection was lost", ours.ActorUnavailableError),
    ],
)
def test_actor_when_it_is_away_and_never_restarted_then_its_exit_ends_it(
    text: str, kind: type[Exception]
) -> None:
    away = translate(ray_error("ActorUnavailableError", text), "Model.ping", "ab")
    error = without_restart(away, "Model.ping")

    assert type(error) is kind
    assert error.exit == away.exit
    assert "Model.ping" in str(error)
