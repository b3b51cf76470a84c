"""Parts of shared memory as memory of this process's own, copied where it is written.

Whoever gets an array sees it read-only, as NumPy can say so. A library that cannot (to
write to such memory would end the process) gets its own mapping of the same pages: the
kernel copies those that are written, and nobody else sees it.
"""

from __future__ import annotations

import mmap
from typing import TYPE_CHECKING

from actorlib._wire.exports import at, file_of
from actorlib._wire.mapping import COPY, Mapping

if TYPE_CHECKING:
    from actorlib._wire.shared import Buffer


def writable(view: memoryview) -> Buffer:
    """The bytes of a view in memory that may be written, and that nobody else sees.

    Args:
        view: Contiguous bytes. What it shows is held for as long as the result lives.

    Returns:
        A private mapping of the same pages where there can be one, else a copy.
    """
    if not view.readonly:
        return view
    found = file_of(view)
    if found is not None:
        file, start = found
        page = start // mmap.ALLOCATIONGRANULARITY * mmap.ALLOCATIONGRANULARITY
        try:
            mapping = Mapping(file.fd, page, start - page + view.nbytes, COPY)
        except OSError:  # closed, or no room for more mappings: a copy costs more
            pass
        else:
            return at(mapping.address + start - page, view.nbytes, mapping, view)
    return bytearray(view)
