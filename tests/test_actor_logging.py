"""What actors log reaches the program's own loggers, whatever becomes of the actor."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import os
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from helpers.owners import Owner
from helpers.scripted import ScriptedWorker, be_silent, scripted

import actorlib
from actorlib._features.logs.runtime_records import program_levels
from actorlib._wire.messages import LOG, READY, START

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

    from actorlib._wire.messages import Frame

PROGRAM = """
import asyncio, json, logging, os, sys, threading
import actorlib

log = logging.getLogger("app.actors")

class Base:
    def work(self):
        log.debug("not wanted")
        log.info("begins", extra={"user": {"ids": [1, 2]}})
        try:
            raise ValueError("boom")
        except ValueError:
            log.exception("failed")
        thread = threading.Thread(target=log.warning, args=["aside"], name="helper")
        thread.start()
        thread.join()

    def own(self):
        logging.basicConfig(format="own %(message)s")
        log.warning("shown once")

    def crash(self):
        log.warning("about to")
        log.warning("crash")
        os._exit(3)

@actorlib.remote
class Serial(Base):
    pass

@actorlib.remote
class Looped(Base):
    async def has_loop(self):
        pass

@actorlib.remote
def function():
    log.warning("in a function")

class Json(logging.Formatter):
    def format(self, record):
        super().format(record)
        said = {k: v for k, v in vars(record).items() if not k.startswith("_")}
        return json.dumps(said, default=str)

handler = logging.StreamHandler(sys.stdout)
handler.setFormatter(Json())
logging.basicConfig(level=logging.INFO, handlers=[handler])

async def live(cls):
    actor = cls.options(name=f"my {cls.__name__}").remote()
    await actor.work.remote()
    try:
        await actor.crash.remote()
    except actorlib.exceptions.ActorDiedError:
        pass

async def main():
    async with actorlib.init() as runtime:
        own = Serial.options(name="own").remote()
        calls = function.remote(), own.own.remote()
        await asyncio.gather(live(Serial), live(Looped), *calls)
        for line in runtime.logs():
            print("kept", line.source, line.label, line.text, flush=True)

