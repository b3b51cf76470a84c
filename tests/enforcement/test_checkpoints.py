"""What CUDA's driver is asked of a process, and what is made of its answers."""

from __future__ import annotations

import asyncio
import os
import re
import resource
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from helpers.actors import LIMIT
from helpers.calls import raised
from helpers.tables import rows_of

from actorlib._enforcement.checkpoints import (
    CheckpointError,
    Checkpoints,
    lease_fault,
)
from actorlib._enforcement.cuda_checkpoint import Driver, main, restore, save
from actorlib.accelerators import Device, Lease, Share

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

RUNNING, LOCKED, CHECKPOINTED, FAILED = range(4)
CARD = Device(family="nvidia", kind="GPU", index=0, id="0", uuid="GPU-1f")


class FakeLibrary:
    """The few functions of libcuda that are called; see ``cuda.h``.

    Args:
        state: Where the process is, a value of CUprocessState; -1 if it has no CUDA.
        **faults: The functions that fail: with which error, and in which state they
            leave the process.
    """

    def __init__(self, state: int, **faults: tuple[int, int]) -> None:
        self.state = state
        self.called: list[str] = []
        self.milliseconds: int | None = None
        self._faults = faults

    def cuInit(self, flags: int) -> int:  # noqa: N802  # the driver's name
        """Begins."""
        assert flags == 0
        return self._faults.get("cuInit", (0, 0))[0]

    def cuGetErrorString(self, code: int, said: Any) -> int:  # noqa: N802  # likewise
        """Names an error."""
        said._obj.value = f"error of kind {code}".encode()
        return 0

    def __getattr__(self, name: str) -> Callable[[int, Any], int]:
        verb = name.removeprefix("cuCheckpointProcess")

        def call(pid: int, argument: Any) -> int:
            assert pid == 812
            if verb == "GetState":
                argument._obj.value = self.state
                return 400 if self.state < 0 else 0
            self.called.append(verb)
            if verb == "Lock":
                self.milliseconds = argument._obj.timeout_ms
            code, self.state = self._faults.get(
                verb,
                (
                    0,
                    {
                        "Lock": LOCKED,
                        "Checkpoint": CHECKPOINTED,
                        "Restore": LOCKED,
                        "Unlock": RUNNING,
                    }[verb],
                ),
            )
            return code

        return call


def test_save_when_it_runs_then_it_is_locked_and_copied() -> None:
    library = FakeLibrary(RUNNING)

    assert save(Driver(library, 812), 1500) == "done"

    assert (library.called, library.milliseconds) == (["Lock", "Checkpoint"], 1500)


STATES = {
    "NO_CUDA": -1,
    "RUNNING": RUNNING,
    "LOCKED": LOCKED,
    "CHECKPOINTED": CHECKPOINTED,
    "FAILED": FAILED,
}


def failed(found: re.Match[str]) -> str:
    """The words for a function of the driver that has failed."""
    name = f"cuCheckpointProcess{found[1]}"
    return f"{name} failed with error {found[2]} (error of kind {found[2]})"


@pytest.mark.parametrize(
    ("request_", "faults", "outcome", "called"), rows_of(__file__, "checkpoint_answers")
)
def test_driver_when_it_answers_then_the_outcome_is_known(
    request_: str, faults: str, outcome: str, called: str
) -> None:
    verb, state = request_.split()
    fails = [fault.split() for fault in faults.split(",") if fault]
    library = FakeLibrary(
        STATES[state],
        **{function: (int(code), STATES[left]) for function, code, left in fails},
    )
    driver = Driver(library, 812)

    said = save(driver, 0) if verb == "save" else restore(driver)

    assert said == re.sub(r"\{(\w+) (\d+)\}", failed, outcome)
    assert library.called == called.split()


