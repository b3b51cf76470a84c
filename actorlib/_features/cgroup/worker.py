"""Moves a worker into the cgroup that limits it to what its actor requested.

The worker does this itself, before any of the user's code is imported: no other process
knows that moment. Everything that the worker starts later is in the cgroup, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actorlib._features.cgroup.files import CgroupFiles
from actorlib.exceptions import EnforcementRefused

if TYPE_CHECKING:
    from collections.abc import Mapping


def prepare(texts: Mapping[str, str]) -> None:
    """Makes a cgroup, sets its limits and moves this process into it.

    Args:
        texts: The text of each file by its absolute path, in order. All files are in
            the folder of the new cgroup.

    Raises:
        EnforcementRefused: The kernel refuses it.
    """
    files = CgroupFiles()
    path = next(iter(texts)).rpartition("/")[0]
    try:
        files.make(path)
        for path, text in texts.items():
            files.write(path, text)
    except OSError as error:
        raise EnforcementRefused(
            f"enforcement='cgroup': {path} cannot be written: {error.strerror}"
        ) from error
