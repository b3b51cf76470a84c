"""What a worker's client makes when something asks for it."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from helpers.program_runner import printed_by

from actorlib._worker.requests.client import lazy

ASKERS = 4

LEAN = """
import sys
from actorlib._worker import __main__
from actorlib._worker.template import forkserver
from actorlib._worker.executors import serial_executor
print(*sorted({"asyncio", "ssl", "subprocess", "random"} & set(sys.modules)))
__main__.import_parts()
assert "actorlib._worker.requests.pending" in sys.modules
"""


class Whole:
    """Has a part that is made when it is asked for."""

    def __init__(self) -> None:
        self.made = 0

    @lazy
    def part(self) -> list[int]:
        self.made += 1
        return [self.made]


def test_part_when_it_is_not_asked_for_then_it_is_not_made() -> None:
    whole = Whole()

    assert vars(whole) == {"made": 0}


def test_part_when_threads_ask_at_once_then_they_get_the_same() -> None:
    whole, together = Whole(), threading.Barrier(ASKERS)

    def ask(_: int) -> list[int]:
        together.wait()
        return whole.part

    with ThreadPoolExecutor(ASKERS) as threads:
        parts = list(threads.map(ask, range(ASKERS)))

    assert all(part is whole.part for part in parts)
    assert vars(whole) == {"made": 1, "part": [1]}


@pytest.mark.process
def test_imports_of_a_plain_worker_when_nobody_asks_for_more_then_no_asyncio() -> None:
    assert printed_by(LEAN) == ""
