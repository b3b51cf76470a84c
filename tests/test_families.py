from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from helpers.actors import end_of, running
from helpers.machines import Pretend, asking, changes_in, held_by, looking

from actorlib._options.kinds import KINDS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

pytestmark = pytest.mark.memory


def chips(names: str, bounds: str, port: int) -> dict[str, str]:
    """What libtpu is told for a part of a host."""
    return {
        "TPU_VISIBLE_CHIPS": names,
        "TPU_VISIBLE_DEVICES": names,
        "TPU_CHIPS_PER_HOST_BOUNDS": bounds,
        "TPU_CHIPS_PER_PROCESS_BOUNDS": bounds,
        "TPU_HOST_BOUNDS": "1,1,1",
        "TPU_PROCESS_BOUNDS": "1,1,1",
        "TPU_PROCESS_PORT": str(port),
        "TPU_PROCESS_ADDRESSES": f"localhost:{port}",
        "CLOUD_TPU_TASK_ID": "0",
        "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
    }


def oneapi(mask: str, selector: str) -> dict[str, str]:
    return {
        "ZE_AFFINITY_MASK": mask,
        "ONEAPI_DEVICE_SELECTOR": selector,
        "ZE_FLAT_DEVICE_HIERARCHY": "FLAT",
        "ZE_ENABLE_PCI_ID_DEVICE_ORDER": "1",
    }


@dataclass(frozen=True, kw_only=True)
class Family:
    """A machine of one family, and what its actors are to see.

    ``first`` and ``second`` are the ids of two actors with as many devices each;
    ``opened`` is all that the family writes for either, ``hidden`` for an actor that
    asked for nothing.
    """

    machine: str
    kind: str = "GPU"
    type: str | None
    first: list[str] = field(default_factory=lambda: ["0"])
    second: list[str] = field(default_factory=lambda: ["1"])
    opened: tuple[Mapping[str, str], Mapping[str, str]]
    hidden: Mapping[str, str]


def plain(variable: str, first: str = "0", second: str = "1") -> Any:
    return ({variable: first}, {variable: second})


CUDA_ORDER = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
MACA_ORDER = {"MACA_DEVICE_ORDER": "PCI_BUS_ID"}

