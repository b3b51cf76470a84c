"""Claims of devices: what other programs of the user can tell, and when they end."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from helpers.host import RecordedHost
from helpers.machines import Pretend, looking
from helpers.tiers import enforcement_of

import actorlib
from actorlib._options.resources import Resources
from actorlib._owner.machine import LocalNode
from actorlib.accelerators import Device, Host, Inventory, claims, discover
from actorlib.accelerators.claims import Claimant, DeviceClaims, describe_claims
from actorlib.accelerators.device_users import DeviceUser, DeviceUsers
from actorlib.accelerators.fake_devices import VARIABLE
from actorlib.accelerators.held_names import LockedFiles, SocketNames
from actorlib.exceptions import ActorUnschedulableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from actorlib.accelerators.held_names import HeldNames

HOLDER = """
import sys
from pathlib import Path
from actorlib.accelerators.held_names import LockedFiles, SocketNames

where, name = sys.argv[1:]
names = LockedFiles(Path(where)) if where else SocketNames()
release = names.hold(name)
print("holds", flush=True)
sys.stdin.read()
"""

pytestmark = pytest.mark.process


def gpu(index: int, **known: Any) -> Device:
    return Device(family="nvidia", kind="GPU", index=index, id=str(index), **known)


@pytest.fixture(params=["sockets", "files"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where names are kept: nowhere for sockets."""
    return str(tmp_path / "names") if request.param == "files" else ""


@pytest.fixture
def names(folder: str, tmp_path: Path) -> HeldNames:
    return LockedFiles(tmp_path / "names") if folder else SocketNames()


@pytest.fixture
def hold(folder: str) -> Iterator[Callable[[str], subprocess.Popen[str]]]:
    """Starts processes that hold a name."""
    started: list[subprocess.Popen[str]] = []

    def start(name: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", HOLDER, folder, name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "holds\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def claims_among(names: HeldNames) -> DeviceClaims:
    """Claims of this machine, written as those names."""

    class HostWithNames(Host):
        def names(self) -> HeldNames:
            return names

    return DeviceClaims(HostWithNames())


def unique(name: str) -> str:
    """A name that no test beside this one has."""
    return f"{os.getpid()}-{name}"


# Names.


def test_name_when_held_then_all_see_it_until_it_is_released(
    names: HeldNames, folder: str
) -> None:
    name = unique("family/100%/1")
    assert name not in set(names.held())

    release = names.hold(name)
    assert name in set(names.held())
    with pytest.raises(BlockingIOError):
        names.hold(name)

    release()
    assert name not in set(names.held())
    names.hold(name)()
    assert not folder or not list(Path(folder).iterdir())


def test_name_when_its_process_is_killed_then_it_is_free(
    names: HeldNames, hold: Callable[[str], subprocess.Popen[str]]
) -> None:
    name = unique("killed")
    holder = hold(name)
    with pytest.raises(BlockingIOError):
        names.hold(name)

    holder.kill()
    holder.wait()

    assert name not in set(names.held())
    names.hold(name)()


def test_name_when_a_fork_lets_go_then_it_is_still_held(names: HeldNames) -> None:
    name = unique("forked")
    release = names.hold(name)

    child = os.fork()
    if not child:
        release()
        os._exit(0)
    os.waitpid(child, 0)

    assert name in set(names.held())
    release()


def test_files_when_the_folder_is_open_to_others_then_nothing_is_held(
    tmp_path: Path,
) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    names = LockedFiles(shared)

    with pytest.raises(PermissionError, match="not this user's alone"):
        names.hold("name")
    assert list(names.held()) == []


# Claims.


def test_claims_when_another_process_has_one_then_it_is_named(
    hold: Callable[[str], subprocess.Popen[str]], names: HeldNames
) -> None:
    mine = gpu(0, uuid=unique("GPU-0"))
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=-1)
    hold(f"nvidia/{mine.uuid}/{process.pid}")
    found = claims_among(names).claimants([mine, gpu(1, uuid="GPU-1")])
    process.communicate(b"\n")

    ((device, (claimant,)),) = found.items()
    assert device is mine
    assert claimant.pid == process.pid
    assert claimant.program == f"{sys.executable} -c input()"
    assert claims_among(names).claimants([mine]) == {}  # it is gone


