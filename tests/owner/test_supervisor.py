"""Lives, and what is given back at their end whatever goes wrong in it."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING, Any, NoReturn, cast

import pytest
from helpers.actors import LIMIT, end_of
from helpers.scripted import be_polite, be_silent, scripted
from helpers.turns import in_time, next_turn

import actorlib
from actorlib._api.actor_handle import pin_of
from actorlib._core.engine import find_engine
from actorlib._owner import machine
from actorlib._owner.actors import restart_policy
from actorlib._owner.actors.worker_session import Phase
from actorlib._processes.launcher import ProcessExit
from actorlib._wire.actor_config import ActorConfig
from actorlib._wire.messages import START
from actorlib.accelerators import Host
from actorlib.exceptions import ActorDiedError, ActorlibError, ActorUnavailableError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from helpers.scripted import Behaviour, ScriptedLauncher, ScriptedWorker

    from actorlib._owner.actors.worker_session import WorkerSession
    from actorlib._owner.engine import LocalEngine
    from actorlib._wire.messages import Frame


@actorlib.remote
class Doomed:
    def work(self) -> None: ...


@actorlib.remote
class Holding:
    def __init__(self, held: Any) -> None: ...


@actorlib.remote
class Neighbour:
    def work(self) -> None: ...


def _engine() -> LocalEngine:
    return cast("LocalEngine", find_engine())


def _session_of(actor: Any) -> WorkerSession:
    session = _engine().actor_table.by_id[pin_of(actor).actor_id].session
    assert session is not None
    return session


def _raise(*_: object, **__: object) -> NoReturn:
    raise TypeError("a step of the end is broken")


_STEPS = [
    "references.forget",
    "object_store.mark",
    "placer.forget",
    "actor_names.leave",
]


async def _kill_is_complete(spoil: Callable[[Any], None], reset: Any) -> None:
    """Asserts that a kill has ended all, although a step of it was spoilt.

    Args:
        spoil: Spoils a step of the end of an actor.
        reset: Undoes that.
    """
    async with scripted({"Doomed": be_silent}, num_cpus=2, num_gpus=1) as launcher:
        doomed, neighbour = Doomed.options(num_gpus=0.5).remote(), Neighbour.remote()
        await doomed
        called = doomed.work.remote()
        await neighbour.work.remote()
        spoil(doomed)
        await asyncio.wait_for(actorlib.kill(doomed), LIMIT)
        reset()
        with pytest.raises(ActorDiedError, match="was killed"):
            await called
        assert _engine().available()["GPU"] == 1
        assert launcher.workers[0].exited.done()
        await neighbour.work.remote()


@pytest.mark.parametrize("step", _STEPS)
async def test_kill_when_a_step_of_the_end_fails_then_share_and_answers_are_back(
    step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def spoil(_: Any) -> None:
        table: Any = _engine().actor_table
        *path, name = step.split(".")
        for part in path:
            table = getattr(table, part)
        monkeypatch.setattr(table, name, _raise)

    await _kill_is_complete(spoil, monkeypatch.undo)


async def test_kill_when_all_of_cleanup_fails_then_share_and_answers_are_back() -> None:
    def spoil(doomed: Any) -> None:
        for phase in Phase:
            _session_of(doomed).cleanup.add(phase, lambda *_: _raise())

    await _kill_is_complete(spoil, lambda: None)


async def test_kill_when_a_wish_cannot_be_resolved_then_its_group_can_be_removed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with scripted({"Doomed": be_silent}, num_cpus=2):
        group = actorlib.placement_group([{"CPU": 1}])
        await Doomed.options(num_cpus=1, placement_group=group).remote()
        monkeypatch.setattr(_engine().actor_table.placer, "forget", _raise)
        async with in_time():
            await actorlib.remove_placement_group(group)


async def test_shutdown_when_a_step_of_it_fails_then_the_others_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    closed: list[int] = []
    async with scripted({"Doomed": be_silent}, num_cpus=2) as launcher:
        doomed = await Doomed.remote()
        monkeypatch.setattr(_engine().actor_table.groups, "close", _raise)
        _engine().at_end(_raise)
        _engine().at_end(lambda: closed.append(1))

    assert closed == [1]
    assert launcher.workers[0].exited.done()
    del doomed


async def test_kill_when_one_answer_cannot_be_given_then_the_others_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with scripted({"Doomed": be_silent}, num_cpus=2):
        doomed = Doomed.remote()
        await doomed
        first, second = doomed.work.remote(), doomed.work.remote()
        monkeypatch.setattr(first, "done", _raise)
        await asyncio.wait_for(actorlib.kill(doomed), LIMIT)
        with pytest.raises(ActorDiedError):
            await second


async def test_restart_when_the_end_of_a_session_fails_then_the_actor_restarts() -> (
    None
):
    async with scripted({"Doomed": be_silent}, num_cpus=2) as launcher:
        doomed = Doomed.options(max_restarts=-1).remote()
        await doomed
        _session_of(doomed).cleanup.add(Phase.ANSWERS, _raise)
        called = doomed.work.remote()
        launcher.workers[0].kill()
        with pytest.raises(ActorUnavailableError):
            await called
        await asyncio.wait_for(doomed, LIMIT)
        assert len(launcher.workers) == 2


@pytest.mark.parametrize("step", ["open_session", "start_frame"])
async def test_start_when_it_fails_by_a_bug_then_the_process_is_gone_before_the_share(
    step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with scripted({"Doomed": be_silent}, num_cpus=2, num_gpus=1) as launcher:
        table = _engine().actor_table
        scheduler, starter = table.scheduler, table.starter
        released: list[bool] = []
        release = scheduler.release

        def note(lease: Any) -> None:
            released.append(launcher.workers[0].exited.done())
            release(lease)

        monkeypatch.setattr(starter, step, _raise)
        monkeypatch.setattr(scheduler, "release", note)
        doomed = Doomed.options(num_gpus=1).remote()
        with pytest.raises(ActorlibError):
            await asyncio.wait_for(doomed, LIMIT)
        assert released == [True]
        assert _engine().available()["GPU"] == 1


LOST = ProcessExit(error="the template process died, and it with it", is_lost=True)


def lost_before_it_is_ready(times: int) -> Behaviour:
    """Is lost so often with the process that watches over it, and then is polite."""
    tries = itertools.count()

    def behave(worker: ScriptedWorker, frame: Frame) -> None:
        if frame[0] == START and next(tries) < times:
            worker.leave(LOST)
        else:
            be_polite(worker, frame)

    return behave


async def _state(actor: Any, state: str) -> None:
    life = _engine().actor_table.by_id[pin_of(actor).actor_id]
    while life.record.state.value != state:
        await next_turn()


@pytest.mark.parametrize("allowed", [0, 1])
async def test_actor_when_lost_before_it_is_ready_then_it_is_made_anew(
    allowed: int,
) -> None:
    behaviours = {"Doomed": lost_before_it_is_ready(2)}
    async with scripted(behaviours, num_cpus=2) as launcher:
        doomed = Doomed.options(max_restarts=allowed).remote()
        before = doomed.work.remote()
        async with in_time():
            await _state(doomed, "restarting")
            meanwhile = doomed.work.remote()
            assert [await before, await meanwhile, await doomed.work.remote()]
        (info,) = _engine().actors()
        assert (len(launcher.workers), info.restarts) == (3, 0)


def _class_of(start: Frame) -> str:
    return ActorConfig(**start[1]).class_name


async def test_actor_when_lost_before_it_is_ready_then_its_arguments_go_anew() -> None:
    behaviours = {"Holding": lost_before_it_is_ready(1)}
    async with scripted(behaviours, num_cpus=2) as launcher:
        neighbour = Neighbour.remote()
        actor, ended = pin_of(neighbour).actor_id, end_of(neighbour)
        holding = Holding.remote(neighbour)
        del neighbour
        async with in_time():
            await holding
            starts = [worker.frames[0] for worker in launcher.workers]
            loans = [frame[3] for frame in starts if _class_of(frame) == "Holding"]
            assert loans == [(actor,), (actor,)]
            assert not ended.done()
            await actorlib.kill(holding)
            await ended


async def test_actor_when_lost_again_and_again_then_it_is_dead_at_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(restart_policy, "_PAUSE", 0.0)
    async with scripted({"Doomed": lost_before_it_is_ready(1000)}, num_cpus=2):
        doomed = Doomed.options(max_restarts=-1).remote()
        with pytest.raises(ActorDiedError, match="after 10 tries") as caught:
            await asyncio.wait_for(doomed, LIMIT)
    assert caught.value.exit.cause == "failed to start"


class Kernel(Host):
    """A machine whose kernel has killed for lack of memory, so often as it is told.

    Attributes:
        kills: How often.
        looks: How often somebody has asked.
    """

    def __init__(self) -> None:
        self.kills = self.looks = 0

    def read_text(self, path: str) -> str | None:
        if path != "/proc/vmstat":
            return super().read_text(path)
        self.looks += 1
        return f"nr_free_pages 1\noom_kill {self.kills}\n"


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    kernel = Kernel()
    monkeypatch.setattr(machine, "Host", lambda: kernel)
    monkeypatch.setattr(machine, "_LOOK_INTERVAL", float("inf"))
    return kernel


async def _cause_of_kill(launcher: ScriptedLauncher) -> str:
    """How an actor ended whose process somebody else has killed."""
    doomed = Doomed.remote()
    await doomed
    launcher.workers[-1].leave(ProcessExit(signal=9))
    with pytest.raises(ActorDiedError) as caught:
        await asyncio.wait_for(doomed.work.remote(), LIMIT)
    return caught.value.exit.cause


async def test_end_when_the_kernel_has_killed_then_memory_is_to_blame(
    kernel: Kernel,
) -> None:
    async with scripted({"Doomed": be_silent}, num_cpus=2) as launcher:
        assert await _cause_of_kill(launcher) == "crashed"
        kernel.kills = 1
        assert await _cause_of_kill(launcher) == "out of memory"
        assert await _cause_of_kill(launcher) == "crashed"


async def test_end_when_it_was_asked_for_then_kills_before_are_of_the_past(
    kernel: Kernel,
) -> None:
    async with scripted({"Doomed": be_silent}, num_cpus=2) as launcher:
        kernel.kills = 1
        doomed = Doomed.remote()
        await doomed
        await actorlib.kill(doomed)
        assert await _cause_of_kill(launcher) == "crashed"


async def test_ends_when_asked_for_then_the_kernel_is_not_asked_for_each(
    kernel: Kernel,
) -> None:
    async with scripted({"Doomed": be_silent}, num_cpus=2):
        before = kernel.looks
        for _ in range(3):
            doomed = Doomed.remote()
            await doomed
            await actorlib.kill(doomed)
        assert kernel.looks == before + 1


# Cancelled, as by a second Ctrl-C, which cancels every task of the loop.


def be_hung(worker: ScriptedWorker, frame: Frame) -> None:
    """Is never ready."""


def be_deaf(worker: ScriptedWorker, frame: Frame) -> None:
    """Closes its pipe when it is called, and does not end."""
    be_silent(worker, frame)
    if frame[0] != START:
        worker.hang_up()


def be_mortal(worker: ScriptedWorker, frame: Frame) -> None:
    """Ends when it is called."""
    be_silent(worker, frame)
    if frame[0] != START:
        worker.leave(ProcessExit(code=1))


def _innermost(task: asyncio.Task[None] | None) -> str:
    """Names the coroutine in which a task waits."""
    assert task is not None
    coroutine: Any = task.get_coro()
    while hasattr(coroutine.cr_await, "cr_await"):
        coroutine = coroutine.cr_await
    return str(coroutine.__name__)


async def _turns() -> None:
    for _ in range(20):
        await next_turn()


async def _unstarted() -> Any:
    return Doomed.options(num_gpus=1).remote()


async def _without_arguments() -> Any:
    doomed = Holding.options(num_gpus=1).remote(await _silent_call())
    await _turns()
    return doomed


async def _silent_call() -> Any:
    silent = Neighbour.options(lifetime="detached").remote()
    await silent
    return silent.work.remote()


async def _in_line() -> Any:
    await Neighbour.options(num_gpus=1, lifetime="detached").remote()
    doomed = Doomed.options(num_gpus=1).remote()
    await _turns()
    return doomed


async def _without_neighbour() -> Any:
    await Neighbour.options(num_gpus=1, lifetime="detached").remote()
    near = Neighbour.options(num_gpus=1, lifetime="detached").remote()
    doomed = Doomed.options(near=near, num_gpus=0.5).remote()
    await _turns()
    return doomed


async def _starting() -> Any:
    doomed = Doomed.options(num_gpus=1).remote()
    await _turns()
    return doomed


async def _called() -> Any:
    doomed = Doomed.options(num_gpus=1, max_restarts=-1).remote()
    await doomed
    doomed.work.remote()
    await _turns()
    return doomed


async def _crashed_twice() -> Any:
    doomed = Doomed.options(num_gpus=1, max_restarts=-1).remote()
    for _ in range(2):
        await doomed
        with pytest.raises(ActorUnavailableError):
            await doomed.work.remote()
    return doomed


async def _failed_by_a_bug() -> Any:
    starter: Any = _engine().actor_table.starter
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(starter, "grace", LIMIT)
        patch.setattr(starter, "open_session", _raise)
        patch.setattr("helpers.scripted.ScriptedWorker.leave", lambda *_: None)
        return await _starting()


@pytest.mark.parametrize(
    ("reach", "place", "behave"),
    [
        (_unstarted, "_run", be_silent),
        (_without_arguments, "_await_arguments", be_silent),
        (_in_line, "granted", be_silent),
        (_without_neighbour, "neighbours", be_silent),
        (_starting, "run", be_hung),
        (_called, "run", be_silent),
        (_called, "run", be_deaf),
        (_crashed_twice, "sleep", be_mortal),
        (_failed_by_a_bug, "_wait", be_silent),
    ],
)
async def test_task_when_cancelled_at_any_place_then_its_actor_ends(
    reach: Callable[[], Awaitable[Any]], place: str, behave: Behaviour
) -> None:
    behaviours = {"Doomed": behave, "Neighbour": be_silent}
    async with scripted(behaviours, num_cpus=4, num_gpus=1):
        table = _engine().actor_table
        doomed = await reach()
        supervisor = table.by_id[pin_of(doomed).actor_id]
        task = supervisor._task
        assert _innermost(task) == place
        task.cancel()
        async with in_time():
            await asyncio.shield(supervisor.ended)
            with pytest.raises(ActorDiedError, match="shut down"):
                await doomed
            for other in [other for other in table if other is not supervisor]:
                other.kill("the test is over")
                await other.ended
        assert _engine().available()["GPU"] == 1


def _interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt


@pytest.mark.parametrize("is_interrupted_again", [False, True])
async def test_actor_when_interrupted_before_it_has_a_task_then_it_can_be_ended(
    monkeypatch: pytest.MonkeyPatch, *, is_interrupted_again: bool
) -> None:
    async with scripted({}, num_cpus=2, num_gpus=1):
        with monkeypatch.context() as patch:
            patch.setattr(
                "actorlib._owner.actors.placement.ActorPlacement.begin", _interrupt
            )
            with pytest.raises(KeyboardInterrupt):
                Doomed.options(num_gpus=1).remote()
        (supervisor,) = _engine().actor_table
        if is_interrupted_again:
            monkeypatch.setattr(supervisor, "_tear_down", _interrupt)
            with pytest.raises(KeyboardInterrupt):
                supervisor.kill("the test is over")
        else:
            supervisor.kill("the test is over")
            assert _engine().available()["GPU"] == 1
        assert supervisor.ended.done()
