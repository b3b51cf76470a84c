from __future__ import annotations

import errno
import socket

import pytest

from actorlib._owner.actors.reserved_port import ReservedPort


def test_port_when_reserved_then_who_shares_it_may_listen_and_nobody_else() -> None:
    first, second = ReservedPort(), ReservedPort()
    try:
        assert first.number != second.number
        with socket.socket() as other:
            with pytest.raises(OSError, match="in use") as caught:
                other.bind(("", first.number))
            assert caught.value.errno == errno.EADDRINUSE
        with socket.socket() as nobody, pytest.raises(ConnectionRefusedError):
            nobody.connect(("127.0.0.1", first.number))

        with socket.create_server(("", first.number)):  # it sets SO_REUSEADDR
            socket.create_connection(("127.0.0.1", first.number)).close()
        with socket.create_server(("", first.number)):  # and a second time
            socket.create_connection(("127.0.0.1", first.number)).close()
    finally:
        first.close()
        second.close()
        second.close()