def test_claims_when_they_are_our_own_then_nobody_else_has_the_device(
    names: HeldNames,
) -> None:
    device = gpu(0, pci=unique("0000:3b:00.0"))
    ours = claims_among(names)
    ours.claim([device])

    assert f"nvidia/{device.pci}/{os.getpid()}" in set(names.held())
    assert ours.claimants([device]) == {}

    ours.release()
    assert f"nvidia/{device.pci}/{os.getpid()}" not in set(names.held())


def test_claims_when_released_while_they_are_made_then_none_is_left(
    names: HeldNames,
) -> None:
    device = gpu(0, uuid=unique("GPU-0"))
    ours = claims_among(names)
    ours.release()
    ours.claim([device])

    assert f"nvidia/{device.uuid}/{os.getpid()}" not in set(names.held())


def test_claims_when_a_name_is_of_another_user_then_it_counts_for_nothing(
    tmp_path: Path,
) -> None:
    names = LockedFiles(tmp_path / "names")
    releases = [names.hold(f"nvidia/GPU-0/{pid}") for pid in ("1", "2", "3", "x")]
    host = RecordedHost(
        files={
            "/proc/1/status": "Name:\tx\nUid:\t99\t99\t99\t99\n",
            "/proc/2/status": f"Name:\tx\nUid:\t{os.getuid()}\t0\t0\t0\n",
            "/proc/2/cmdline": "python\0" + "train.py\0" * 20,
        }
    )
    host.names = lambda: names  # type: ignore[method-assign]
    device = gpu(0, uuid="GPU-0")

    found = DeviceClaims(host).claimants([device])
    for release in releases:
        release()

    shown = "python" + " train.py" * 5 + " train.p…"
    assert found == {device: [Claimant(2, shown)]}
    assert describe_claims(found) == f"GPU 0 by {shown!r} (pid 2)"


