from __future__ import annotations

import asyncio
import atexit
import gc
import os
import threading
from typing import Any

import pytest
from helpers.actors import (
    AsyncCaller,
    Caller,
    Gate,
    Keeper,
    end_of,
    gone,
    running,
)
from helpers.marks import in_memory

import actorlib
from actorlib.exceptions import ActorDiedError

pytestmark = in_memory(preload=[__name__], num_cpus=4, grace=0.5)

CALLERS = [Caller, AsyncCaller]


def ids() -> tuple[Any, ...]:
    context = actorlib.get_runtime_context()
    return (
        context.get_actor_id(),
        context.get_node_id(),
        context.get_job_id(),
        context.get_worker_id(),
    )


def me() -> Any:
    return actorlib.get_runtime_context().current_actor


def about() -> tuple[Any, ...]:
    context = actorlib.get_runtime_context()
    return context.get_actor_name(), context.namespace, context.runtime_env


@pytest.mark.usefixtures("runtime")
async def test_ids_are_hex_and_stay() -> None:
    first, second = Caller.remote(), AsyncCaller.remote()
    seen = await first.run.remote(ids)
    other = await second.run.remote(ids)
    here = ids()

    assert here[0] is None
    assert about() == (None, "default", {})
    assert all(int(number, 16) >= 0 for number in (*seen, *here[1:]))
    assert await first.run.remote(ids) == seen
    assert seen[0] in repr(first)
    assert seen[0] != other[0]
    assert seen[1:3] == other[1:3] == here[1:3]
    assert len({seen[3], other[3], here[3]}) == 3


@pytest.mark.usefixtures("runtime")
async def test_an_async_actor_calls_itself() -> None:
    async def call_itself() -> int:
        return await me().run.remote(os.getpid)  # type: ignore[no-any-return]

    caller = AsyncCaller.remote()
    assert await caller.run.remote(call_itself) == await caller.run.remote(os.getpid)


@pytest.mark.usefixtures("runtime")
async def test_a_class_of_the_test_has_its_own_handle_in_the_constructor() -> None:
    @actorlib.remote
    class Own:
        def __init__(self, keeper: Any) -> None:
            keeper.keep.remote(actorlib.get_runtime_context().current_actor)
            self.keeper = keeper

        def echo(self, value: Any = 1) -> Any:
            return value

    keeper = Keeper.remote()
    own = Own.remote(keeper)
    await own
    kept = await keeper.kept.remote()
    assert kept == own
    assert await kept.echo.remote(value=2) == 2


@pytest.mark.parametrize("caller_class", CALLERS)
@pytest.mark.usefixtures("runtime")
async def test_its_own_handle_does_not_keep_it_alive(caller_class: Any) -> None:
    def keep_me() -> int:
        actorlib.kept = me()  # type: ignore[attr-defined]  # a place that stays
        return os.getpid()

    caller = caller_class.remote()
    pid, end = await caller.run.remote(keep_me), end_of(caller)
    del caller
    await end
    await gone(pid)
    vars(actorlib).pop("kept", None)  # an inline actor's is this process's


@pytest.mark.usefixtures("runtime")
async def test_nor_does_one_that_it_was_sent() -> None:
    keeper = Keeper.remote()
    await keeper.keep.remote(keeper)
    assert await keeper.kept.remote() == keeper
    pid, end = await keeper.pid.remote(), end_of(keeper)
    gc.collect()
    del keeper
    await end
    await gone(pid)


@pytest.mark.parametrize("caller_class", CALLERS)
@pytest.mark.usefixtures("runtime")
async def test_whom_it_is_handed_to_keeps_it_alive(caller_class: Any) -> None:
    keeper = Keeper.remote()

    def hand_out(keeper: Any) -> int:
        keeper.keep.remote(me())
        return os.getpid()

    caller = caller_class.remote()
    ref, end = caller.run.remote(hand_out, keeper), end_of(caller)
    del caller
    pid = await ref
    caller = await keeper.kept.remote()

    assert await caller.run.remote(os.getpid) == pid
    assert not end.done()
    await keeper.keep.remote(None)
    del caller
    await end


@pytest.mark.usefixtures("runtime")
async def test_returned_by_an_actor_that_nobody_held_it_goes_on() -> None:
    caller = Caller.remote()
    ref, end = caller.run.remote(me), end_of(caller)
    del caller
    own = await ref

    assert await own.run.remote(os.getpid)
    assert not end.done()
    del own, ref
    await end