FAMILIES = [
    Family(
        machine="nvidia_h100x8",
        type="H100",
        opened=(
            {"CUDA_VISIBLE_DEVICES": "0", **CUDA_ORDER},
            {"CUDA_VISIBLE_DEVICES": "1", **CUDA_ORDER},
        ),
        hidden={"CUDA_VISIBLE_DEVICES": ""},
    ),
    Family(
        machine="amd_mi300x",
        type="AMD-Instinct-MI300X-OAM",
        # HIP counts what ROCr's mask left: the same number in both shows nothing.
        opened=(
            {"ROCR_VISIBLE_DEVICES": "0", "HIP_VISIBLE_DEVICES": "0"},
            {"ROCR_VISIBLE_DEVICES": "1", "HIP_VISIBLE_DEVICES": "0"},
        ),
        hidden={"ROCR_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": ""},
    ),
    Family(
        machine="intel_max1550",
        type="Intel-GPU-Max-1550",
        first=["0", "1"],
        second=["2", "3"],
        opened=(oneapi("0,1", "level_zero:0,1"), oneapi("2,3", "level_zero:0,1")),
        hidden={"ZE_AFFINITY_MASK": "9999", "ONEAPI_DEVICE_SELECTOR": "!level_zero:*"},
    ),
    Family(
        machine="metax_c500",
        type="MXC500",
        opened=(
            {"CUDA_VISIBLE_DEVICES": "0", **MACA_ORDER},
            {"CUDA_VISIBLE_DEVICES": "1", **MACA_ORDER},
        ),
        hidden={"CUDA_VISIBLE_DEVICES": "", "MACA_VISIBLE_DEVICES": ""},
    ),
    Family(
        machine="tpu_v5e",
        kind="TPU",
        type="TPU-V5LITEPOD",
        first=["0", "1"],
        second=["2", "3"],
        opened=(chips("0,1", "1,2,1", 8476), chips("2,3", "1,2,1", 8478)),
        hidden={
            "TPU_VISIBLE_CHIPS": "",
            "TPU_VISIBLE_DEVICES": "",
            "JAX_PLATFORMS": "cpu",
            "PJRT_DEVICE": "CPU",
        },
    ),
    Family(
        machine="neuron_inf2",
        kind="neuron_cores",
        type="aws-neuron-core",
        first=["0", "1"],
        second=["4", "5"],  # the device between them may not be opened
        opened=plain("NEURON_RT_VISIBLE_CORES", "0,1", "4,5"),
        hidden={"NEURON_RT_VISIBLE_CORES": ""},
    ),
    Family(
        machine="gaudi2",
        kind="HPU",
        type="Intel-GAUDI2",
        first=["0", "1"],
        second=["2", "3"],
        opened=plain("HABANA_VISIBLE_MODULES", "0,1", "2,3"),
        hidden={"HABANA_VISIBLE_MODULES": ""},
    ),
    Family(
        machine="ascend_910b",
        kind="NPU",
        type="Ascend910B",
        opened=plain("ASCEND_RT_VISIBLE_DEVICES"),
        hidden={"ASCEND_RT_VISIBLE_DEVICES": ""},
    ),
    Family(
        machine="rbln",
        kind="RBLN",
        type="RBLN-CA22",
        opened=(
            {"RBLN_DEVICES": "0", "RBLN_VISIBLE_DEVICES": "0"},
            {"RBLN_DEVICES": "1", "RBLN_VISIBLE_DEVICES": "1"},
        ),
        hidden={"RBLN_DEVICES": "99999", "RBLN_VISIBLE_DEVICES": "99999"},
    ),
    Family(
        machine="furiosa",
        kind="FURIOSA",
        type="FURIOSA_RNGD",
        opened=plain("FURIOSA_DEVICES", "npu:0", "npu:1"),
        hidden={"FURIOSA_DEVICES": ""},
    ),
    Family(
        machine="mobilint",
        kind="MBLT",
        type="MOBILINT_ARIES",
        second=["2"],  # the card between them may not be opened
        opened=plain("QBRUNTIME_VISIBLE_DEVICES", "0", "2"),
        hidden={"QBRUNTIME_VISIBLE_DEVICES": ""},
    ),
    Family(
        machine="tenstorrent",
        kind="TTNPU",
        type=None,
        opened=plain("TT_VISIBLE_DEVICES"),
        hidden={"TT_VISIBLE_DEVICES": ""},
    ),
]

each_family = pytest.mark.parametrize(
    "family", FAMILIES, ids=[family.machine for family in FAMILIES]
)


# One family.


@each_family
async def test_actors_when_they_ask_for_devices_then_each_is_shown_its_own(
    pretend: Pretend, family: Family
) -> None:
    pretend(family.machine)
    actor = looking(**asking(family.kind, len(family.first)))
    async with running(num_gpus=None):
        actors = [actor.remote() for _ in range(2)]

        for one, ids, opened in zip(
            actors, (family.first, family.second), family.opened, strict=True
        ):
            assert await one.ids.remote() == {
                **{kind: [] for kind in KINDS},
                family.kind: ids,
            }
            assert await changes_in(one) == opened
            assert await one.assigned.remote() == {family.kind: len(ids)}
            gpus = list(map(int, ids)) if family.kind == "GPU" else []
            assert await one.gpu_ids.remote() == gpus


@each_family
async def test_actors_when_they_ask_for_nothing_then_they_see_nothing_unless_they_inherit(  # noqa: E501  # one behaviour, one name
    pretend: Pretend, family: Family
) -> None:
    pretend(family.machine)
    async with running(num_gpus=None) as runtime:
        hidden = looking().remote()
        inheriting = looking(accelerators="inherit").remote()

        assert await changes_in(hidden) == family.hidden
        assert await changes_in(inheriting) == {}
        assert await held_by(hidden) == await held_by(inheriting) == {}
        there = runtime.cluster_resources()
        types = {name for name in there if name.startswith("accelerator_type:")}
        assert types == ({f"accelerator_type:{family.type}"} if family.type else set())


