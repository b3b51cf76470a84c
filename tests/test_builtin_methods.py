from __future__ import annotations

import asyncio
import atexit
from typing import TYPE_CHECKING, Any

import pytest
from helpers.actors import (
    AsyncCaller,
    Caller,
    Counter,
    Echo,
    Gate,
    Log,
    MixedLog,
    Stop,
    end_of,
)

import actorlib
from actorlib.exceptions import ActorDiedError, TaskError

if TYPE_CHECKING:
    from actorlib._core.runtime_options import RuntimeKeywords

pytestmark = [pytest.mark.memory, pytest.mark.asyncio(loop_scope="module")]

BUILT_IN = ["__ray_call__", "__ray_ready__", "__ray_terminate__"]
LOGS = [actorlib.remote(Log), actorlib.remote(MixedLog)]


@pytest.fixture(scope="module")
def runtime_options() -> RuntimeKeywords:
    return {"preload": [__name__], "num_cpus": 4, "grace": 0.5}


@pytest.mark.parametrize("name", BUILT_IN)
@pytest.mark.usefixtures("runtime")
async def test_without_remote_they_are_refused(name: str) -> None:
    with pytest.raises(TypeError, match=rf"\.{name}\.remote"):
        getattr(Echo.remote(), name)()


@pytest.mark.usefixtures("runtime")
async def test_dir_of_a_handle_has_them_and_of_a_class_not() -> None:
    counter = Counter.remote()

    assert sorted({*BUILT_IN, *dir(Counter)} - {"options", "remote", "spawn"}) == dir(
        counter
    )
    assert not set(BUILT_IN) & set(dir(Counter))


@pytest.mark.parametrize("log_class", LOGS)
@pytest.mark.usefixtures("runtime")
async def test_ready_is_true_once_the_constructor_has_finished(
    log_class: Any, stop: Stop
) -> None:
    log = log_class.remote(stop.place)
    ref = log.__ray_ready__.remote()
    await stop.reached()
    assert not ref.done()
    stop.release()

    assert await ref is True


@pytest.mark.usefixtures("runtime")
async def test_ready_fails_as_the_constructor_failed() -> None:
    @actorlib.remote
    class Failing:
        def __init__(self) -> None:
            raise ValueError("no")

    failing: Any = Failing.remote()
    with pytest.raises(ActorDiedError) as caught:
        await failing.__ray_ready__.remote()
    assert isinstance(caught.value.__cause__, ValueError)


@pytest.mark.parametrize("log_class", LOGS)
@pytest.mark.usefixtures("runtime")
async def test_call_runs_a_function_on_the_actor_s_object(
    log_class: Any,
) -> None:
    log = log_class.remote()
    await log.note.remote(1)

    def look(self: Any, number: int, *, more: int = 0, function: int = 0) -> Any:
        return self._seen, number + more + function

    assert await log.__ray_call__.remote(lambda self: self._seen) == [1]
    given = log.__ray_call__.remote(look, 1, more=2, function=3)
    assert await given == ([1], 6)
    with pytest.raises(TaskError, match="division"):
        await log.__ray_call__.remote(lambda _: 1 / 0)


@pytest.mark.usefixtures("runtime")
async def test_without_a_function_it_is_refused_here() -> None:
    counter = Counter.remote()
    with pytest.raises(TypeError, match="function"):
        counter.__ray_call__.remote()
    with pytest.raises(TypeError):
        counter.__ray_ready__.remote(1)
    with pytest.raises(TypeError):
        counter.__ray_terminate__.remote(1)


@pytest.mark.usefixtures("runtime")
async def test_other_actors_call_them_too() -> None:
    counter, caller = Counter.remote(3), Caller.remote()
    assert await caller.call.remote(counter, "__ray_ready__") is True
    total = caller.call.remote(counter, "__ray_call__", lambda self: self._total)
    assert await total == 3


@pytest.mark.usefixtures("runtime")
async def test_classes_of_any_make_have_them() -> None:
    @actorlib.remote
    class Slotted:
        __slots__ = ("value",)

        def __init__(self) -> None:
            self.value = 1

    class Meta(type):
        def __setattr__(cls, name: str, value: object) -> None:
            if name.startswith("__ray"):
                raise AttributeError(name)
            super().__setattr__(name, value)

    @actorlib.remote
    class Sealed(metaclass=Meta):
        pass

    @actorlib.remote
    class Own:
        def __ray_ready__(self) -> str:
            return "mine"

    made: list[Any] = [Slotted.remote(), Sealed.remote(), Own.remote()]
    for actor in made:
        assert await actor.__ray_ready__.remote() is True
    assert await made[0].__ray_call__.remote(lambda self: self.value) == 1


@pytest.mark.usefixtures("runtime")
async def test_built_in_methods_travel_and_keep_the_actor() -> None:
    counter, echo = Counter.remote(), Echo.remote()
    ready = await echo.echo.remote(counter.__ray_ready__)
    end = end_of(counter)
    del counter
    assert await ready.remote() is True
    assert not end.done()
    del ready
    await end


