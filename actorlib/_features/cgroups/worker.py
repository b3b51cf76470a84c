"""Has a worker join the cgroup that holds it to what its actor asked for.

It does so itself, before any of the user's code is imported: nobody else knows when
that is, and what it starts from there on is in the cgroup as well.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from actorlib.exceptions import EnforcementRefused

if TYPE_CHECKING:
    from collections.abc import Mapping


def prepare(files: Mapping[str, str]) -> None:
    """Makes a cgroup, sets its limits and moves this process there.

    Args:
        files: What to write, by absolute path, in order; all in the folder that is to
            be made.

    Raises:
        EnforcementRefused: The kernel refuses it.
    """
    folder = os.path.dirname(next(iter(files)))  # noqa: PTH120  # no pathlib in workers
    path = folder
    try:
        os.makedirs(folder, exist_ok=True)  # noqa: PTH103
        for path, text in files.items():
            descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
            try:
                os.write(descriptor, text.encode())
            finally:
                os.close(descriptor)
    except OSError as error:
        raise EnforcementRefused(
            f"enforcement='cgroup': {path} cannot be written: {error.strerror}"
        ) from error