async def test_apple_s_gpu_is_told_and_nothing_is_written(
    pretend: Pretend,
) -> None:
    pretend("apple_m2_pro")
    async with running(num_gpus=None) as runtime:
        halves = [looking(num_gpus=0.5).remote() for _ in range(2)]
        nothing = looking().remote()

        for half in halves:
            assert await half.gpu_ids.remote() == [0]
            assert await changes_in(half) == {}
        assert await changes_in(nothing) == {}
        assert runtime.cluster_resources()["accelerator_type:M2-Pro"] == 1
        assert [row.mask for row in runtime.snapshot().actors] == [None] * 3


@pytest.mark.process
@pytest.mark.parametrize("start_method", ["template", "spawn"])
@pytest.mark.parametrize(
    ("machine", "kind", "variable"),
    [
        ("amd_mi300x", "GPU", "ROCR_VISIBLE_DEVICES"),
        ("gaudi2", "HPU", "HABANA_VISIBLE_MODULES"),
    ],
)
async def test_variables_when_a_module_is_imported_then_they_are_there(
    pretend: Pretend,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    machine: str,
    kind: str,
    variable: str,
    start_method: Any,
) -> None:
    pretend(machine)
    (tmp_path / "looks_early.py").write_text(
        "import os\n"
        "import actorlib\n"
        f"AT_IMPORT = os.environ.get({variable!r})\n"
        "@actorlib.remote\n"
        "class Actor:\n"
        "    def seen(self):\n"
        "        return AT_IMPORT\n",
        encoding="utf-8",
    )
    monkeypatch.syspath_prepend(tmp_path)
    import looks_early  # type: ignore[import-not-found]  # noqa: PLC0415

    monkeypatch.setitem(sys.modules, "looks_early", looks_early)
    async with running(num_gpus=None, start_method=start_method):
        actors = [looks_early.Actor.options(**asking(kind)).remote() for _ in range(2)]
        assert await asyncio.gather(*(a.seen.remote() for a in actors)) == ["0", "1"]
    assert looks_early.AT_IMPORT is None
    monkeypatch.delitem(sys.modules, "looks_early")


async def test_a_share_when_the_kind_can_be_divided_then_two_are_on_one_device(
    pretend: Pretend,
) -> None:
    pretend("ascend_910b")
    async with running(num_gpus=None):
        # The document's: four actors of a quarter each share one NPU.
        quarters = [looking(resources={"NPU": 0.25}).remote() for _ in range(5)]

        ids = [(await held_by(quarter))["NPU"] for quarter in quarters]
        assert ids == [["0"]] * 4 + [["1"]]


async def test_cores_when_they_share_a_device_then_an_actor_s_are_of_one(
    pretend: Pretend,
) -> None:
    pretend("neuron_trn1")
    async with running(num_gpus=None):
        asked = (1, 2, 1, 4)
        actors = [looking(resources={"neuron_cores": n}).remote() for n in asked]

        ids = [(await held_by(actor))["neuron_cores"] for actor in actors]
        # The second single core fills up the device that the first has begun.
        assert ids == [["0"], ["2", "3"], ["1"], ["4", "5", "6", "7"]]


async def test_a_device_when_its_actor_has_gone_then_the_next_in_line_is_shown_it(
    pretend: Pretend,
) -> None:
    pretend("mobilint")
    async with running(num_gpus=None) as runtime:
        both = looking(resources={"MBLT": 2}).remote()
        last = looking(resources={"MBLT": 1}).remote()
        assert await held_by(both) == {"MBLT": ["0", "2"]}
        ended = end_of(both)
        assert runtime.explain(last).startswith("Looking asks MBLT=1; all of MBLT=2")
        del both
        await ended

        assert await held_by(last) == {"MBLT": ["0"]}