@pytest.mark.usefixtures("runtime")
async def test_outside_an_actor_there_is_none() -> None:
    with pytest.raises(RuntimeError, match="no actor runs this code"):
        me()


@pytest.mark.parametrize("caller_class", CALLERS)
async def test_name_and_namespace(caller_class: Any) -> None:
    async with running(namespace="mine"):
        caller = caller_class.options(name="c", namespace="other").remote()
        assert await caller.run.remote(about) == ("c", "mine", {})
        assert about()[1] == "mine"


@pytest.mark.usefixtures("runtime")
async def test_context_when_returned_by_an_actor_then_it_arrives() -> None:
    context = await Caller.remote().run.remote(actorlib.get_runtime_context)

    assert context.get_actor_id()
    with pytest.raises(RuntimeError, match="does not run an actor"):
        _ = context.current_actor


@pytest.mark.usefixtures("runtime")
async def test_current_actor_when_the_class_went_by_value_knows_its_methods() -> None:
    @actorlib.remote
    class Local:
        def missing(self) -> str:
            handle = actorlib.get_runtime_context().current_actor
            assert handle.missing
            try:
                handle.mising  # noqa: B018  # it is looked up
            except AttributeError as error:
                return str(error)
            return ""

    assert "did you mean 'missing'?" in await Local.remote().missing.remote()


# exit_actor().


@actorlib.remote
class Siblings:
    """Two kinds of methods, beside which another one leaves."""

    def __init__(self) -> None:
        self.going = asyncio.Event()

    async def for_ever(self, path: str) -> None:
        try:
            self.going.set()
            await asyncio.Event().wait()
        finally:
            with open(path, "w") as file:  # noqa: ASYNC230, PTH123  # a moment
                file.write("unwound")

    async def until(self, event: Any) -> int:
        self.going.set()
        return await event.wait.remote("go") and 5  # type: ignore[no-any-return]

    async def leave(self) -> None:
        await self.going.wait()
        actorlib.exit_actor()

    async def leave_from_a_task(self) -> None:
        async def leave() -> None:
            actorlib.exit_actor()

        await asyncio.create_task(leave())

    async def leave_from_a_thread(self) -> None:
        await asyncio.to_thread(actorlib.exit_actor)

    async def stubborn(self) -> None:
        self.going.set()
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                continue

    def leave_plainly(self) -> None:
        actorlib.exit_actor()

    def plain(self) -> int:
        return 1


@pytest.mark.usefixtures("runtime")
async def test_a_sibling_that_runs_for_ever_is_cancelled_after_the_grace(
    tmp_path: Any,
) -> None:
    siblings, path = Siblings.remote(), tmp_path / "seen"
    ref = siblings.for_ever.remote(str(path))
    with pytest.raises(ActorDiedError, match="it left by exit_actor"):
        await siblings.leave.remote()
    with pytest.raises(ActorDiedError, match="it left by exit_actor"):
        await ref
    assert path.read_text() == "unwound"


@pytest.mark.process
@pytest.mark.usefixtures("runtime")
@pytest.mark.thorough
async def test_a_sibling_that_does_not_let_itself_be_cancelled_is_killed() -> None:
    siblings = Siblings.remote()
    ref = siblings.stubborn.remote()
    with pytest.raises(ActorDiedError, match="it left by exit_actor"):
        await siblings.leave.remote()
    with pytest.raises(ActorDiedError, match="it left by exit_actor"):
        await ref


async def test_a_sibling_that_ends_within_the_grace_has_its_result() -> None:
    async with running(grace=10):
        siblings, gate = Siblings.remote(), Gate.remote()
        ref = siblings.until.remote(gate)
        await gate.reached.remote("go")
        left = siblings.leave.remote()
        while not isinstance(
            (await asyncio.gather(siblings.plain.remote(), return_exceptions=True))[0],
            ActorDiedError,
        ):
            pass
        await gate.open.remote("go")

        assert await ref == 5
        with pytest.raises(ActorDiedError):
            await left


@pytest.mark.parametrize(
    "way", ["leave_from_a_task", "leave_from_a_thread", "leave_plainly"]
)
@pytest.mark.usefixtures("runtime", "on_both_loops")
async def test_it_leaves_from_wherever_it_is_called(way: str) -> None:
    siblings = Siblings.remote()
    await siblings
    end = end_of(siblings)
    with pytest.raises(ActorDiedError, match="it left by exit_actor"):
        await getattr(siblings, way).remote()
    await end


