"""What holds for other threads in a process where nobody has met one yet."""

from __future__ import annotations

import pytest
from helpers.program_runner import printed_by

pytestmark = [pytest.mark.process, pytest.mark.slow]


GATHERING = """
import asyncio
import actorlib

@actorlib.remote
class Echo:
    def both(self, **given):
        return given

async def main():
    async with actorlib.init(num_cpus=1):
        echo = await Echo.remote()

        async def gather():
            print(await asyncio.gather(echo.both.remote(a=1), echo.both.remote(a=2)))

        await asyncio.to_thread(lambda: asyncio.run(gather()))

asyncio.run(main())
"""


def test_loop_when_it_first_gathers_calls_with_keywords_then_they_come() -> None:
    # In a process of its own: once a loop elsewhere is known, it is so for good.
    assert printed_by(GATHERING) == "[{'a': 1}, {'a': 2}]"
