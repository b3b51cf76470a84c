"""Rebellions' NPUs, found in ``/dev`` and masked by ``RBLN_DEVICES``.

The variable has two names. Ray and older SDKs use ``RBLN_DEVICES``; newer SDKs (0.11.1)
also have ``RBLN_VISIBLE_DEVICES``, and the newer vLLM plugin reads only that. Both are
written, with one value. As the owner's mask the older name has precedence (which of two
different ones the SDK follows is not documented). The container toolkit writes ``all``
to the newer one, which hides nothing.

An entry counts the files ``/dev/rbln<n>`` that exist here, and not their numbers: in a
container with ``rbln4`` to ``rbln7`` they are 0 to 3. This is measured in the tests of
Rebellions' own vLLM plugin; on a whole machine both are the same.

An empty variable hides nothing from the vendor's software, but a number that no machine
has hides everything; the tests of torch-rbln rely on it, and so does this module.

The driver has model and memory in ``/sys/class/rebellions``, where a container sees
every card of the machine. That ``device`` there leads to the PCI address, as with other
drivers, could not be verified.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from actorlib._options.kinds import RBLN
from actorlib.accelerators.base import Accelerator, Detection, Device
from actorlib.accelerators.files import find_files, read_pci
from actorlib.accelerators.masks import Mask, read_mask
from actorlib.accelerators.type_names import of_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from actorlib.accelerators.host import Host

_ALIAS = "RBLN_VISIBLE_DEVICES"
_NO_SUCH = "99999"
_CLASS = "/sys/class/rebellions/rbln"


@final
class Rbln(Accelerator):
    """Rebellions' family: whole cards."""

    family = "rbln"
    kind = RBLN
    visible_env = "RBLN_DEVICES"
    nosets = (
        "RAY_EXPERIMENTAL_NOSET_RBLN_RT_VISIBLE_DEVICES",
        "RAY_EXPERIMENTAL_NOSET_RBLN_DEVICES",
    )

    def detect(self, host: Host) -> Detection:
        """Lists the cards whose device files exist here and may be opened."""
        files = find_files(host, "/dev/rbln", _CLASS)
        cards = [
            _card(host, place, *file)
            for place, file in enumerate(files.present)
            if file in files.usable
        ]
        return self.select(cards, host.environ, rejected=files.rejected)

    def mask(self, environ: Mapping[str, str]) -> Mask | None:
        """Reads the owner's mask from the first name that has a value."""
        alias = environ.get(_ALIAS)
        if self.visible_env in environ or alias in {None, "", "all"}:
            return super().mask(environ)
        return read_mask(_ALIAS, alias, self.syntax)

    def environment(
        self,
        devices: Sequence[Device],
        environ: Mapping[str, str],
        every: Sequence[Device],
    ) -> dict[str, str | None]:
        """Writes both names; a number that no machine has hides every card."""
        mask = super().environment(devices, environ, every)[self.visible_env]
        return dict.fromkeys((self.visible_env, _ALIAS), mask or _NO_SUCH)


def _card(host: Host, place: int, number: int, path: str) -> Device:
    folder = f"{_CLASS}{number}"
    model = host.read_word(f"{folder}/card_name")
    return Device(
        family=Rbln.family,
        kind=Rbln.kind.name,
        id=str(place),
        pci=read_pci(host, f"{folder}/device").address,
        model=model,
        type=of_name(model),
        memory=host.read_number(f"{folder}/dram_total"),
        source=path,
    )
