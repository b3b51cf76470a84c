"""All families are asked side by side, and strangers' families are held to theirs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from textwrap import dedent
from typing import TYPE_CHECKING, Protocol, final

import pytest
from helpers.host import RecordedHost
from helpers.nvml import Card, nvidia_host

from actorlib._options.kinds import UNITS, Kind
from actorlib.accelerators import (
    Accelerator,
    Detection,
    Device,
    Lease,
    Share,
    accelerator_ids,
    discover,
    environment,
    families,
    inventory,
)
from actorlib.accelerators.nvidia import Nvidia

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from actorlib.accelerators import Host, Mask

A = Card(uuid="GPU-aaa")


def nothing() -> None:
    """A probe without surprises."""


@final
class Other(Accelerator):
    """A family that does as it is told."""

    family = "other"
    kind = Kind("OTHER")
    visible_env = "OTHER_VISIBLE"

    def __init__(
        self,
        *,
        ids: tuple[str, ...] = (),
        kind: str = "OTHER",
        probe: Callable[[], object] = nothing,
        reader: Callable[[], object] = nothing,
    ) -> None:
        self._ids = ids
        self._kind = kind
        self._probe = probe
        self._reader = reader

    def detect(self, host: Host) -> Detection:
        self._probe()
        found = [
            Device(family=self.family, kind=self._kind, index=0, id=name)
            for name in self._ids
        ]
        return self.select(found, host.environ)

    def mask(self, environ: Mapping[str, str]) -> Mask | None:
        self._reader()
        return super().mask(environ)


def fail() -> None:
    raise RuntimeError("card on fire")


def leave() -> None:
    sys.exit("the SDK is not happy here")


@pytest.fixture
def held() -> Iterator[threading.Event]:
    """An event to hang on, which lets go when the test is over."""
    event = threading.Event()
    yield event
    event.set()


def test_import_when_the_room_is_loaded_then_no_family_and_no_sdk_is() -> None:
    late = {"pynvml", "actorlib.accelerators.nvidia"}
    code = (
        f"import sys, actorlib.accelerators; sys.exit(bool({late} & set(sys.modules)))"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_families_when_listed_then_each_has_its_own_name_and_an_opt_out() -> None:
    every = families()

    assert len({family.family for family in every}) == len(every) >= 13
    for family in every:
        assert bool(family.nosets) is bool(family.visible_env)
    gpus = [family.family for family in every if family.kind.name == "GPU"]
    assert gpus == ["amd", "intel", "apple", "metax", "nvidia"]  # Ray's order


def test_discover_when_all_answer_then_one_detection_each_in_order() -> None:
    found = discover(nvidia_host(A), (Other(ids=("0", "1")), Nvidia()))

    assert [detection.family for detection in found] == ["other", "nvidia"]
    assert [len(detection.devices) for detection in found] == [2, 1]


@pytest.mark.parametrize(
    ("probe", "reason"),
    [
        (fail, "RuntimeError: card on fire"),
        (leave, "SystemExit: the SDK is not happy here"),
        (None, "no answer within 0.2 s"),  # it hangs
    ],
)
def test_discover_when_a_probe_fails_then_only_its_family_is_lost(
    held: threading.Event, probe: Callable[[], object] | None, reason: str
) -> None:
    host = nvidia_host(A, environ={"OTHER_VISIBLE": "1,3"})
    limit = 0.2 if probe is None else 5.0

    other, nvidia = discover(host, (Other(probe=probe or held.wait), Nvidia()), limit)

    assert other == Detection(
        family="other", outer=("1", "3"), said="OTHER_VISIBLE='1,3'", reason=reason
    )
    assert len(nvidia.devices) == 1
    left = [t for t in threading.enumerate() if t.name == "actorlib-detect-other"]
    assert [thread.daemon for thread in left] == [True] * (probe is None)


def test_discover_when_its_mask_cannot_be_read_either_then_both_are_told() -> None:
    (found,) = discover(RecordedHost(), (Other(probe=leave, reader=fail),))

    assert found == Detection(
        family="other",
        reason="SystemExit: the SDK is not happy here; RuntimeError: card on fire",
    )


def test_discover_when_a_family_answers_for_another_kind_then_it_is_not_believed() -> (
    None
):
    (found,) = discover(RecordedHost(), (Other(ids=("0",), kind="GPU"),))

    assert found.devices == ()
    assert "answers for ('other', 'GPU')" in found.reason


class Install(Protocol):
    """Installs a package of one module into this interpreter's path."""

    def __call__(self, module: str, source: str, **points: str) -> None:
        """Makes it.

        Args:
            module: The module's name, which is the package's as well.
            source: What is in it.
            **points: Its entry points: classes by name.
        """


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Packages that are installed until the test is over."""
    installed: list[str] = []

    def make(module: str, source: str, **points: str) -> None:
        (tmp_path / f"{module}.py").write_text(dedent(source))
        told = tmp_path / f"{module}-1.0.dist-info"
        told.mkdir()
        (told / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n"
        )
        lines = [f"{name} = {module}:{value}" for name, value in points.items()]
        (told / "entry_points.txt").write_text(
            "\n".join(["[actorlib.accelerators]", *lines])
        )
        installed.append(module)
        families.cache_clear()

    monkeypatch.syspath_prepend(str(tmp_path))
    yield make
    families.cache_clear()
    for module in installed:
        sys.modules.pop(module, None)


ACME = """
    from actorlib.accelerators import Accelerator, Device, Kind

    class Acme(Accelerator):
        family = "acme"
        kind = Kind("ACME", divisible=False)
        visible_env = "ACME_VISIBLE"

        def detect(self, host):
            paths = [p for p in host.glob("/dev/acme[0-9]*") if host.can_open(p)]
            found = [
                Device(family="acme", kind="ACME", index=0, id=p[len("/dev/acme"):])
                for p in paths
            ]
            return self.select(found, host.environ)
