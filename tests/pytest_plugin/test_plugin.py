"""The plugin, in runs of pytest inside of this one."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import TYPE_CHECKING

import pytest

# Loaded before: what a run of pytest inside of another loads is forgotten after it.
import actorlib._inline.launcher
import actorlib._owner.engine
import actorlib._pytest_plugin.leaks
import actorlib._pytest_plugin.on_loops
import actorlib.accelerators.fake_devices
import actorlib.blocking  # noqa: F401

if TYPE_CHECKING:
    from collections.abc import Callable

pytest_plugins = ["pytester"]

IS_INSTALLED = bool(entry_points(group="pytest11", name="actorlib"))
"""Whether pytest loads it by itself: an older installation does not know of it."""

HEAD = """
import os, tracemalloc
import actorlib, actorlib.blocking, pytest

@actorlib.remote
class Model:
    def pid(self):
        return os.getpid()
    def devices(self):
        return actorlib.get_gpu_ids()

kept = []
"""


@pytest.fixture
def runs(pytester: pytest.Pytester) -> Callable[..., pytest.RunResult]:
    """Runs a module of tests, with the plugin."""

    def run(
        source: str, *options: str, in_process: bool = True, mode: str = "auto"
    ) -> pytest.RunResult:
        pytester.makepyfile(HEAD + source)
        plugin = [] if IS_INSTALLED else ["-p", "actorlib._pytest_plugin.plugin"]
        asyncio = [] if "no:asyncio" in options else ["-o", f"asyncio_mode={mode}"]
        return (pytester.runpytest if in_process else pytester.runpytest_subprocess)(
            *plugin,
            "-p",
            "no:cacheprovider",
            "-p",
            "no:randomly",
            "-W",
            "ignore::pytest.PytestDeprecationWarning",
            "-W",
            "ignore::pytest.PytestAssertRewriteWarning",
            *asyncio,
            *options,
        )

    return run


def test_runtime_when_tests_are_async_or_plain_then_each_has_its_own(
    runs: Callable[..., pytest.RunResult],
) -> None:
    ended = runs(
        """
async def test_async(actor_runtime, actor_leaks):
    assert await Model.remote().pid.remote() == os.getpid()
    assert actor_runtime.cluster_resources()["CPU"] >= 1

def test_plain(actor_runtime, actor_leaks):
    model = Model.remote()
    assert actor_runtime.get(model.pid.remote()) == os.getpid()

@pytest.mark.asyncio(loop_scope="module")
async def test_on_loop_of_module(actor_runtime, actor_leaks):
    assert await Model.remote().pid.remote() == os.getpid()

class TestSmall:
    @pytest.fixture
    def actor_runtime_options(self, fake_devices):
        fake_devices("none")
        return {"num_cpus": 3}

    async def test_options(self, actor_runtime):
        total = actor_runtime.cluster_resources()
        assert total["CPU"] == 3
        assert "GPU" not in total

def test_none_is_left():
    assert not actorlib.is_initialized()
"""
    )

    ended.assert_outcomes(passed=5)


def test_devices_when_faked_then_the_runtime_grants_them(
    runs: Callable[..., pytest.RunResult],
) -> None:
    ended = runs(
        """
@pytest.mark.fake_devices("2xH100", "4xTPU-V5E")
async def test_marked(actor_runtime):
    total = actor_runtime.cluster_resources()
    assert (total["GPU"], total["TPU"]) == (2, 4)
    assert total["accelerator_type:H100"] == 1
    asked = Model.options(num_gpus=1, accelerator_type="H100")
    models = asked.remote(), asked.remote()
    assert [await m.devices.remote() for m in models] == [[0], [1]]

async def test_own_runtime(fake_devices):
    fake_devices("1xA100-80G")
    async with actorlib.init(engine="inline") as runtime:
        [device] = runtime.snapshot().devices
        assert device.nbytes == 80 * 2**30

async def test_too_late(actor_runtime, fake_devices):
    with pytest.raises(RuntimeError, match="pytest.mark.fake_devices"):
        fake_devices("2xH100")

def test_wrong(fake_devices):
    with pytest.raises(ValueError, match="'H1000' is not a known device.*H100"):
        fake_devices("2xH1000")
    with pytest.raises(TypeError, match="takes words"):
        fake_devices()
"""
    )

    ended.assert_outcomes(passed=4)


def test_leaks_when_left_then_the_test_fails_and_names_them(
    runs: Callable[..., pytest.RunResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("actorlib._pytest_plugin.leaks._PATIENCE", 0.0)
    ended = runs(
        """
