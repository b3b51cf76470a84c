"""The floor of calls: msgpack frames over a socket pair, a protocol on uvloop.

Like a call it has a number, a value and a future of its own, and windows end in one
``gather``; nothing else. ``frames`` does without the futures: what the pipe alone can
do. The far end is ``bare_echo``, on uvloop or with a blocking read loop.
"""

import asyncio
import socket
import sys
import time
from pathlib import Path
from typing import Any, cast

import msgpack
import uvloop

from benchmarks.subjects._processes import place
from benchmarks.subjects._report import (
    WINDOW,
    Traffic,
    arguments,
    pipelined,
    prefixed,
    report,
    round_trips,
)

_ECHO = Path(__file__).with_name("bare_echo.py")


class _Caller(asyncio.Protocol):
    def __init__(self, sock: socket.socket) -> None:
        self._loop = asyncio.get_running_loop()
        self._sock = sock
        self._pack = msgpack.Packer().pack
        self._unpacker = msgpack.Unpacker()
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._expected = 0
        self._all_came = self._loop.create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.WriteTransport", transport)

    def data_received(self, data: bytes) -> None:
        self._unpacker.feed(data)
        if not self._expected:
            waiting = self._waiting
            for number, value in self._unpacker:
                waiting.pop(number).set_result(value)
            return
        self._expected -= sum(1 for _ in self._unpacker)
        if not self._expected:
            self._all_came.set_result(None)

    def call(self, number: int) -> asyncio.Future[Any]:
        """One call, written at once."""
        self._waiting[number] = future = self._loop.create_future()
        self._sock.send(self._pack((number, number)))
        return future

    def window(self) -> asyncio.Future[list[Any]]:
        """A window of calls, written together."""
        futures: list[asyncio.Future[Any]] = []
        frames: list[bytes] = []
        for number in range(WINDOW):
            self._waiting[number] = future = self._loop.create_future()
            futures.append(future)
            frames.append(self._pack((number, number)))
        self._transport.write(b"".join(frames))
        return asyncio.gather(*futures)

    def frames(self) -> asyncio.Future[Any]:
        """A window of frames whose answers are only counted."""
        self._expected = WINDOW
        self._all_came = self._loop.create_future()
        pack = self._pack
        self._transport.write(b"".join([pack((n, n)) for n in range(WINDOW)]))
        return self._all_came


async def _calls(caller: _Caller, traffic: Traffic) -> dict[str, float]:
    trips: list[float] = []
    for number in range(traffic.trips):
        begun = time.perf_counter()
        await caller.call(number)
        trips.append(time.perf_counter() - begun)
    metrics = round_trips(trips)
    for prefix, send in (("", caller.window), ("frames", caller.frames)):
        windows: list[float] = []
        for _ in range(traffic.windows):
            begun = time.perf_counter()
            await send()
            windows.append(time.perf_counter() - begun)
        rates = pipelined(windows)
        metrics |= prefixed(prefix, rates) if prefix else rates
    return metrics


async def _measured(traffic: Traffic) -> dict[str, float]:
    near, far = socket.socketpair()
    near.setblocking(False)  # noqa: FBT003  # the socket API
    command = [sys.executable, str(_ECHO), str(far.fileno()), traffic.method]
    process = await asyncio.create_subprocess_exec(*command, pass_fds=[far.fileno()])
    far.close()
    loop = asyncio.get_running_loop()
    transport, caller = await loop.create_connection(lambda: _Caller(near), sock=near)
    try:
        await caller.call(0)
        place(process.pid, apart=traffic.apart)
        return await _calls(caller, traffic)
    finally:
        transport.close()
        await process.wait()


if __name__ == "__main__":
    report(uvloop.run(_measured(Traffic(**arguments()))))
