"""The limit of open files is the program's: it is raised while workers need it."""

from __future__ import annotations

import resource
from typing import TYPE_CHECKING

import pytest

from actorlib._processes.fd_limit import FdLimit

if TYPE_CHECKING:
    from collections.abc import Iterator


def soft() -> int:
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def set_soft(limit: int) -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))


@pytest.fixture(autouse=True)
def original() -> Iterator[None]:
    before, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 <= hard < 8192:
        pytest.skip("the hard limit of open files is low")
    set_soft(1024)
    yield
    set_soft(before)


def test_limit_when_many_workers_need_more_then_raised_and_restored() -> None:
    limit = FdLimit()
    limit.raise_to(100)
    assert soft() == 1024
    limit.raise_to(1500)
    assert soft() == 2048
    limit.restore()
    assert soft() == 1024


@pytest.mark.parametrize("needed", [100, 1500])
def test_limit_when_the_program_has_raised_it_then_it_is_not_lowered(
    needed: int,
) -> None:
    limit = FdLimit()
    limit.raise_to(needed)
    set_soft(4096)
    limit.raise_to(3000)
    assert soft() == 4096
    limit.raise_to(5000)
    assert soft() >= 5000
    limit.restore()
    assert soft() == 4096
