"""Programs with ``devices="exclusive"``: real processes on fake devices.

The programs get commands on their standard input, one a line, and print one line for
each thing that happens.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import select
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Self

import pytest
from helpers.rare_cases import rarely

import actorlib
from actorlib._cli.machine_checks import check_devices
from actorlib.accelerators import Host
from actorlib.exceptions import UnsupportedOptionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.process

PROGRAM = '''
import asyncio, fcntl, json, os, random, sys, time

import actorlib


@actorlib.remote(num_cpus=0)
class Holder:
    """Has a lock on a file of each of its devices while its process lives."""

    def __init__(self, folder):
        self.files = []
        for device in actorlib.get_gpu_ids():
            self.files.append(open(f"{folder}/{device}", "w"))
            fcntl.flock(self.files[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)

    def describe(self):
        return os.getpid(), actorlib.get_gpu_ids()

    def linger(self):
        while True:
            time.sleep(3600)


def show(*words):
    print(json.dumps(words), flush=True)


async def announce(holder, folder):
    show("granted", *await holder.describe.remote())


async def obey(runtime, folder):
    holders, tasks = [], []
    lines = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(lines), sys.stdin
    )
    while line := await lines.readline():
        word, *arguments = json.loads(line)
        if word == "place":
            holders.append(Holder.options(**arguments[0]).remote(folder))
            tasks.append(asyncio.create_task(announce(holders[-1], folder)))
        elif word == "group":
            group = actorlib.placement_group([{"GPU": 1}] * arguments[0])
            await group.ready()
            show("reserved")
        elif word == "linger":
            holders[0].linger.remote()
        elif word == "explain":
            show(runtime.explain(holders[-1]))
        elif word == "end":
            await actorlib.kill(holders.pop(0))
            show("ended")
        elif word == "finish":
            break
    for task in tasks:
        task.cancel()


async def work(runtime, folder):
    """Places and ends actors for ever."""
    while True:
        count = random.choice([1, 1, 2])
        holders = [
            Holder.options(num_gpus=count).remote(folder)
            for _ in range(random.choice([1, 2]))
        ]
        for holder in holders:
            await holder.describe.remote()
            show("worked")
            await actorlib.kill(holder)


async def main():
    mode, devices, folder, method = sys.argv[1:]
    options = {"devices": devices, "start_method": method}
    async with actorlib.init(num_cpus=4, **options) as runtime:
        show("runs")
        await (obey if mode == "obey" else work)(runtime, folder)


asyncio.run(main())
'''

_numbers = itertools.count()


def machine_of(cards: str) -> str:
    """Returns a value of ACTORLIB_FAKE_DEVICES that no other test has."""
    number = int(f"{os.getpid()}{next(_numbers):04d}")
    return cards + "".join(" \t"[int(bit)] for bit in f"{number:b}")


class Program:
    """A program that has a runtime."""

    def __init__(self, machine: str, folder: Path, *words: str) -> None:
        mode, devices, method = words
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, mode, devices, str(folder), method],
            env={
                **os.environ,
                "PYTHONPATH": str(Path(actorlib.__file__).parents[1]),
                "ACTORLIB_FAKE_DEVICES": machine,
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.pid = self.process.pid

    def tell(self, *words: object) -> Self:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(words).encode() + b"\n")
        self.process.stdin.flush()
        return self

    def read(self) -> list[object]:
        """Returns the next line."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            assert self.process.stderr is not None
            pytest.fail(self.process.stderr.read().decode())
        return json.loads(line)

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Program]]:
    programs: list[Program] = []

    def begin(
        machine: str,
        devices: str = "exclusive",
        mode: str = "obey",
        method: str = "template",
        folder: Path = tmp_path,
    ) -> Program:
        programs.append(Program(machine, folder, mode, devices, method))
        return programs[-1]

    yield begin
    for program in programs:
        program.kill()


class HostWithFakes(Host):
    """This machine with fake devices."""

    def __init__(self, machine: str) -> None:
        self._machine = machine

    @property
    def environ(self) -> dict[str, str]:
        return {**os.environ, "ACTORLIB_FAKE_DEVICES": self._machine}


