"""The far end of the floor of calls: ``_bare_echo.py SOCKET uvloop|blocking``.

It gives back every msgpack frame of what it reads, in one write.
"""

import asyncio
import socket
import sys

import msgpack
import uvloop


def echo_blocking(sock: socket.socket) -> None:
    """Answers from a blocking read loop until the other end closes."""
    unpacker, pack = msgpack.Unpacker(), msgpack.Packer().pack
    while data := sock.recv(65536):
        unpacker.feed(data)
        sock.sendall(b"".join([pack(frame) for frame in unpacker]))


class _Echo(asyncio.Protocol):
    def __init__(self, sock: socket.socket) -> None:
        self.lost = asyncio.get_running_loop().create_future()
        self._sock = sock
        self._unpacker, self._pack = msgpack.Unpacker(), msgpack.Packer().pack

    def data_received(self, data: bytes) -> None:
        self._unpacker.feed(data)
        # At once, past the transport, which would wait for the end of the turn.
        self._sock.send(b"".join([self._pack(frame) for frame in self._unpacker]))

    def connection_lost(
        self,
        exc: Exception | None,  # noqa: ARG002  # the name of asyncio
    ) -> None:
        self.lost.set_result(None)


async def echo_looped(sock: socket.socket) -> None:
    """Answers from a protocol on the running loop until the other end closes."""
    loop = asyncio.get_running_loop()
    _, protocol = await loop.create_connection(lambda: _Echo(sock), sock=sock)
    await protocol.lost


if __name__ == "__main__":
    given = socket.socket(fileno=int(sys.argv[1]))
    if sys.argv[2] == "blocking":
        echo_blocking(given)
    else:
        given.setblocking(False)  # noqa: FBT003  # the socket API
        uvloop.run(echo_looped(given))