# __ray_terminate__.


@pytest.mark.parametrize("log_class", LOGS)
@pytest.mark.usefixtures("runtime")
async def test_what_was_sent_before_has_its_result_and_later_calls_fail(
    log_class: Any, stop: Stop
) -> None:
    log = log_class.remote()
    before = [log.stop.remote(stop.place, 1), *(log.note.remote(n) for n in range(9))]
    await stop.reached()
    ended = log.__ray_terminate__.remote()
    later = log.note.remote(2)
    with pytest.raises(ActorDiedError, match=r"it was ended|it is ending"):
        await later
    stop.release()

    assert await asyncio.gather(*before) == [1, *range(9)]
    assert await ended is None


@pytest.mark.usefixtures("runtime")
async def test_async_calls_that_run_have_their_result() -> None:
    gate = Gate.remote()
    other = Gate.remote()

    class Waiting:
        async def wait(self, gate: Any) -> str:
            return await gate.wait.remote("there")  # type: ignore[no-any-return]

    waiting = actorlib.remote(Waiting).remote()
    ref = waiting.wait.remote(gate)
    await gate.reached.remote("there")
    ended = waiting.__ray_terminate__.remote()
    await other.open.remote()
    await gate.open.remote("there")

    assert await ref == "there"
    await ended


@pytest.mark.process
@pytest.mark.parametrize("caller_class", [Caller, AsyncCaller])
@pytest.mark.usefixtures("runtime")
async def test_atexit_handlers_run(caller_class: Any, tmp_path: Any) -> None:
    path = str(tmp_path / "seen")

    def register() -> None:
        atexit.register(lambda: open(path, "w").close())  # noqa: PTH123  # in the actor

    caller = caller_class.remote()
    caller.run.remote(register)
    await caller.__ray_terminate__.remote()
    assert (tmp_path / "seen").exists()


@pytest.mark.parametrize("caller_class", [Caller, AsyncCaller])
@pytest.mark.usefixtures("runtime")
async def test_another_actor_ends_it(caller_class: Any) -> None:
    counter, caller = Counter.remote(), caller_class.remote()
    assert await caller.call.remote(counter, "__ray_terminate__") is None
    with pytest.raises(ActorDiedError):
        await counter.add.remote()


@pytest.mark.usefixtures("runtime")
async def test_of_a_dead_actor_nothing_happens() -> None:
    counter = Counter.remote()
    for _ in range(2):
        assert await counter.__ray_terminate__.remote() is None


# __ray_shutdown__.


class Cleaning:
    """Says in a file that it has cleaned up."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __ray_shutdown__(self) -> None:
        with open(self._path, "a") as seen:  # noqa: PTH123  # in the actor
            seen.write("once ")

    def run(self, function: Any) -> Any:
        return function()


class CleaningOnItsLoop(Cleaning):
    """Does so on the loop that its methods run on."""

    async def loop(self) -> None:
        self._loop = asyncio.get_running_loop()

    async def __ray_shutdown__(self) -> None:
        assert asyncio.get_running_loop() is self._loop
        super().__ray_shutdown__()


def cleaning(kind: str, path: Any) -> Any:
    if kind == "loop":
        actor = actorlib.remote(CleaningOnItsLoop).remote(str(path))
        actor.loop.remote()
        return actor
    threads = 2 if kind == "threads" else 1
    cls = actorlib.remote(Cleaning).options(max_concurrency=threads)
    return cls.remote(str(path))


@pytest.mark.parametrize("kind", ["serial", "threads", "loop"])
@pytest.mark.usefixtures("runtime")
async def test_shutdown_when_an_actor_leaves_then_it_cleans_up_once(
    kind: str, tmp_path: Any
) -> None:
    terminated = cleaning(kind, tmp_path / "terminated")
    await terminated.run.remote(str)
    await terminated.__ray_terminate__.remote()
    assert (tmp_path / "terminated").read_text() == "once "

    left = cleaning(kind, tmp_path / "left")
    with pytest.raises(ActorDiedError):
        await left.run.remote(actorlib.exit_actor)
    await end_of(left)
    assert (tmp_path / "left").read_text() == "once "

    dropped = cleaning(kind, tmp_path / "dropped")
    await dropped.run.remote(str)
    ended = end_of(dropped)
    del dropped
    await ended
    assert (tmp_path / "dropped").read_text() == "once "

    killed = cleaning(kind, tmp_path / "killed")
    await killed.run.remote(str)
    await actorlib.kill(killed)
    assert not (tmp_path / "killed").exists()


@pytest.mark.usefixtures("runtime")
async def test_shutdown_when_it_raises_then_the_actor_leaves_all_the_same(
    capfd: pytest.CaptureFixture[str],
) -> None:
    class Failing:
        def __ray_shutdown__(self) -> None:
            raise KeyError("cleaning up")

    failing = await actorlib.remote(Failing).remote()
    await failing.__ray_terminate__.remote()

    assert "KeyError: 'cleaning up'" in capfd.readouterr().err
