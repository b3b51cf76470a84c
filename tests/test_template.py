"""Where workers come from: what they share with the template, and what they do not."""

from __future__ import annotations

import asyncio
import importlib
import os
import signal
import sys
import textwrap
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pytest
from helpers.actors import Caller
from helpers.lookers import Asker, Multiplier
from helpers.owners import Looped, Owner, Serial, Watched
from helpers.rare_cases import rarely

import actorlib
from actorlib.exceptions import ActorDiedError, TemplateError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(sys.platform != "linux", reason="the template is for Linux"),
]
on_runtime_loop = pytest.mark.asyncio(loop_scope="module")
"""For the tests that share a runtime."""

METHODS = ["template", "spawn"]
both_methods = pytest.mark.parametrize("method", METHODS)
PROMPTLY = 10.0

HEAD = """
import asyncio, os, resource, select, signal, sys
import actorlib
from helpers.owners import Serial, listen, tell

METHOD, *ARGUMENTS = sys.argv[1:]
"""

MODULES = {
    "preloaded": "import os\npid = os.getpid()\nvalues = []",
    "with_thread": """
        import threading
        threading.Thread(target=threading.Event().wait, daemon=True).start()
    """,
    "looking": "import sys\nfound = 'actorlib._api.decorators' in sys.modules",
    "never_preloaded": "import os\npid = os.getpid()",
}
"""Modules that the template of the module's runtime imports, except the last."""


NUMPY = ["numpy"] if find_spec("numpy") else []


def write_modules(folder: Path, modules: dict[str, str]) -> None:
    for name, text in modules.items():
        (folder / f"{name}.py").write_text(textwrap.dedent(text))


@pytest.fixture(scope="module")
def runtime_options(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    folder = tmp_path_factory.mktemp("preloads")
    write_modules(folder, MODULES)
    preload = ["email.mime.text", "random", *NUMPY, *MODULES][:-1]
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        patch.setattr(sys, "dont_write_bytecode", True)
        patch.delenv("ACTORLIB_START_METHOD", raising=False)
        patch.setenv("PYTHONWARNINGS", "error:This process")  # as Python 3.12 says
        for name in ("CUDA_VISIBLE_DEVICES", "ACTORLIB_HIDE_DEVICES"):
            patch.delenv(name, raising=False)
        yield {"preload": preload, "num_gpus": 2, "num_cpus": 4}


@pytest.fixture
def module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str, str], None]:
    """Writes modules into a folder of the owner's ``sys.path``."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    return lambda name, text: write_modules(tmp_path, {name: text})


@pytest.fixture(autouse=True)
def no_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CUDA_VISIBLE_DEVICES", "ACTORLIB_HIDE_DEVICES", "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)


# Preloads.


_REST = "actorlib._worker.executors.async_executor"
"""A module that only some workers need."""


@on_runtime_loop
@pytest.mark.usefixtures("runtime")
async def test_preloads_when_actors_start_then_the_template_has_imported_them() -> None:
    first, second = Asker.remote(), Asker.remote()
    template = await first.parent.remote()

    assert await second.parent.remote() == template
    for actor in (first, second, Asker.remote()):
        assert await actor.ask.remote("preloaded", "pid") == template
        assert await actor.has.remote("email.mime.text")
        assert await actor.ask.remote("looking", "found")
    assert "preloaded" not in sys.modules
    # What some workers need alone is imported behind the first.
    assert await Asker.remote().has.remote(_REST)
    await actorlib.kill(first)
    assert await Asker.remote().parent.remote() == template


def test_preload_when_actors_are_spawned_then_refused() -> None:
    with pytest.raises(ValueError, match=r"preload=\['json'\].*start_method='spawn'"):
        actorlib.init(preload=["json"], start_method="spawn")


@on_runtime_loop
@pytest.mark.usefixtures("runtime")
async def test_forked_actor_when_it_changes_or_imports_then_no_other_sees_it() -> None:
    @actorlib.remote
    class Changer:
        def change(self, value: int) -> list[int]:
            values: list[int] = sys.modules["preloaded"].values
            values.append(value)
            return values

        def where(self) -> tuple[int, int]:
            return os.getpid(), importlib.import_module("never_preloaded").pid

    first, second = Changer.remote(), Changer.remote()
    assert await first.change.remote(1) == [1]
    assert await second.change.remote(2) == [2]
    assert await Changer.remote().change.remote(3) == [3]
    for _ in range(2):
        own, imported = await Changer.remote().where.remote()
        assert own == imported


async def test_first_worker_when_it_needs_all_of_actorlib_then_it_has_it() -> None:
    @actorlib.remote
    class User:
        async def names(self) -> list[str]:
            names = importlib.import_module("actorlib")
            return [name for name in names.__all__ if not hasattr(names, name)]

    async with actorlib.init():
        assert await User.remote().names.remote() == []
        assert await Looped.remote().echo.remote("here") == "here"


# A preload has initialised an accelerator.

TORCH = """
    class cuda:
        @staticmethod
        def is_initialized():
            return {is_initialised}

    def seed():
        pass

    def set_num_threads(number):
        pass
