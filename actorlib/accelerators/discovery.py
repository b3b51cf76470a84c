"""Lists all families, and asks them side by side what they have on this machine.

A vendor's SDK may raise or hang: that costs its own family, and no other.
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
"""The variable that has devices made up: see ``fake_devices``."""

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
"""Our families: the file and the class of each. Where several count as one kind, their
devices are numbered in this order, which is the one in which Ray would choose."""


@public("actorlib.accelerators")
@functools.cache
def families() -> tuple[Accelerator, ...]:
    """Returns every family that is known: ours, then those of installed packages.

    A package adds one with an entry point of the group ``actorlib.accelerators`` that
    names a class derived from Accelerator. One that cannot be loaded stays in the list
    and tells why when it is asked what it has.

    Example:
        >>> import actorlib.accelerators
        >>> "nvidia" in [one.family for one in actorlib.accelerators.families()]
        True
    """
    ours = [
        getattr(import_module(f"actorlib.accelerators.{file}"), name)()
        for file, name in OURS.items()
    ]
    known = {family.family for family in ours}
    for point in _points():
        family = _loaded(point, known)
        known.add(family.family)
        ours.append(family)
    return tuple(ours)


@public("actorlib.accelerators")
def discover(
    host: Host, asked: Sequence[Accelerator] | None = None, limit: float = 5.0
) -> tuple[Detection, ...]:
    """Asks every family what it has on this machine, side by side.

    A probe that raises or does not answer costs its own family and no other, and the
    reason is kept. It blocks, so it belongs in a thread beside an event loop.

    Args:
        host: The machine.
        asked: Whom to ask; None for every family. Default: None.
        limit: How many seconds all of them have together. A probe that takes longer is
            left behind in its daemon thread. Default: 5.0.

    Returns:
        One detection per family, in the order of the families. Nobody is asked where
        the variable ``ACTORLIB_FAKE_DEVICES`` says what there is to be.

    Raises:
        ValueError: That variable names what there cannot be.
    """
    every = families() if asked is None else asked
    if said := host.environ.get(_FAKE):
        from actorlib.accelerators.fake_devices import made_up  # noqa: PLC0415  # few ask

        try:
            return made_up(said, every)
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
    # together, and nearly always to find nothing.
    if not _is_any_promised():
        return ()
    metadata = import_module("importlib.metadata")
    return tuple(metadata.entry_points(group=ENTRY_POINT))


def _is_any_promised() -> bool:
    """Whether an installed package may have an entry point of our group.

    Its metadata lie in folders on the path. Where they may lie elsewhere, in an archive
    or with a finder of its own, the answer is yes: then they have to be read properly.
    """
    others = (finder for finder in sys.meta_path if finder is not PathFinder)
    if any(hasattr(finder, "find_distributions") for finder in others):
        return True
    try:
        return any(map(_may_promise, map(Path, sys.path)))
    except OSError:
        return True


def _may_promise(root: Path) -> bool:
    return root.is_file() or any(
        ENTRY_POINT in told.read_text(encoding="utf-8", errors="replace")
        for kind in ("*.dist-info", "*.egg-info", "EGG-INFO")
        for told in root.glob(f"{kind}/entry_points.txt")
    )


def _start(family: Accelerator, host: Host) -> Future[Detection]:
    # No pool: it joins its threads when the interpreter ends, and a probe that hangs
    # in a driver would hold up the exit as well.
    probe: Future[Detection] = Future()
    Thread(
        target=lambda: probe.set_result(_detect(family, host)),
        name=f"actorlib-detect-{family.family}",
        daemon=True,
    ).start()
    return probe


def _detect(family: Accelerator, host: Host) -> Detection:
    try:
        found = family.detect(host)
        _check(family, found)
    except (Exception, SystemExit) as error:  # noqa: BLE001  # a vendor's fault is its own
        return _nothing(family, host, f"{type(error).__name__}: {error}")
    return found


def _check(family: Accelerator, found: Detection) -> None:
    """Holds a family to its own name and kind, by which all others find its devices.

    Raises:
        ValueError: What was found is somebody else's.
    """
    own = (family.family, family.kind.name)
    for said in {(found.family, own[1]), *((d.family, d.kind) for d in found.devices)}:
        if said != own:
            raise ValueError(f"detect() of {own} answers for {said}")


def _nothing(family: Accelerator, host: Host, reason: str) -> Detection:
    """Returns a failed probe; the owner's mask holds for what is declared, too."""
    try:
        mask = family.mask(host.environ)
    except Exception as error:  # noqa: BLE001  # a vendor's fault is its own
        mask, reason = None, f"{reason}; {type(error).__name__}: {error}"
    if mask is None:
        return Detection(family=family.family, reason=reason)
    return Detection(
        family=family.family, outer=mask.entries, said=mask.said, reason=reason
    )


def _loaded(point: EntryPoint, known: Collection[str]) -> Accelerator:
    try:
        family = point.load()()
        if not isinstance(family, Accelerator):
            why = f"{point.value} is no Accelerator"
        elif not (
            family.family and family.kind.name and hasattr(family, "visible_env")
        ):
            why = f"{point.value} lacks a family, a kind or a visible_env"
        elif family.family in known:
            why = f"there is a family {family.family!r} already"
        else:
            return family
    except (Exception, SystemExit) as error:  # noqa: BLE001  # a stranger's fault
        why = f"{type(error).__name__}: {error}"
    return _Unloadable(point, why, known)


@final
class _Unloadable(Accelerator):
    """Stands for a family that a package promises and that cannot be loaded.

    Its kind has no name and counts nothing: what it would have been is not known.
    """

    family = ""
    kind = Kind("")
    visible_env = ""

    def __init__(self, point: EntryPoint, why: str, known: Collection[str]) -> None:
        whole = f"{point.name} = {point.value}"
        name = whole if point.name in known else point.name
        self.family = name  # type: ignore[misc]  # each instance has its own
        self._why = f"entry point {whole}: {why}"

    def detect(self, host: Host) -> Detection:  # noqa: ARG002
        """Finds nothing, and says why."""
        return Detection(family=self.family, reason=self._why)
