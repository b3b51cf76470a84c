"""A runtime's shares hold as far as its machine can, and it says how far."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from helpers.host import GIB, RecordedHost
from helpers.tiers import enforcement_of

from actorlib._enforcement.enforcement import Enforcement, divided
from actorlib._enforcement.tiers import INLINE, Site, Tier
from actorlib._features.runtime import make_tiers
from actorlib._options.actor_options import ActorOptions
from actorlib._options.kinds import KINDS, UNITS
from actorlib._options.runtime_options import RuntimeOptions
from actorlib._options.shares import ActorShare, DeviceShare
from actorlib.accelerators import Device, Inventory, Lease, Share
from actorlib.exceptions import ActorUnschedulableError, EnforcementRefused

if TYPE_CHECKING:
    from collections.abc import Callable

NVIDIA = Device(family="nvidia", kind="GPU", index=0, id="0", memory=80 * GIB)
FOREIGN = Device(family="foo", kind="GPU", index=1, id="1", memory=80 * GIB)
CHIP = Device(family="tpu", kind="TPU", index=0, id="0")
PLAIN = ActorOptions()


def there(*devices: Device) -> Inventory:
    kinds = dict.fromkeys(device.kind for device in devices)
    return Inventory(
        devices={
            kind: tuple(device for device in devices if device.kind == kind)
            for kind in kinds
        },
        kinds=KINDS,
    )


def opened(
    *devices: Device, default: str = "auto", is_inline: bool = False
) -> Enforcement:
    options = RuntimeOptions(enforcement=default)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # a word
    return Enforcement.open(
        make_tiers, RecordedHost(), there(*devices), options, [], is_inline=is_inline
    )


def check(enforcement: Enforcement, lease: Lease, options: ActorOptions) -> None:
    enforcement.admit("Model", lease, options)


def lease_of(device: Device, units: int = UNITS // 2) -> Lease:
    return Lease(amounts={device.kind: units}, shares=(Share(device, units),))


def asks(**options: Any) -> ActorOptions:
    return ActorOptions(num_gpus=0.5, **options)


# At the start.


def test_start_when_no_device_can_have_the_default_then_it_is_refused() -> None:
    with pytest.raises(
        EnforcementRefused,
        match=r"init\(enforcement='mps'\): no device here can have that. there is no "
        "nvidia-cuda-mps-control on PATH: it comes with NVIDIA's driver. Leave it out",
    ):
        opened(NVIDIA, default="mps")


@pytest.mark.parametrize(
    ("devices", "default"),
    [((FOREIGN, NVIDIA), "frameworks"), ((), "mps"), ((CHIP,), "mps")],
)
def test_start_when_one_device_can_have_the_default_or_none_is_shared_then_it_goes_on(
    devices: tuple[Device, ...], default: str
) -> None:
    assert opened(*devices, default=default).default == default


@pytest.mark.parametrize("devices", [(), (NVIDIA,)])
def test_start_when_cgroups_cannot_be_had_then_it_says_so_of_the_host_too(
    devices: tuple[Device, ...],
) -> None:
    with pytest.raises(EnforcementRefused, match=r"host's memory.*v2 is not mounted"):
        opened(*devices, default="cgroup")


def test_start_when_inline_then_a_named_tier_is_refused() -> None:
    with pytest.raises(EnforcementRefused, match=INLINE):
        opened(NVIDIA, default="frameworks", is_inline=True)


def test_devices_when_given_whole_then_they_are_none_to_be_divided() -> None:
    assert divided(there(NVIDIA, CHIP)) == {"GPU": (NVIDIA,)}


# What an actor asks.


def test_actor_when_no_device_of_its_kind_can_have_it_then_it_is_refused() -> None:
    enforcement, options = opened(NVIDIA, FOREIGN), asks(enforcement="mps")

    assert enforcement.refusal("Model", options, options.request) == (
        "Model requests enforcement='mps', which cannot be had: there is no "
        "nvidia-cuda-mps-control on PATH: it comes with NVIDIA's driver; "
        "GPU 1 is not an NVIDIA device. enforcement='auto' takes what can be had"
    )


@pytest.mark.parametrize(
    ("asked", "is_part"),
    [
        ({"gpu_memory": "10GiB"}, True),
        ({"num_gpus": 1}, False),
        ({"num_cpus": 1}, False),
        ({"resources": {"licence": 0.5}}, False),
    ],
)
def test_actor_when_it_asks_for_a_part_of_a_device_then_and_only_then_refused(
    asked: dict[str, Any], *, is_part: bool
) -> None:
    options = ActorOptions(enforcement="mps", **asked)

    said = opened(NVIDIA).refusal("Model", options, options.request) or ""

    assert ("Model requests enforcement='mps', which cannot be had" in said) is is_part
    assert bool(said) is is_part


def test_actor_when_placed_where_it_cannot_be_had_then_it_is_refused_there() -> None:
    enforcement, options = opened(NVIDIA, FOREIGN), asks(enforcement="frameworks")

    assert enforcement.refusal("Model", options, options.request) is None
    check(enforcement, lease_of(NVIDIA), options)
    with pytest.raises(
        ActorUnschedulableError,
        match=r"no framework is known that takes a limit for foo.*on GPU 1: device=",
    ):
        check(enforcement, lease_of(FOREIGN), options)


def test_actor_when_it_says_off_then_its_word_counts() -> None:
    enforcement = opened(NVIDIA, default="frameworks")

    lease = lease_of(NVIDIA)
    off, plain = asks(enforcement="off"), PLAIN

    assert enforcement.grant(lease, off).tiers == ()
    assert [tier.word for tier in enforcement.grant(lease, plain).tiers] == [
        "frameworks"
    ]


# Multiprocessors under MPS.


def test_percentage_when_the_runtime_has_no_mps_then_refused_with_what_to_add() -> None:
    options = asks(mps_thread_percentage=50)

    said = opened(NVIDIA).refusal("Model", options, options.request)

    assert said == (
        "Model requests mps_thread_percentage=50, a limit of MPS, and its enforcement "
        "is 'auto', as the runtime's is: add enforcement='mps'"
    )


def test_percentage_when_bytes_come_to_a_whole_gpu_then_refused_there() -> None:
    card = replace(NVIDIA, uuid="GPU-1")
    enforcement = enforcement_of("mps", {"GPU": (card,)})
    options = ActorOptions(gpu_memory="80GiB", mps_thread_percentage=50)

    with pytest.raises(ActorUnschedulableError, match="a whole GPU here, which it"):
        check(enforcement, lease_of(card, UNITS), options)


@pytest.mark.parametrize(
    ("percentage", "said"),
    [
        (None, "no compute, unless mps_thread_percentage says how much"),
        (25, "compute to 25 % of the multiprocessors, which others may use, too"),
    ],
)
def test_percentage_when_shown_then_it_says_what_of_compute_holds(
    percentage: int | None, said: str
) -> None:
    card = replace(NVIDIA, uuid="GPU-1")
    enforcement = enforcement_of("mps", {"GPU": (card,)})
    options = asks(mps_thread_percentage=percentage)

    (share,) = enforcement.shown(lease_of(card), options, {}).devices

    assert share.enforced_by == "mps"
    assert share.not_stronger_because.endswith(f"has not requested it; {said}")


# What is shown.


def test_share_when_shown_then_it_says_what_holds_and_why_nothing_stronger() -> None:
    environ = {"XLA_PYTHON_CLIENT_ALLOCATOR": "platform"}
    shown = opened(NVIDIA).shown(lease_of(NVIDIA), PLAIN, environ)

    assert shown == ActorShare(
        devices=(
            DeviceShare(
                device="0",
                kind="GPU",
                units=0.5,
                nbytes=40 * GIB,
                enforced_by="frameworks",
                not_stronger_because=(
                    "watchdog, cgroup: NVML has found no device here; mps: there is no "
                    "nvidia-cuda-mps-control on PATH: it comes with NVIDIA's driver; "
                    "JAX has no limit with XLA_PYTHON_CLIENT_ALLOCATOR=platform"
                ),
            ),
        )
    )


@pytest.mark.parametrize(
    ("units", "is_inline", "why"),
    [
        (UNITS, False, "the whole device is held by one actor"),
        (UNITS // 2, True, INLINE),
    ],
)
def test_share_when_nothing_holds_then_it_says_why(
    units: int, why: str, *, is_inline: bool
) -> None:
    enforcement = opened(NVIDIA, is_inline=is_inline)
    (share,) = enforcement.shown(lease_of(NVIDIA, units), PLAIN, {}).devices

    assert (share.units, share.enforced_by) == (units / UNITS, "off")
    assert share.not_stronger_because == why


# The end.


class Leaving(Tier):
    """Leaves something that is removed after the end of all workers."""

    def __init__(self, removal: Callable[[], None]) -> None:
        super().__init__(Site(RecordedHost()))
        self._removal = removal

    def abandon(self) -> Callable[[], None]:
        return self._removal


def test_abandoned_when_a_removal_raises_then_the_others_run() -> None:
    removed: list[str] = []

    def fail() -> None:
        raise OSError("busy")

    tiers = [
        Leaving(lambda: removed.append("first")),
        Leaving(fail),
        Leaving(lambda: removed.append("last")),
    ]
    enforcement = Enforcement(lambda _: tiers, Site(RecordedHost()), {})
    assert enforcement.tiers
    remove = enforcement.abandon()

    with pytest.raises(OSError, match="busy"):
        remove()

    assert removed == ["first", "last"]


# What is not installed.


@pytest.fixture
def without_mps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "actorlib._features.mps.tier", None)


@pytest.mark.usefixtures("without_mps")
@pytest.mark.parametrize("devices", [(), (NVIDIA,)])
def test_tier_when_not_installed_then_refused_by_name(
    devices: tuple[Device, ...],
) -> None:
    options = asks(enforcement="mps")
    said = "enforcement='mps' needs actorlib._features.mps.tier"

    with pytest.raises(
        EnforcementRefused, match=rf"='mps'\): no device here can have that. {said}"
    ):
        opened(*devices, default="mps")
    assert said in (opened(*devices).refusal("Model", options, options.request) or "")


@pytest.mark.usefixtures("without_mps")
def test_share_when_a_tier_is_not_installed_then_the_others_hold_and_it_says_so() -> (
    None
):
    (share,) = opened(NVIDIA).shown(lease_of(NVIDIA), PLAIN, {}).devices

    assert share.enforced_by == "frameworks"
    assert "mps: enforcement='mps' needs actorlib._features.mps.tier" in (
        share.not_stronger_because
    )
