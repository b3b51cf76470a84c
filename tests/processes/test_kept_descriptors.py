from __future__ import annotations

import os
import select
import socket

import pytest

from actorlib._processes.kept_descriptors import KeptDescriptors


def is_open(reader: int) -> bool:
    """Whether any copy of the writing end of a pipe is open."""
    poller = select.poll()
    poller.register(reader, select.POLLIN)
    return not poller.poll(0)


@pytest.mark.parametrize("count", [1, 450])
def test_descriptors_when_closed_here_then_open_until_others_are_kept_or_the_end(
    count: int,
) -> None:
    kept = KeptDescriptors()
    inherited = kept.end.dup()  # as a template has it
    pipes = [os.pipe() for _ in range(3)]
    readers = [reader for reader, _ in pipes]

    for number, (_, writer) in enumerate(pipes):
        kept.keep([writer] * count)
        os.close(writer)
        assert [is_open(r) for r in readers[: number + 1]] == [False] * number + [True]

    kept.close()
    assert is_open(readers[2])
    inherited.close()
    assert not is_open(readers[2])
    for reader in readers:
        os.close(reader)


def test_keep_when_refused_then_the_error_says_so_and_later_ones_are_kept() -> None:
    kept = KeptDescriptors()
    ours, theirs = socket.socketpair()
    with pytest.raises(OSError, match="Bad file descriptor"):
        kept.keep([1 << 20])
    kept.keep([theirs.fileno()])
    theirs.close()
    assert is_open(ours.fileno())
    kept.keep([])
    assert not is_open(ours.fileno())
    ours.close()
    kept.close()
