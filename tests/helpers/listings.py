"""Runtimes and actors as commands list them, and a program to list."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from actorlib._cli.listing import Listing, RuntimeRow
from actorlib._options.shares import ActorShare, DeviceShare
from actorlib._queries.rows import ActorStatus, ProcessUse, Status
from actorlib._rows.rows import extend_row
from actorlib._rows.snapshot import ActorInfo, DeviceInfo, ObjectStoreInfo, Snapshot

if TYPE_CHECKING:
    from collections.abc import Callable

    Command = Callable[..., "Ended"]
    """Runs a command with these words."""


class Ended(NamedTuple):
    """The exit code of a command, and its output."""

    code: int
    out: str
    err: str


BUSY = """
import asyncio, time
import actorlib
from helpers.owners import listen, tell

@actorlib.remote(num_gpus=1)
class Model:
    def predict(self):
        time.sleep(1000)

async def main():
    async with actorlib.init(num_cpus=4, num_gpus=1, grace=0):
        first = Model.options(name="m1").remote()
        await first
        second = Model.options(num_gpus=0.5, name="m2").remote()
        calls = [first.predict.remote()]
        calls += [first.predict.options(timeout=60).remote() for _ in range(2)]
        await asyncio.sleep(0)
        tell("ready")
        await asyncio.to_thread(listen)

asyncio.run(main())
"""


def info(**changed: Any) -> ActorInfo:
    """An actor as its runtime knows it."""
    known: dict[str, Any] = {
        "actor_id": "ab" * 16,
        "class_name": "Model",
        "name": "m1",
        "pid": 812,
        "state": "alive",
        "resources": {"GPU": 0.5},
        "devices": {"0": 0.5},
        "device_nbytes": {"0": 12 * 2**30},
        "device_memory": {"0": 3 * 2**30},
        "mask": "0",
        "pending_calls": 3,
        "made_calls": 40,
        "restarts": 0,
        "death": "",
        "started_at": 1000.0,
    }
    return ActorInfo(**{**known, **changed})


def share(enforced_by: str) -> ActorShare:
    """A share of one device."""
    device = DeviceShare(
        device="0",
        kind="GPU",
        units=0.5,
        nbytes=None,
        enforced_by=enforced_by,
        not_stronger_because="",
    )
    return ActorShare(devices=(device,))


def actor(**changed: Any) -> ActorStatus:
    """The same as a command shows it."""
    process: dict[str, Any] = {"cpu": 12.3, "pss": 20 * 2**20, "rss": 60 * 2**20}
    process |= {name: changed.pop(name) for name in process if name in changed}
    status: dict[str, Any] = {
        "running_calls": 1,
        "why": "",
        "seen_at": 1061.0,
        "rate": None,
        "process": ProcessUse(**process),
    }
    status |= {name: changed.pop(name) for name in status if name in changed}
    row = info(**{"share": share("watchdog"), **changed})
    return extend_row(ActorStatus, row, **status)


def device(**changed: Any) -> DeviceInfo:
    """A device that a runtime may grant."""
    known: dict[str, Any] = {
        "device": "0",
        "kind": "GPU",
        "model": "NVIDIA H100 80GB HBM3",
        "nbytes": 80 * 2**30,
        "available": 0.25,
        "is_logical": False,
    }
    return DeviceInfo(**{**known, **changed})


def snapshot(**changed: Any) -> Snapshot:
    """The state of a runtime."""
    known: dict[str, Any] = {
        "total": {"CPU": 4.0, "GPU": 1.0, "memory": 2.0**34},
        "available": {"CPU": 3.0, "GPU": 0.5, "memory": 2.0**34},
        "waiting": (),
        "actors": (),
        "object_store": ObjectStoreInfo(),
    }
    return Snapshot(**{**known, **changed})


def status(*actors: ActorInfo, **changed: Any) -> Status:
    """What a runtime answers that is asked for its status."""
    known: dict[str, Any] = {
        "version": "0.1.0",
        "python": "3.12.4",
        "pid": 7,
        "program": ("python", "train.py"),
        "waiting_count": 0,
        "running_calls": {},
        "reasons": {},
    }
    answer = {**known, **{name: changed.pop(name) for name in known if name in changed}}
    return Status(**answer, snapshot=snapshot(actors=actors, **changed))


def listing(*actors: ActorStatus, **changed: Any) -> Listing:
    """A runtime with its actors, as a command lists it."""
    known: dict[str, Any] = {
        "pid": 800,
        "user": "alice",
        "program": "python train.py",
        "version": "0.1.0",
        "error": "",
        "stuck": None,
        "process": ProcessUse(cpu=3.0, pss=2**30, rss=2**31),
        "in_line_count": 0,
        "clients": (),
    }
    row = {**known, **{name: changed.pop(name) for name in known if name in changed}}
    runtime = RuntimeRow(**row, actors=actors, snapshot=snapshot(**changed))
    return Listing(runtimes=(runtime,))
