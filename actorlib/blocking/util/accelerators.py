"""The names of models of devices, for ``accelerator_type``."""

from actorlib.accelerators.types import *  # noqa: F403  # all of them
