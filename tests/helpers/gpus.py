"""Runtimes on a machine with one card, whose driver does what a test says.

The actors that hold parts of it are listed there when they say so by ``use``.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, final

import actorlib
from helpers.fake_nvml import Processes
from helpers.host import GIB
from helpers.nvml import Card, nvidia_host

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pytest

UUID = "GPU-10cc0000-1111-2222-3333-444455556666"
MEMORY = 80 * GIB


@final
class OneCard:
    """A card of 80 GiB, and what NVML lists there.

    Args:
        patch: Makes runtimes believe that they are on it.
        files: What files say there.
    """

    def __init__(
        self, patch: pytest.MonkeyPatch, files: Mapping[str, str] | None = None
    ) -> None:
        self.processes = Processes()
        card = Card(uuid=UUID, memory=MEMORY)
        host = nvidia_host(card, processes=self.processes, files=files)
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
