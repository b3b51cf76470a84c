"""Runtimes on a machine with one card, whose driver does what a test says.

The actors that hold parts of it are listed there when they say so by ``use``.
"""

from __future__ import annotations

import os
import subprocess
import threading
from typing import TYPE_CHECKING, cast, final

import actorlib
from actorlib._core.engine import find_engine
from helpers.fake_nvml import Processes
from helpers.host import GIB
from helpers.nvml import Card, nvidia_host

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Mapping
    from pathlib import Path

    import pytest

    from actorlib._enforcement.nvml_session import Look
    from actorlib._owner.engine import LocalEngine

UUID = "GPU-10cc0000-1111-2222-3333-444455556666"
MEMORY = 80 * GIB


@final
class OneCard:
    """A card of 80 GiB, and what NVML lists there.

    Args:
        patch: Makes runtimes believe that they are on it.
        files: What files say there.
        shared: A folder of its own for a machine whose processes are those of this one;
            None for one of which nothing can be seen.
    """

    def __init__(
        self,
        patch: pytest.MonkeyPatch,
        files: Mapping[str, str] | None = None,
        shared: Path | None = None,
    ) -> None:
        self.processes = Processes()
        card = Card(uuid=UUID, memory=MEMORY)
        host = nvidia_host(card, processes=self.processes, files=files)
        host.shared = shared
        patch.setattr("actorlib._owner.machine.Host", lambda: host)

    def use(self, pid: int, nbytes: int | None = 3 * GIB) -> None:
        """Lists a process from now on."""
        self.processes.put(UUID, pid, nbytes)

    def let_go(self, pid: int) -> None:
        """Lists a process no more."""
        self.processes.drop(pid)

    @property
    def looks(self) -> int:
        """How often NVML was asked what is on it."""
        return self.processes.looks[UUID]


@actorlib.remote
class Model:
    """Holds a part of a card.

    Args:
        trouble: What its constructor raises, if anything.
    """

    def __init__(self, trouble: str = "") -> None:
        self._children: list[subprocess.Popen[bytes]] = []
        if trouble:
            raise RuntimeError(trouble)

    def pid(self) -> int:
        """Its process."""
        return os.getpid()

    def fail(self, trouble: str) -> None:
        """Raises."""
        raise RuntimeError(trouble)

    def wait(self) -> None:
        """Never returns."""
        threading.Event().wait()

    def start_child(self, *, has_own_session: bool) -> int:
        """Starts a process that does nothing, and gives its number."""
        child = subprocess.Popen(["sleep", "60"], start_new_session=has_own_session)
        self._children.append(child)
        return child.pid

    def crash(self) -> None:
        """Ends its process."""
        os._exit(3)


@actorlib.remote(num_gpus=0.5, max_retries=0)
def wait_on_the_card() -> None:
    """Never returns."""
    threading.Event().wait()


@actorlib.remote(num_gpus=1, max_calls=1)
def pid_on_the_card() -> int:
    """The process of a function that runs once in it."""
    return os.getpid()


async def looked() -> None:
    """Has NVML asked once more, and waits for the answer."""
    engine = cast("LocalEngine", find_engine())
    gpus = engine.machine.enforcement.gpus
    assert gpus is not None
    answered: asyncio.Future[Look] = engine.loop.create_future()
    gpus._session.look((UUID,), answered.set_result)  # pyright: ignore[reportPrivateUsage]  # nobody else asks
    gpus.occupants.note(await answered, engine.loop.time())
