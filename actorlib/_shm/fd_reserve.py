"""A descriptor in reserve."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator


class FdReserve:
    """A descriptor in reserve, for a process that may open no more of them.

    It is given up for as long as it takes to do something with another one.
    """

    def __init__(self) -> None:
        self._fd = -1

    def reserve(self) -> None:
        """Opens it, if it can be."""
        if self._fd < 0:
            with contextlib.suppress(OSError):
                self._fd = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)

    @contextlib.contextmanager
    def lent(self) -> Generator[None]:
        """While one more can be opened, unless another thread is quicker."""
        self.close()
        try:
            yield
        finally:
            self.reserve()

    def close(self) -> None:
        """Gives it up."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1
