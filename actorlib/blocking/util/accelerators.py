"""What models of devices are called, for ``accelerator_type``."""

from actorlib.accelerators.types import *  # noqa: F403  # every name that there is