@pytest.mark.process
@pytest.mark.usefixtures("runtime")
async def test_a_plain_actor_leaves_from_a_thread() -> None:
    def leave() -> None:
        thread = threading.Thread(target=actorlib.exit_actor)
        thread.start()
        thread.join()

    caller = Caller.remote()
    await caller
    end = end_of(caller)
    caller.run.remote(leave)
    await end
    with pytest.raises(ActorDiedError, match="it left by exit_actor"):
        await caller.run.remote(os.getpid)


async def test_outside_an_actor_it_is_refused() -> None:
    with pytest.raises(TypeError, match="no actor called it"):
        actorlib.exit_actor()
    async with running():
        with pytest.raises(TypeError, match="no actor called it"):
            actorlib.exit_actor()


@pytest.mark.parametrize("caller_class", CALLERS)
@pytest.mark.usefixtures("runtime")
async def test_code_behind_it_does_not_run(caller_class: Any, tmp_path: Any) -> None:
    path = str(tmp_path / "seen")

    def leave() -> None:
        try:
            actorlib.exit_actor()
        except Exception:  # noqa: BLE001  # what it must not be caught by
            open(path, "w").close()  # noqa: PTH123  # in the actor
        open(path, "w").close()  # noqa: PTH123  # likewise

    with pytest.raises(ActorDiedError, match="it left by exit_actor"):
        await caller_class.remote().run.remote(leave)
    assert not (tmp_path / "seen").exists()


@pytest.mark.parametrize("then", ["return", "raise"])
@pytest.mark.parametrize("caller_class", CALLERS)
@pytest.mark.parametrize("options", [{}, {"max_concurrency": 2}], ids=repr)
@pytest.mark.usefixtures("runtime")
async def test_what_catches_everything_does_not_keep_the_actor(
    caller_class: Any, options: dict[str, Any], then: str
) -> None:
    def leave() -> str:
        try:
            actorlib.exit_actor()
        except BaseException as error:
            if then == "raise":
                raise ValueError("instead") from error
        return "stayed"

    caller = caller_class.options(**options).remote()
    await caller
    end = end_of(caller)
    with pytest.raises(ActorDiedError, match="it left by exit_actor"):
        await caller.run.remote(leave)
    await end
    with pytest.raises(ActorDiedError, match="it left by exit_actor") as caught:
        await caller.run.remote(os.getpid)
    assert (caught.value.exit.cause, caught.value.exit.code) == ("asked", 0)


class Leaving:
    """Leaves in its constructor."""

    def __init__(self, path: str, *, catches: bool) -> None:
        atexit.register(lambda: open(path, "w").close())  # noqa: PTH123  # in the actor
        try:
            actorlib.exit_actor()
        except BaseException:
            if not catches:
                raise

    def ping(self) -> int:
        return 1


class LoopedLeaving(Leaving):
    async def wait(self) -> None: ...


LEAVING = {
    "serial": actorlib.remote(Leaving),
    "threaded": actorlib.remote(max_concurrency=2)(Leaving),
    "looped": actorlib.remote(LoopedLeaving),
}


@pytest.mark.process
@pytest.mark.usefixtures("runtime")
async def test_atexit_handlers_run_when_the_constructor_leaves(tmp_path: Any) -> None:
    places = [(kind, catches) for kind in LEAVING for catches in (False, True)]
    refs = [
        LEAVING[kind]
        .remote(str(tmp_path / f"{kind} {catches}"), catches=catches)
        .ping.remote()
        for kind, catches in places
    ]
    errors = await asyncio.gather(*refs, return_exceptions=True)

    for (kind, catches), error in zip(places, errors, strict=True):
        assert isinstance(error, ActorDiedError), (kind, catches)
        assert "it left by exit_actor" in str(error)
        assert error.exit.code == 0
        assert (tmp_path / f"{kind} {catches}").exists()


@pytest.mark.process
@pytest.mark.usefixtures("runtime")
async def test_atexit_handlers_run_and_earlier_answers_arrive(tmp_path: Any) -> None:
    def register(path: str) -> None:
        atexit.register(lambda: open(path, "w").close())  # noqa: PTH123  # in the actor

    async def leave(caller: Any, path: str) -> None:
        registered = caller.run.remote(register, path)
        left = caller.run.remote(actorlib.exit_actor)
        end = end_of(caller)
        await registered
        with pytest.raises(ActorDiedError):
            await left
        await end

    callers = {"serial": Caller.remote(), "looped": AsyncCaller.remote()}
    await asyncio.gather(
        *(leave(caller, str(tmp_path / kind)) for kind, caller in callers.items())
    )

    assert {path.name for path in tmp_path.iterdir()} == callers.keys()
