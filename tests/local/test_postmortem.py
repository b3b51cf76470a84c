from __future__ import annotations

from dataclasses import replace

import pytest

from actorlib._engine import ActorId
from actorlib._interface import interface_of
from actorlib._local.launcher import ProcessExit
from actorlib._local.postmortem import Remains, died, exit_of, unavailable
from actorlib._local.registry import ActorRecord
from actorlib._options import ActorOptions
from actorlib.exceptions import ActorDiedError, ActorUnschedulableError, Exit

LEFT = ProcessExit(code=0)
FAILED = ProcessExit(code=3)
SEGFAULT = ProcessExit(signal=11)
KILLED = ProcessExit(signal=9, peak=5 * 1024**2)
RAN = Remains(
    process=LEFT, was_ready=True, method="ping", log_tail="last words", pid=123
)


@pytest.mark.parametrize(
    ("remains", "cause"),
    [
        (Remains(process=LEFT), "exited"),
        (Remains(process=FAILED), "exited"),
        (Remains(process=SEGFAULT), "crashed"),
        (Remains(process=KILLED), "crashed"),
        (Remains(process=KILLED, is_memory_short=True), "out of memory"),
        (Remains(process=SEGFAULT, is_memory_short=True), "crashed"),
        (Remains(process=FAILED, is_memory_short=True), "exited"),
        (Remains(process=KILLED, asked="it was killed"), "asked"),
        (Remains(process=KILLED, interrupted="to be restarted"), "restarted"),
        (Remains(process=KILLED, asked="killed", interrupted="before"), "asked"),
        (Remains(process=ProcessExit(trouble="fork failed")), "failed to start"),
        (Remains(process=ProcessExit(trouble="gone"), was_ready=True), "lost"),
        (Remains(process=ProcessExit(trouble="gone"), pid=123), "failed to start"),
        (Remains(process=FAILED, constructor="ValueError: no"), "failed to start"),
        (Remains(process=KILLED, protocol="no frame"), "crashed"),
    ],
)
def test_exit_of_when_something_is_known_then_the_cause(
    remains: Remains, cause: str
) -> None:
    assert exit_of(remains).cause == cause


@pytest.mark.parametrize(
    ("weaker", "stronger", "cause"),
    [
        ({"constructor": "ValueError: no"}, {"asked": "it was killed"}, "asked"),
        ({"process": ProcessExit(trouble="gone")}, {"asked": "killed"}, "asked"),
        ({"is_memory_short": True}, {"asked": "it was killed"}, "asked"),
        (
            {"is_memory_short": True, "process": KILLED},
            {"constructor": "ValueError: no"},
            "failed to start",
        ),
        ({"protocol": "no frame"}, {"process": ProcessExit(trouble="gone")}, "lost"),
        ({"is_memory_short": True}, {"protocol": "no frame"}, "crashed"),
    ],
)
def test_exit_of_when_two_things_are_known_then_the_stronger_one_is_the_cause(
    weaker: dict[str, object], stronger: dict[str, object], cause: str
) -> None:
    remains = replace(RAN, **{"process": KILLED, **weaker, **stronger})

    assert exit_of(remains).cause == cause


@pytest.mark.parametrize(
    ("remains", "text"),
    [
        (Remains(process=KILLED, asked="it was killed"), "it was killed"),
        (Remains(process=FAILED, constructor="ValueError: no"), "ValueError: no"),
        (Remains(process=ProcessExit(trouble="fork failed")), "fork failed"),
        (Remains(process=KILLED, protocol="no frame"), "no frame"),
        (Remains(process=KILLED, is_memory_short=True), "5 MiB at its peak"),
        (Remains(process=FAILED), "its own code ended its process"),
        (Remains(process=SEGFAULT), "a signal ended its process"),
    ],
)
def test_exit_of_when_something_is_known_then_the_reason_says_it(
    remains: Remains, text: str
) -> None:
    assert text in exit_of(remains).reason


def test_exit_of_when_the_constructor_raised_then_its_traceback_is_told() -> None:
    raised = Remains(
        process=FAILED, constructor="ValueError: no", traceback="Trace\nValueError: no"
    )
    how = exit_of(raised)
    assert how.constructor == "Trace\nValueError: no"
    assert str(how).endswith("Its constructor raised:\n  | Trace\n  | ValueError: no")
    assert ActorDiedError("", exit=how).actor_init_failed

    killed = exit_of(replace(raised, asked="it was killed"))
    assert not ActorDiedError("", exit=killed).actor_init_failed


@pytest.mark.parametrize("process", [LEFT, SEGFAULT, KILLED])
@pytest.mark.parametrize("was_ready", [True, False])
def test_exit_of_when_it_was_never_ready_then_the_reason_says_so(
    process: ProcessExit, *, was_ready: bool
) -> None:
    remains = Remains(process=process, was_ready=was_ready, is_memory_short=True)

    said = "before it was ready" in exit_of(remains).reason

    assert said is not was_ready


@pytest.mark.parametrize("process", [LEFT, FAILED, SEGFAULT, KILLED])
def test_exit_of_when_the_process_ended_then_how_is_kept(process: ProcessExit) -> None:
    found = exit_of(replace(RAN, process=process))

    assert (found.code, found.signal, found.pid) == (process.code, process.signal, 123)


def test_exit_of_when_it_was_not_asked_for_then_the_last_words_and_the_method() -> None:
    found = exit_of(RAN)

    assert (found.log_tail, found.method) == ("last words", "ping")


def test_exit_of_when_it_was_asked_for_then_neither_last_words_nor_method() -> None:
    found = exit_of(replace(RAN, asked="it was killed"))

    assert (found.log_tail, found.method) == ("", None)


# What is told to whoever asks something of it.


class Model:
    pass


CRASH = Exit(cause="crashed", signal=9, reason="a signal ended its process")


def record_of(how: Exit | None) -> ActorRecord:
    return ActorRecord(
        id=ActorId(b"\xab"),
        interface=interface_of(Model),
        options=ActorOptions(),
        exit=how,
    )


def test_died_when_it_has_ended_then_how_and_why() -> None:
    cause = ValueError("no")

    error = died(record_of(CRASH), cause, " after 2 restarts (max_restarts=2)")

    assert isinstance(error, ActorDiedError)
    assert str(error) == (
        "Model is dead after 2 restarts (max_restarts=2): a signal ended its "
        "process (SIGKILL)"
    )
    assert (error.exit, error.actor_id, error.__cause__) == (CRASH, "ab", cause)


def test_died_when_it_is_only_about_to_end_then_it_was_asked_for() -> None:
    error = died(record_of(None), None, "")

    assert isinstance(error, ActorDiedError)
    assert (str(error), error.exit.cause) == (
        "Model is dead: it is ending",
        "asked",
    )


def test_died_when_it_could_never_be_placed_then_that_error() -> None:
    error = died(record_of(CRASH), ActorUnschedulableError("too much"), "")

    assert isinstance(error, ActorUnschedulableError)
    assert (str(error), error.actor_id) == ("too much", "ab")


def test_unavailable_when_told_then_which_attempt_and_the_way_out() -> None:
    error = unavailable(record_of(None), CRASH, "attempt 1 of 2, in 0.4 s")

    assert str(error) == (
        "Model is restarting, attempt 1 of 2, in 0.4 s; await its handle to wait "
        "for it, or let max_task_retries send calls again. It was restarted because: "
        "a signal ended its process (SIGKILL)"
    )
    assert (error.exit, error.actor_id) == (CRASH, "ab")
