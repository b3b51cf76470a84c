"""Intel's GPUs: cards and tiles, found in sysfs; a mask, a selector, and an order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from helpers.host import GIB, RecordedHost, after
from hypothesis import given, settings
from hypothesis import strategies as st

from actorlib.accelerators.base import Detection, Device, Lease, Rejected, Share
from actorlib.accelerators.discovery import discover
from actorlib.accelerators.intel import Intel
from actorlib.accelerators.inventory import accelerator_ids, environment, inventory

if TYPE_CHECKING:
    from collections.abc import Mapping

MASK, SELECTOR = "ZE_AFFINITY_MASK", "ONEAPI_DEVICE_SELECTOR"
HIERARCHY, ORDER = "ZE_FLAT_DEVICE_HIERARCHY", "ZE_ENABLE_PCI_ID_DEVICE_ORDER"
CARDS = {HIERARCHY: "COMPOSITE"}


def detect(name: str, environ: Mapping[str, str] | None = None) -> Detection:
    return Intel().detect(RecordedHost.load(name, environ=environ))


def ids(detection: Detection) -> list[str]:
    return [device.id for device in detection.devices]


@pytest.mark.parametrize("value", [None, "FLAT", "COMBINED", "flat"])
def test_detect_when_an_index_counts_tiles_then_each_is_a_device(
    value: str | None,
) -> None:
    found = detect("intel_max1550", {} if value is None else {HIERARCHY: value})

    assert (found.outer, found.reason, found.rejected) == (None, "", ())
    assert [(device.id, device.pci) for device in found.devices] == [
        ("0", "0000:29:00.0"),
        ("1", "0000:29:00.0"),
        ("2", "0000:9a:00.0"),
        ("3", "0000:9a:00.0"),
    ]
    assert found.devices[2] == Device(
        family="intel",
        kind="GPU",
        index=2,
        id="2",
        pci="0000:9a:00.0",
        model="Intel(R) Data Center GPU Max 1550",
        type="Intel-GPU-Max-1550",
        memory=64 * GIB,
        peers=frozenset({"3"}),
        source="DRM",
    )


def test_detect_when_an_index_counts_cards_then_each_is_a_device() -> None:
    found = detect("intel_max1550", CARDS)

    assert [(device.id, device.memory) for device in found.devices] == [
        ("0", 128 * GIB),
        ("1", 128 * GIB),
    ]
    assert found.rejected == ()


def test_detect_when_xe_tells_the_memory_of_tiles_then_each_has_its_own() -> None:
    card = "/sys/class/drm/card0"
    host = RecordedHost(
        links={
            f"{card}/device": "/sys/devices/pci0000:00/0000:29:00.0",
            f"{card}/device/driver": "/sys/bus/pci/drivers/xe",
        },
        files={
            f"{card}/device/vendor": "0x8086\n",
            f"{card}/device/device": "0x0bd5\n",
            f"{card}/device/tile0/physical_vram_size_bytes": f"{60 * GIB}\n",
            f"{card}/device/tile1/physical_vram_size_bytes": f"{64 * GIB}\n",
        },
        folders=[f"{card}/device/drm/renderD128"],
        devices={"/dev/dri/renderD128": True},
    )

    tiles = Intel().detect(host).devices

    assert [(tile.id, tile.memory) for tile in tiles] == [
        ("0", 60 * GIB),
        ("1", 64 * GIB),
    ]


@pytest.mark.parametrize("name", [None, "intel_npu"])
def test_detect_when_there_is_no_gpu_then_says_nothing(name: str | None) -> None:
    host = RecordedHost() if name is None else RecordedHost.load(name)
    assert Intel().detect(host) == Detection(family="intel")


def test_detect_when_there_is_only_the_cpus_part_then_it_is_one_device() -> None:
    (device,) = detect("intel_laptop").devices

    assert (device.id, device.integrated) == ("0", True)
    assert (device.model, device.type) == ("Intel graphics 0x7d55", None)


def test_detect_when_a_render_node_is_not_handed_in_then_the_others_close_up() -> None:
    found = detect("intel_flex")

    assert [(device.id, device.pci) for device in found.devices] == [
        ("0", "0000:4d:00.0"),
        ("1", "0000:b1:00.0"),
    ]
    assert found.devices[1].type == "Intel-GPU-Flex-170"
    assert found.rejected == (
        Rejected(
            name="0000:51:00.0",
            why="there is no /dev/dri/renderD129 here; give it to the container",
            model="Intel(R) Data Center GPU Flex 170",
        ),
    )


def test_detect_when_a_card_may_not_be_opened_then_says_so() -> None:
    found = detect("intel_no_permission")

    why = "no permission to read and write /dev/dri/renderD128; join the group of that"
    assert (found.devices, found.reason) == ((), f"0000:03:00.0: {why} file")
    assert found.rejected[0].model == "Intel(R) Arc(TM) A770 Graphics"


@pytest.mark.parametrize(
    ("driver", "text"),
    [
        (None, "its driver is missing, and Level Zero needs xe or i915"),
        ("vfio-pci", "its driver is vfio-pci, and Level Zero needs xe or i915"),
        ("xe", "there is no render node here; give it to the container"),
    ],
)
def test_detect_when_level_zero_has_no_use_for_a_card_then_says_why(
    driver: str | None, text: str
) -> None:
    card = "/sys/class/drm/card0/device"
    links = {card: "/sys/devices/pci0000:00/0000:29:00.0"}
    if driver is not None:
        links[f"{card}/driver"] = f"/sys/bus/pci/drivers/{driver}"
    files = {f"{card}/vendor": "0x8086\n", f"{card}/device": "0x0bd5\n"}

    found = Intel().detect(RecordedHost(files=files, links=links))

    assert (found.devices, found.reason) == ((), f"0000:29:00.0: {text}")


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, [("0", "0000:03:00.0", "1"), ("1", "0000:00:02.0", "0")]),
        ({ORDER: "0"}, [("0", "0000:03:00.0", "1"), ("1", "0000:00:02.0", "0")]),
        ({ORDER: "1"}, [("0", "0000:00:02.0", "0"), ("1", "0000:03:00.0", "1")]),
        ({MASK: "0"}, [("0", "0000:03:00.0", "1")]),
        ({MASK: "0", ORDER: "1"}, [("0", "0000:00:02.0", "0")]),
        (
            CARDS,
            [("0", "0000:03:00.0", "1"), ("1", "0000:00:02.0", "0")],
        ),
    ],
)
def test_detect_when_the_cpu_has_a_gpu_too_then_numbers_are_the_owners(
    environ: Mapping[str, str], expected: list[tuple[str, str, str]]
) -> None:
    found = detect("intel_desktop", environ)

    assert [(d.id, d.pci, d.written) for d in found.devices] == expected


def test_inventory_when_the_cpu_has_a_gpu_too_then_the_card_is_opened() -> None:
    families = [Intel()]
    host = RecordedHost.load("intel_desktop")
    held = inventory(discover(host, families), {}, families)
    (card,) = held.devices["GPU"]
    lease = Lease(amounts={}, shares=(Share(card, 10_000),))

    assert accelerator_ids(lease, held)["GPU"] == [0]
    assert environment(lease, held, hide=True, environ={}) == {
        MASK: "1",
        ORDER: "1",
        HIERARCHY: "FLAT",
        SELECTOR: "level_zero:0",
    }


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({MASK: "1,3"}, ["1", "3"]),
        ({MASK: "3, 1,1"}, ["1", "3"]),
        ({MASK: "0", **CARDS}, ["0"]),
        ({MASK: "0.1,1", **CARDS}, ["0.1", "1"]),
        ({MASK: "1.1,0.0,1.0", **CARDS}, ["0.0", "1.0", "1.1"]),
        ({MASK: "0.1,0", **CARDS}, ["0"]),
        ({SELECTOR: "level_zero:1,3"}, ["1", "3"]),
        ({SELECTOR: "1,3"}, ["1", "3"]),
        ({SELECTOR: "LEVEL_ZERO:GPU"}, ["0", "1", "2", "3"]),
        ({SELECTOR: "*:gpu"}, ["0", "1", "2", "3"]),
        ({SELECTOR: "*:*"}, ["0", "1", "2", "3"]),
        ({SELECTOR: "level_zero:*"}, ["0", "1", "2", "3"]),
        ({SELECTOR: "opencl:*;level_zero:2"}, ["2"]),
        ({SELECTOR: "opencl:cpu;level_zero:0;level_zero:3"}, ["0", "3"]),
        ({SELECTOR: "level_zero:*;!level_zero:1"}, ["0", "2", "3"]),
        ({SELECTOR: "!level_zero:0,1"}, ["2", "3"]),
        ({SELECTOR: "!opencl:*"}, ["0", "1", "2", "3"]),
        ({MASK: "1,2,3", SELECTOR: "level_zero:0,2"}, ["1", "3"]),
        ({MASK: "1,2,3", SELECTOR: "0"}, ["1"]),
        ({MASK: "2,3", SELECTOR: "!level_zero:0"}, ["3"]),
        ({SELECTOR: "level_zero:0.1", **CARDS}, ["0.1"]),
        ({SELECTOR: "level_zero:1.*", **CARDS}, ["1.0", "1.1"]),
        ({SELECTOR: "level_zero:*.*", **CARDS}, ["0.0", "0.1", "1.0", "1.1"]),
        ({MASK: "1", SELECTOR: "level_zero:0.1", **CARDS}, ["1.1"]),
        ({MASK: "0.1,1.0,1.1", SELECTOR: "level_zero:1.0", **CARDS}, ["1.0"]),
        ({MASK: "0.1,1", SELECTOR: "level_zero:1", **CARDS}, ["1"]),
        ({MASK: "0.1,1", SELECTOR: "level_zero:0", **CARDS}, ["0.1"]),
    ],
)
def test_detect_when_there_are_masks_then_the_selector_counts_what_the_mask_left(
    environ: Mapping[str, str], expected: list[str]
) -> None:
    found = detect("intel_max1550", environ)

    assert ids(found) == expected
    assert found.outer == tuple(expected)
    assert [device.index for device in found.devices] == list(range(len(expected)))
    assert "there is no" not in found.reason


@pytest.mark.parametrize(
    ("environ", "expected", "text"),
    [
        ({MASK: ""}, [], f"{MASK}='' hides every device"),
        ({MASK: "NoDevFiles"}, [], f"{MASK}='NoDevFiles' hides every device"),
        ({MASK: "-1"}, [], f"{MASK}='-1' hides every device"),
        ({MASK: "1,9,3"}, ["1", "3"], "passes over 9: there is no such device"),
        ({MASK: "0.1,3"}, ["3"], "passes over 0.1: there is no such device"),
        ({MASK: "0.2,1", **CARDS}, ["1"], "passes over 0.2: there is no such device"),
        ({MASK: "1,x,3"}, ["1"], "before 'x', which is no index or index of a tile"),
        ({MASK: "1,1"}, ["1"], "names '1' twice, which counts once"),
        ({SELECTOR: ""}, [], f"{SELECTOR}='' hides every device"),
        ({SELECTOR: "NoDevFiles"}, [], f"{SELECTOR}='NoDevFiles' hides every device"),
        ({SELECTOR: "opencl:*"}, [], f"{SELECTOR}='opencl:*' hides every device"),
        ({SELECTOR: "*:cpu"}, [], "hides every device"),
        ({SELECTOR: "!*:gpu"}, [], "hides every device"),
        ({SELECTOR: "level_zero:1,7"}, ["1"], "passes over 7: there is no such device"),
        ({SELECTOR: "level_zero:0.1"}, [], "passes over 0.1: there is no such device"),
        ({SELECTOR: "level_zero:gpu:0"}, [], "SYCL refuses 'level_zero:gpu:0', which"),
        (
            {SELECTOR: "level_zero"},
            [],
            "SYCL refuses 'level_zero', which is not backend",
        ),
        ({SELECTOR: "gpu"}, [], "every device: SYCL refuses 'gpu'"),
        ({SELECTOR: "level_zero:gpu.0"}, [], "SYCL refuses 'level_zero:gpu.0'"),
        ({SELECTOR: "mac:0"}, [], "SYCL refuses 'mac:0'"),
        (
            {SELECTOR: "!level_zero:0;level_zero:1"},
            [],
            "SYCL refuses 'level_zero:1' after a discarded term",
        ),
        (
            {MASK: "3", SELECTOR: "level_zero:3"},
            [],
            f"{SELECTOR}='level_zero:3' passes over 3: there is no such device",
        ),
    ],
)
def test_detect_when_a_mask_loses_devices_then_says_which_and_why(
    environ: Mapping[str, str], expected: list[str], text: str
) -> None:
    found = detect("intel_max1550", environ)

    assert ids(found) == expected
    assert text in found.reason
    assert found.outer == tuple(expected)


def test_detect_when_two_masks_cut_then_each_hidden_tile_names_its_own() -> None:
    found = detect("intel_max1550", {MASK: "0.1,1", SELECTOR: "0", **CARDS})

    assert ids(found) == ["0.1"]
    assert [(rejected.name, rejected.why) for rejected in found.rejected] == [
        ("GPU 0.0", f"hidden by {MASK}='0.1,1'"),
        ("GPU 1.0", f"hidden by {SELECTOR}='0'"),
        ("GPU 1.1", f"hidden by {SELECTOR}='0'"),
    ]


def test_detect_when_a_card_has_one_tile_then_its_tile_is_the_card() -> None:
    assert ids(detect("intel_flex", {MASK: "1.0", **CARDS})) == ["1"]


@pytest.mark.parametrize(
    ("environ", "outer"),
    [
        ({}, None),
        ({MASK: "1,3"}, ("1", "3")),
        ({SELECTOR: "1,3"}, ("1", "3")),
        ({SELECTOR: "level_zero:0.1", **CARDS}, ("0.1",)),
        ({SELECTOR: "*:gpu"}, None),
        ({SELECTOR: "!level_zero:0"}, None),
        ({SELECTOR: "opencl:*"}, ()),
        ({SELECTOR: "!level_zero:*"}, ()),
        ({SELECTOR: "level_zero:1;!level_zero:gpu"}, ()),
        ({SELECTOR: "level_zero:1;!level_zero:0"}, ("1",)),
        ({MASK: "1,3", SELECTOR: "level_zero:1"}, ("3",)),
        ({MASK: "1,3", SELECTOR: "*:gpu"}, ("1", "3")),
    ],
)
def test_detect_when_there_is_no_gpu_then_the_masks_are_the_universe(
    environ: Mapping[str, str], outer: tuple[str, ...] | None
) -> None:
    found = Intel().detect(RecordedHost(environ=environ))

    assert (found.devices, found.outer) == ((), outer)


def test_declare_when_the_users_document_is_followed_then_ids_are_its_own() -> None:
    found = Intel().detect(RecordedHost(environ={SELECTOR: "1,3"}))

    devices = Intel().declare(2, found)

    assert [device.id for device in devices] == ["1", "3"]
    assert Intel().environment(devices[1:], {SELECTOR: "1,3"}, devices) == {
        MASK: "3",
        HIERARCHY: "FLAT",
        ORDER: "1",
        SELECTOR: "level_zero:0",
    }


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, {MASK: "1,2", HIERARCHY: "FLAT", SELECTOR: "level_zero:0,1"}),
        (
            {HIERARCHY: "COMBINED"},
            {MASK: "1,2", HIERARCHY: "COMBINED", SELECTOR: "level_zero:0,1"},
        ),
        (
            {HIERARCHY: "COMPOSITE", MASK: "0.0,0.1,1.1"},
            {MASK: "0.1,1.1", HIERARCHY: "COMPOSITE", SELECTOR: "level_zero:0,1"},
        ),
        (
            {HIERARCHY: "COMPOSITE", MASK: "0.0,1.0,1.1"},
            {MASK: "1.0,1.1", HIERARCHY: "COMPOSITE", SELECTOR: "level_zero:0"},
        ),
    ],
)
def test_environment_when_devices_are_given_then_numbers_keep_their_meaning(
    environ: Mapping[str, str], expected: Mapping[str, str]
) -> None:
    devices = detect("intel_max1550", environ).devices

    shown = Intel().environment(devices[1:3], environ, devices)

    assert shown == {**expected, ORDER: "1"}


@pytest.mark.parametrize("environ", [{}, CARDS, {ORDER: "1"}, {SELECTOR: "*:gpu"}])
@pytest.mark.parametrize("name", ["intel_max1550", "intel_desktop"])
def test_environment_when_nothing_is_given_then_no_reader_finds_a_gpu(
    name: str, environ: Mapping[str, str]
) -> None:
    shown = Intel().environment((), environ, detect(name, environ).devices)

    # Each alone has to do: not everyone reads the selector, and an empty mask is none.
    assert shown[MASK]
    for variable in (MASK, SELECTOR):
        alone = {**environ, variable: shown[variable] or ""}
        assert detect(name, alone).devices == ()


@settings(max_examples=20)
@given(
    name=st.sampled_from(["intel_max1550", "intel_desktop", "intel_flex"]),
    hierarchy=st.sampled_from([None, "FLAT", "COMPOSITE", "COMBINED"]),
    order=st.sampled_from([None, "0", "1"]),
    mask=st.sampled_from([None, "0", "1,0", "0.1,1", "0.0,0.1,1.1", "3,1"]),
    selector=st.sampled_from([None, "*:gpu", "level_zero:0", "1,0", "!level_zero:0"]),
    granted=st.sets(st.integers(0, 3)),
)
def test_environment_when_it_is_read_again_then_it_shows_exactly_what_was_given(
    *,
    name: str,
    hierarchy: str | None,
    order: str | None,
    mask: str | None,
    selector: str | None,
    granted: set[int],
) -> None:
    told = {HIERARCHY: hierarchy, ORDER: order, MASK: mask, SELECTOR: selector}
    environ = after({}, told)
    devices = detect(name, environ).devices
    given_ = [device for device in devices if device.index in granted]

    shown = Intel().environment(given_, environ, devices)
    seen = detect(name, after(environ, shown)).devices

    assert {(d.pci, d.memory, d.written) for d in seen} == {
        (d.pci, d.memory, d.written) for d in given_
    }


@pytest.mark.parametrize("variable", [MASK, SELECTOR])
def test_environment_when_it_is_forbidden_then_nothing_is_written(
    variable: str,
) -> None:
    families = [Intel()]
    held = inventory(discover(RecordedHost.load("intel_flex"), families), {}, families)
    lease = Lease(amounts={}, shares=(Share(held.devices["GPU"][1], 10_000),))
    environ = {f"RAY_EXPERIMENTAL_NOSET_{variable}": "1"}

    assert environment(lease, held, hide=True, environ=environ) == {}


def test_detect_when_cards_tell_no_address_then_they_are_several_all_the_same() -> None:
    cards = [f"/sys/class/drm/card{n}/device" for n in range(2)]
    host = RecordedHost(
        files={f"{card}/vendor": "0x8086\n" for card in cards},
        links={f"{card}/driver": "/sys/bus/pci/drivers/xe" for card in cards},
        folders=[f"{card}/drm/renderD{128 + n}" for n, card in enumerate(cards)],
        devices={"/dev/dri/renderD128": True, "/dev/dri/renderD129": True},
    )
    assert [gpu.id for gpu in Intel().detect(host).devices] == ["0", "1"]
