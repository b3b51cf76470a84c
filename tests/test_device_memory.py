"""What is told of the memory that actors have on devices, and done about too much."""

from __future__ import annotations

import asyncio
import pickle
from typing import Any

import pytest
from helpers.actors import running
from helpers.gpus import (
    MEMORY,
    Model,
    OneCard,
    pid_on_the_card,
    wait_on_the_card,
)
from helpers.host import GIB
from helpers.nvml import Card, nvidia_host

import actorlib
from actorlib.exceptions import (
    ActorDiedError,
    ActorUnavailableError,
    DeviceMemoryExceeded,
    TaskUnschedulableError,
    UnsupportedOptionError,
    WorkerCrashedError,
)

pytestmark = pytest.mark.memory


TOO_MUCH = 60 * GIB


async def greedy(card: OneCard, **options: Any) -> tuple[Any, int]:
    """An actor with half of the card that has most of it."""
    actor = Model.options(num_gpus=0.5, **options).remote()
    pid = await actor.pid.remote()
    card.use(pid, TOO_MUCH)
    return actor, pid


async def test_overuse_when_nothing_is_said_then_a_warning_with_figures(
    card: OneCard, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(num_gpus=None):
        actor, pid = await greedy(card)
        await asyncio.sleep(6)

        assert await actor.pid.remote() == pid
        [line] = [line for line in caplog.messages if "device memory" in line]
        assert line == (
            f"Model (pid {pid}) takes more device memory than it was granted: it has "
            "60 GiB of GPU 0, and 0.5 of that, which is 40 GiB, was granted (its "
            "most: 60 GiB)"
        )
        card.let_go(pid)


async def test_overuse_when_kill_then_dead_with_figures(card: OneCard) -> None:
    async with running(num_gpus=None, device_memory_overuse="kill") as runtime:
        actor, pid = await greedy(card)
        await asyncio.sleep(6)
        assert runtime.snapshot().actors[0].state == "dead"
        card.let_go(pid)
        with pytest.raises(DeviceMemoryExceeded) as caught:
            await actor.pid.remote()

    error = caught.value
    assert isinstance(error, ActorDiedError)
    assert error.exit.cause == "device memory exceeded"
    assert (error.device, error.asked) == ("GPU 0", 0.5)
    assert (error.granted, error.used) == (MEMORY // 2, TOO_MUCH)
    assert error.moments[0][1] == TOO_MUCH
    assert f"Model (pid {pid}) is dead" in str(error)
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again)) == (type(error), str(error))
    assert (again.used, again.moments) == (error.used, error.moments)


async def test_overuse_when_kill_and_restarts_then_restarted_by_the_usual_rules(
    card: OneCard,
) -> None:
    async with running(num_gpus=None, device_memory_overuse="kill"):
        actor, pid = await greedy(card, max_restarts=1)
        pending = actor.wait.remote()
        with pytest.raises(ActorUnavailableError) as caught:
            await pending
        assert caught.value.exit.cause == "device memory exceeded"
        card.let_go(pid)
        await actor

        assert await actor.pid.remote() != pid


async def test_overuse_when_that_function_fails_then_it_is_logged(
    card: OneCard, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: DeviceMemoryExceeded) -> None:
        raise LookupError("it is broken")

    async with running(num_gpus=None, device_memory_overuse=fail):
        actor, pid = await greedy(card)
        await asyncio.sleep(6)

        assert await actor.pid.remote() == pid
        assert "it is broken" in caplog.text
        card.let_go(pid)


@pytest.mark.parametrize("word", ["off", "frameworks"])
async def test_overuse_when_a_weaker_tier_is_named_then_nobody_judges(
    card: OneCard, caplog: pytest.LogCaptureFixture, word: Any
) -> None:
    async with running(num_gpus=None):
        _, pid = await greedy(card, enforcement=word)
        await asyncio.sleep(6)

        assert "device memory" not in caplog.text
        card.let_go(pid)


