"""Lists all families, and asks all of them at once for their devices.

A vendor's SDK may raise or hang: that affects only its own family.
"""

from __future__ import annotations

import functools
import sys
from concurrent.futures import Future, wait
from importlib import import_module
from importlib.machinery import PathFinder
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, final

from actorlib._base.public import public
from actorlib._options.kinds import Kind
from actorlib.accelerators.base import Accelerator, Detection

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from importlib.metadata import EntryPoint

    from actorlib.accelerators.host import Host

ENTRY_POINT = "actorlib.accelerators"
"""The group of entry points by which other packages add families."""

_FAKE = "ACTORLIB_FAKE_DEVICES"
"""The variable that asks for fake devices: see ``fake_devices``."""

OURS = {
    "amd": "Amd",
    "intel": "Intel",
    "apple": "Apple",
    "metax": "Metax",
    "nvidia": "Nvidia",
    "neuron": "Neuron",
    "tpu": "Tpu",
    "gaudi": "Gaudi",
    "ascend": "Ascend",
    "rbln": "Rbln",
    "furiosa": "Furiosa",
    "mobilint": "Mobilint",
    "tenstorrent": "Tenstorrent",
}
"""Our families: the file and the class of each. If several families have one kind,
their devices are numbered in this order, which is Ray's order of choice."""


@public("actorlib.accelerators")
@functools.cache
def families() -> tuple[Accelerator, ...]:
    """Returns all known families: ours, then those of installed packages.

    A package adds a family with an entry point of the group ``actorlib.accelerators``
    that names a class derived from Accelerator. A family that cannot be loaded stays in
    the list, and its detection has the reason.

    Example:
        >>> import actorlib.accelerators
        >>> "nvidia" in [one.family for one in actorlib.accelerators.families()]
        True
    """
    ours = [
        getattr(import_module(f"actorlib.accelerators.{file}"), name)()
        for file, name in OURS.items()
    ]
    names = {family.family for family in ours}
    for point in _points():
        family = _loaded(point, names)
        names.add(family.family)
        ours.append(family)
    return tuple(ours)


@public("actorlib.accelerators")
def discover(
    host: Host, asked: Sequence[Accelerator] | None = None, limit: float = 5.0
) -> tuple[Detection, ...]:
    """Asks every family for its devices on this machine, all at once.

    A probe that raises or does not answer affects only its own family, and the reason
    is kept. This blocks, so it belongs in a thread beside an event loop.

    Args:
        host: The machine.
        asked: The families to ask; None for all families. Default: None.
        limit: The time limit in seconds for all of them together. A probe that takes
            longer is abandoned in its daemon thread. Default: 5.0.

    Returns:
        One detection per family, in the order of the families. If the variable
        ``ACTORLIB_FAKE_DEVICES`` is set, no family is asked, and its devices are
        returned.

    Raises:
        ValueError: That variable names devices that cannot exist.
    """
    every = families() if asked is None else asked
    if text := host.environ.get(_FAKE):
        from actorlib.accelerators.fake_devices import fake_detections  # noqa: PLC0415  # rarely used

        try:
            return fake_detections(text, every)
        except ValueError as error:
            raise ValueError(f"{_FAKE}={error}") from None
    probes = [_start(family, host) for family in every]
    wait(probes, timeout=limit)
    return tuple(
        probe.result()
        if probe.done()
        else _nothing(family, host, f"no answer within {limit:g} s")
        for family, probe in zip(every, probes, strict=True)
    )


def _points() -> tuple[EntryPoint, ...]:
    # The module that reads entry points takes as long to import as all our families
    # together, and there are nearly always none.
    if not _may_have_points():
        return ()
    metadata = import_module("importlib.metadata")
    return tuple(metadata.entry_points(group=ENTRY_POINT))


def _may_have_points() -> bool:
    """Whether an installed package may have an entry point of our group.

    Metadata are usually in folders on the path. Where they may be elsewhere, in an
    archive or behind a custom finder, the answer is yes: then they are read properly.
    """
    others = (finder for finder in sys.meta_path if finder is not PathFinder)
    if any(hasattr(finder, "find_distributions") for finder in others):
        return True
    try:
        return any(map(_may_name_points, map(Path, sys.path)))
    except OSError:
        return True


def _may_name_points(root: Path) -> bool:
    return root.is_file() or any(
        ENTRY_POINT in file.read_text(encoding="utf-8", errors="replace")
        for kind in ("*.dist-info", "*.egg-info", "EGG-INFO")
        for file in root.glob(f"{kind}/entry_points.txt")
    )


def _start(family: Accelerator, host: Host) -> Future[Detection]:
    # No pool: it joins its threads when the interpreter ends, and a probe that hangs
    # in a driver would block the exit.
    probe: Future[Detection] = Future()
    Thread(
        target=lambda: probe.set_result(_detect(family, host)),
        name=f"actorlib-detect-{family.family}",
        daemon=True,
    ).start()
    return probe


def _detect(family: Accelerator, host: Host) -> Detection:
    try:
        detection = family.detect(host)
        _check(family, detection)
    except (Exception, SystemExit) as error:  # noqa: BLE001  # a vendor's fault
        return _nothing(family, host, f"{type(error).__name__}: {error}")
    return detection


def _check(family: Accelerator, detection: Detection) -> None:
    """Checks that a family returns only devices with its own name and kind.

    Raises:
        ValueError: It does not.
    """
    own = (family.family, family.kind.name)
    others = {(detection.family, own[1])}
    for other in others.union((d.family, d.kind) for d in detection.devices):
        if other != own:
            raise ValueError(f"detect() of {own} answers for {other}")


def _nothing(family: Accelerator, host: Host, reason: str) -> Detection:
    """Returns a failed probe, with the owner's mask for declared devices."""
    try:
        mask = family.mask(host.environ)
    except Exception as error:  # noqa: BLE001  # a vendor's fault
        mask, reason = None, f"{reason}; {type(error).__name__}: {error}"
    if mask is None:
        return Detection(family=family.family, reason=reason)
    return Detection(
        family=family.family, outer=mask.entries, said=mask.said, reason=reason
    )


def _loaded(point: EntryPoint, names: Collection[str]) -> Accelerator:
    try:
        family = point.load()()
        if not isinstance(family, Accelerator):
            why = f"{point.value} is not an Accelerator"
        elif not (
            family.family and family.kind.name and hasattr(family, "visible_env")
        ):
            why = f"{point.value} lacks a family, a kind or a visible_env"
        elif family.family in names:
            why = f"there is a family {family.family!r} already"
        else:
            return family
    except (Exception, SystemExit) as error:  # noqa: BLE001  # another package's fault
        why = f"{type(error).__name__}: {error}"
    return _Unloadable(point, why, names)


@final
class _Unloadable(Accelerator):
    """Replaces a family of a package that cannot be loaded.

    Its kind is unknown, so it has no name and counts nothing.
    """

    family = ""
    kind = Kind("")
    visible_env = ""

    def __init__(self, point: EntryPoint, why: str, names: Collection[str]) -> None:
        whole = f"{point.name} = {point.value}"
        name = whole if point.name in names else point.name
        self.family = name  # type: ignore[misc]  # each instance has its own
        self._why = f"entry point {whole}: {why}"

    def detect(self, host: Host) -> Detection:  # noqa: ARG002
        """Returns no devices, and the reason."""
        return Detection(family=self.family, reason=self._why)
