from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from actorlib._base.ids import ActorId
from actorlib._options.actor_options import ActorOptions
from actorlib._options.interface import interface_of
from actorlib._owner.actors.actor_record import ActorRecord
from actorlib._owner.actors.exit_reason import (
    ExitEvidence,
    died,
    exit_of,
    unavailable,
)
from actorlib._processes.launcher import ProcessExit
from actorlib.exceptions import ActorDiedError, ActorUnschedulableError, Exit

LEFT = ProcessExit(code=0)
FAILED = ProcessExit(code=3)
SEGFAULT = ProcessExit(signal=11)
KILLED = ProcessExit(signal=9, peak=5 * 1024**2)
READY: dict[str, Any] = {
    "was_ready": True,
    "under_way": ("ping",),
    "log_tail": "last words",
    "pid": 123,
}
RAN = ExitEvidence(process=LEFT, **READY)


RAISED = {"constructor": "ValueError: no"}
GONE = {"process": ProcessExit(error="gone")}
STOPPED = {"stop_reason": "it was killed"}
SHORT = {"is_memory_short": True}


@pytest.mark.parametrize(
    ("remains", "cause", "text"),
    [
        ({"process": LEFT}, "exited", "its own code ended its process"),
        ({"process": FAILED}, "exited", "its own code ended its process"),
        ({"process": SEGFAULT}, "crashed", "a signal ended its process"),
        ({}, "crashed", "a signal ended its process"),
        (SHORT, "out of memory", "5 MiB at its peak"),
        ({**SHORT, "process": SEGFAULT}, "crashed", "a signal ended its process"),
        ({**SHORT, "process": FAILED}, "exited", "its own code ended its process"),
        (STOPPED, "asked", "it was killed"),
        ({"interrupted": "to be restarted"}, "restarted", "to be restarted"),
        ({**STOPPED, "interrupted": "before"}, "asked", "it was killed"),
        (GONE, "failed to start", "gone"),
        ({**GONE, "was_ready": True}, "lost", "gone"),
        ({**GONE, "pid": 123}, "failed to start", "gone"),
        ({**RAISED, "process": FAILED}, "failed to start", "ValueError: no"),
        ({"protocol": "no frame"}, "crashed", "no frame"),
        # Of two things that are known of one that was ready, the stronger one.
        ({**READY, **RAISED, **STOPPED}, "asked", "it was killed"),
        ({**READY, **GONE, **STOPPED}, "asked", "it was killed"),
        ({**READY, **SHORT, **STOPPED}, "asked", "it was killed"),
        ({**READY, **SHORT, **RAISED}, "failed to start", "ValueError: no"),
        ({**READY, **GONE, "protocol": "no frame"}, "lost", "gone"),
        ({**READY, **SHORT, "protocol": "no frame"}, "crashed", "no frame"),
    ],
)
def test_exit_of_when_something_is_known_then_its_cause_and_its_reason(
    remains: dict[str, Any], cause: str, text: str
) -> None:
    how = exit_of(ExitEvidence(**{"process": KILLED, **remains}))

    assert how.cause == cause
    assert text in how.reason


def test_exit_of_when_the_constructor_raised_then_its_traceback_is_told() -> None:
    raised = ExitEvidence(
        process=FAILED, constructor="ValueError: no", traceback="Trace\nValueError: no"
    )
    how = exit_of(raised)
    assert how.constructor == "Trace\nValueError: no"
    assert str(how).endswith("Its constructor raised:\n  | Trace\n  | ValueError: no")
    assert ActorDiedError("", exit=how).actor_init_failed

    killed = exit_of(replace(raised, stop_reason="it was killed"))
    assert not ActorDiedError("", exit=killed).actor_init_failed


@pytest.mark.parametrize("process", [LEFT, SEGFAULT, KILLED])
@pytest.mark.parametrize("was_ready", [True, False])
def test_exit_of_when_it_was_never_ready_then_the_reason_says_so(
    process: ProcessExit, *, was_ready: bool
) -> None:
    remains = ExitEvidence(process=process, was_ready=was_ready, is_memory_short=True)

    said = "before it was ready" in exit_of(remains).reason

    assert said is not was_ready


@pytest.mark.parametrize("process", [LEFT, FAILED, SEGFAULT, KILLED])
def test_exit_of_when_the_process_ended_then_how_and_its_last_words_are_kept(
    process: ProcessExit,
) -> None:
    found = exit_of(replace(RAN, process=process))
    asked = exit_of(replace(RAN, process=process, stop_reason="it was killed"))

    assert (found.code, found.signal, found.pid) == (process.code, process.signal, 123)
    assert (found.log_tail, found.method) == ("last words", "ping")
    assert (asked.log_tail, asked.method) == ("", None)


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


# What ran.


@pytest.mark.parametrize(
    ("ran", "told"),
    [
        (None, " (SIGSEGV)"),
        ((), " while idle (SIGSEGV)"),
        (("ping",), " (SIGSEGV), while it ran ping"),
        (("ping", "crash"), " (SIGSEGV), with ping and 1 other under way"),
        (("ping",) * 9, " (SIGSEGV), with ping and 8 others under way"),
    ],
)
def test_exit_of_when_a_signal_ended_it_then_what_ran(
    ran: tuple[str, ...] | None, told: str
) -> None:
    remains = ExitEvidence(process=SEGFAULT, was_ready=True, under_way=ran)
    unready = exit_of(ExitEvidence(process=SEGFAULT, under_way=()))

    assert str(exit_of(remains)) == f"a signal ended its process{told}"
    assert str(unready).endswith("process before it was ready (SIGSEGV)")


def test_exit_of_when_python_says_where_it_was_then_that_method_is_named() -> None:
    tail = """\
Fatal Python error: Segmentation fault
Current thread 0x00007f02 (most recent call first):
  File "/usr/lib/python3.11/ctypes/__init__.py", line 3 in string_at
  File "/home/me/model.py", line 7 in crash"""
    remains = ExitEvidence(
        process=SEGFAULT, was_ready=True, under_way=("ping", "crash"), log_tail=tail
    )
    found = exit_of(remains)
    assert (found.method, found.others) == ("crash", 1)
