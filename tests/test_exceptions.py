from __future__ import annotations

import dataclasses
import pickle
import signal

import pytest

from actorlib import exceptions
from actorlib.exceptions import (
    ActorDiedError,
    ActorError,
    ActorlibError,
    ActorUnavailableError,
    ActorUnschedulableError,
    Exit,
    RemoteTraceback,
    SerializationError,
    TaskError,
    signal_name,
)

CRASH = Exit(
    cause="crashed",
    signal=11,
    reason="a signal ended its process",
    log_tail="one\ntwo",
    method="ping",
    pid=123,
)


def travelled(error: ActorDiedError) -> ActorDiedError:
    return pickle.loads(pickle.dumps(error))


# What is what.


def test_errors_when_raised_by_actorlib_then_of_one_base_and_documented() -> None:
    public = [getattr(exceptions, name) for name in exceptions.__all__]

    assert [kind for kind in public if not issubclass(kind, ActorlibError)] == [
        Exit,
        RemoteTraceback,
    ]
    assert [kind for kind in public if not kind.__doc__] == []


@pytest.mark.parametrize(
    ("kind", "base"),
    [
        (ActorDiedError, ActorError),
        (ActorUnavailableError, ActorError),
        (ActorUnschedulableError, ActorError),
        (SerializationError, TypeError),
    ],
)
def test_error_when_a_caller_expects_a_wider_one_then_it_is_that_too(
    kind: type[Exception], base: type[Exception]
) -> None:
    assert issubclass(kind, base)


# How it ended, for people.


@pytest.mark.parametrize(
    ("exit_", "text"),
    [
        (Exit(cause="asked"), "asked"),
        (Exit(cause="asked", reason="it was killed"), "it was killed"),
        (
            Exit(cause="asked", reason="it was killed", signal=9),
            "it was killed (SIGKILL)",
        ),
        (Exit(cause="exited", reason="it left", code=3), "it left (exit code 3)"),
        (Exit(cause="exited", reason="it left", code=0), "it left (exit code 0)"),
        (Exit(cause="crashed", signal=11, code=None), "crashed (SIGSEGV)"),
        (Exit(cause="crashed", method="ping"), "crashed, while it ran ping"),
        (
            CRASH,
            "a signal ended its process (SIGSEGV), while it ran ping. "
            "The end of its standard error:\n  | one\n  | two",
        ),
    ],
)
def test_exit_when_shown_then_what_happened(exit_: Exit, text: str) -> None:
    assert str(exit_) == text


def test_exit_when_written_to_then_it_refuses() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        CRASH.code = 1  # type: ignore[misc]


def test_signal_name_when_the_system_does_not_know_it_then_its_number() -> None:
    assert signal_name(signal.SIGKILL) == "SIGKILL"
    assert signal_name(500) == "signal 500"


# Travelling.


def test_died_when_pickled_twice_then_nothing_is_lost() -> None:
    inner = ActorDiedError("inner", exit=CRASH)
    inner.__cause__ = KeyError("lost")
    error = ActorDiedError("Model is dead", exit=CRASH, actor_id="ab")
    error.__cause__ = inner

    again = travelled(travelled(error))

    assert type(again) is ActorDiedError
    assert (str(again), again.exit, again.actor_id) == ("Model is dead", CRASH, "ab")
    assert isinstance(again.__cause__, ActorDiedError)
    assert repr(again.__cause__.__cause__) == "KeyError('lost')"


def test_unavailable_when_pickled_then_text_id_and_exit_are_the_same() -> None:
    error = travelled(
        ActorUnavailableError("Model is restarting", exit=CRASH, actor_id="ab")
    )

    assert type(error) is ActorUnavailableError
    assert str(error) == "Model is restarting"
    assert (error.exit, error.actor_id) == (CRASH, "ab")
    assert error.__cause__ is None


def test_unschedulable_when_pickled_then_text_and_id_are_the_same() -> None:
    error = pickle.loads(pickle.dumps(ActorUnschedulableError("no", actor_id="ab")))

    assert type(error) is ActorUnschedulableError
    assert (str(error), error.actor_id) == ("no", "ab")


# Defaults and text.


def test_task_error_when_made_of_a_text_then_nothing_else_is_known() -> None:
    error = TaskError("ping failed")

    assert (error.cause, error.traceback_str, error.where) == (None, "", "")


def test_remote_traceback_when_shown_then_set_off() -> None:
    assert str(RemoteTraceback("In ping:\n...")) == '\n"""\nIn ping:\n..."""'