"""


async def test_actor_with_a_device_when_a_preload_took_it_then_it_names_the_preload(
    module: Callable[[str, str], None],
) -> None:
    module("torch", TORCH.format(is_initialised=True))
    module("greedy", "import torch")
    async with actorlib.init(num_gpus=1, preload=["json", "greedy"]) as runtime:
        with pytest.raises(ActorDiedError) as caught:
            await Serial.options(num_gpus=0.5).remote()
        assert runtime.available_resources()["GPU"] == 1.0
        assert await Serial.remote().echo.remote("fine") == "fine"
    text = str(caught.value)
    assert all(word in text for word in ("greedy", "torch.cuda", "spawn", "Serial"))
    assert "json" not in text
    assert caught.value.exit.cause == "failed to start"
    assert isinstance(caught.value.__cause__, TemplateError)


@pytest.mark.parametrize(
    ("method", "is_initialised"), [("template", False), ("spawn", True)]
)
async def test_actor_with_a_device_when_no_preload_took_it_then_it_lives(
    module: Callable[[str, str], None], method: Any, *, is_initialised: bool
) -> None:
    module("torch", TORCH.format(is_initialised=is_initialised))

    @actorlib.remote(num_gpus=0.5, num_cpus=1)
    class Taker:
        def takes(self) -> bool:
            torch: Any = importlib.import_module("torch")
            return bool(torch.cuda.is_initialized())

    preload = ["torch"] if method == "template" else None
    async with actorlib.init(num_gpus=1, start_method=method, preload=preload):
        actors = [Taker.remote() for _ in range(2)]
        taken = [await actor.takes.remote() for actor in actors]
    assert taken == [is_initialised] * 2


# What is each worker's own.


@on_runtime_loop
@pytest.mark.usefixtures("runtime")
async def test_random_numbers_when_drawn_by_forked_actors_then_they_differ() -> None:
    actors = [Asker.remote() for _ in range(4)]
    drawn = await asyncio.gather(*(actor.draws.remote() for actor in actors))
    for numbers in zip(*drawn, strict=True):
        assert len(set(numbers)) == 4
    assert len(drawn[0]) == 1 + len(NUMPY)


@on_runtime_loop
@pytest.mark.usefixtures("each_runtime")
async def test_worker_when_started_then_its_session_and_descriptors_are_its_own() -> (
    None
):
    others = [Serial.remote() for _ in range(3)]
    await asyncio.gather(*others)
    for actor in (Serial.remote(), Looped.remote()):
        pid, group, session = await actor.groups.remote()
        assert pid == group == session
    listed = await Serial.remote().descriptors_of_child.remote()
    assert listed.split() == ["0", "1", "2", "3"]  # the fourth is the folder itself
    held = await Serial.remote().descriptors.remote()
    await asyncio.gather(*(other.echo.remote() for other in others))
    assert held.pop(0) == "/dev/null"
    assert held.pop(1).startswith("pipe:")
    assert held.pop(2).startswith("pipe:")
    kinds = sorted(
        meaning.partition("[")[0]
        for meaning in held.values()
        # From 3.4 on it makes callbacks of itself, as a file, and needs that for more.
        if "/libffi.so." not in meaning
    )
    # One in reserve, its ends of the pipe and of the side socket, what all processes
    # have touched of shared memory, and where its threads show their stacks.
    last = signal.SIGRTMAX - 3
    stacks = f"/memfd:actorlib-stacks-{last} (deleted)"
    known = ["/dev/null", "/memfd:actorlib (deleted)", stacks, "socket:", "socket:"]
    assert kinds == known, held


@pytest.mark.parametrize("way", ["fork", "forkserver", *rarely("spawn")])
@on_runtime_loop
@pytest.mark.usefixtures("runtime")
async def test_actor_when_it_has_a_process_pool_then_it_gets_its_results(
    way: str,
) -> None:
    actor = Multiplier.remote()
    assert await actor.multiply.remote(way, [1, 2, 3]) == [-1, -2, -3]
    assert await actor.multiply.remote(way, [4]) == [-4]


def test_interrupt_when_of_the_owners_group_then_no_worker_gets_it(
    tmp_path: Path,
) -> None:
    program = f"""{HEAD}