pytestmark = pytest.mark.usefixtures("actor_leaks")

@pytest.fixture(autouse=True)
def traced(request):
    if request.node.name == "test_plain":
        tracemalloc.start(20)
    yield
    tracemalloc.stop()
    actorlib.blocking.shutdown()

async def test_all(actor_runtime):
    model = Model.options(name="bob").remote()
    Model.options(name="dee", lifetime="detached").remote()
    ref = model.pid.remote()
    await ref
    kept.extend([model, ref])
    group = actorlib.placement_group([{"CPU": 1}], name="pair")
    await group.ready()
    kept.append(group)

def test_plain(actor_runtime):
    kept.append(Model.remote())
    kept.append(actor_runtime.put([1]))

def test_runtime_of_its_own():
    actorlib.blocking.init(engine="inline")

async def test_that_failed(actor_runtime):
    kept.append(Model.remote())
    assert False
""",
        "-rN",
    )

    ended.assert_outcomes(passed=3, failed=1, errors=3)
    ended.stdout.fnmatch_lines_random(
        [
            "*the actor Model 'bob' (alive*), whose handle is held here*",
            "*the actor Model 'dee' (detached*",
            "*a ref that is still held: <ObjectRef finished result=[0-9]*",
            "*the placement group 'pair' (*",
            "*the actor Model (*, whose handle is held here, made at *test_leaks*",
            "*a ref that is still held: <ObjectRef *[[]1[]]>",
            "*a runtime that was started and not ended*",
            "*-X tracemalloc=20*",
        ]
    )


def test_async_test_when_nothing_runs_it_then_that_is_said(
    runs: Callable[..., pytest.RunResult],
) -> None:
    source = """
async def test_async(actor_runtime):
    pass

def test_plain(actor_runtime, actor_leaks):
    assert actor_runtime.get(Model.remote().pid.remote()) == os.getpid()
"""

    without = runs(source, "-p", "no:asyncio")
    unmarked = runs(source, mode="strict")

    without.assert_outcomes(passed=1, errors=1)
    without.stdout.fnmatch_lines("*needs pytest-asyncio, and that is not installed*")
    unmarked.assert_outcomes(passed=1, errors=1)
    unmarked.stdout.fnmatch_lines("*write @pytest.mark.asyncio, or asyncio_mode*")


def test_engine_when_unknown_then_refused(
    runs: Callable[..., pytest.RunResult],
) -> None:
    ended = runs("def test(actor_runtime): pass", "-o", "actorlib_engine=ray")

    ended.assert_outcomes(errors=1)
    ended.stdout.fnmatch_lines("*actorlib_engine = 'ray'*inline or local*")


@pytest.mark.process
@pytest.mark.thorough
def test_engine_when_local_then_actors_are_processes(
    runs: Callable[..., pytest.RunResult],
) -> None:
    ended = runs(
        """
@pytest.mark.fake_devices("2xH100")
@pytest.mark.asyncio
async def test_async(actor_runtime, actor_leaks):
    model = Model.options(num_gpus=1).remote()
    assert await model.pid.remote() != os.getpid()
    assert await model.devices.remote() == [0]
""",
        "--actorlib-engine=local",
        mode="strict",
    )

    ended.assert_outcomes(passed=1)


@pytest.mark.thorough
def test_plugin_when_run_by_several_then_as_by_one(
    runs: Callable[..., pytest.RunResult],
) -> None:
    ended = runs(
        """
@pytest.mark.parametrize("number", range(4))
async def test_async(actor_runtime, actor_leaks, number):
    assert await Model.remote().pid.remote() == os.getpid()
""",
        "-n",
        "2",
        in_process=False,
    )

    ended.assert_outcomes(passed=4)


@pytest.mark.thorough
def test_plugin_when_loaded_then_nothing_of_actorlib_besides(
    pytester: pytest.Pytester,
) -> None:
    ended = pytester.runpython_c(
        "import sys, actorlib; before = {*sys.modules}; import pytest;"
        "import actorlib._pytest_plugin.plugin;"
        "print(sorted(n for n in {*sys.modules} - before if n.startswith('actorlib')))"
    )

    ended.stdout.fnmatch_lines(
        "*'actorlib._pytest_plugin', 'actorlib._pytest_plugin.items', *.plugin'[]]"
    )
