"""Records of workers cross as plain values, within a budget, and once."""

from __future__ import annotations

import io
import logging
import sys
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorlib._features.logs import worker_records as log_records
from actorlib._features.logs.worker import RecordHandler, prepare
from actorlib._features.logs.worker_records import (
    BURST,
    LONGEST,
    RATE,
    LogBudget,
)
from actorlib._wire.messages import LOG
from actorlib._wire.worker_messages import check_frame

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actorlib._wire.messages import Frame

pytestmark = pytest.mark.memory


class Pipe:
    """Takes what is offered while there is room."""

    def __init__(self) -> None:
        self.room = 1 << 30
        self.is_closed = False
        self.frames: list[Frame] = []

    def offer(self, frame: Frame) -> bool:
        if self.is_closed:
            raise EOFError
        if len(self.frames) >= self.room:
            return False
        self.frames.append(frame)
        return True


@pytest.fixture
def pipe() -> Pipe:
    return Pipe()


@pytest.fixture
def log(pipe: Pipe) -> Iterator[logging.Logger]:
    """A logger whose only handler is that of a worker."""
    logger = logging.Logger("app")  # noqa: LOG001  # of this test alone
    handler = RecordHandler(lambda: pipe)
    logger.addHandler(handler)
    yield logger
    pipe.is_closed = True
    handler.close()


def test_budget_when_spent_then_it_comes_back_and_some_is_kept_for_warnings() -> None:
    budget = LogBudget(0.0)

    plain = sum(budget.take(1, is_severe=False) for _ in range(5000))
    severe = sum(budget.take(1, is_severe=True) for _ in range(5000))
    budget.refill(1.0)
    later = sum(budget.take(1, is_severe=True) for _ in range(5000))

    assert (plain, severe, later) == (BURST - 500, 500, RATE)


@given(st.lists(st.tuples(st.floats(0, 10), st.floats(1, 64), st.booleans())))
def test_budget_when_asked_at_any_times_then_never_more_than_its_rate(
    asked: list[tuple[float, float, bool]],
) -> None:
    budget, now, taken = LogBudget(0.0), 0.0, 0.0
    for pause, cost, is_severe in asked:
        now += pause
        budget.refill(now)
        if budget.take(cost, is_severe=is_severe):
            taken += cost

    assert taken <= BURST + RATE * now + 1e-6 * (1 + now)


def test_record_when_sent_then_it_is_a_good_frame(
    log: logging.Logger, pipe: Pipe
) -> None:
    extra = {"user": {"ids": [1, 2], "who": object}, "big": 1 << 90}
    try:
        int("boom")
    except ValueError:
        log.exception("it %s", "failed", extra=extra)

    (frame,) = pipe.frames
    kind, level, name, _, call, method, about, traceback, message = frame
    assert (kind, level, name, call, method) == (LOG, logging.ERROR, "app", 0, "")
    assert message == "it failed"
    assert traceback.startswith("Traceback")
    assert traceback.endswith("'boom'")
    assert about["user"] == {"ids": [1, 2], "who": "<class 'object'>"}
    assert about["big"] == str(1 << 90)
    assert about["funcName"] == "test_record_when_sent_then_it_is_a_good_frame"
    about["user"]["ids"] = (1, 2)  # as it arrives
    assert check_frame(frame, bytes(8)) == ()


def test_record_when_it_is_endless_then_it_is_cut(
    log: logging.Logger, pipe: Pipe
) -> None:
    deep: list[Any] = []
    deep.append(deep)

    log.warning("x" * (LONGEST + 7), extra={"deep": deep})

    assert pipe.frames[0][-1].endswith("x (7 characters more)")
    assert "[...]" in str(pipe.frames[0][-3]["deep"])


def test_record_when_there_is_no_room_then_it_waits_and_too_many_are_counted(
    log: logging.Logger, pipe: Pipe
) -> None:
    made = int(BURST) + 500
    pipe.room = 0
    for number in range(made):
        log.warning("number %d", number)
    pipe.room = 1 << 30
    log.handlers[0].close()

    *sent, told = pipe.frames
    assert [frame[-1] for frame in sent] == [f"number {n}" for n in range(len(sent))]
    assert told[1:3] == (logging.WARNING, "actorlib")
    dropped = made - len(sent)
    assert dropped >= 500
    assert told[-1].startswith(f"{dropped} log records of this process were dropped")


def test_record_when_too_many_go_on_coming_then_the_count_is_told_meanwhile(
    log: logging.Logger, pipe: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_records, "_COUNTING", -1.0)
    monkeypatch.setattr(log_records, "RATE", 0.0)  # what is spent is spent
    for _ in range(int(BURST)):
        log.warning("one")

    told = [frame[-1] for frame in pipe.frames if frame[2] == "actorlib"]
    assert told
    assert told[0].startswith("1 log records of this process were dropped")


def test_record_when_the_pipe_is_closed_then_warnings_go_to_standard_error(
    log: logging.Logger, pipe: Pipe, capsys: pytest.CaptureFixture[str]
) -> None:
    pipe.is_closed = True

    log.warning("late")
    log.info("late too")

    assert capsys.readouterr().err == "late\n"


def test_record_when_the_output_shows_it_then_it_is_not_sent(
    log: logging.Logger, pipe: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    own = logging.StreamHandler(sys.stderr)
    own.setLevel(logging.ERROR)
    monkeypatch.setitem(log.manager.loggerDict, "app", log)
    log.addHandler(own)

    log.warning("sent")
    log.error("shown")

    assert [frame[-1] for frame in pipe.frames] == ["sent"]


def test_basic_config_when_called_in_a_worker_then_it_configures_as_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    root = logging.RootLogger(logging.WARNING)
    monkeypatch.setattr(logging, "root", root)
    monkeypatch.setattr(logging.Logger, "root", root)
    monkeypatch.setattr(logging, "basicConfig", logging.basicConfig)

    prepare({"": logging.INFO})
    prepare({})
    (ours,) = root.handlers
    assert root.level == logging.INFO
    logging.basicConfig(level=logging.DEBUG, stream=io.StringIO())

    assert root.level == logging.DEBUG
    assert [type(handler) for handler in root.handlers] == [
        logging.StreamHandler,
        RecordHandler,
    ]
    assert ours in root.handlers