@actorlib.remote
class Interrupted:
    def interrupt(self):
        try:
            os.kill(os.getpid(), signal.SIGINT)
        except KeyboardInterrupt:
            return "interrupted"

async def main():
    interrupted = asyncio.Event()
    async with actorlib.init(start_method=METHOD):
        # The owner ignored it until now, and its workers do not.
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, interrupted.set)
        actor = Serial.remote()
        home = await actor.household.remote("a child")
        os.killpg(0, signal.SIGINT)
        await interrupted.wait()
        tell([home, await actor.household.remote()])
        tell(await Interrupted.remote().interrupt.remote())

signal.signal(signal.SIGINT, signal.SIG_IGN)
asyncio.run(main())
"""
    with Owner(program, "template", folder=tmp_path) as owner:
        before, after = owner.told()
        assert owner.told() == "interrupted"
        assert owner.end() == 0, owner.err
    del before["a child"]
    assert before == after


# Open files.


LIMITED = f"""{HEAD}
def limit():
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]

async def limits_of(number):
    actors = [Serial.remote() for _ in range(number)]
    return actors, await asyncio.gather(*(a.open_files.remote() for a in actors))

async def main():
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (300, hard))
    async with actorlib.init(start_method=METHOD):
        actors, limits = await limits_of(1)
        tell([limits, limit()])
        actors, limits = await limits_of(20)
        tell([limits, limit() > 300])
        home = await actors[0].household.remote()
        running = actors[0].wait.remote("/dev/null")
        os.kill(home["template"], signal.SIGKILL)
        await asyncio.wait([running])
        running.exception()
        tell((await limits_of(1))[1])
    async with actorlib.init(start_method=METHOD):
        tell((await limits_of(1))[1])
    tell(limit())

asyncio.run(main())
"""


@both_methods
@pytest.mark.thorough
def test_limit_of_open_files_when_raised_for_actors_then_workers_have_the_first(
    method: str, tmp_path: Path
) -> None:
    with Owner(LIMITED, method, folder=tmp_path) as owner:
        assert owner.told() == [[300], 300], "with few actors it is left alone"
        assert owner.told() == [[300] * 20, True]
        assert owner.told() == [300], "behind another template"
        assert owner.told() == [300], "in another runtime"
        assert owner.told() == 300, "behind the runtime"
        assert owner.end() == 0, owner.err


@pytest.mark.thorough
def test_owner_when_it_may_open_no_more_files_then_it_goes_on_with_few_workers(
    tmp_path: Path,
) -> None:
    program = f"""{HEAD}
@actorlib.remote
def add(number):
    return number + 1

async def make_actors():
    async with actorlib.init(start_method=METHOD) as runtime:
        actors = [Serial.options(num_cpus=0.01).remote() for _ in range(30)]
        refs = [a.echo.remote(1) for a in actors]
        results = await asyncio.gather(*refs, return_exceptions=True)
        good = [a for a, r in zip(actors, results) if r == 1]
        bad = [str(r) for r in results if isinstance(r, actorlib.exceptions.ActorError)]
        del actors, refs, results
        tell([len(good), len(bad), bad[0] if bad else ""])
        tell(await asyncio.gather(*(a.echo.remote(2) for a in good)))

async def call_functions():
    async with actorlib.init(num_cpus=8, start_method=METHOD):
        tell(await asyncio.gather(*(add.remote(i) for i in range(100))))

resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
asyncio.run(make_actors())
resource.setrlimit(resource.RLIMIT_NOFILE, (28, 28))
asyncio.run(call_functions())
"""
    with Owner(program, "template", folder=tmp_path) as owner:
        good, bad, reason = owner.told()
        assert good > 0
        assert good + bad == 30
        assert "open files" in reason
        assert owner.told() == [2] * good
        assert owner.told() == [*range(1, 101)]
        assert owner.end() == 0, owner.err
    assert owner.err.count("no further worker can be started") == 1


# What is the owner's.


@both_methods
@pytest.mark.parametrize("path", ["/of/a/test:/another", *rarely(None)])
async def test_environment_path_and_folder_of_a_worker_are_the_owners(
    path: str | None, method: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("OF_A_TEST", "grüße\n=x")
    monkeypatch.setenv("EMPTY_OF_A_TEST", "")
    if path is None:
        monkeypatch.delenv("PYTHONPATH", raising=False)
    else:
        monkeypatch.setenv("PYTHONPATH", path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path / "first"), *sys.path])
    names = (
        "OF_A_TEST",
        "EMPTY_OF_A_TEST",
        "PYTHONPATH",
        "PYTORCH_NVML_BASED_CUDA_CHECK",
    )
    async with actorlib.init(start_method=method):
        sys.path.append(str(tmp_path / "late"))
        actor = Serial.remote()
        assert await actor.place.remote() == (str(tmp_path), sys.path)
        variables = [await actor.variable.remote(name) for name in names]
    assert variables == ["grüße\n=x", "", path, None]


# Devices.

RECORDER = """
    import os
    import actorlib

    SEEN = {name: os.environ.get(name) for name in (
        "CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS", "MKL_NUM_THREADS")}

    @actorlib.remote
    class Recorder:
        def __init__(self):
            self.at_birth = dict(os.environ)

        def seen(self, name):
            return SEEN[name], self.at_birth.get(name), os.environ.get(name)

        def ids(self):
            context = actorlib.get_runtime_context()
            return actorlib.get_gpu_ids(), context.get_accelerator_ids()["GPU"]
"""


@pytest.fixture
def recorder(module: Callable[[str, str], None]) -> Iterator[Any]:
    """An actor class whose module records the environment when it is imported."""
    module("recorder_of_a_test", RECORDER)
    yield importlib.import_module("recorder_of_a_test").Recorder
    del sys.modules["recorder_of_a_test"]


@on_runtime_loop
@pytest.mark.usefixtures("each_runtime")
async def test_mask_when_the_module_of_the_class_is_imported_then_it_is_set(
    recorder: Any,
) -> None:
    first = recorder.options(num_gpus=1).remote()
    second = recorder.options(num_gpus=1, num_cpus=2).remote()
    both = [await a.seen.remote("CUDA_VISIBLE_DEVICES") for a in (first, second)]
    assert both == [("0", "0", "0"), ("1", "1", "1")]
    assert await first.ids.remote() == ([0], ["0"])
    assert await second.ids.remote() == ([1], ["1"])
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        assert await first.seen.remote(name) == (None, None, None)
        assert await second.seen.remote(name) == ("2", "2", "2")


OPTIONS: list[dict[str, Any]] = [
    {},
    {"num_gpus": 0},
    {"num_gpus": 0.5},
    {"accelerators": "hide"},
    {"accelerators": "inherit"},
]


@pytest.mark.parametrize(
    ("switch", "own", "expected"),
    [
        (None, "5,7", ["", "", "5", "", "5,7"]),
        ("0", None, [None, None, "0", "", None]),
        *rarely(("1", None, ["", "", "0", "", None])),
    ],
)
async def test_mask_of_an_actor_is_by_its_option_the_switch_and_the_owners(
    switch: str | None,
    own: str | None,
    expected: list[str | None],
    recorder: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if switch is not None:
        monkeypatch.setenv("ACTORLIB_HIDE_DEVICES", switch)
    if own is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", own)
    async with actorlib.init(num_gpus=2):
        actors = [recorder.options(**options).remote() for options in OPTIONS]
        seen = [await a.seen.remote("CUDA_VISIBLE_DEVICES") for a in actors]
        last = (
            await recorder.options(num_gpus=1)
            .remote()
            .seen.remote("CUDA_VISIBLE_DEVICES")
        )
    assert seen == [(mask,) * 3 for mask in expected]
    assert last == (("7" if own else "1"),) * 3
    assert os.environ.get("CUDA_VISIBLE_DEVICES") == own


# Signals.

MORTALS = f"""{HEAD}
@actorlib.remote(max_retries=0)
def die():
    os._exit(4)

