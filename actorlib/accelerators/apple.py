"""The GPU of Apple silicon, which cannot be hidden or selected.

Such a Mac has one GPU, on the chip of its CPUs, which shares their memory. Metal has no
visibility variable, so an actor gets the id, and its environment is not changed. The
chip's name is the processor's. ``system_profiler`` knows more, but takes seconds.

Its memory is unknown: it is the machine's, and only Metal knows how much of it the GPU
may use. An Intel Mac has no GPU for Ray, and none here.
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
        """Returns the GPU of the chip, if this is an Apple silicon Mac."""
        if (host.system, host.architecture) != ("darwin", "arm64"):
            return Detection(family=self.family)
        name = host.output("sysctl", "-n", "machdep.cpu.brand_string") or ""
        chip = _CHIP.search(name)
        gpu = Device(
            family=self.family,
            kind=self.kind.name,
            id="0",
            model=name.strip() or None,
            type="-".join(filter(None, chip.groups())) if chip else None,
            integrated=True,
            source="sysctl machdep.cpu.brand_string",
        )
        return self.select([gpu], host.environ)