"""


def test_family_when_a_package_brings_it_then_it_is_one_like_ours(
    install: Install,
) -> None:
    install("acme_npu", ACME, acme="Acme")
    devices = {"/dev/acme0": True, "/dev/acme1": False, "/dev/acme2": True}
    host = RecordedHost(devices=devices)

    known = inventory(discover(host), {})

    assert [device.id for device in known.devices["ACME"]] == ["0", "2"]
    assert known.kinds["ACME"].fault(5_000) == "ACME is given in whole ones. Ask 1"
    lease = Lease(amounts={}, shares=(Share(known.devices["ACME"][1], UNITS),))
    assert accelerator_ids(lease, known)["ACME"] == [2]
    assert environment(lease, known, hide=True, environ={}) == {"ACME_VISIBLE": "2"}
    switch = {"RAY_EXPERIMENTAL_NOSET_ACME_VISIBLE": "1"}
    assert environment(lease, known, hide=True, environ=switch) == {}


def test_family_when_a_package_brings_it_then_it_can_be_masked_and_declared(
    install: Install,
) -> None:
    install("acme_npu", ACME, acme="Acme")
    found = discover(RecordedHost(environ={"ACME_VISIBLE": "4,7"}))

    assert [d.id for d in inventory(found, {"ACME": 2}).devices["ACME"]] == ["4", "7"]
    with pytest.raises(ValueError, match="3 ACME declared, but ACME_VISIBLE"):
        inventory(found, {"ACME": 3})


def in_another_interpreter(path: str, asked: str) -> str:
    """What a fresh interpreter with this on its path prints of an expression."""
    code = f"import sys; from actorlib.accelerators import families; print({asked})"
    path = os.pathsep.join([path, *filter(None, sys.path)])
    ended = subprocess.run(
        [sys.executable, "-S", "-c", code],
        check=True,
        env={"PYTHONPATH": path},
        stdout=subprocess.PIPE,
        text=True,
    )
    return ended.stdout.strip()


def test_family_when_its_package_is_an_archive_then_it_is_found_all_the_same(
    install: Install, tmp_path: Path
) -> None:
    install("acme_zipped", ACME, acme="Acme")
    archive = shutil.make_archive(str(tmp_path.parent / "acme"), "zip", tmp_path)
    assert in_another_interpreter(archive, "families()[-1].family") == "acme"


def test_families_when_no_package_brings_one_then_metadata_are_not_imported(
    install: Install, tmp_path: Path
) -> None:
    install("acme_other", "", nothing="x")
    told = tmp_path / "acme_other-1.0.dist-info" / "entry_points.txt"
    told.write_text("[console_scripts]\nacme = acme_other:main\n")

    asked = "len(families()), 'importlib.metadata' in sys.modules"
    assert in_another_interpreter(str(tmp_path), asked) == "13 False"


BROKEN = """
    from actorlib.accelerators import Accelerator, Detection, Kind

    class NoAccelerator:
        pass

    class NoDetect(Accelerator):
        family, kind, visible_env = "nd", Kind("ND"), ""

    class NoKind(Accelerator):
        family, visible_env = "nk", ""
        def detect(self, host): ...

    class NoEnv(Accelerator):
        family, kind = "ne", Kind("NE")
        def detect(self, host): ...

    class Taken(Accelerator):
        family, kind, visible_env = "nvidia", Kind("GPU"), "X"
        def detect(self, host): ...

    class Silent(Accelerator):
        family, kind, visible_env = "broken", Kind("SI"), ""
        def detect(self, host): ...
"""


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("Missing", "AttributeError: module 'acme_bad' has no attribute 'Missing'"),
        ("NoAccelerator", "acme_bad:NoAccelerator is not an Accelerator"),
        ("NoDetect", "TypeError: Can't instantiate abstract class NoDetect"),
        ("NoKind", "AttributeError: 'NoKind' object has no attribute 'kind'"),
        ("NoEnv", "acme_bad:NoEnv lacks a family, a kind or a visible_env"),
        ("Taken", "there is a family 'nvidia' already"),
        ("Silent", "AttributeError: 'NoneType' object has no attribute 'family'"),
    ],
)
def test_family_when_it_is_broken_then_it_costs_itself_alone_and_tells_why(
    install: Install, value: str, why: str
) -> None:
    ours = [family.family for family in families()]
    install("acme_bad", BROKEN, broken=value)
    install("acme_npu", ACME, acme="Acme")

    found = discover(RecordedHost(devices={"/dev/acme0": True}))

    by_family = {detection.family: detection for detection in found}
    assert set(by_family) == {*ours, "broken", "acme"}
    assert why in by_family["broken"].reason
    assert by_family["broken"].devices == ()
    known = inventory(found, {})
    assert len(known.devices["ACME"]) == 1
    assert "" not in {*known.devices, *known.kinds}


def test_family_when_its_module_cannot_be_imported_then_it_tells_why(
    install: Install,
) -> None:
    install("acme_gone", "import acme_runtime_that_is_not_here", nvidia="Gone")

    found = discover(RecordedHost())

    assert found[-1].family == "nvidia = acme_gone:Gone"
    assert found[-1].reason == (
        "entry point nvidia = acme_gone:Gone: ModuleNotFoundError: "
        "No module named 'acme_runtime_that_is_not_here'"
    )