@actorlib.remote
def mask():
    with open("/proc/thread-self/status") as status:
        return [line.split()[1] for line in status if line.startswith("SigBlk")][0]

async def exit_code(ref):
    try:
        await ref
    except actorlib.exceptions.ActorlibError as error:
        return error.exit.code

async def main():
    preload = ["touches_signals"] if METHOD == "template" else None
    async with actorlib.init(num_cpus=1, start_method=METHOD, preload=preload):
        actor = Serial.options(num_cpus=1, max_restarts=1).remote()
        codes = [await exit_code(actor.exit_at_once.remote(3))]
        await actor
        await actorlib.kill(actor)
        codes.append(await exit_code(die.remote()))
        leaving = Serial.options(num_cpus=1).remote()
        codes.append(await exit_code(leaving.leave.remote(5)))
        tell([codes, await mask.remote()])
        serial = Serial.remote()
        tell(await serial.household.remote("a session"))
        await asyncio.to_thread(listen)
        tell(await Serial.remote().echo.remote(1))

if "block" in ARGUMENTS:
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
if "ignore" in ARGUMENTS:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
if "exec" in ARGUMENTS:
    os.execv(sys.executable, [*sys.orig_argv[:-1], "ignore"])
asyncio.run(main())
"""


def assert_ends_are_noticed(folder: Path, method: str, *deeds: str) -> None:
    """Workers' ends are noticed, and their descendants end with the template."""
    with Owner(MORTALS, method, *deeds, folder=folder) as owner:
        assert owner.told() == [[3, 4, 5], "0" * 16]
        home = owner.told()
        with Watched(home.values()) as watched:
            os.kill(home["template"], signal.SIGKILL)
            owner.go_on()
            assert owner.told() == 1
            assert watched.left() == []
        assert owner.end() == 0, owner.err


IGNORES = "signal.signal(signal.SIGCHLD, signal.SIG_IGN)"
CLOSES_WAKEUP = "signal.set_wakeup_fd(-1)"
BLOCKS = "signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())"


@both_methods
@pytest.mark.thorough
def test_end_of_a_worker_when_nothing_tells_of_sigchld_then_it_is_noticed(
    method: str, tmp_path: Path
) -> None:
    deeds = "\n".join([IGNORES, CLOSES_WAKEUP, BLOCKS])
    (tmp_path / "touches_signals.py").write_text(f"import signal\n{deeds}")
    assert_ends_are_noticed(tmp_path, method, "block", "ignore", "exec")


@pytest.mark.parametrize(
    "deed",
    rarely(
        IGNORES,
        CLOSES_WAKEUP,
        BLOCKS,
        "signal.signal(signal.SIGCHLD, signal.SIG_DFL)",
        "signal.signal(signal.SIGCHLD, lambda *_: None)",
        "signal.signal(signal.SIGCHLD, lambda *_: 1 / 0)",
        "pair = socket.socketpair(); pair[1].setblocking(False); "
        "signal.set_wakeup_fd(pair[1].fileno())",
        "ctypes.CDLL(None).signal(signal.SIGCHLD, 1)",
    ),
)
def test_end_of_a_worker_when_a_preload_touches_sigchld_then_it_is_noticed(
    deed: str, tmp_path: Path
) -> None:
    (tmp_path / "touches_signals.py").write_text(
        f"import ctypes, signal, socket\n{deed}"
    )
    assert_ends_are_noticed(tmp_path, "template")


LATE = {
    IGNORES: False,
    "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])": True,
    "ctypes.CDLL(None).signal(signal.SIGCHLD, 1)": False,
    "signal.signal(signal.SIGCHLD, signal.SIG_DFL)": True,
    CLOSES_WAKEUP: True,
}
"""What is done to SIGCHLD in a running template; is the next end's status known?"""

