"""What a fork closes of what its parent has open."""

from __future__ import annotations

import gc
import os
import socket
import warnings
from typing import TYPE_CHECKING

import pytest

from actorlib._loops.fork_copies import close_in_forks

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.process


def in_a_fork(check: Callable[[], bool]) -> bool:
    """Whether a check holds in a fork of this process."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # pytest may have threads
        pid = os.fork()
    if not pid:
        os._exit(not check())
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_socket_when_registered_then_forks_close_their_copies_and_keep_others() -> None:
    ours, other = socket.socketpair()
    with ours, other:
        close_in_forks(ours, socket.socket.close)

        assert in_a_fork(lambda: ours.fileno() < 0 <= other.fileno())
        assert ours.fileno() >= 0


def test_socket_when_a_fork_registers_its_own_then_forks_of_that_close_it() -> None:
    def register_own() -> bool:
        ours, other = socket.socketpair()
        close_in_forks(ours, socket.socket.close)
        return in_a_fork(lambda: ours.fileno() < 0 <= other.fileno())

    assert in_a_fork(register_own)


def test_resource_when_nobody_holds_it_then_it_is_not_closed_in_a_fork() -> None:
    class Resource:
        def close(self) -> None:
            os.write(writing, b"closed")

    reading, writing = os.pipe()
    close_in_forks(Resource(), Resource.close)
    gc.collect()

    assert in_a_fork(lambda: True)
    os.close(writing)
    assert os.read(reading, 6) == b""
    os.close(reading)


def test_resources_when_closing_one_raises_then_the_others_are_closed_too() -> None:
    class Resource:
        def close(self) -> None:
            os.write(writing, b"closed ")
            raise OSError("cannot be closed")

    reading, writing = os.pipe()
    resources = [Resource() for _ in range(2)]
    for resource in resources:
        close_in_forks(resource, Resource.close)

    assert in_a_fork(lambda: True)
    os.close(writing)
    assert os.read(reading, 20) == b"closed closed "
    os.close(reading)
