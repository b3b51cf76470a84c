"""Keeps descriptors open until the workers have ended, even if the owner is killed.

The descriptors are sent into a socket pair, and no process receives them. The template
has the receiving end open, so the kernel keeps what was sent until the template has
ended, and the template ends after all workers. The owner can release them at any time
and does not depend on the template for this: it has the receiving end, too.
"""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from collections.abc import Sequence

_MOST = 200
"""Descriptors in one message; the kernel allows 253 (``SCM_MAX_FD``)."""


@final
class KeptDescriptors:
    """Descriptors that stay open until the template has ended.

    Attributes:
        end: The end of the socket pair that the template has to inherit.

    Raises:
        OSError: The socket pair cannot be created.
    """

    def __init__(self) -> None:
        self._ours, self.end = socket.socketpair()
        for sock in (self._ours, self.end):
            sock.setblocking(False)  # noqa: FBT003  # the socket API
        self._messages = 0

    def keep(self, descriptors: Sequence[int]) -> None:
        """Keeps these descriptors open from now on, and no others.

        Raises:
            OSError: The kernel refuses to keep them. The earlier ones may be kept.
        """
        earlier, self._messages = self._messages, 0
        try:
            for first in range(0, len(descriptors), _MOST):
                part = descriptors[first : first + _MOST]
                socket.send_fds(self._ours, [b"\0"], part)
                self._messages += 1
        finally:
            # The new ones are there before the earlier ones are dropped. A read without
            # room for descriptors closes them.
            for _ in range(earlier):
                self.end.recv(1)

    def close(self) -> None:
        """Closes both ends: only the template keeps the descriptors from now on."""
        for sock in (self._ours, self.end):
            with suppress(OSError):
                sock.close()