DISTURBED = """
import ctypes, os, signal

def handle(*_):
    with open("deed") as deed:
        exec(deed.read())
    os.write(write_end, b"!")

read_end, write_end = os.pipe()
signal.signal(signal.SIGUSR1, handle)
"""
LATE_ENDS = f"""{HEAD}
@actorlib.remote
class Actor:
    def disturb(self):
        import touches_signals
        os.kill(os.getppid(), signal.SIGUSR1)
        os.read(touches_signals.read_end, 1)

    def template(self):
        return os.getppid()

    def end(self, code):
        os._exit(code)

    def leave_orphan(self):
        # A grandchild that the template adopts when its parent ends.
        read, write = os.pipe()
        if not os.fork():
            if not os.fork():
                os.setsid()
                os.write(write, str(os.getpid()).encode())
                signal.pause()
            os._exit(0)
        os.wait()
        return int(os.read(read, 20))

async def exits(ref):
    try:
        await ref
    except actorlib.exceptions.ActorlibError as error:
        return error.exit.code, str(error)

async def disturb(actor, deed):
    with open("deed", "w") as file:
        file.write(deed)
    await actor.disturb.remote()

async def main():
    async with actorlib.init(num_cpus=1, preload=["touches_signals"]):
        for deed in ARGUMENTS:
            actor = Actor.options(num_cpus=1, max_restarts=-1).remote()
            template = await actor.template.remote()
            orphan = os.pidfd_open(await actor.leave_orphan.remote())
            await disturb(actor, deed)
            ends = [await exits(actor.end.remote(3))]
            await actor
            ends.append(await exits(actor.end.remote(4)))
            await actor
            await disturb(actor, deed)
            await actorlib.kill(actor)
            other = Actor.options(num_cpus=1).remote()
            is_same = await other.template.remote() == template
            await actorlib.kill(other)
            tell([ends, is_same, bool(select.select([orphan], [], [], 0)[0])])

asyncio.run(main())
"""


@pytest.mark.thorough
def test_end_of_a_worker_when_sigchld_is_touched_later_then_it_is_noticed(
    tmp_path: Path,
) -> None:
    """A status that the kernel has dropped is said to be unknown, once."""
    (tmp_path / "touches_signals.py").write_text(DISTURBED)
    with Owner(LATE_ENDS, "template", *LATE, folder=tmp_path) as owner:
        for deed, is_known in LATE.items():
            (first, second), is_same, is_orphan_gone = owner.told()
            assert first[0] == (3 if is_known else None), deed
            assert is_known or "SIGCHLD" in first[1], deed
            assert second[0] == 4, deed
            assert is_same, deed
            assert is_orphan_gone, deed
        assert owner.end() == 0, owner.err


HANGING = """
import signal

def hang(*_):
    while True:
        signal.pause()

signal.signal(signal.SIGUSR1, hang)
"""


@pytest.mark.slow
@pytest.mark.parametrize("is_killed", [True, *rarely((False,))])
@pytest.mark.thorough
async def test_shutdown_when_the_template_hangs_then_what_it_has_started_ends(
    module: Callable[[str, str], None],
    monkeypatch: pytest.MonkeyPatch,
    *,
    is_killed: bool,
) -> None:
    launcher = "actorlib._processes.forkserver_launcher"
    monkeypatch.setattr(f"{launcher}.LEAVE_TIMEOUT", 0.1)
    monkeypatch.setattr("actorlib._owner.engine._PATIENCE", 0.2)
    module("hanging", HANGING)
    async with (
        asyncio.timeout(PROMPTLY),
        actorlib.init(num_cpus=1, preload=["hanging"], grace=0.1),
    ):
        actor = Serial.options(num_cpus=1).remote()
        home = await actor.household.remote("a session")
        with Watched(home.values()) as watched:
            os.kill(home["template"], signal.SIGUSR1)
            if is_killed:
                ended: Any = asyncio.ensure_future(actorlib.kill(actor))
            else:
                ended = actor.exit_at_once.remote(3)
            await actorlib.shutdown()
            await asyncio.wait([ended])
            assert watched.left() == []


# What the owner imports from.


@both_methods
async def test_worker_when_the_path_has_what_imports_skip_then_it_starts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, method: Any
) -> None:
    monkeypatch.setattr(sys, "path", [tmp_path, b"nowhere", *sys.path])
    async with actorlib.init(num_cpus=1, start_method=method):
        for options in ({}, {"runtime_env": {"working_dir": str(tmp_path)}}):
            worker: Any = Caller.options(**options).remote()
            assert await worker.run.remote(len, "ab") == 2