asyncio.run(main())
"""


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="watches pidfds")
def test_records_when_actors_log_then_the_program_has_each_once(tmp_path: Path) -> None:
    with Owner(PROGRAM, folder=tmp_path) as owner:
        assert owner.end() == 0, owner.err
        lines = owner.out.splitlines()
        records: list[dict[str, Any]] = [
            json.loads(line) for line in lines if line.startswith("{")
        ]

    of = {
        name: [each for each in records if each.get("actor_name") == f"my {name}"]
        for name in ("Serial", "Looped")
    }
    for name, its in of.items():
        assert [each["message"] for each in its] == [
            "begins",
            "failed",
            "aside",
            "about to",
            "crash",
        ]
        begins, failed, aside, *_ = its
        assert begins["levelname"] == "INFO"
        assert begins["name"] == "app.actors"
        assert begins["actor"] == name
        assert begins["method"] == "work"
        assert len(begins["request_id"]) == 32
        assert begins["pid"] == begins["process"] != os.getpid()
        assert begins["user"] == {"ids": [1, 2]}
        assert begins["funcName"] == "work"
        assert failed["exc_text"].endswith("ValueError: boom")
        assert (aside["threadName"], aside["method"]) == ("helper", None)
    (function,) = [each for each in records if each["message"] == "in a function"]
    assert (function["method"], function["actor_id"]) == ("function", None)
    shown = [line for line in owner.err.splitlines() if "shown once" in line]
    assert len(shown) == 1
    assert shown[0].endswith("own shown once")
    assert not [each for each in records if each["message"] == "shown once"]
    kept = [line for line in lines if line.startswith("kept")]
    assert "kept log function in a function" in kept
    assert "kept stderr Serial 'own' own shown once" in kept
    assert "kept log Looped 'my Looped' crash" in kept
    assert len(kept) == 12


# What the owner does with a record.


@actorlib.remote
class Talker:
    """What it says is written in the test."""


def record(message: str, level: int = logging.WARNING, **about: Any) -> Frame:
    return (LOG, level, "app.made", 1.5e9, 7, "work", about, None, message)


@asynccontextmanager
async def talking(*frames: Frame, **options: Any) -> AsyncGenerator[ScriptedWorker]:
    """A worker that has logged when this begins."""

    def behave(worker: ScriptedWorker, frame: Frame) -> None:
        if frame[0] == START:
            worker.send(*frames, (READY, "", worker.pid))

    async with scripted({"Talker": behave}, **options) as launcher:
        talker = Talker.remote()
        await talker
        yield launcher.workers[0]


async def test_record_when_it_comes_then_the_logger_gets_it_as_one_of_its_own(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    about = {
        "pathname": "/srv/app/model.py",
        "lineno": 12,
        "threadName": 5,
        "args": (1,),
        "user": ("a", {"b": ("c",)}),
    }

    async with talking(
        record("said 100%", logging.INFO, **about), record("no", logging.DEBUG)
    ) as worker:
        pid = worker.pid

    (found,) = [each for each in caplog.records if each.name == "app.made"]
    said: dict[str, Any] = vars(found)
    assert found.getMessage() == "said 100%"
    assert (found.levelname, found.created, found.msecs) == ("INFO", 1.5e9, 0.0)
    assert (found.filename, found.module, found.lineno) == ("model.py", "model", 12)
    assert found.threadName == "MainThread"
    assert said["user"] == ["a", {"b": ["c"]}]
    assert (said["actor"], said["actor_name"], said["pid"]) == ("Talker", None, pid)
    assert said["request_id"].endswith("7")
    assert said["method"] == "work"


@pytest.mark.parametrize(
    ("shown", "expected"), [(True, ["failed"]), (False, [])], ids=["shown", "hidden"]
)
async def test_record_when_it_is_below_the_programs_level_or_hidden_then_it_is_nothing(
    caplog: pytest.LogCaptureFixture, *, shown: bool, expected: list[str]
) -> None:
    caplog.set_level(logging.ERROR, "app.made")
    records = record("warned"), record("failed", logging.ERROR)

    async with talking(*records, log_to_driver=shown):
        pass

    assert [r.message for r in caplog.records if r.name == "app.made"] == expected


async def test_record_when_nobody_handles_it_then_warnings_are_lines_of_the_actor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(logging.getLogger("app.made"), "propagate", False)

    async with talking(record("warned"), record("told", logging.INFO)) as worker:
        assert worker.shown == ["warned"]


async def test_record_when_a_filter_of_the_programs_raises_then_the_actor_lives(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(_: object) -> bool:
        raise ValueError("what the filter raises")

    logger = logging.getLogger("app.made")
    logger.addFilter(refuse)
    try:
        async with talking(record("warned")) as worker:
            assert worker.error is None
    finally:
        logger.removeFilter(refuse)
    assert "warned" not in caplog.text
    said = capsys.readouterr().err
    assert said.startswith("--- Logging error ---")
    assert "ValueError: what the filter raises" in said


async def test_record_when_it_is_an_event_of_structlog_then_its_formatter_has_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    structlog = pytest.importorskip("structlog")
    formatter: Any = structlog.stdlib.ProcessorFormatter
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    drop, render = formatter.remove_processors_meta, structlog.processors.JSONRenderer()
    handler.setFormatter(formatter(processors=[drop, render]))
    logger = logging.getLogger("app.made")
    monkeypatch.setattr(logger, "handlers", [handler])
    event = {"event": "happened", "ids": (1,)}

    about = {"msg": event, "_name": "warning", "_logger": "<Logger>"}
    async with talking(record("{'event': ...}", **about)):
        pass

    assert json.loads(out.getvalue()) == {"event": "happened", "ids": [1]}


def test_levels_when_the_program_has_set_some_then_workers_get_those() -> None:
    logger = logging.getLogger("app.levels")
    logger.setLevel(logging.DEBUG)
    try:
        assert program_levels(logging.ERROR)["app.levels"] == logging.DEBUG
        assert program_levels(logging.ERROR)[""] == logging.ERROR
        assert "" not in program_levels(logging.WARNING)
    finally:
        logger.setLevel(logging.NOTSET)
    assert "app.levels" not in program_levels(None)


@pytest.mark.parametrize(
    ("level", "error"),
    [
        ("LOUD", ValueError),
        (-1, ValueError),
        (1 << 31, ValueError),
        (True, TypeError),
        (1.5, TypeError),
        (b"INFO", TypeError),
    ],
)
def test_log_level_when_it_is_none_then_it_is_refused(
    level: Any, error: type[Exception]
) -> None:
    with pytest.raises(error, match="log_level takes"):
        actorlib.init(log_level=level)


# What actorlib itself logs.


async def test_life_when_levels_are_on_then_the_log_tells_of_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, "actorlib")
    options: dict[str, Any] = {"name": "m1", "num_gpus": 0.5, "max_restarts": 1}

    async with scripted({"Talker": be_silent}, num_gpus=1):
        talker = Talker.options(**options).remote()
        await talker
        await actorlib.kill(talker, no_restart=False)
        await talker
        await actorlib.kill(talker)

    told = [(each.levelname, each.getMessage()) for each in caplog.records]
    title = f"Talker 'm1' (pid {os.getpid()})"
    placed = ("DEBUG", "Talker 'm1' is placed: it has GPU=0.5 on 0")
    ready = ("INFO", f"{title} is ready")
    assert [told[0], told[1], told[3]] == [placed, ready, placed]
    assert told[2][0] == told[5][0] == "INFO"
    assert told[2][1].startswith(f"{title} restarts (attempt 1 of 1): it was killed")
    assert told[4] == ("INFO", f"{title} is ready again (restart 1)")
    assert told[5][1].startswith(f"{title} is dead: ")


async def test_life_when_only_warnings_are_on_then_nothing_is_told_of_usual_ends(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING, "actorlib")

    async with scripted({}):
        talker = Talker.remote()
        await talker
        await actorlib.kill(talker)

    assert caplog.records == []


@pytest.mark.memory
async def test_long_wait_when_it_is_over_then_the_log_tells_how_long_it_was(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "actorlib")

    async with scripted({}, num_gpus=1):
        first = Talker.options(num_gpus=1).remote()
        await first
        second = Talker.options(num_gpus=1, name="late").remote()
        await asyncio.sleep(7)  # seconds of a clock that jumps
        await actorlib.kill(first)
        await second

    assert "Talker 'late' is placed after 7.0 s: it has GPU=1 on 0" in caplog.messages