async def test_share_when_nobody_says_how_much_then_it_falls_to_frameworks(
    card: OneCard, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(num_gpus=None):
        actor = Model.options(num_gpus=0.5).remote()
        pid = await actor.pid.remote()
        card.use(pid, None)
        await asyncio.sleep(4)

        assert actor.share.enforced_by == "frameworks"
        assert "does not say how much" in actor.share.not_stronger_because
        assert caplog.text.count("does not say how much") == 1
        card.let_go(pid)


async def test_errors_when_out_of_device_memory_then_they_say_who_had_what(
    card: OneCard,
) -> None:
    async with running(num_gpus=None) as runtime:
        actor, pid = await greedy(card)
        await asyncio.sleep(3)
        [info] = runtime.snapshot().actors
        assert info.device_memory == {"0": TOO_MUCH}
        assert info.share.enforced_by == "watchdog"

        other = Model.options(num_gpus=0.5)
        said: list[str] = []
        for trouble in ("CUDA out of memory. Tried ...", "no"):
            with pytest.raises(ActorDiedError) as died:
                await other.remote(trouble)
            said.append(str(died.value))
        for trouble in ("CUDA error: out of memory", "no"):
            with pytest.raises(RuntimeError) as failed:
                await actor.fail.remote(trouble)
            said.append(str(failed.value.__cause__))
        card.let_go(pid)

    words = f"GPU 0: Model (pid {pid}) 60 GiB"
    assert [words in each for each in said] == [True, False, True, False]


async def test_snapshot_when_the_whole_device_is_held_then_nobody_watches(
    card: OneCard,
) -> None:
    async with running(num_gpus=None) as runtime:
        actor = await Model.options(num_gpus=1).remote()
        card.use(await actor.pid.remote())
        await asyncio.sleep(3)

        [info] = runtime.snapshot().actors
        assert info.device_memory == {}
        card.let_go(info.pid)


async def test_overuse_when_a_function_has_too_much_then_its_call_says_so(
    card: OneCard,
) -> None:
    async with running(num_gpus=None, device_memory_overuse="kill") as runtime:
        call = wait_on_the_card.remote()
        await asyncio.sleep(1)
        [group] = runtime.snapshot().worker_groups
        [pid] = group.pids
        card.use(pid, TOO_MUCH)
        with pytest.raises(WorkerCrashedError) as caught:
            await call
        card.let_go(pid)

    assert caught.value.exit.cause == "device memory exceeded"


# What an actor says of itself.


@pytest.mark.parametrize("is_own", [False, True])
async def test_overuse_when_a_function_is_given_then_it_is_called_with_the_error(
    card: OneCard, *, is_own: bool
) -> None:
    """The actor's own word counts before that of the runtime."""
    told: list[DeviceMemoryExceeded] = []
    own: Any = {"device_memory_overuse": told.append} if is_own else {}
    whole: Any = "kill" if is_own else told.append
    async with running(num_gpus=None, device_memory_overuse=whole):
        actor, pid = await greedy(card, **own)
        await asyncio.sleep(6)

        [error] = told
        assert (error.granted, error.used) == (MEMORY // 2, TOO_MUCH)
        assert error.actor_id
        assert await actor.pid.remote() == pid
        card.let_go(pid)


@actorlib.remote
class Maker:
    """Makes an actor, and calls a function, that are to call it back."""

    def make(self, action: Any) -> Any:
        return Model.options(num_gpus=0.5, device_memory_overuse=action).remote()

    def call(self, action: Any) -> Any:
        return pid_on_the_card.options(device_memory_overuse=action).remote()


async def test_overuse_when_a_worker_wants_to_be_called_then_refused(
    card: OneCard,
) -> None:
    async with running(num_gpus=None):
        maker = Maker.remote()
        for method in (maker.make, maker.call):
            with pytest.raises(UnsupportedOptionError, match="this is a worker"):
                await method.remote(print)
        made = await maker.make.remote("kill")
        assert await made.pid.remote()
        del card


# What is told.


async def test_share_when_told_then_in_words_before_the_start_and_after_it(
    card: OneCard,
) -> None:
    async with running(num_gpus=None) as runtime:
        actor = Model.options(num_gpus=0.5).remote()
        assert runtime.explain(actor) == (
            "Model was granted 0.5 (40 GiB) of GPU 0, and is about to start"
        )
        await actor
        said = str(actor.share)

        assert said.startswith(
            "0.5 (40 GiB) of GPU 0, enforced by watchdog. Why nothing stronger: mps: "
        )
        assert runtime.explain(actor).endswith(
            f"is alive on 0.5 (40 GiB) of GPU 0\n  {said}"
        )
        del card


# What a device cannot have.


@actorlib.remote(num_gpus=0.5, enforcement="watchdog", max_retries=0)
def where() -> list[int | str]:
    """The GPU that a call has a part of."""
    return actorlib.get_gpu_ids()


async def test_function_when_a_card_cannot_have_the_tier_then_it_runs_on_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cards = Card(uuid="GPU-1", memory=None), Card(uuid="GPU-2")
    monkeypatch.setattr("actorlib._owner.machine.Host", lambda: nvidia_host(*cards))
    async with running(num_gpus=None):
        assert await where.remote() == [1]
        with pytest.raises(TaskUnschedulableError, match="memory of GPU 0 is unknown"):
            await where.options(device="0").remote()
