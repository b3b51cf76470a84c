"""Keeps a descriptor in reserve, for when a process may open no more of them."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator


class FdReserve:
    """Keeps a descriptor in reserve, for a process that may open no more of them.

    It is closed for as long as it takes to do something with another one.
    """

    _fd = -1

    def reserve(self) -> None:
        """Opens the descriptor in reserve, if there can be one."""
        if self._fd < 0:
            with contextlib.suppress(OSError):
                self._fd = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)

    @contextlib.contextmanager
    def freed(self) -> Generator[None]:
        """Makes room for one more descriptor, unless another thread takes it."""
        self.close()
        try:
            yield
        finally:
            self.reserve()

    def close(self) -> None:
        """Closes the descriptor in reserve."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1
