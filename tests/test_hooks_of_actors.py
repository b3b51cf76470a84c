"""An actor is set up before its first call and closed behind its last."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

import pytest
from helpers.actors import end_of
from helpers.calls import raised
from helpers.marks import USES_RUNTIME, in_memory

import actorlib
from actorlib.exceptions import ActorDiedError

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = in_memory(preload=[__name__], num_cpus=4, grace=0.5)


def say(path: str, word: str) -> None:
    with open(path, "a") as said:  # noqa: PTH123  # in the actor
        said.write(f"{word} ")


class Plain:
    """Says what is done with it."""

    def __init__(self, path: str) -> None:
        self.path = path
        say(path, "made")

    @actorlib.setup
    def begin(self) -> None:
        say(self.path, "set-up")

    @actorlib.close
    def finish(self) -> None:
        say(self.path, "closed")

    def __ray_shutdown__(self) -> None:
        say(self.path, "shut-down")

    def call(self, word: str = "called") -> int:
        say(self.path, word)
        return os.getpid()

    def run(self, function: Any) -> Any:
        return function()


class OnItsLoop(Plain):
    """Awaits, where its methods run."""

    @actorlib.setup
    async def begin(self) -> None:
        await asyncio.sleep(0)
        self.loop = asyncio.get_running_loop()
        super().begin()  # type: ignore[unused-coroutine]  # pyright: ignore[reportUnusedCoroutine]  # plain there

    @actorlib.close
    async def finish(self) -> None:
        assert asyncio.get_running_loop() is self.loop
        await asyncio.sleep(0)
        super().finish()  # type: ignore[unused-coroutine]  # pyright: ignore[reportUnusedCoroutine]  # plain there

    async def awaits(self) -> None:
        assert asyncio.get_running_loop() is self.loop


class Managed:
    """Is entered and left like a block."""

    def __init__(self, path: str) -> None:
        self.path = path

    async def __aenter__(self) -> str:
        say(self.path, "entered")
        return "not the actor"

    async def __aexit__(self, *error: object) -> None:
        say(self.path, "left" if error == (None, None, None) else repr(error))

    async def call(self) -> None:
        say(self.path, "called")


KINDS: dict[str, Any] = {
    "serial": actorlib.remote(Plain),
    "threads": actorlib.remote(max_concurrency=2)(Plain),
    "loop": actorlib.remote(OnItsLoop),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.usefixtures("runtime")
async def test_actor_when_it_ends_by_itself_then_set_up_first_and_closed_last(
    kind: str, tmp_path: Path
) -> None:
    whole = "made set-up called closed shut-down "
    for how in ("dropped", "left", "ended"):
        path = tmp_path / how
        actor = KINDS[kind].remote(str(path))
        await actor.call.remote()
        ended = end_of(actor)
        if how == "left":
            assert isinstance(
                await raised(actor.run.remote(actorlib.exit_actor)), ActorDiedError
            )
        elif how == "ended":
            async with actor:
                pass
        del actor
        await ended
        assert path.read_text() == whole


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.usefixtures("runtime")
async def test_actor_when_it_is_killed_then_set_up_anew_and_not_closed(
    kind: str, tmp_path: Path
) -> None:
    path = tmp_path / "said"
    actor = KINDS[kind].options(max_restarts=1).remote(str(path))
    await actor
    await actorlib.kill(actor, no_restart=False)
    await actor
    await actor.call.remote()
    await actorlib.kill(actor)

    assert path.read_text() == "made set-up made set-up called "


@pytest.mark.usefixtures("runtime")
async def test_class_when_it_is_a_context_manager_then_entered_and_left(
    tmp_path: Path,
) -> None:
    path = tmp_path / "said"
    async with actorlib.remote(Managed).remote(str(path)) as actor:
        await actor.call.remote()

    assert path.read_text() == "entered called left "


@pytest.mark.parametrize("is_looped", [False, True])
@pytest.mark.usefixtures("runtime")
async def test_setup_when_it_raises_then_the_actor_never_lived(
    *, is_looped: bool, tmp_path: Path
) -> None:
    path = str(tmp_path / "said")

    class Failing(Plain):
        def begin(self) -> None:
            raise LookupError("no such model")

    class FailingOnItsLoop(OnItsLoop):
        async def begin(self) -> None:
            await asyncio.sleep(0)
            raise LookupError("no such model")

    cls: Any = FailingOnItsLoop if is_looped else Failing
    actor = actorlib.remote(cls).remote(path)
    for ref in (actor, actor.call.remote()):
        error = await raised(ref)
        assert isinstance(error, ActorDiedError)
        assert isinstance(error.__cause__, LookupError)
        assert "in begin\n" in error.exit.constructor
    with open(path) as said:  # noqa: ASYNC230, PTH123  # a short one
        assert said.read() == "made "


@pytest.mark.usefixtures("runtime")
async def test_close_when_it_raises_then_printed_and_the_rest_is_done(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "said"

    class Failing(Plain):
        def finish(self) -> None:
            raise KeyError("closing")

    async with actorlib.remote(Failing).remote(str(path)):
        pass

    assert path.read_text() == "made set-up shut-down "
    assert "KeyError: 'closing'" in capfd.readouterr().err


# The hook of Ray.


@USES_RUNTIME
async def test_shutdown_when_it_raises_then_the_actor_leaves_and_it_is_printed(
    capfd: pytest.CaptureFixture[str],
) -> None:
    class Failing:
        def __ray_shutdown__(self) -> None:
            raise KeyError("cleaning up")

    failing = await actorlib.remote(Failing).remote()
    await failing.__ray_terminate__.remote()

    assert "KeyError: 'cleaning up'" in capfd.readouterr().err
