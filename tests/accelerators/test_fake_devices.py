from __future__ import annotations

import pytest
from helpers.host import RecordedHost

from actorlib.accelerators import discover, families, inventory, types
from actorlib.accelerators.fake_devices import MODELS, VARIABLE, fake_detections
from actorlib.accelerators.type_names import matcher, of_nvidia

WORDS = sorted(value for name, value in vars(types).items() if name[0].isupper())


def found(said: str) -> dict[str, list[str | None]]:
    """The types of the devices by family."""
    return {
        detection.family: [device.type for device in detection.devices]
        for detection in fake_detections(said, families())
        if detection.devices
    }


@pytest.mark.parametrize("word", WORDS)
def test_word_when_it_is_one_of_the_names_of_types_then_such_a_device(
    word: str,
) -> None:
    [[device]] = [d.devices for d in fake_detections(word, families()) if d.devices]

    assert matcher(word)(device)


@pytest.mark.parametrize("family", families(), ids=lambda family: family.family)
def test_family_when_named_or_its_kind_then_its_devices_are_granted(
    family: object,
) -> None:
    from actorlib.accelerators import Accelerator  # noqa: PLC0415

    assert isinstance(family, Accelerator)
    count = 1 if family.family == "apple" else 2

    by_name = inventory(fake_detections(f"{count}x{family.family}", families()), {})
    by_kind = inventory(fake_detections(f"1x{family.kind.name}", families()), {})

    assert [d.family for d in by_name.devices[family.kind.name]] == [
        family.family
    ] * count
    assert len(by_kind.devices[family.kind.name]) == 1
    assert sum(map(len, by_name.devices.values())) == count


def test_words_when_several_then_each_family_has_its_own() -> None:
    assert found("2xH100, A100-80G, 4x tpu-v5e,MI300X") == {
        "nvidia": ["H100", "H100", "A100"],
        "tpu": ["TPU-V5LITEPOD"] * 4,
        "amd": ["AMD-Instinct-MI300X-OAM"],
    }


def test_models_of_nvidia_when_named_as_the_driver_does_then_of_their_type() -> None:
    nvidia = [model for model in MODELS if model.family == "nvidia"]

    assert [of_nvidia(model.name) for model in nvidia] == [m.type for m in nvidia]


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("2xH1000", "'H1000' is not a known device"),
        ("A100-13G", "A100-80G"),
        ("H100x2", "is not a known device"),
        ("0xH100", "1 to 1024 devices, not 0"),
        ("2000xH100", "not 2000"),
        ("2xH100,", "'2xH100, 1xL4'"),
        ("2", "'2' is not"),
        ("2xM2-Max", "a Mac has one GPU"),
    ],
)
def test_words_when_they_mean_nothing_then_refused(said: str, told: str) -> None:
    with pytest.raises(ValueError, match=told.replace("(", r"\(")):
        fake_detections(said, families())


def test_discovery_when_the_variable_is_set_then_masks_hide_nothing() -> None:
    environ = {VARIABLE: "2xH100", "CUDA_VISIBLE_DEVICES": ""}

    detections = discover(RecordedHost(environ=environ))

    assert [len(d.devices) for d in detections if d.devices] == [2]


def test_discovery_when_the_variable_is_wrong_then_it_is_named() -> None:
    with pytest.raises(ValueError, match=f"{VARIABLE}='3xNothing': 'Nothing'"):
        discover(RecordedHost(environ={VARIABLE: "3xNothing"}))
