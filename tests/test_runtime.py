"""Starting and ending runtimes, and whose they are."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from helpers.actors import Caller, Echo
from helpers.program_runner import run

import actorlib
from actorlib import blocking
from actorlib._options.runtime_options import RuntimeOptions
from actorlib._runtime import address_of, engine_name
from actorlib.exceptions import ActorHandleNotFoundError, UnsupportedOptionError

if TYPE_CHECKING:
    from collections.abc import Callable

    from actorlib import Runtime

pytestmark = pytest.mark.process

OTHERS: dict[str, Callable[[Any], Any]] = {
    "a call": lambda echo: echo.echo.remote(1),
    "a handle": lambda echo: echo,
    "an end": lambda _: actorlib.kill(Echo.remote()),
    "wait": lambda echo: actorlib.wait([echo.echo.remote(1)]),
    "as_completed": lambda echo: anext(actorlib.as_completed([echo.echo.remote(1)])),
}


def test_runtime_when_used_on_another_loop_then_it_says_whose_it_is() -> None:
    async def begin() -> tuple[Runtime, Any]:
        runtime = await actorlib.init()
        return runtime, await Echo.remote()

    async def use(what: Callable[[Any], Any]) -> None:
        await what(echo)

    async def block() -> None:
        echo.echo.remote(1).get()

    loop = asyncio.new_event_loop()
    runtime, echo = loop.run_until_complete(begin())
    try:
        for what in OTHERS.values():
            with pytest.raises(RuntimeError, match=r"another event loop.*loop_scope"):
                asyncio.run(use(what))
        with pytest.raises(RuntimeError, match=r"another event loop.*loop_scope"):
            asyncio.run(block())
        assert loop.run_until_complete(echo.echo.remote(2)) == 2
    finally:
        loop.run_until_complete(runtime.shutdown())
        loop.close()


@actorlib.remote
class Environed:
    """Tells what its process is like."""

    def told(self) -> list[str]:
        return [os.environ.get("A", ""), os.environ.get("B", ""), str(Path.cwd())]

    def makes(self) -> list[str]:
        made = Environed.options(runtime_env={"env_vars": {"A": "mine"}}).remote()
        return actorlib.get(made.told.remote())


@actorlib.remote
def environed() -> list[str]:
    return [os.environ.get("A", ""), os.environ.get("B", ""), str(Path.cwd())]


@actorlib.remote
def variable(name: str) -> str | None:
    return os.environ.get(name)


async def test_init_when_given_a_runtime_env_then_all_inherit_it(
    tmp_path: Path,
) -> None:
    env: Any = {"env_vars": {"A": "1", "B": "2"}, "working_dir": tmp_path}
    at = str(tmp_path)
    async with actorlib.init(num_cpus=1, runtime_env=env):
        own = Environed.options(runtime_env={"env_vars": {"B": "${A}3"}}).remote()
        first = Environed.remote()

        assert await first.told.remote() == ["1", "2", at]
        assert await first.makes.remote() == ["mine", "2", at]
        assert await own.told.remote() == ["1", "13", at]
        assert await environed.remote() == ["1", "2", at]
        assert await variable.map("AB", chunksize=2) == ["1", "2"]
        assert await asyncio.to_thread(lambda: environed.remote().get()) == [
            *("1", "2", at)
        ]
        assert actorlib.get_runtime_context().runtime_env["env_vars"]["A"] == "1"


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"runtime_env": {"pip": []}}, ValueError, "has no key 'pip'"),
        ({"runtime_env": {"working_dir": "/no/such"}}, NotADirectoryError, "no dir"),
        ({"runtime_env": {"env_vars": {"A": 1}}}, TypeError, "takes strings"),
        (
            {"runtime_env": {"env_vars": {"A": "1"}}, "engine": "inline"},
            UnsupportedOptionError,
            "a separate process",
        ),
        ({"reinit": 1}, TypeError, "reinit"),
    ],
)
def test_init_when_its_options_cannot_be_then_it_says_so_at_once(
    options: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        actorlib.init(**options)


def test_shutdown_when_refused_on_another_loop_then_it_can_be_repeated() -> None:
    async def begin() -> Runtime:
        return await actorlib.init(num_cpus=1)

    loop = asyncio.new_event_loop()
    runtime = loop.run_until_complete(begin())
    try:
        with pytest.raises(RuntimeError, match="another event loop"):
            asyncio.run(runtime.shutdown())
        loop.run_until_complete(runtime.shutdown())
        assert not actorlib.is_initialized()
    finally:
        loop.run_until_complete(actorlib.shutdown())
        loop.close()


def children() -> set[str]:
    """The processes that this one has started."""
    pids: set[str] = set()
    for thread in Path("/proc/self/task").iterdir():
        with suppress(OSError):  # it has ended
            pids.update((thread / "children").read_text().split())
    return pids


class Quiet:
    def before(self, call: Any) -> None: ...

    def after(self, call: Any, token: Any, outcome: Any) -> None: ...


@pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")
async def test_start_when_a_feature_refuses_then_no_process_is_left() -> None:
    before, quiet = children(), Quiet()

    with pytest.raises(ValueError, match="added before"):
        await actorlib.init(middleware=[quiet, quiet])

    assert children() == before
    assert not actorlib.is_initialized()


async def lost() -> Any:
    """Starts a runtime and forgets it."""
    await actorlib.init(num_cpus=1)
    return await Echo.remote()


async def test_shutdown_when_the_runtime_was_lost_then_another_can_be_started() -> None:
    echo = await lost()
    with pytest.raises(RuntimeError, match=r"await actorlib.shutdown\(\).*reinit=True"):
        actorlib.init()

    await actorlib.shutdown()
    await actorlib.shutdown()

    assert not actorlib.is_initialized()
    with pytest.raises(ActorHandleNotFoundError):
        echo.echo.remote(1)
    echo = await lost()
    async with actorlib.init(num_cpus=1, reinit=True) as runtime:
        with pytest.raises(ActorHandleNotFoundError):
            echo.echo.remote(1)
        assert await Echo.remote().echo.remote(2) == 2
        await actorlib.shutdown()
        await runtime.shutdown()
    async with actorlib.init(num_cpus=1, reinit=True):  # there is none
        assert actorlib.is_initialized()


async def test_runtime_when_others_have_ended_it_then_it_says_that_it_is_over() -> None:
    async with actorlib.init(engine="inline") as first:
        assert repr(first) == "<Runtime running>"
        async with actorlib.init(engine="inline", reinit=True) as second:
            assert repr(first) == "<Runtime not running>"
            assert repr(second) == "<Runtime running>"
            with pytest.raises(RuntimeError, match="this runtime is not running"):
                first.snapshot()
            await first.shutdown()
            assert repr(second) == "<Runtime running>"

            await actorlib.shutdown()

            assert repr(second) == "<Runtime not running>"
            with pytest.raises(RuntimeError, match="this runtime is not running"):
                second.calls()


async def test_init_of_scripts_when_a_loop_has_one_then_it_says_who_ends_it() -> None:
    async with actorlib.init(engine="inline"):
        with pytest.raises(RuntimeError, match=r"'await actorlib\.shutdown\(\)'"):
            blocking.init()
        blocking.init(ignore_reinit_error=True)


async def test_init_when_awaited_and_entered_then_it_says_to_write_one_of_both() -> (
    None
):
    runtime = await actorlib.init(num_cpus=1, engine="inline")
    with pytest.raises(RuntimeError, match="without 'await'"):
        async with runtime:
            pass
    await runtime.shutdown()
    with pytest.raises(RuntimeError, match=r"call init\(\) again"):
        await runtime


async def test_run_when_a_loop_runs_then_whatever_it_got_it_says_to_await_it() -> None:
    ref: Any = asyncio.get_running_loop().create_future()  # a ref is one, too

    with pytest.raises(RuntimeError, match="await the coroutine there instead"):
        actorlib.run(ref)


def test_runtime_when_its_loop_is_closed_then_it_can_be_started_anew() -> None:
    pid = asyncio.run(_lost_with_pid())

    async def anew() -> Any:
        async with actorlib.init(num_cpus=1, reinit=True):
            return await Echo.remote().echo.remote(2)

    assert asyncio.run(anew()) == 2
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def _lost_with_pid() -> int:
    echo = await lost()
    pid: int = await echo.pid.remote()
    return pid


async def test_shutdown_when_a_thread_or_an_actor_asks_then_who_may_does_it() -> None:
    async with actorlib.init(num_cpus=1):
        caller = Caller.remote()
        with pytest.raises(RuntimeError, match=r"of an actor.*exit_actor"):
            await caller.run.remote(_shut_down)
        await asyncio.to_thread(_shut_down)
        assert not actorlib.is_initialized()


def _shut_down() -> None:
    asyncio.run(actorlib.shutdown())


# Engines and addresses.


def test_engine_when_the_environment_says_so_then_it_is_that_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ACTORLIB_ENGINE", "ray")

    assert engine_name(RuntimeOptions()) == "ray"
    assert engine_name(RuntimeOptions(engine="inline")) == "inline"


def test_address_when_said_twice_then_the_argument_wins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ACTORLIB_ADDRESS", "10.0.0.5:6379")

    assert address_of(RuntimeOptions(), "ray") == "10.0.0.5:6379"
    assert address_of(RuntimeOptions(address="auto"), "ray") == "auto"
    assert address_of(RuntimeOptions(), "local") is None


def test_address_when_the_engine_has_no_cluster_then_it_is_refused() -> None:
    with pytest.raises(ValueError, match="engine='ray'"):
        actorlib.init(engine="local", address="auto")


def test_address_when_it_is_no_text_then_it_is_refused() -> None:
    with pytest.raises(TypeError, match="address"):
        actorlib.init(engine="ray", address=6379)  # type: ignore[arg-type]


@pytest.mark.process
def test_ray_when_not_installed_then_the_error_names_the_extra() -> None:
    program = (
        "import sys; sys.modules['ray'] = None\n"
        "import actorlib\n"
        "async def main():\n"
        "    await actorlib.init(engine='ray')\n"
        "actorlib.run(main())"
    )
    done = run("-c", program, limit=60)

    assert "ImportError: engine='ray' needs Ray" in done.stderr
    assert "pip install 'actorlib[ray]'" in done.stderr