def test_choosing_when_another_chooses_for_long_then_it_says_so(
    hold: Callable[[str], subprocess.Popen[str]],
    names: HeldNames,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(claims, "_LOCK", unique("choosing"))
    monkeypatch.setattr(claims, "_PATIENCE", 0.0)
    holder = hold(unique("choosing"))
    ours = claims_among(names)

    with pytest.raises(TimeoutError, match="choosing free devices"), ours.choosing():
        pass

    holder.kill()
    holder.wait()
    with ours.choosing(), pytest.raises(TimeoutError), ours.choosing():
        pass
    with ours.choosing():
        pass


class LastWorkers:
    """A launcher with workers that are there until it has ended them.

    Args:
        held: Says which names are held.
    """

    def __init__(self, held: Callable[[], list[str]]) -> None:
        self._held = held
        self.seen: list[str] = []

    async def aclose(self) -> None:
        self.seen = self._held()

    def abandon(self) -> Callable[[], None]:
        return self._wait

    def _wait(self) -> None:
        self.seen = self._held()


def node_of(claims: DeviceClaims, launcher: LastWorkers) -> LocalNode:
    return LocalNode(
        RecordedHost(),
        Inventory(),
        Resources.of({}),
        cast("Any", launcher),
        claims,
        enforcement_of("auto", {}),
    )


@pytest.mark.parametrize("loop", ["open", "closed"])
async def test_claims_when_a_runtime_ends_then_they_outlive_its_workers(
    tmp_path: Path, loop: str
) -> None:
    names = LockedFiles(tmp_path / "names")
    ours = claims_among(names)
    ours.claim([gpu(0, uuid="GPU-0")])
    launcher = LastWorkers(lambda: [n for n in names.held() if "GPU-0" in n])
    node = node_of(ours, launcher)
    if loop == "open":
        await node.aclose()
    else:
        node.abandon()()

    assert launcher.seen == [f"nvidia/GPU-0/{os.getpid()}"]
    assert not list(names.held())


async def test_claims_when_the_end_of_workers_cannot_be_waited_for_then_released(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> list[str]:
        raise OSError("busy")

    names = LockedFiles(tmp_path / "names")
    ours = claims_among(names)
    ours.claim([gpu(0, uuid="GPU-0")])

    node_of(ours, LastWorkers(fail)).abandon()()

    assert not list(names.held())
    assert "busy" in caplog.text


# Runtimes.

PROGRAM = """
import asyncio, sys
from pathlib import Path

sys.path.insert(0, sys.argv[1])
import actorlib
from actorlib._owner import machine
from helpers.nvml import nvidia_machine

host = nvidia_machine("nvidia_h100x8", environ={})
host.shared = Path(sys.argv[2])
machine.Host = lambda: host

@actorlib.remote(num_gpus=0.5)
class Model:
    pass

async def main():
    async with actorlib.init(num_cpus=1, num_gpus=6, devices=sys.argv[3]):
        model = await Model.remote()
        print("runs", flush=True)
        await asyncio.to_thread(sys.stdin.read)

asyncio.run(main())
"""


@pytest.fixture(params=["all"])
def other(
    tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[subprocess.Popen[str]]:
    """Another program with six of eight GPUs, which has placed an actor on GPU 0.

    The parameter is its ``devices``.
    """
    tests, names = str(Path(__file__).parents[1]), str(tmp_path / "names")
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, tests, names, request.param],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "runs\n"
    yield process
    process.kill()
    process.communicate()


@pytest.fixture
def on(pretend: Pretend, tmp_path: Path) -> Callable[[str], RecordedHost]:
    """Begins a machine whose programs can tell each other's claims."""

    def begin(machine: str) -> RecordedHost:
        host = pretend(machine)
        host.shared = tmp_path / "names"
        return host

    return begin


async def test_devices_when_another_has_some_then_it_is_named_and_free_ones_are_left(
    on: Callable[[str], RecordedHost],
    other: subprocess.Popen[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    on("nvidia_h100x8")
    async with actorlib.init(num_cpus=1, engine="inline") as runtime:
        assert runtime.cluster_resources()["GPU"] == 8
    assert not caplog.messages

    async with actorlib.init(num_cpus=1, devices="free", engine="inline") as runtime:
        (line,) = caplog.messages
        assert "of this user: GPU 0, 1, 2, 3, 4, 5 by '" in line
        assert line.endswith(f"(pid {other.pid})")
        assert runtime.cluster_resources()["GPU"] == 2
        held = await looking(num_gpus=1).remote().gpu_ids.remote()
        assert held == [6]
        with pytest.raises(ActorUnschedulableError, match="6: NVIDIA H100") as refused:
            await looking(num_gpus=3).remote()
        why = str(refused.value)
        assert "Not offered: GPU 0, GPU 1, GPU 2, GPU 3, GPU 4, GPU 5 (held by '" in why
        assert f"(pid {other.pid}))." in why
    with pytest.raises(
        ValueError, match="3 GPU declared with devices='free'"
    ) as caught:
        await actorlib.init(num_gpus=3, devices="free", engine="inline")
    assert f"(pid {other.pid})" in str(caught.value)
    assert "and 2 are free" in str(caught.value)

    other.kill()
    other.wait()
    async with actorlib.init(num_cpus=1, devices="free", engine="inline") as runtime:
        assert runtime.cluster_resources()["GPU"] == 8


async def test_devices_when_a_runtime_has_them_then_claimed_until_its_end(
    on: Callable[[str], RecordedHost],
) -> None:
    host = on("nvidia_h100x8")
    async with actorlib.init(num_cpus=1, num_gpus=3, engine="inline"):
        assert len(list(host.names().held())) == 3
    assert list(host.names().held()) == []


async def test_devices_when_they_are_logical_then_nobody_claims_them(
    on: Callable[[str], RecordedHost],
) -> None:
    host = on("bare")
    async with actorlib.init(num_gpus=2, devices="free", engine="inline") as runtime:
        assert runtime.cluster_resources()["GPU"] == 2
        assert list(host.names().held()) == []


async def test_devices_when_the_runtime_cannot_start_then_none_is_claimed(
    on: Callable[[str], RecordedHost],
) -> None:
    host = on("nvidia_mig")
    with pytest.raises(ValueError, match="mask_form"):
        await actorlib.init(mask_form="index", devices="free", engine="inline")
    assert list(host.names().held()) == []


class Warnings(logging.Handler):
    """Passes on the records of the log."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: asyncio.Queue[str] = asyncio.Queue()

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.put_nowait(record.getMessage())


@pytest.fixture
def warnings() -> Iterator[Warnings]:
    handler = Warnings()
    handler.setLevel(logging.WARNING)
    logging.getLogger("actorlib").addHandler(handler)
    yield handler
    logging.getLogger("actorlib").removeHandler(handler)


@pytest.mark.parametrize("other", ["all", "exclusive"], indirect=True)
async def test_device_when_another_program_uses_it_then_the_log_names_it_once(
    on: Callable[[str], RecordedHost],
    other: subprocess.Popen[str],
    warnings: Warnings,
    request: pytest.FixtureRequest,
) -> None:
    is_exclusive = "exclusive" in request.node.callspec.id
    host = on("nvidia_h100x8")
    users = DeviceUsers(host)
    async with actorlib.init(num_cpus=1, engine="inline") as runtime:
        runtime.explain(looking(num_gpus=0.5))  # uses nothing
        one = await looking(num_gpus=0.5).remote()
        text = await warnings.texts.get()
        assert text.startswith("GPU 0 is used by this program and by '")
        assert f"(pid {other.pid})" in text
        assert (", which has devices='exclusive'. " in text) is is_exclusive
        assert "init(devices='exclusive')" in text

        # The same program is not named again, and no device without another user is.
        await actorlib.kill(one)
        await looking(num_gpus=0.5).remote()
        whole = await looking(num_gpus=1).remote()
        assert await whole.gpu_ids.remote() == [1]
        cards = [users.card(device) for device in devices_of(host)]
        assert await asyncio.to_thread(users.others, cards) == {
            cards[0]: [DeviceUser(Claimant(other.pid, program_of(other)), is_exclusive)]
        }
    assert warnings.texts.empty()


async def test_device_when_another_program_uses_it_then_an_exclusive_one_waits(
    on: Callable[[str], RecordedHost], other: subprocess.Popen[str]
) -> None:
    on("nvidia_h100x8")
    options = {"num_cpus": 1, "engine": "inline", "devices": "exclusive"}
    async with actorlib.init(**cast("Any", options)) as runtime:
        seven = await looking(num_gpus=7).remote()
        assert await seven.gpu_ids.remote() == [1, 2, 3, 4, 5, 6, 7]
        waiting = looking(num_gpus=0.5).remote()
        text = runtime.explain(waiting)
        assert "GPU=7 by " in text
        assert f"(pid {other.pid})" in text

        other.kill()
        other.wait()
        assert await waiting.gpu_ids.remote() == [0]


def devices_of(host: RecordedHost) -> list[Device]:
    return [device for found in discover(host) for device in found.devices]


def program_of(process: subprocess.Popen[str]) -> str:
    claimant = claims.claimant_of(Host(), process.pid)
    assert claimant is not None
    return claimant.program


def test_cards_when_devices_are_parts_or_logical_then_their_names_tell() -> None:
    def card(text: str, device: Device) -> str:
        return DeviceUsers(RecordedHost(environ={VARIABLE: text})).card(device)

    part = gpu(1, uuid="MIG-1", parent="GPU-0")
    assert card("", part) == card("", gpu(0, uuid="GPU-0")) == "nvidia/GPU-0"
    assert card("", gpu(2, pci="0000:3b:00.0")) == "nvidia/0000:3b:00.0"
    fake = gpu(0, logical=True, source=VARIABLE)
    assert card("2xH100", fake) == card("2xH100", fake) != card("1xH100", fake)
    assert card("", gpu(0, logical=True)) == "logical/GPU/0"


def test_user_when_it_has_ended_or_is_elsewhere_then_it_is_described() -> None:
    users = DeviceUsers(RecordedHost())
    assert "(pid 812) that has ended" in users.describe(812)
    assert users.describe(0).endswith("in another container")
    assert DeviceUsers(Host()).describe(os.getpid()).endswith(f"(pid {os.getpid()})")
