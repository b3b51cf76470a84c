from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio
from helpers.actors import AsyncCaller, Caller, Echo, Target, end_of, gone, running
from helpers.calls import raised
from helpers.machines import pretender
from helpers.nvml import Card, nvidia_host

import actorlib
from actorlib._options.kinds import KINDS
from actorlib.exceptions import ActorDiedError, ActorUnschedulableError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from actorlib import Runtime

pytestmark = pytest.mark.memory

MASK = "CUDA_VISIBLE_DEVICES"
NOSET = "RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES"
THREADS = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "RAYON_NUM_THREADS",
)
GIB = 1 << 30


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine where nobody has set anything."""
    for name in (MASK, NOSET, "CUDA_DEVICE_ORDER", "ACTORLIB_HIDE_DEVICES", *THREADS):
        monkeypatch.delenv(name, raising=False)


@pytest_asyncio.fixture
async def two_gpus() -> AsyncIterator[Runtime]:
    async with running(num_gpus=2) as runtime:
        yield runtime


def seeing(**options: Any) -> Any:
    """An actor class that tells what it sees of its share; sent by value."""

    class Actor:
        def __init__(self) -> None:
            self._first = self.seen()

        def seen(self) -> Any:
            return actorlib.get_gpu_ids(), os.environ.get("CUDA_VISIBLE_DEVICES")

        def first(self) -> Any:
            return self._first

        def variable(self, *names: str) -> Any:
            return [os.environ.get(name) for name in names]

        def context(self) -> Any:
            context = actorlib.get_runtime_context()
            return (
                context.get_actor_id(),
                context.get_accelerator_ids(),
                context.get_assigned_resources(),
            )

        def leave(self, how: str) -> None:
            if how == "exit":
                sys.exit(0)
            if how == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            os._exit(3)

        async def seen_later(self) -> Any:
            return self.seen()

    return actorlib.remote(**options)(Actor) if options else actorlib.remote(Actor)


# The ledger, as a user sees it.


async def test_what_is_held_comes_back_however_the_actor_ends() -> None:
    totals = {"num_cpus": 4, "num_gpus": 2, "memory": GIB, "resources": {"x": 3}}
    asked = {"num_cpus": 1.5, "num_gpus": 2, "memory": GIB, "resources": {"x": 0.25}}
    held = {"CPU": 2.5, "GPU": 0.0, "memory": 0, "x": 2.75}
    everything = {"CPU": 4.0, "GPU": 2.0, "memory": GIB, "x": 3.0}
    async with running(**totals) as runtime:  # type: ignore[arg-type]
        assert runtime.available_resources() == everything
        for how in ("drop", "actorlib.kill", "block", "exit", "kill", "crash"):
            actor = seeing(**asked).remote()
            assert runtime.available_resources() in (everything, held)
            await actor
            assert runtime.available_resources() == held
            end = end_of(actor)
            if how == "actorlib.kill":
                await actorlib.kill(actor)
            elif how == "block":
                async with actor:
                    pass
            elif how != "drop":
                assert isinstance(await raised(actor.leave.remote(how)), ActorDiedError)
            del actor
            await end
            assert runtime.available_resources() == everything

        @actorlib.remote(**asked)
        class Failing:
            def __init__(self) -> None:
                raise ValueError("no")

        failing = Failing.remote()
        end = end_of(failing)
        await raised(failing)
        await end
        assert runtime.available_resources() == everything
        assert runtime.cluster_resources() == everything


async def test_a_further_actor_waits_for_room_and_then_starts() -> None:
    async with running(num_cpus=2) as runtime:
        first, second = (Target.options(num_cpus=1).remote() for _ in range(2))
        await asyncio.gather(first, second)
        third = Target.options(num_cpus=1).remote()
        ref = third.ping.remote()
        await first.ping.remote()
        assert not ref.done()
        assert [row.state for row in runtime.snapshot().actors] == [
            "alive",
            "alive",
            "pending",
        ]
        await actorlib.kill(second)
        assert await ref > 0


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"num_cpus": 80}, ["CPU=80", "CPU=4", "num_cpus"]),
        ({"num_gpus": 3}, ["GPU=3", "GPU=2", "num_gpus"]),
        ({"memory": 10 * GIB}, ["memory=10 GiB", "memory=1 GiB"]),
        ({"resources": {"x": 5}}, ["x=5", "x=3"]),
        ({"resources": {"nobody_has": 1}}, ["no nobody_has", "init(resources="]),
        ({"num_cpus": 80, "num_gpus": 0.5}, ["CPU=80"]),
    ],
)
async def test_what_can_never_be_is_refused_at_once(
    asked: Any, words: list[str]
) -> None:
    totals = {"num_gpus": 2, "memory": GIB, "resources": {"x": 3}}
    async with running(**totals) as runtime:  # type: ignore[arg-type]
        big = Target.options(**asked).remote()
        for ref in (big, big.ping.remote()):
            error = await raised(ref)
            assert isinstance(error, ActorUnschedulableError)
            for word in ("Target asks", *words):
                assert word in str(error)
        assert runtime.snapshot().waiting == ()
        assert await Target.remote().ping.remote() > 0


async def test_inside_an_actor_too() -> None:
    def make() -> str:
        big = Target.options(num_cpus=80).remote()
        try:
            actorlib.get(big.ping.remote())
        except ActorUnschedulableError as error:
            return str(error)
        return ""

    async def make_later() -> str:
        try:
            await Target.options(num_cpus=80).remote()
        except ActorUnschedulableError as error:
            return str(error)
        return ""

    async with running():
        assert "CPU=80" in await Caller.remote().run.remote(make)
        assert "CPU=80" in await AsyncCaller.remote().run.remote(make_later)


async def test_init_may_ask_to_wait_for_ever_instead() -> None:
    async with running(num_cpus=2, infeasible="wait") as runtime:
        big = Target.options(num_cpus=80).remote()
        ref = big.ping.remote()
        # It holds nobody up.
        assert await Target.options(num_cpus=2).remote().ping.remote() > 0
        assert not ref.done()
        assert runtime.snapshot().waiting == ("Target: CPU=80",)
        assert "CPU=80" in runtime.explain(big)
        await actorlib.kill(big)
        assert isinstance(await raised(ref), ActorDiedError)
        assert runtime.snapshot().waiting == ()


async def test_killing_an_actor_in_line_withdraws_its_demand() -> None:
    async with running(num_cpus=2) as runtime:
        holder = Target.options(num_cpus=2).remote()
        await holder
        waiting = Target.options(num_cpus=2).remote()
        behind = Target.options(num_cpus=1).remote()
        refs = [waiting.ping.remote(), waiting.ping.remote()]
        await holder.ping.remote()
        assert runtime.snapshot().waiting == ("Target: CPU=2", "Target: CPU=1")
        await actorlib.kill(waiting)
        assert runtime.snapshot().waiting == ("Target: CPU=1",)
        for ref in (*refs, waiting.ping.remote(), waiting):
            error = await raised(ref)
            assert isinstance(error, ActorDiedError)
            assert (error.exit.cause, error.exit.pid) == ("asked", 0)
        await actorlib.kill(holder)
        assert await behind.ping.remote() > 0
        assert runtime.available_resources()["CPU"] == 1


async def test_killing_in_the_turn_of_the_creation() -> None:
    async with running(num_cpus=2) as runtime:
        target = Target.options(num_cpus=2).remote()
        ref = target.ping.remote()
        await actorlib.kill(target)
        assert isinstance(await raised(ref), ActorDiedError)
        assert runtime.available_resources()["CPU"] == 2


async def test_custom_resources_may_be_fractional() -> None:
    async with running(resources={"licence": 1, "disk": 2}) as runtime:
        ask = Target.options(resources={"licence": 0.4, "disk": 1.5})
        first = ask.remote()
        await first
        assert runtime.available_resources()["licence"] == 0.6
        assert runtime.available_resources()["disk"] == 0.5
        second = ask.remote()
        small = Target.options(resources={"licence": 0.6}).remote()
        # What the second waits for is the disk, but its licence is set aside.
        await first.ping.remote()
        assert runtime.snapshot().waiting == (
            "Target: licence=0.4, disk=1.5",
            "Target: licence=0.6",
        )
        await actorlib.kill(second)
        assert await small.ping.remote() > 0


async def test_tenths_add_up() -> None:
    async with running(resources={"x": 1}) as runtime:
        tenths = [Target.options(resources={"x": 0.1}).remote() for _ in range(10)]
        await asyncio.gather(*tenths)
        assert runtime.available_resources()["x"] == 0.0
        await asyncio.gather(*map(actorlib.kill, tenths))
        assert runtime.available_resources()["x"] == 1.0


async def test_zero_is_the_same_as_not_asking(two_gpus: Runtime) -> None:
    zero = seeing(num_cpus=0, num_gpus=0, memory=0, resources={"x": 0}).remote()
    assert await zero.seen.remote() == ([], "")
    assert (await zero.context.remote())[2] == {}
    assert two_gpus.available_resources() == two_gpus.cluster_resources()
    default = seeing().remote()
    assert (await default.context.remote())[2] == {}


@pytest.mark.usefixtures("two_gpus")
async def test_a_device_that_is_held_is_given_to_nobody_else() -> None:
    whole = seeing(num_gpus=1)
    first, second = whole.remote(), whole.remote()
    ids = [*(await first.seen.remote())[0], *(await second.seen.remote())[0]]
    assert sorted(ids) == [0, 1]
    half = seeing(num_gpus=0.5).remote()
    ref = half.seen.remote()
    await first.seen.remote()
    assert not ref.done()
    await actorlib.kill(second)
    assert await ref == ([1], "1")


async def test_ten_thousand_custom_resources() -> None:
    names = [f"r{number}" for number in range(10_000)]
    async with running(resources=dict.fromkeys(names, 1)) as runtime:
        everything = Target.options(resources=dict.fromkeys(names, 1)).remote()
        await everything
        last = Target.options(resources={"r9999": 0.5}).remote()
        await everything.ping.remote()
        assert runtime.available_resources()["r9999"] == 0
        assert len(runtime.snapshot().waiting) == 1
        await actorlib.kill(everything)
        assert await last.ping.remote() > 0
        assert runtime.available_resources()["r9999"] == 0.5
        assert runtime.available_resources()["r0"] == 1


async def test_a_type_may_be_declared_and_is_then_merely_counted() -> None:
    named = {"accelerator_type:V100": 1}
    async with running(num_gpus=1, resources=named) as runtime:
        actor = seeing(num_gpus=1, accelerator_type="V100").remote()
        assert (await actor.context.remote())[2] == {
            "GPU": 1.0,
            "accelerator_type:V100": 0.001,
        }
        assert runtime.available_resources()["accelerator_type:V100"] == 0.999
        error = await raised(Target.options(accelerator_type="V10").remote())
        assert isinstance(error, ActorUnschedulableError)
        assert "this machine has 1 of V100. Did you mean 'V100'?" in str(error)


async def test_a_type_that_is_not_here_waits_where_that_is_asked_for() -> None:
    async with running(infeasible="wait") as runtime:
        waiting = Target.options(accelerator_type="V100").remote()
        ref = waiting.ping.remote()
        assert await Target.remote().ping.remote() > 0
        assert not ref.done()
        assert runtime.snapshot().waiting == ("Target: accelerator_type:V100=0.001",)
        await actorlib.kill(waiting)
        assert isinstance(await raised(ref), ActorDiedError)


@pytest.mark.process
@pytest.mark.parametrize(
    "resources",
    [
        *({kind: 0.5} for kind in ("HPU", "neuron_cores", "TPU", "RBLN", "MBLT")),
        {"FURIOSA": 1.5},
        {"TTNPU": 0.1},
        {"TPU": 2.5},
        {"TPU": 3},
        {"NPU": 1.5},
    ],
    ids=repr,
)
def test_what_a_kind_never_gives_is_refused_at_decoration(
    resources: dict[str, float],
) -> None:
    with pytest.raises(ValueError, match=f"of {next(iter(resources))} can never"):
        actorlib.remote(resources=resources)
    with pytest.raises(ValueError, match=f"of {next(iter(resources))} can never"):
        Target.options(resources=resources)


async def test_an_npu_may_be_shared() -> None:
    async with running(resources={"NPU": 1}) as runtime:
        halves = [Target.options(resources={"NPU": 0.5}).remote() for _ in range(2)]
        await asyncio.gather(*halves)
        assert runtime.available_resources()["NPU"] == 0


async def test_memory_counts_how_many_fit_and_limits_nothing() -> None:
    async with running(memory=GIB) as runtime:
        ask = Caller.options(memory=GIB / 2 + 0.9)
        first, second = ask.remote(), ask.remote()
        third = ask.remote()
        await asyncio.gather(first, second)
        assert runtime.available_resources()["memory"] == 0
        small = Caller.options(memory=1024).remote()
        await actorlib.kill(second)
        await third
        # It may use more than it counts with.
        await actorlib.kill(first)
        assert await small.run.remote(lambda: len(bytearray(1 << 20))) == 1 << 20


async def test_num_cpus_are_those_this_process_may_use_or_those_declared() -> None:
    async with actorlib.init(num_gpus=0) as runtime:
        there = runtime.cluster_resources()
        assert 1 <= there["CPU"] <= len(os.sched_getaffinity(0))
        assert there["memory"] > 0
    async with actorlib.init(num_cpus=1000, num_gpus=0) as runtime:
        assert runtime.cluster_resources()["CPU"] == 1000
        assert await Target.options(num_cpus=1000).remote().ping.remote() > 0
    async with actorlib.init(num_cpus=0, num_gpus=0) as runtime:
        # By decision: an actor that asks for no CPU needs none to be placed.
        assert await Target.remote().ping.remote() > 0
        error = await raised(Target.options(num_cpus=1).remote())
        assert isinstance(error, ActorUnschedulableError)


# Devices.


@pytest.mark.parametrize("start_method", ["template", "spawn"])
async def test_ids_are_the_same_in_the_constructor_and_in_every_method(
    start_method: Any,
) -> None:
    async with running(num_gpus=4, start_method=start_method):
        actor = seeing(num_gpus=3).remote()
        expected = ([0, 1, 2], "0,1,2")
        assert await actor.first.remote() == expected
        assert await actor.seen.remote() == expected
        assert await actor.seen_later.remote() == expected
        assert await actor.seen.remote() == expected


async def test_whole_devices_are_disjoint_and_cover_all() -> None:
    async with running(num_gpus=4) as runtime:
        singles = [seeing(num_gpus=1).remote() for _ in range(4)]
        seen = await asyncio.gather(*(actor.seen.remote() for actor in singles))
        assert sorted(ids for ids, _ in seen) == [[0], [1], [2], [3]]
        assert all(mask == str(ids[0]) for ids, mask in seen)
        assert runtime.available_resources()["GPU"] == 0
        await asyncio.gather(*map(actorlib.kill, singles))
        pairs = [seeing(num_gpus=2).remote() for _ in range(2)]
        seen = await asyncio.gather(*(actor.seen.remote() for actor in pairs))
        assert sorted(seen) == [([0, 1], "0,1"), ([2, 3], "2,3")]


async def test_six_halves_on_three_devices() -> None:
    async with running(num_gpus=3):
        halves = [seeing(num_gpus=0.5).remote() for _ in range(6)]
        seen = await asyncio.gather(*(actor.seen.remote() for actor in halves))
        assert [ids for ids, _ in seen] == [[0], [0], [1], [1], [2], [2]]
        assert [mask for _, mask in seen] == ["0", "0", "1", "1", "2", "2"]


async def test_shares_go_where_they_fit_best(two_gpus: Runtime) -> None:
    async def placed(share: float) -> Any:
        actor = seeing(num_gpus=share).remote()
        (number,), _ = await actor.seen.remote()
        return actor, number

    most, of_most = await placed(0.7)
    half, of_half = await placed(0.5)
    rest, of_rest = await placed(0.3)
    assert (of_most, of_half, of_rest) == (0, 1, 0)
    last, of_last = await placed(0.5)
    assert of_last == 1
    assert two_gpus.available_resources()["GPU"] == 0
    shares = [row.devices for row in two_gpus.snapshot().actors]
    assert shares == [{"0": 0.7}, {"1": 0.5}, {"0": 0.3}, {"1": 0.5}]
    del most, half, rest, last


@pytest.mark.process
@pytest.mark.parametrize("start_method", ["template", "spawn"])
async def test_the_mask_is_set_before_user_code_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start_method: Any
) -> None:
    (tmp_path / "masked_module.py").write_text(
        "import os\n"
        "import actorlib\n"
        "AT_IMPORT = os.environ.get('CUDA_VISIBLE_DEVICES')\n"
        "class Argument:\n"
        "    pass\n"
        "@actorlib.remote(num_gpus=1)\n"
        "class Actor:\n"
        "    AT_CLASS = os.environ.get('CUDA_VISIBLE_DEVICES')\n"
        "    def __init__(self, argument):\n"
        "        self.argument = argument\n"
        "    def seen(self):\n"
        "        return AT_IMPORT, self.AT_CLASS, actorlib.get_gpu_ids()\n",
        encoding="utf-8",
    )
    monkeypatch.syspath_prepend(tmp_path)
    import masked_module  # type: ignore[import-not-found]  # noqa: PLC0415

    monkeypatch.setitem(sys.modules, "masked_module", masked_module)
    async with running(num_gpus=2, start_method=start_method):
        actors = [
            masked_module.Actor.remote(masked_module.Argument()) for _ in range(2)
        ]
        seen = await asyncio.gather(*(actor.seen.remote() for actor in actors))
        assert sorted(seen) == [("0", "0", [0]), ("1", "1", [1])]
    assert masked_module.AT_IMPORT is None
    monkeypatch.delitem(sys.modules, "masked_module")


@pytest.mark.usefixtures("two_gpus")
async def test_an_actor_without_a_device_sees_none() -> None:
    actor = seeing(num_cpus=1).remote()
    assert await actor.first.remote() == ([], "")
    inheriting = seeing(accelerators="inherit").remote()
    assert await inheriting.first.remote() == ([], None)


async def test_the_owner_s_view_is_passed_on_when_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(MASK, "4,5")
    async with running(num_gpus=2):
        assert await seeing(accelerators="inherit").remote().seen.remote() == (
            [],
            "4,5",
        )
        assert await seeing(accelerators="hide").remote().seen.remote() == ([], "")
        inherits_and_holds = seeing(accelerators="inherit", num_gpus=1).remote()
        assert await inherits_and_holds.seen.remote() == (["4"], "4")
    monkeypatch.setenv("ACTORLIB_HIDE_DEVICES", "0")
    async with running(num_gpus=2):
        assert await seeing().remote().seen.remote() == ([], "4,5")
        assert await seeing(accelerators="hide").remote().seen.remote() == ([], "")


async def test_without_any_device_nothing_is_touched() -> None:
    async with running(num_gpus=0):
        assert await seeing().remote().seen.remote() in (([], None), ([], ""))


@pytest.mark.parametrize("mask", ["", "NoDevFiles", "-1"])
async def test_a_mask_that_hides_everything_means_no_device(
    monkeypatch: pytest.MonkeyPatch, mask: str
) -> None:
    monkeypatch.setenv(MASK, mask)
    async with actorlib.init(num_cpus=1) as runtime:
        assert runtime.cluster_resources().get("GPU", 0) == 0
        error = await raised(Target.options(num_gpus=1).remote())
        assert isinstance(error, ActorUnschedulableError)
    with pytest.raises(ValueError, match=MASK):
        await actorlib.init(num_gpus=1)
    assert not actorlib.is_initialized()


async def test_more_than_the_mask_names_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(MASK, "2,3")
    with pytest.raises(ValueError, match=r"3 GPU declared.*2,3"):
        await actorlib.init(num_gpus=3)
    async with running(num_gpus=1) as runtime:
        assert runtime.cluster_resources()["GPU"] == 1
        assert await seeing(num_gpus=1).remote().seen.remote() == (["2"], "2")


async def test_more_may_be_declared_than_exist() -> None:
    async with running(num_gpus=64) as runtime:
        assert runtime.cluster_resources()["GPU"] == 64
        ids, mask = await seeing(num_gpus=64).remote().seen.remote()
        assert ids == list(range(64))
        assert mask == ",".join(map(str, ids))


async def test_the_variable_is_left_alone_where_that_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(NOSET, "1")
    async with running(num_gpus=2):
        assert await seeing(num_gpus=1).remote().seen.remote() == ([0], None)
        assert await seeing().remote().seen.remote() == ([], None)


async def test_a_freed_device_goes_to_the_next_in_line() -> None:
    async with running(num_gpus=1) as runtime:
        for _ in range(5):
            actor = seeing(num_gpus=1).remote()
            assert await actor.seen.remote() == ([0], "0")
            del actor
        actors = [seeing(num_gpus=1).remote() for _ in range(5)]
        refs = [actor.seen.remote() for actor in actors]
        for actor, ref in zip(actors, refs, strict=True):
            assert await ref == ([0], "0")
            await actorlib.kill(actor)
        assert runtime.available_resources()["GPU"] == 1


@pytest.mark.usefixtures("two_gpus")
async def test_a_crash_frees_its_device() -> None:
    holder = seeing(num_gpus=2).remote()
    await holder
    waiting = seeing(num_gpus=2).remote()
    holder.leave.remote("kill")
    assert await waiting.seen.remote() == ([0, 1], "0,1")


@pytest.mark.parametrize("mask", ["ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"])
async def test_amd_s_are_gpus_and_either_of_its_masks_is_honoured(
    monkeypatch: pytest.MonkeyPatch, mask: str
) -> None:
    # By decision: Ray refuses ROCr's mask, of which its documents speak.
    pretender(monkeypatch)("amd_mi300x", **{mask: "4,6"})
    async with running(num_gpus=2):
        actor = seeing(num_gpus=2).remote()
        assert (await actor.seen.remote())[0] == ["4", "6"]
        shown = await actor.variable.remote(
            "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"
        )
        assert shown == ["4,6", "0,1"]


async def test_intel_s_are_gpus_and_its_selector_is_honoured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pretend = pretender(monkeypatch)
    pretend("intel_max1550", ONEAPI_DEVICE_SELECTOR="level_zero:0,1")
    async with running(num_gpus=None) as runtime:
        assert runtime.cluster_resources()["GPU"] == 2
        actors = [seeing(num_gpus=1).remote() for _ in range(2)]
        seen = await asyncio.gather(*(actor.seen.remote() for actor in actors))
        assert [ids for ids, _ in seen] == [["0"], ["1"]]
        masks = [await actor.variable.remote("ZE_AFFINITY_MASK") for actor in actors]
        assert masks == [["0"], ["1"]]


async def test_types_are_called_as_in_ray(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = {
        "Tesla V100-SXM2-16GB": "V100",
        "NVIDIA A100-SXM4-40GB": "A100",
        "NVIDIA GeForce RTX 4090": "GeForce-RTX-4090",
    }
    cards = [Card(uuid=f"GPU-{n}", name=name) for n, name in enumerate(names)]
    monkeypatch.setattr("actorlib._owner.machine.Host", lambda: nvidia_host(*cards))
    async with running(num_gpus=None):
        for place, name in enumerate(names.values()):
            actor = seeing(num_gpus=1, accelerator_type=name).remote()
            assert (await actor.seen.remote())[0] == [place]
            held = (await actor.context.remote())[2]
            assert held == {"GPU": 1.0, f"accelerator_type:{name}": 0.001}


@pytest.mark.usefixtures("two_gpus")
async def test_the_owner_has_no_ids() -> None:
    assert actorlib.get_gpu_ids() == []
    context = actorlib.get_runtime_context()
    assert context.get_actor_id() is None
    assert context.get_assigned_resources() == {}
    assert not any(context.get_accelerator_ids().values())


async def test_without_a_runtime_there_are_no_ids() -> None:
    assert actorlib.get_gpu_ids() == []
    with pytest.raises(RuntimeError, match="init"):
        actorlib.get_runtime_context()


@pytest.mark.parametrize(
    ("mask", "ids"),
    [
        ("3,5,7", ["3", "5", "7"]),
        ("1,0", ["1", "0"]),
        ("GPU-aa11,GPU-bb22", ["GPU-aa11", "GPU-bb22"]),
        ("MIG-1234,MIG-5678", ["MIG-1234", "MIG-5678"]),
    ],
)
async def test_ids_are_the_owner_s_and_the_mask_is_made_of_them(
    monkeypatch: pytest.MonkeyPatch, mask: str, ids: list[str]
) -> None:
    monkeypatch.setenv(MASK, mask)
    async with running(num_gpus=len(ids)) as runtime:
        actors = [seeing(num_gpus=1).remote() for _ in ids]
        seen = await asyncio.gather(*(actor.seen.remote() for actor in actors))
        assert seen == [([name], name) for name in ids]
        assert [row.mask for row in runtime.snapshot().actors] == ids
        await asyncio.gather(*map(actorlib.kill, actors))
        both = seeing(num_gpus=2).remote()
        assert await both.seen.remote() == (ids[:2], ",".join(ids[:2]))


@pytest.mark.usefixtures("two_gpus")
async def test_ids_by_kind_are_text_and_gpu_ids_are_numbers() -> None:
    actor = seeing(num_gpus=2).remote()
    assert (await actor.seen.remote())[0] == [0, 1]
    ids = (await actor.context.remote())[1]
    assert ids.pop("GPU") == ["0", "1"]
    assert ids == {kind: [] for kind in KINDS if kind != "GPU"}


@pytest.mark.usefixtures("two_gpus")
async def test_devices_are_counted_in_the_order_that_nvidia_smi_counts_them() -> None:
    actor = seeing(num_gpus=1).remote()
    assert await actor.variable.remote("CUDA_DEVICE_ORDER") == ["PCI_BUS_ID"]


async def test_assigned_resources_are_what_was_asked() -> None:
    async with running(num_gpus=2, memory=GIB, resources={"x": 2}):
        cases: list[tuple[dict[str, Any], dict[str, float]]] = [
            ({}, {}),
            ({"num_cpus": 4}, {"CPU": 4.0}),
            ({"num_cpus": 0.5, "num_gpus": 0.25}, {"CPU": 0.5, "GPU": 0.25}),
            ({"num_gpus": 2}, {"GPU": 2.0}),
            (
                {"memory": 1000.9, "resources": {"x": 1.5}},
                {"memory": 1000, "x": 1.5},
            ),
        ]
        for asked, expected in cases:
            actor = seeing(**asked).remote()
            actor_id, ids, assigned = await actor.context.remote()
            assert assigned == expected
            assert repr(actor) == f"Actor(Actor, {actor_id})"
            assert len(ids["GPU"]) == -(-expected.get("GPU", 0) // 1)
            await actorlib.kill(actor)


# Threads of libraries.


@pytest.mark.parametrize("start_method", ["template", "spawn"])
@pytest.mark.parametrize(("cpus", "threads"), [(1, "1"), (2.5, "2"), (0.5, "1")])
async def test_libraries_get_as_many_threads_as_there_are_cpus(
    start_method: Any, cpus: float, threads: str
) -> None:
    async with running(start_method=start_method):
        actor = seeing(num_cpus=cpus).remote()
        assert await actor.variable.remote(*THREADS) == [threads] * len(THREADS)


@pytest.mark.usefixtures("two_gpus")
async def test_without_cpus_nothing_is_limited() -> None:
    for actor in (seeing().remote(), seeing(num_gpus=1).remote()):
        assert await actor.variable.remote(*THREADS) == [None] * len(THREADS)


async def test_what_the_user_has_set_is_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    async with running():
        for actor in (seeing().remote(), seeing(num_cpus=2).remote()):
            assert await actor.variable.remote("OMP_NUM_THREADS") == ["7"]


# Fair waiting.


async def test_a_stream_of_halves_does_not_starve_a_whole(two_gpus: Runtime) -> None:
    halves = [seeing(num_gpus=0.5).remote() for _ in range(3)]
    await asyncio.gather(*halves)
    whole = seeing(num_gpus=1).remote()
    wanted = whole.seen.remote()
    # There is room for a half, and it would delay the whole for as long as it lives.
    later = [seeing(num_gpus=0.5).remote() for _ in range(3)]
    refs = [actor.seen.remote() for actor in later]
    await halves[0].seen.remote()
    assert len(two_gpus.snapshot().waiting) == 4
    await actorlib.kill(halves[2])
    assert await wanted == ([1], "1")
    assert not any(ref.done() for ref in refs)
    await actorlib.kill(halves[0])
    assert await refs[0] == ([0], "0")
    await actorlib.kill(whole)
    assert await asyncio.gather(*refs[1:]) == [([1], "1"), ([1], "1")]


async def test_those_who_wait_are_served_in_order() -> None:
    async with running(num_gpus=1):
        holder = seeing(num_gpus=1).remote()
        await holder
        waiting = [seeing(num_gpus=0.4).remote() for _ in range(4)]
        refs = [actor.seen.remote() for actor in waiting]
        await actorlib.kill(holder)
        await asyncio.gather(*refs[:2])
        assert not refs[2].done()
        await actorlib.kill(waiting[1])
        await refs[2]
        assert not refs[3].done()
        await actorlib.kill(waiting[0])
        await refs[3]


@pytest.mark.usefixtures("two_gpus")
async def test_who_needs_nothing_of_it_passes_one_who_waits() -> None:
    holder = seeing(num_gpus=2).remote()
    await holder
    waiting = seeing(num_gpus=1, num_cpus=1).remote()
    ref = waiting.seen.remote()
    assert await Target.options(num_cpus=3).remote().ping.remote() > 0
    assert await Target.remote().ping.remote() > 0
    assert not ref.done()


async def test_who_would_take_what_one_in_line_needs_does_not_pass(
    two_gpus: Runtime,
) -> None:
    holder = seeing(num_gpus=2).remote()
    await holder
    waiting = seeing(num_gpus=1, num_cpus=2).remote()
    greedy = Target.options(num_cpus=3).remote()
    ref = greedy.ping.remote()
    modest = Target.options(num_cpus=2).remote()
    await holder.seen.remote()
    assert not ref.done()
    # Behind the greedy one nothing of the CPUs is left.
    assert two_gpus.snapshot().waiting == (
        "Actor: CPU=2, GPU=1",
        "Target: CPU=3",
        "Target: CPU=2",
    )
    await actorlib.kill(greedy)
    assert await modest.ping.remote() > 0
    await actorlib.kill(holder)
    assert await waiting.seen.remote() == ([0], "0")


async def test_actors_made_by_actors_stand_in_the_same_line() -> None:
    async with running(num_cpus=1) as runtime:
        holder = Target.options(num_cpus=1).remote()
        await holder
        caller = Caller.remote()
        made = await caller.make.remote(Target.options(num_cpus=1))
        own = Target.options(num_cpus=1).remote()
        refs = [made.ping.remote(), own.ping.remote()]
        await holder.ping.remote()
        assert runtime.snapshot().waiting == ("Target: CPU=1", "Target: CPU=1")
        await actorlib.kill(holder)
        await refs[0]
        assert not refs[1].done()
        await actorlib.kill(made)
        await refs[1]


# Telling.


async def test_explain_tells_why_one_waits_and_where_one_is(
    two_gpus: Runtime,
) -> None:
    holders = [seeing(num_gpus=0.5).remote() for _ in range(3)]
    await asyncio.gather(*holders)
    whole = seeing(num_gpus=1).remote()
    behind = seeing(num_gpus=0.5).remote()
    await holders[0].seen.remote()  # by now they stand in line
    pids = [holder.pid for holder in two_gpus.snapshot().actors[:3]]
    assert two_gpus.explain(whole) == (
        "Actor asks GPU=1; the largest free slice is GPU=0.5 on device 1 "
        "(free: 0: 0, 1: 0.5). Held: "
        + ", ".join(f"GPU=0.5 by Actor (pid {pid})" for pid in pids)
    )
    told = two_gpus.explain(behind)
    assert told.startswith("Actor asks GPU=0.5; that is free")
    assert "Ahead of it in line: Actor (GPU=1)" in told
    assert two_gpus.explain(holders[0]).partition("\n")[0] == (
        f"Actor (pid {pids[0]}) is alive on 0.5 of GPU 0"
    )
    assert two_gpus.explain(Target.remote())
    await actorlib.kill(holders[2])
    told = two_gpus.explain(holders[2])
    assert told.startswith(f"Actor (pid {pids[2]}) is dead: it was killed")
    await whole
    assert two_gpus.explain(whole).endswith(") is alive on 1 of GPU 1")


async def test_explain_knows_those_who_were_made_in_the_same_turn(
    two_gpus: Runtime,
) -> None:
    first, second = (Target.options(num_gpus=2).remote() for _ in range(2))
    told = two_gpus.explain(second)
    assert "that is free" not in told
    pid = await first.ping.remote()
    assert two_gpus.explain(second) == (
        f"Target asks GPU=2; all of GPU=2 is taken. Held: GPU=2 by Target (pid {pid})"
    )


async def test_snapshot_tells_what_there_is_and_who_holds_it(
    two_gpus: Runtime,
) -> None:
    half = seeing(num_gpus=0.5, num_cpus=2).remote()
    nothing = Echo.remote()
    waiting = seeing(num_gpus=2).remote()
    await asyncio.gather(half, nothing)
    told = two_gpus.snapshot()
    assert (told.total["GPU"], told.total["CPU"]) == (2, 4)
    assert (told.available["GPU"], told.available["CPU"]) == (1.5, 2)
    assert told.total["memory"] == told.available["memory"] > 0
    assert told.waiting == ("Actor: GPU=2",)
    first, second, third = told.actors
    assert (first.class_name, first.state, first.devices) == (
        "Actor",
        "alive",
        {"0": 0.5},
    )
    assert (first.resources, first.mask) == ({"CPU": 2.0, "GPU": 0.5}, "0")
    assert (second.class_name, second.devices, second.mask) == ("Echo", {}, None)
    assert second.pid == await nothing.pid.remote()
    assert (third.state, third.pid, third.devices) == ("pending", 0, {})
    assert third.resources == {"GPU": 2.0}
    assert all(row.death == "" for row in told.actors)
    ref = waiting.seen.remote()
    assert two_gpus.snapshot().actors[2].pending_calls == 1
    await actorlib.kill(waiting)
    await raised(ref)
    assert "killed" in two_gpus.snapshot().actors[2].death


async def test_a_kill_is_over_when_the_process_is_gone_and_the_share_is_back(
    two_gpus: Runtime,
) -> None:
    actor = seeing(num_gpus=2).remote()
    await actor
    (row,) = two_gpus.snapshot().actors
    await actorlib.kill(actor)
    assert two_gpus.available_resources()["GPU"] == 2
    await asyncio.wait_for(gone(row.pid), 5)


# The program of the README.


async def test_the_first_program() -> None:
    @actorlib.remote(num_gpus=0.5)
    class Model:
        def __init__(self, name: str) -> None:
            self.name = name

        def ping(self) -> Any:
            return (
                self.name,
                actorlib.get_gpu_ids(),
                os.environ["CUDA_VISIBLE_DEVICES"],
                os.getpid(),
            )

        async def later(self, x: int) -> int:
            await asyncio.sleep(0.1)
            return x * 2

    async with actorlib.init(num_gpus=2) as runtime:
        models = [Model.remote(f"m{i}") for i in range(3)]
        pings = await asyncio.gather(*(m.ping.remote() for m in models))
        assert [ping[:3] for ping in pings] == [
            ("m0", [0], "0"),
            ("m1", [0], "0"),
            ("m2", [1], "1"),
        ]
        assert len({ping[3] for ping in pings} | {os.getpid()}) == 4
        assert await models[0].later.remote(21) == 42
        big = Model.options(num_gpus=1).remote("big")
        assert runtime.explain(big).startswith("Model asks GPU=1; the largest free")
        await actorlib.kill(models[2])
        assert (await big.ping.remote())[:3] == ("big", [1], "1")
