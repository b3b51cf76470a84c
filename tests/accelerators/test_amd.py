"""AMD's GPUs: found in the kernel's topology, masked in two layers, written as one."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
from helpers.host import GIB, RecordedHost, after
from hypothesis import given, settings
from hypothesis import strategies as st

from actorlib.accelerators.amd import Amd
from actorlib.accelerators.base import Detection, Device, Lease, Rejected, Share
from actorlib.accelerators.discovery import discover
from actorlib.accelerators.inventory import accelerator_ids, environment, inventory
from actorlib.accelerators.nvidia import Nvidia

if TYPE_CHECKING:
    from collections.abc import Mapping

ROCR, HIP = "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"
CUDA, ORDINAL = "CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"
FIRST, THIRD = "GPU-21b6d61638a86f8c", "GPU-5ac7d1f05b0fe5b2"


def detect(name: str, environ: Mapping[str, str] | None = None) -> Detection:
    return Amd().detect(RecordedHost.load(name, environ=environ))


def ids(detection: Detection) -> list[str]:
    return [device.id for device in detection.devices]


def test_detect_when_there_is_a_server_then_every_card_is_known_in_full() -> None:
    found = detect("amd_mi300x")

    assert ids(found) == [str(number) for number in range(8)]
    assert (found.outer, found.reason, found.rejected) == (None, "", ())
    assert found.devices[2] == Device(
        family="amd",
        kind="GPU",
        index=2,
        id="2",
        uuid=THIRD,
        pci="0000:38:00.0",
        model="AMD Instinct MI300X OAM",
        type="AMD-Instinct-MI300X-OAM",
        memory=206141652992,
        peers=frozenset(d.uuid or "" for d in found.devices if d.index != 2),
        source="KFD",
    )


def test_detect_when_there_is_no_trace_then_says_nothing() -> None:
    assert Amd().detect(RecordedHost()) == Detection(family="amd")


def test_detect_when_a_node_has_two_digits_then_it_comes_last() -> None:
    found = detect("amd_mi250x")

    assert [device.pci for device in found.devices][:2] == [
        "0000:c1:00.0",
        "0000:c6:00.0",
    ]
    assert [device.pci for device in found.devices][-1] == "0000:de:00.0"
    assert {device.type for device in found.devices} == {"AMD-Instinct-MI250X"}


def test_detect_when_xgmi_reaches_cpus_then_they_are_no_peers() -> None:
    found = detect("amd_mi250x")

    first, second, third, *_ = found.devices
    assert first.peers == {second.uuid, third.uuid}


def test_detect_when_kfd_tells_nonsense_then_the_gpus_are_there_all_the_same() -> None:
    folder = "/sys/class/kfd/kfd/topology/nodes/0"
    host = RecordedHost(
        devices={"/dev/kfd": True, "/dev/dri/renderD128": True},
        files={
            f"{folder}/properties": "simd_count 4\ndrm_render_minor 128\n"
            f"mem_banks_count 18446744073709551615\nunique_id {'9' * 5000}\n",
            f"{folder}/io_links/0/properties": "type 11\n",
        },
    )
    (gpu,) = Amd().detect(host).devices
    assert (gpu.uuid, gpu.memory, gpu.peers) == (None, None, frozenset())
    assert (gpu.model, gpu.type) == (None, None)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("amd_container", "there is no /dev/dri/renderD128 here; give it to the"),
        ("amd_cgroup", "the kernel does not show it to this container"),
    ],
)
def test_detect_when_a_container_has_some_cards_then_they_count_from_zero(
    name: str, why: str
) -> None:
    found = detect(name)

    assert [(device.id, device.pci) for device in found.devices] == [
        ("0", "0000:38:00.0"),
        ("1", "0000:5c:00.0"),
    ]
    assert len(found.rejected) == 6
    assert found.rejected[0].why.startswith(why)
    first, second = found.devices
    assert first.peers == {second.uuid}


def test_detect_when_kfd_may_not_be_opened_then_says_so_with_the_model() -> None:
    found = detect("amd_no_permission")

    why = "no permission to read and write /dev/kfd; join the group of that file"
    assert found == Detection(
        family="amd",
        reason=f"/dev/dri/renderD128: {why}",
        rejected=(Rejected(name="/dev/dri/renderD128", why=why, model="gfx1100"),),
    )


def test_detect_when_a_card_is_not_in_the_table_then_it_is_called_by_its_target() -> (
    None
):
    card, _ = detect("amd_desktop").devices
    assert (card.model, card.type, card.memory) == ("gfx1100", "gfx1100", 25753026560)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("amd_desktop", [("0", False), ("1", True)]),
        ("amd_apu", [("0", True)]),
        ("amd_no_permission", []),
    ],
)
def test_detect_when_a_gpu_is_part_of_a_cpu_then_it_is_integrated(
    name: str, expected: list[tuple[str, bool]]
) -> None:
    assert [(d.id, d.integrated) for d in detect(name).devices] == expected


def test_inventory_when_there_is_a_card_then_the_cpus_part_is_not_granted() -> None:
    families = [Amd()]
    held = inventory(discover(RecordedHost.load("amd_desktop"), families), {}, families)

    assert [device.pci for device in held.devices["GPU"]] == ["0000:03:00.0"]


def test_detect_when_partitions_share_an_id_then_it_names_none_of_them() -> None:
    found = detect("amd_partitions")

    assert ids(found) == ["0", "1", "2", "3"]
    assert {device.uuid for device in found.devices} == {None}
    assert {device.memory for device in found.devices} == {25767706624}
    assert {device.parent for device in found.devices} == {None}
    assert found.devices[0].peers == {"1", "2", "3"}


def test_detect_when_no_memory_bank_is_shown_then_the_driver_says_how_much() -> None:
    node = "/sys/class/kfd/kfd/topology/nodes/1"
    host = RecordedHost(
        files={
            f"{node}/properties": "simd_count 384\ndrm_render_minor 128\n",
            "/sys/class/drm/renderD128/device/mem_info_vram_total": f"{16 * GIB}\n",
        },
        devices={"/dev/kfd": True, "/dev/dri/renderD128": True},
    )

    (device,) = Amd().detect(host).devices

    assert (device.memory, device.integrated) == (16 * GIB, False)


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({ROCR: "3,1"}, ["3", "1"]),
        ({ROCR: " 3 , 1"}, ["3", "1"]),
        ({ROCR: f"2,{FIRST},1"}, ["2", FIRST, "1"]),
        ({ROCR: FIRST.lower()}, [FIRST]),
        ({ROCR: "gpu-21B6"}, [FIRST]),
        ({HIP: "3,1"}, ["3", "1"]),
        ({CUDA: "3,1"}, ["3", "1"]),
        ({ORDINAL: "3,1"}, ["3", "1"]),
        ({ROCR: "4,5,6", HIP: "2,0"}, ["6", "4"]),
        ({ROCR: f"4,{THIRD},6", HIP: "1"}, [THIRD]),
        ({ROCR: "4,2,6", HIP: THIRD}, [THIRD]),
        ({ROCR: "4,5,6", CUDA: "1"}, ["5"]),
        ({HIP: "2", CUDA: "7", ORDINAL: "6"}, ["2"]),
        ({CUDA: "7", ORDINAL: "6"}, ["7"]),
        ({HIP: "1,1,2"}, ["1", "2"]),
    ],
)
def test_detect_when_there_are_masks_then_each_counts_what_the_lower_one_left(
    environ: Mapping[str, str], expected: list[str]
) -> None:
    found = detect("amd_mi300x", environ)

    assert ids(found) == expected
    assert found.outer == tuple(expected)
    assert [device.index for device in found.devices] == list(range(len(expected)))
    assert len(found.rejected) == 8 - len(expected)


@pytest.mark.parametrize(
    ("environ", "expected", "text"),
    [
        ({ROCR: ""}, [], f"{ROCR}='' hides every device"),
        ({ROCR: "NoDevFiles"}, [], f"{ROCR}='NoDevFiles' hides every device"),
        ({ROCR: "-1"}, [], f"{ROCR}='-1' hides every device"),
        ({HIP: ""}, [], f"{HIP}='' hides every device"),
        ({CUDA: "-1"}, [], f"{CUDA}='-1' hides every device"),
        ({ROCR: "2,9,1"}, ["2"], "ends before '9': there is no such device"),
        ({ROCR: "2,0,2,1"}, ["2", "0"], "ends before '2', which is no new index or"),
        ({ROCR: f"0,{FIRST},1"}, ["0"], f"ends before '{FIRST}': named before"),
        ({ROCR: "GPU-5ac7d1f0"}, [], "before 'GPU-5ac7d1f0': several devices match"),
        ({HIP: "0, 1"}, ["0"], "ends before ' 1', which is no plain index or UUID"),
        ({HIP: "1,1"}, ["1"], f"{HIP}='1,1' names '1' twice, which counts once"),
        ({ROCR: "1", HIP: "1"}, [], f"{HIP}='1' ends before '1': there is no such"),
        ({ROCR: "1", CUDA: "0,1"}, ["1"], f"{CUDA}='0,1' ends before '1': there is"),
    ],
)
def test_detect_when_a_mask_loses_devices_then_says_which_and_why(
    environ: Mapping[str, str], expected: list[str], text: str
) -> None:
    found = detect("amd_mi300x", environ)

    assert ids(found) == expected
    assert text in found.reason


def test_detect_when_two_layers_cut_then_each_hidden_card_names_its_own() -> None:
    found = detect("amd_container", {ROCR: "1", HIP: ""})

    hidden = [(r.name, r.why) for r in found.rejected if r.name.startswith("GPU")]
    assert hidden == [
        ("GPU 0", f"hidden by {ROCR}='1'"),
        ("GPU 1", f"hidden by {HIP}=''"),
    ]


@pytest.mark.parametrize(
    ("environ", "outer"),
    [
        ({}, None),
        ({ROCR: "1,3"}, ("1", "3")),
        ({HIP: "1,3"}, ("1", "3")),
        ({ROCR: "1,3", HIP: "1"}, ("3",)),
        ({ROCR: f"1,{FIRST}", HIP: FIRST}, (FIRST,)),
        ({ROCR: "1,3", HIP: "3"}, ()),
        ({CUDA: "1,3"}, None),
        ({ORDINAL: "1,3"}, None),
    ],
)
def test_detect_when_there_is_no_card_then_cudas_variable_is_not_amds(
    environ: Mapping[str, str], outer: tuple[str, ...] | None
) -> None:
    found = Amd().detect(RecordedHost(environ=environ))

    assert (found.devices, found.outer) == ((), outer)


def test_mask_when_layers_disagree_then_names_both() -> None:
    mask = Amd().mask({ROCR: "1,3", HIP: "3"})

    assert mask is not None
    assert mask.said == f"{ROCR}='1,3' and {HIP}='3'"
    assert mask.reason == f"{HIP}='3' ends before '3': there is no such device"


@pytest.mark.parametrize(
    ("environ", "extra"),
    [
        ({}, {}),
        ({HIP: "0,1,2,3"}, {}),
        ({CUDA: "0,1,2,3"}, {CUDA: "0,1"}),
        ({ORDINAL: "0,1,2,3"}, {ORDINAL: "0,1"}),
    ],
)
def test_environment_when_devices_are_given_then_only_rocr_has_their_ids(
    environ: Mapping[str, str], extra: Mapping[str, str]
) -> None:
    found = detect("amd_mi300x", environ).devices

    shown = Amd().environment(found[2:4], environ, found)

    assert shown == {ROCR: "2,3", HIP: "0,1", **extra}


def test_environment_when_nothing_is_given_then_both_layers_are_empty() -> None:
    environ = {CUDA: "0"}

    shown = Amd().environment((), environ, detect("amd_mi300x", environ).devices)

    assert shown == {ROCR: "", HIP: "", CUDA: ""}
    assert detect("amd_mi300x", after(environ, shown)).devices == ()


@settings(max_examples=15)
@given(
    order=st.permutations([str(number) for number in range(8)]),
    outer=st.integers(1, 8),
    upper=st.sampled_from([None, HIP, CUDA, ORDINAL]),
    granted=st.sets(st.integers(0, 7)),
)
def test_environment_when_it_is_read_again_then_it_shows_exactly_what_was_given(
    order: list[str], outer: int, upper: str | None, granted: set[int]
) -> None:
    environ = {ROCR: ",".join(order[:outer])}
    if upper is not None:
        environ[upper] = ",".join(str(n) for n in reversed(range(outer)))
    devices = detect("amd_mi300x", environ).devices
    given_ = [device for device in devices if device.index in granted]

    shown = Amd().environment(given_, environ, devices)
    seen = detect("amd_mi300x", after(environ, shown))

    assert [device.pci for device in seen.devices] == [device.pci for device in given_]
    assert [device.id for device in seen.devices] == [device.id for device in given_]
    # PyTorch refuses a longer list in HIP's layer than in ROCr's.
    assert len((shown[HIP] or "").split(",")) <= len((shown[ROCR] or "").split(","))


@pytest.mark.parametrize(
    ("environ", "form", "written"),
    [
        ({}, None, "2,3"),
        ({}, "index", "2,3"),
        ({}, "uuid", f"{THIRD},GPU-0e1ff4dd62a2c3d3"),
        ({ROCR: f"0,1,{THIRD},3"}, None, f"{THIRD},3"),
        ({ROCR: f"0,1,{THIRD},3"}, "index", "2,3"),
        ({ROCR: f"0,1,{THIRD},3"}, "uuid", f"{THIRD},GPU-0e1ff4dd62a2c3d3"),
    ],
)
def test_formed_when_a_form_is_asked_then_the_mask_is_written_in_it(
    environ: Mapping[str, str], form: str | None, written: str
) -> None:
    devices = Amd().formed(detect("amd_mi300x", environ).devices, form)

    shown = Amd().environment(devices[2:4], environ, devices)

    assert (shown[ROCR], shown[HIP]) == (written, "0,1")


def test_formed_when_a_uuid_is_unknown_then_refuses_and_names_the_card() -> None:
    with pytest.raises(ValueError, match=r"mask_form='uuid': GPU 0 has none"):
        Amd().formed(detect("amd_partitions").devices, "uuid")


def test_ids_when_the_owners_mask_says_uuids_then_the_user_is_told_those() -> None:
    families = [Amd()]
    host = RecordedHost.load("amd_mi300x", environ={ROCR: f"5,{THIRD}"})
    held = inventory(discover(host, families), {}, families)
    lease = Lease(amounts={}, shares=tuple(Share(d, 1) for d in held.devices["GPU"]))

    assert accelerator_ids(lease, held)["GPU"] == ["5", THIRD]


def test_declare_when_more_is_declared_than_a_machine_has_then_ids_stay_apart() -> None:
    found = detect("amd_desktop")

    names = [device.id for device in Amd().declare(4, found)]

    assert names == ["0", "1", "2", "3"]


@pytest.mark.parametrize(
    ("forbidden", "expected"),
    [
        (None, {ROCR: "1", HIP: "0"}),
        (f"RAY_EXPERIMENTAL_NOSET_{HIP}", {}),
        (f"RAY_EXPERIMENTAL_NOSET_{ROCR}", {}),
    ],
)
def test_environment_when_it_is_forbidden_then_nothing_is_written(
    forbidden: str | None, expected: Mapping[str, str]
) -> None:
    families = [Amd()]
    held = inventory(discover(RecordedHost.load("amd_mi300x"), families), {}, families)
    lease = Lease(amounts={}, shares=(Share(held.devices["GPU"][1], 10_000),))
    environ = {} if forbidden is None else {forbidden: "1"}

    assert environment(lease, held, hide=True, environ=environ) == expected


@pytest.mark.parametrize(
    ("holds", "cuda"), [("amd", ""), ("nvidia", "0"), ("nothing", "")]
)
def test_environment_when_nvidia_cards_are_there_then_theirs_is_not_unhidden(
    holds: str, cuda: str
) -> None:
    families = [Amd(), Nvidia()]
    amd = detect("amd_mi300x", {CUDA: "0,1"})
    card = Device(family="nvidia", kind="GPU", index=0, id="0", uuid="GPU-aaa")
    nvidia = Detection(family="nvidia", devices=(card,), outer=("0",))
    held = inventory([amd, nvidia], {}, families)
    shares = [Share(d, 10_000) for d in held.devices["GPU"] if d.family == holds]

    shown = environment(
        Lease(amounts={}, shares=tuple(shares[:1])),
        held,
        hide=True,
        environ={CUDA: "0,1"},
    )

    assert shown[CUDA] == cuda
    assert (shown[ROCR], shown[HIP]) == (("0", "0") if holds == "amd" else ("", ""))


def test_environment_when_any_two_cards_are_given_then_no_layer_repeats_an_id() -> None:
    devices = detect("amd_mi300x").devices

    for pair in itertools.combinations(devices, 2):
        shown = Amd().environment(pair, {}, devices)
        assert shown == {ROCR: f"{pair[0].id},{pair[1].id}", HIP: "0,1"}