def test_main_when_there_is_no_driver_or_an_old_one_then_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def missing(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr("ctypes.CDLL", missing)
    assert main("save", 812, 0).startswith("refused there is no CUDA driver: libcuda")
    monkeypatch.setattr("ctypes.CDLL", lambda _: object())
    assert main("save", 812, 0).startswith("refused the driver cannot checkpoint")
    library = FakeLibrary(RUNNING, cuInit=(100, RUNNING))
    monkeypatch.setattr("ctypes.CDLL", lambda _: library)
    assert main("save", 812, 0) == (
        "refused cuInit failed with error 100 (error of kind 100)"
    )


# The program that asks it.

PROGRAM = """
import os, signal, sys, time
verb, pid, milliseconds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
if verb == "restore":
    open(os.environ["BEGUN"], "w").write(str(os.getpid()))
    time.sleep(3600)
if pid == 9:
    os.kill(os.getpid(), signal.SIGKILL)
words = {1: "done", 2: "refused it cannot", 3: "broken it is lost", 4: "Traceback"}
known = (1000, 2500, 60000)
sys.stdout.write(words[pid] if milliseconds in known else str(milliseconds))
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return path


@pytest.mark.process
@pytest.mark.parametrize(
    ("pid", "said"),
    [
        (2, "it cannot"),
        (3, "it is lost"),
        (4, "ended without an answer"),
        (9, "ended without an answer"),
    ],
)
async def test_save_when_the_program_says_no_then_raised(
    pid: int, said: str, program: Path
) -> None:
    checkpoints = Checkpoints(os.environ, program)
    await checkpoints.save(1, None)
    await checkpoints.save(1, 2.5)
    await checkpoints.save(1, 0)

    with pytest.raises(CheckpointError, match=said) as caught:
        await checkpoints.save(pid, None)

    assert caught.value.is_broken is (pid != 2)


@pytest.mark.process
async def test_restore_when_nobody_waits_or_it_takes_too_long_then_it_is_ended(
    program: Path, tmp_path: Path
) -> None:
    begun = tmp_path / "begun"
    environ = {**os.environ, "BEGUN": str(begun)}
    waiting = asyncio.ensure_future(Checkpoints(environ, program).restore(1))
    async with asyncio.timeout(LIMIT):
        while not (begun.exists() and begun.read_text()):  # noqa: ASYNC110  # a file
            await asyncio.sleep(0.01)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    with pytest.raises(ProcessLookupError):
        os.kill(int(begun.read_text()), 0)

    with pytest.raises(CheckpointError, match=r"not answered within 0.05 s") as caught:
        await Checkpoints(environ, program, limit=0.05).restore(1)
    assert caught.value.is_broken


@pytest.mark.process
async def test_save_when_the_real_program_finds_nothing_then_refused() -> None:
    """Without a driver, or of a process that has not used CUDA."""
    with pytest.raises(CheckpointError) as caught:
        await Checkpoints(os.environ).save(os.getpid(), 1)

    assert not caught.value.is_broken


# What is asked at all.


async def test_save_when_descriptors_run_out_then_the_process_is_as_it_was() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))  # those that are open stay
    try:
        error = await raised(Checkpoints({}).save(os.getpid(), None))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    assert isinstance(error, CheckpointError)
    assert not error.is_broken
    assert "cannot be started: [Errno 24] Too many open files" in str(error)


def test_lease_when_it_is_of_one_nvidia_gpu_then_no_fault() -> None:
    lease = Lease(amounts={"GPU": 5000}, shares=(Share(CARD, 5000),))

    assert lease_fault(lease, "linux") == ""


@pytest.mark.parametrize(
    ("devices", "system", "said"),
    [
        ([CARD], "darwin", "only on Linux, and this is darwin"),
        ([], "linux", "it holds no GPU"),
        ([replace(CARD, logical=True)], "linux", "GPU 0 was declared and not found"),
        ([replace(CARD, family="amd")], "linux", "GPU 0 is of the family 'amd'"),
        (
            [CARD, replace(CARD, index=1, id="1")],
            "linux",
            "it holds GPU 0, GPU 1, and the driver is known to restore",
        ),
    ],
)
def test_lease_when_it_cannot_be_taken_off_then_said_why(
    devices: list[Device], system: str, said: str
) -> None:
    lease = Lease(amounts={}, shares=tuple(Share(device, 10000) for device in devices))

    assert said in lease_fault(lease, system)
