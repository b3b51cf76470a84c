"""The GPU of Apple silicon, which nothing can hide and nothing can select.

Such a Mac has one GPU, on the chip of its CPUs and with their memory. Metal has no
visibility variable, so an actor is told its id and its environment is left alone. The
chip's name is the processor's; ``system_profiler`` could tell more, and takes seconds.

Its memory stays unknown: it is the machine's, and what of it Metal lets the GPU have
is said by Metal alone. An Intel Mac has no GPU in Ray's eyes, and none in ours.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, final

from actorlib._options.kinds import GPU
from actorlib.accelerators.base import Accelerator, Detection, Device

if TYPE_CHECKING:
    from actorlib.accelerators.host import Host

_CHIP = re.compile(r"Apple (M\d+)(?: (Pro|Max|Ultra))?\b")
"""``Apple M2 Pro``; a virtual machine adds a word: ``Apple M1 (Virtual)``."""


@final
class Apple(Accelerator):
    """Apple's family: the one GPU of an Apple silicon Mac."""

    family = "apple"
    kind = GPU
    visible_env = ""

    def detect(self, host: Host) -> Detection:
        """Finds the GPU of the chip, if this is an Apple silicon Mac."""
        if (host.system, host.architecture) != ("darwin", "arm64"):
            return Detection(family=self.family)
        told = host.output("sysctl", "-n", "machdep.cpu.brand_string") or ""
        chip = _CHIP.search(told)
        gpu = Device(
            family=self.family,
            kind=self.kind.name,
            index=0,
            id="0",
            model=told.strip() or None,
            type="-".join(filter(None, chip.groups())) if chip else None,
            integrated=True,
            source="sysctl machdep.cpu.brand_string",
        )
        return self.select([gpu], host.environ)
