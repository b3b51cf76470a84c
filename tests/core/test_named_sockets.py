from __future__ import annotations

import os
import socket
import sys
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest

from actorlib._base.named_sockets import (
    AbstractSockets,
    FolderSockets,
    NamedSockets,
    close_listener,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

KIND = "actorlib-test-"


@pytest.fixture(params=["abstract", "folder"])
def sockets(request: pytest.FixtureRequest) -> Iterator[NamedSockets]:
    if request.param == "folder":
        # The path of a socket has a hundred letters at the most, which pytest's passes.
        with TemporaryDirectory(prefix="a") as folder:
            yield FolderSockets(KIND, f"{folder}/own")
        return
    if sys.platform != "linux":
        pytest.skip("abstract addresses are Linux's")
    yield AbstractSockets(KIND)


@pytest.fixture
def name() -> str:
    return f"test-{os.getpid()}-{os.urandom(4).hex()}"


def test_name_when_taken_then_it_is_found_and_nobody_else_gets_it(
    sockets: NamedSockets, name: str
) -> None:
    listener, forget = sockets.listen(name)

    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.connect(sockets.place(name))
        assert name in sockets.names()
        with pytest.raises(FileExistsError):
            sockets.listen(name)

    close_listener(listener)
    forget()
    assert name not in sockets.names()


def test_name_when_its_holder_is_gone_then_another_gets_it(
    sockets: NamedSockets, name: str
) -> None:
    first, _ = sockets.listen(name)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.connect(sockets.place(name))
        kept, _ = first.accept()
        first.close()  # as if it was killed: nothing is removed

        # A connection that it has left with somebody has the address, and not the name.
        assert name not in sockets.names()
        second, forget = sockets.listen(name)

        assert name in sockets.names()
        kept.close()
    close_listener(second)
    forget()


def test_names_when_the_folder_is_not_ones_own_then_none_is_taken(
    tmp_path: Path,
) -> None:
    tmp_path.chmod(0o755)
    sockets = FolderSockets(KIND, str(tmp_path))

    with pytest.raises(PermissionError, match="accessible to other users"):
        sockets.listen("service")

    assert sockets.names() == []


def test_names_when_the_table_cannot_be_read_then_there_are_none(
    tmp_path: Path,
) -> None:
    assert AbstractSockets(KIND, str(tmp_path / "none")).names() == []
