"""How the paths of our own files begin, whose frames tell a user nothing."""

from __future__ import annotations

import os

OWN_FILES = (
    __file__.rpartition("_core")[0],
    # What was compiled names its source as it lay when that was done: hatch_build.py.
    f"actorlib{os.sep}_",
)