ONE = {"num_gpus": 1}
TWO = {"num_gpus": 2}


@pytest.mark.parametrize(
    "ending",
    ["end", "kill -9, busy", *rarely("finish", "kill -9", "kill -9, spawned, busy")],
)
def test_device_when_another_program_has_it_then_the_second_waits_for_its_end(
    start: Callable[..., Program], ending: str
) -> None:
    machine = machine_of("1xH100")
    method = "spawn" if "spawned" in ending else "template"
    first, second = start(machine, method=method), start(machine)
    assert [first.read(), second.read()] == [["runs"]] * 2
    _, worker, _ = first.tell("place", {"num_gpus": 0.5}).read()

    second.tell("place", ONE).tell("explain")
    (text,) = second.read()
    assert "GPU=1 by another program, " in str(text)
    assert f"(pid {first.pid})" in str(text)
    findings = [*check_devices(HostWithFakes(machine))]
    (users,) = [one.what for one in findings if "placed something" in one.what]
    assert users.endswith(
        f"(pid {first.pid}) has placed something on GPU 0 with devices='exclusive'"
    )
    if ending.startswith("kill"):
        if ending.endswith("busy"):
            first.tell("linger").tell("explain").read()
        first.kill()
    else:
        first.tell(ending)

    # Its constructor fails if a process of the first program has the device.
    word, other_worker, devices = second.read()
    assert (word, devices) == ("granted", [0])
    assert other_worker != worker
    if ending == "end":
        assert first.read() == ["ended"]
        first.tell("place", ONE).tell("explain")
        (text,) = first.read()
        assert f"(pid {second.pid})" in str(text)


def test_devices_when_programs_want_overlapping_sets_then_no_part_is_held(
    start: Callable[..., Program],
) -> None:
    machine = machine_of("3xH100")
    first, second, third = (start(machine) for _ in range(3))
    assert [one.read() for one in (first, second, third)] == [["runs"]] * 3
    assert first.tell("place", ONE).read()[2] == [0]

    second.tell("group", 3)
    third.tell("place", TWO)
    assert third.read()[2] == [1, 2]  # the group of the second holds none of them
    first.tell("end")
    assert first.read() == ["ended"]
    assert first.tell("place", ONE).read()[2] == [0]
    first.kill()
    third.tell("finish")

    assert second.read() == ["reserved"]


@pytest.mark.parametrize("devices", ["all", "free"])
def test_fake_devices_when_not_exclusive_then_no_program_waits(
    start: Callable[..., Program], devices: str, tmp_path: Path
) -> None:
    machine, other = machine_of("1xH100"), tmp_path / "other"
    other.mkdir()
    first, second = start(machine, devices), start(machine, folder=other)
    assert [first.read(), second.read()] == [["runs"]] * 2

    assert first.tell("place", ONE).read()[0] == "granted"
    assert second.tell("place", ONE).read()[0] == "granted"


@pytest.mark.thorough
def test_programs_when_killed_at_random_moments_then_none_is_granted_twice_or_lost(
    start: Callable[..., Program],
) -> None:
    machine, rounds = machine_of("2xH100"), int(os.environ.get("ROUNDS", "10"))
    moments = random.Random(rounds)
    programs = [start(machine, mode="work") for _ in range(2)]
    for _ in range(rounds):
        # Each is granted something, whatever was killed before, and never what another
        # has: then its constructor fails, and the program ends.
        for program in programs:
            while program.read() != ["worked"]:
                pass
        victim = moments.randrange(2)
        output = programs[victim].process.stdout
        select.select([output], [], [], moments.random() * 0.02)
        programs[victim].kill()
        programs[victim] = start(machine, mode="work")
    last = start(machine)
    for program in programs:
        program.kill()
    assert last.read() == ["runs"]
    assert last.tell("place", TWO).read()[0] == "granted"


def test_init_when_devices_cannot_be_exclusive_then_it_is_refused() -> None:
    with pytest.raises(UnsupportedOptionError, match="devices='exclusive'"):
        actorlib.init(devices="exclusive", engine="ray")
    with pytest.raises(ValueError, match="'exclusive'"):
        actorlib.init(devices="mine")  # type: ignore[arg-type]
