"""Where workers come from: what they share with the template, and what they do not."""

from __future__ import annotations

import asyncio
import importlib
import os
import resource
import signal
import sys
import textwrap
from typing import TYPE_CHECKING, Any

import pytest
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

METHODS = ["template", "spawn"]
both_methods = pytest.mark.parametrize("method", METHODS)
PROMPTLY = 10.0

HEAD = """
import asyncio, os, resource, signal, sys
import actorlib
from helpers.owners import Serial, listen, tell

METHOD, *ARGUMENTS = sys.argv[1:]
"""


@pytest.fixture
def module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str, str], None]:
    """Writes modules into a folder of the owner's ``sys.path``."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def write(name: str, text: str) -> None:
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(text))

    return write


@pytest.fixture(autouse=True)
def no_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CUDA_VISIBLE_DEVICES", "ACTORLIB_HIDE_DEVICES", "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)


# Preloads.


async def test_preload_when_an_actor_starts_is_imported_already(
    module: Callable[[str, str], None],
) -> None:
    module("preloaded", "import os\npid = os.getpid()\nstate = object()")
    async with actorlib.init(preload=["preloaded"]):
        actors = [Asker.remote() for _ in range(2)]
        for actor in actors:
            template = await actor.parent.remote()
            assert await actor.ask.remote("preloaded", "pid") == template
    assert "preloaded" not in sys.modules


async def test_preload_of_a_submodule_when_an_actor_starts_is_imported_already() -> (
    None
):
    async with actorlib.init(preload=["email.mime.text"]):
        assert await Asker.remote().has.remote("email.mime.text")


def test_preload_when_actors_are_spawned_is_refused() -> None:
    with pytest.raises(ValueError, match=r"preload=\['json'\].*start_method='spawn'"):
        actorlib.init(preload=["json"], start_method="spawn")


async def test_forked_actor_when_it_changes_a_preload_changes_no_other(
    module: Callable[[str, str], None],
) -> None:
    module("preloaded", "values = []")

    @actorlib.remote
    class Changer:
        def change(self, value: int) -> list[int]:
            values: list[int] = sys.modules["preloaded"].values
            values.append(value)
            return values

    async with actorlib.init(preload=["preloaded"]):
        first, second = Changer.remote(), Changer.remote()
        assert await first.change.remote(1) == [1]
        assert await second.change.remote(2) == [2]
        assert await Changer.remote().change.remote(3) == [3]


async def test_template_when_it_has_forked_has_not_imported_the_actor(
    module: Callable[[str, str], None],
) -> None:
    module("lonely", "import os\npid = os.getpid()")

    @actorlib.remote
    class Importer:
        def where(self) -> tuple[int, int]:
            return os.getpid(), importlib.import_module("lonely").pid

    async with actorlib.init():
        for _ in range(2):
            own, imported = await Importer.remote().where.remote()
            assert own == imported


async def test_preload_when_it_has_threads_is_no_hindrance(
    module: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONWARNINGS", "error:This process")  # as Python 3.12 says
    module(
        "preloaded",
        """
        import threading
        threading.Thread(target=threading.Event().wait, daemon=True).start()
        """,
    )
    async with actorlib.init(preload=["preloaded"]):
        async with asyncio.timeout(PROMPTLY):
            assert await Serial.remote().echo.remote("here") == "here"


# What some workers need alone.

_SOME = "actorlib._worker.executors.async_executor"


async def test_second_worker_when_forked_then_the_rest_is_imported() -> None:
    async with actorlib.init():
        first, second = Asker.remote(), Asker.remote()
        assert await first.parent.remote() == await second.parent.remote()
        assert await second.has.remote(_SOME)
        assert await Asker.remote().has.remote(_SOME)


async def test_first_worker_when_it_needs_a_loop_then_it_has_one() -> None:
    async with actorlib.init():
        assert await Looped.remote().echo.remote("here") == "here"
        assert await Serial.remote().echo.remote("there") == "there"


async def test_first_worker_when_it_uses_names_of_ours_then_they_are_there() -> None:
    @actorlib.remote
    class User:
        async def names(self) -> list[str]:
            names = importlib.import_module("actorlib")
            return [name for name in names.__all__ if not hasattr(names, name)]

    async with actorlib.init():
        assert await User.remote().names.remote() == []


async def test_preload_when_imported_then_it_finds_our_names_imported(
    module: Callable[[str, str], None],
) -> None:
    module("looks", "import sys\nfound = 'actorlib._api.decorators' in sys.modules")
    async with actorlib.init(preload=["looks"]):
        actor = Asker.remote()
        assert await actor.ask.remote("looks", "found")
        assert await actor.has.remote(_SOME)


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


async def test_actor_with_a_device_when_a_preload_took_it_fails_naming_the_preload(
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


async def test_actor_with_a_device_when_spawned_takes_it_by_itself(
    module: Callable[[str, str], None],
) -> None:
    module("torch", TORCH.format(is_initialised=True))

    @actorlib.remote(num_gpus=0.5)
    class Taker:
        def takes(self) -> bool:
            torch: Any = importlib.import_module("torch")
            return bool(torch.cuda.is_initialized())

    async with actorlib.init(num_gpus=1, start_method="spawn"):
        actors = [Taker.remote() for _ in range(2)]
        assert [await actor.takes.remote() for actor in actors] == [True, True]


async def test_actor_with_a_device_when_a_preload_took_none_lives(
    module: Callable[[str, str], None],
) -> None:
    module("torch", TORCH.format(is_initialised=False))
    async with actorlib.init(num_gpus=1, preload=["torch"]):
        actor = Serial.options(num_gpus=0.5, num_cpus=1).remote()
        assert await actor.echo.remote("fine") == "fine"


# What is each worker's own.


@pytest.mark.parametrize("preload", [[], ["numpy"]])
async def test_random_numbers_when_drawn_by_forked_actors_differ(
    preload: list[str],
) -> None:
    for name in preload:
        pytest.importorskip(name)
    async with actorlib.init(preload=["random", *preload]):
        actors = [Asker.remote() for _ in range(4)]
        drawn = await asyncio.gather(*(actor.draws.remote() for actor in actors))
    for numbers in zip(*drawn, strict=True):
        assert len(set(numbers)) == 4
    assert len(drawn[0]) == 1 + len(preload)


@both_methods
async def test_worker_when_started_leads_a_session_of_its_own(method: str) -> None:
    async with actorlib.init(start_method=method):
        for actor in (Serial.remote(), Looped.remote()):
            pid, group, session = await actor.groups.remote()
            assert pid == group == session


@both_methods
async def test_worker_when_started_holds_no_descriptor_but_its_own(
    method: str,
) -> None:
    async with actorlib.init(start_method=method):
        others = [Serial.remote() for _ in range(3)]
        await asyncio.gather(*others)
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


@both_methods
async def test_child_of_an_actor_when_nobody_closes_for_it_inherits_no_pipe(
    method: str,
) -> None:
    async with actorlib.init(start_method=method):
        listed = await Serial.remote().descriptors_of_child.remote()
    assert listed.split() == ["0", "1", "2", "3"]  # the fourth is the folder itself


@pytest.mark.parametrize(
    ("method", "way"),
    [
        ("template", "fork"),
        ("template", "spawn"),
        ("template", "forkserver"),
        ("spawn", "spawn"),
    ],
)
async def test_actor_when_it_has_a_process_pool_gets_its_results(
    method: str, way: str
) -> None:
    async with actorlib.init(start_method=method), asyncio.timeout(PROMPTLY):
        actor = Multiplier.remote()
        assert await actor.multiply.remote(way, [1, 2, 3]) == [-1, -2, -3]
        assert await actor.multiply.remote(way, [4]) == [-4]


def test_interrupt_of_the_owners_group_hits_no_worker(tmp_path: Path) -> None:
    program = f"""{HEAD}
async def main():
    interrupted = asyncio.Event()
    async with actorlib.init(start_method=METHOD):
        actor = Serial.remote()
        home = await actor.household.remote("a child")
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, interrupted.set)
        os.killpg(0, signal.SIGINT)
        await interrupted.wait()
        tell([home, await actor.household.remote()])

asyncio.run(main())
"""
    with Owner(program, "template", folder=tmp_path) as owner:
        before, after = owner.told()
        assert owner.end() == 0, owner.err
    del before["a child"]
    assert before == after


def test_interrupt_when_the_owner_ignores_it_reaches_its_actors_by_default(
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
    async with actorlib.init(start_method=METHOD):
        tell(await Interrupted.remote().interrupt.remote())

asyncio.run(main())
"""
    with Owner(program, "template", folder=tmp_path) as owner:
        assert owner.told() == "interrupted"
        assert owner.end() == 0, owner.err


LIMITED = f"""{HEAD}
async def main():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (260, hard))
    async with actorlib.init(start_method=METHOD):
        actors = [Serial.remote() for _ in range(8)]
        limits = [await actor.open_files.remote() for actor in actors]
        owners = [resource.getrlimit(resource.RLIMIT_NOFILE)[0]]
        again, = ARGUMENTS
        if again == "template":
            home = await actors[0].household.remote()
            running = actors[0].wait.remote("/dev/null")
            os.kill(home["template"], signal.SIGKILL)
            await asyncio.wait([running])
            running.exception()
            limits = [await Serial.remote().open_files.remote()]
    if again == "runtime":
        async with actorlib.init(start_method=METHOD):
            limits = [await Serial.remote().open_files.remote()]
    owners.append(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    tell([limits, owners])

asyncio.run(main())
"""


@both_methods
def test_limit_of_open_files_in_workers_is_the_owners_before_init(
    method: str, tmp_path: Path
) -> None:
    with Owner(LIMITED, method, "", folder=tmp_path) as owner:
        limits, (meanwhile, afterwards) = owner.told()
        assert owner.end() == 0, owner.err
    assert limits == [260] * 8
    assert meanwhile > 260
    assert afterwards == 260


@pytest.mark.parametrize("again", ["template", "runtime"])
def test_limit_of_open_files_in_later_workers_is_the_owners_before_init(
    again: str, tmp_path: Path
) -> None:
    with Owner(LIMITED, "template", again, folder=tmp_path) as owner:
        limits, _ = owner.told()
        assert owner.end() == 0, owner.err
    assert limits == [260]


def test_owner_when_it_has_many_actors_needs_no_higher_limit(tmp_path: Path) -> None:
    program = f"""{HEAD}
async def main():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
    async with actorlib.init(start_method=METHOD):
        actors = [Serial.remote() for _ in range(60)]
        tell(await asyncio.gather(*(a.echo.remote(1) for a in actors)))
        await asyncio.gather(*map(actorlib.kill, actors))

asyncio.run(main())
"""
    with Owner(program, "template", folder=tmp_path) as owner:
        assert owner.told() == [1] * 60
        assert owner.end() == 0, owner.err


def test_owner_when_it_may_open_no_more_files_fails_actors_and_goes_on(
    tmp_path: Path,
) -> None:
    program = f"""{HEAD}
async def main():
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    async with actorlib.init(start_method=METHOD) as runtime:
        actors = [Serial.options(num_cpus=0.01).remote() for _ in range(60)]
        refs = [a.echo.remote(1) for a in actors]
        results = await asyncio.gather(*refs, return_exceptions=True)
        good = [a for a, r in zip(actors, results) if r == 1]
        bad = [str(r) for r in results if isinstance(r, actorlib.exceptions.ActorError)]
        del actors, refs, results
        tell([len(good), len(bad), bad[0] if bad else ""])
        tell(await asyncio.gather(*(a.echo.remote(2) for a in good)))

asyncio.run(main())
"""
    with Owner(program, "template", folder=tmp_path) as owner:
        good, bad, reason = owner.told()
        assert good > 0
        assert good + bad == 60
        assert "open files" in reason
        assert owner.told() == [2] * good
        assert owner.end() == 0, owner.err


def test_calls_of_a_function_when_few_files_may_be_open_then_few_workers_run_all(
    tmp_path: Path,
) -> None:
    program = f"""{HEAD}
resource.setrlimit(resource.RLIMIT_NOFILE, (28, 28))

@actorlib.remote
def add(number):
    return number + 1

async def main():
    async with actorlib.init(num_cpus=8, start_method=METHOD):
        tell(await asyncio.gather(*(add.remote(i) for i in range(100))))

asyncio.run(main())
"""
    with Owner(program, "template", folder=tmp_path) as owner:
        assert owner.told() == [*range(1, 101)]
        assert owner.end() == 0, owner.err
    assert owner.err.count("no further worker can be started") == 1


# What is the owner's.


@both_methods
async def test_path_and_folder_of_a_worker_are_the_owners(
    method: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path / "first"), *sys.path])
    async with actorlib.init(start_method=method):
        sys.path.append(str(tmp_path / "late"))
        folder, path = await Serial.remote().place.remote()
        assert path == sys.path
    assert folder == str(tmp_path)


@both_methods
async def test_environment_of_a_worker_is_the_owners(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OF_A_TEST", "grüße\n=x")
    monkeypatch.setenv("EMPTY_OF_A_TEST", "")
    async with actorlib.init(start_method=method):
        actor = Serial.remote()
        assert await actor.variable.remote("OF_A_TEST") == "grüße\n=x"
        assert await actor.variable.remote("EMPTY_OF_A_TEST") == ""
        assert await actor.variable.remote("PYTORCH_NVML_BASED_CUDA_CHECK") is None


@both_methods
@pytest.mark.parametrize("path", [None, "/of/a/test:/another"])
async def test_pythonpath_of_a_worker_is_the_owners(
    path: str | None, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if path is None:
        monkeypatch.delenv("PYTHONPATH", raising=False)
    else:
        monkeypatch.setenv("PYTHONPATH", path)
    async with actorlib.init(start_method=method):
        assert await Serial.remote().variable.remote("PYTHONPATH") == path


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


@both_methods
async def test_mask_when_the_module_of_the_class_is_imported_is_set(
    method: str, recorder: Any
) -> None:
    async with actorlib.init(num_gpus=2, num_cpus=4, start_method=method):
        first = recorder.options(num_gpus=1).remote()
        second = recorder.options(num_gpus=1, num_cpus=2).remote()
        both = [await a.seen.remote("CUDA_VISIBLE_DEVICES") for a in (first, second)]
        assert both == [("0", "0", "0"), ("1", "1", "1")]
        assert await first.ids.remote() == ([0], ["0"])
        assert await second.ids.remote() == ([1], ["1"])
        for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
            assert await first.seen.remote(name) == (None, None, None)
            assert await second.seen.remote(name) == ("2", "2", "2")


async def test_mask_when_the_owner_has_one_is_a_part_of_it(
    recorder: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,7")
    async with actorlib.init(num_gpus=2):
        actors = [recorder.options(num_gpus=1).remote() for _ in range(2)]
        masks = [(await a.seen.remote("CUDA_VISIBLE_DEVICES"))[0] for a in actors]
        hidden = recorder.remote()
        inherits = recorder.options(accelerators="inherit").remote()
        assert masks == ["5", "7"]
        assert (await hidden.seen.remote("CUDA_VISIBLE_DEVICES"))[0] == ""
        assert (await inherits.seen.remote("CUDA_VISIBLE_DEVICES"))[0] == "5,7"
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "5,7"


OPTIONS: list[dict[str, Any]] = [
    {},
    {"num_gpus": 0},
    {"num_gpus": 0.5},
    {"accelerators": "hide"},
    {"accelerators": "inherit"},
]


@pytest.mark.parametrize(
    ("switch", "expected"),
    [
        (None, ["", "", "0", "", None]),
        ("1", ["", "", "0", "", None]),
        ("0", [None, None, "0", "", None]),
    ],
)
async def test_mask_of_an_actor_is_by_its_option_and_by_the_switch(
    switch: str | None,
    expected: list[str | None],
    recorder: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if switch is not None:
        monkeypatch.setenv("ACTORLIB_HIDE_DEVICES", switch)
    async with actorlib.init(num_gpus=1):
        actors = [recorder.options(**options).remote() for options in OPTIONS]
        seen = [await a.seen.remote("CUDA_VISIBLE_DEVICES") for a in actors]
    assert seen == [(mask,) * 3 for mask in expected]


# Which one it is.


async def test_start_method_when_not_given_is_the_template_on_linux(
    module: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ACTORLIB_START_METHOD", raising=False)
    module("preloaded", "")
    async with actorlib.init(preload=["preloaded"]):
        assert await Asker.remote().has.remote("preloaded")


async def test_template_when_actors_come_and_go_is_one_for_all() -> None:
    async with actorlib.init():
        parents = set()
        for _ in range(3):
            actor = Asker.remote()
            parents.add(await actor.parent.remote())
            await actorlib.kill(actor)
    assert len(parents) == 1


async def test_limit_of_this_process_when_few_actors_run_is_left_alone() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    async with actorlib.init():
        await Serial.remote()
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == before


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

if "block" in ARGUMENTS:
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
if "ignore" in ARGUMENTS:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
if "exec" in ARGUMENTS:
    os.execv(sys.executable, [*sys.orig_argv[:-1], "again"])
asyncio.run(main())
"""


@both_methods
@pytest.mark.parametrize(
    "deeds",
    [["ignore", "exec"], *rarely(["block"], ["ignore"], ["block", "exec"])],
    ids="-".join,
)
def test_end_of_a_worker_when_the_program_has_no_sigchld_is_noticed(
    method: str, deeds: list[str], tmp_path: Path
) -> None:
    (tmp_path / "touches_signals.py").write_text("")
    with Owner(MORTALS, method, *deeds, folder=tmp_path) as owner:
        assert owner.told() == [[3, 4, 5], "0" * 16]
        assert owner.end() == 0, owner.err


@pytest.mark.parametrize(
    "deed",
    [
        "signal.signal(signal.SIGCHLD, signal.SIG_IGN)",
        "signal.set_wakeup_fd(-1)",
        "signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())",
        *rarely(
            "signal.signal(signal.SIGCHLD, signal.SIG_DFL)",
            "signal.signal(signal.SIGCHLD, lambda *_: None)",
            "signal.signal(signal.SIGCHLD, lambda *_: 1 / 0)",
            "pair = socket.socketpair(); pair[1].setblocking(False); "
            "signal.set_wakeup_fd(pair[1].fileno())",
            "ctypes.CDLL(None).signal(signal.SIGCHLD, 1)",
        ),
    ],
    ids=[
        *("ignores", "closes wakeup", "blocks"),
        *("resets", "handles", "raises", "takes wakeup", "ignores in C"),
    ],
)
def test_end_of_a_worker_when_a_preload_touches_sigchld_is_noticed(
    deed: str, tmp_path: Path
) -> None:
    (tmp_path / "touches_signals.py").write_text(
        f"import ctypes, signal, socket\n{deed}"
    )
    with Owner(MORTALS, "template", folder=tmp_path) as owner:
        assert owner.told() == [[3, 4, 5], "0" * 16]
        assert owner.end() == 0, owner.err


LATER = """
import ctypes, os, signal

def handle(*_):
    {deed}
    os.write(write_end, b"!")

read_end, write_end = os.pipe()
signal.signal(signal.SIGUSR1, handle)
"""
LATE_ENDS = f"""{HEAD}
@actorlib.remote
class Actor:
    def template(self):
        return os.getppid()

    def disturb(self):
        import touches_signals
        os.kill(os.getppid(), signal.SIGUSR1)
        os.read(touches_signals.read_end, 1)

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

async def main():
    async with actorlib.init(num_cpus=1, preload=["touches_signals"]):
        actor = Actor.options(num_cpus=1, max_restarts=-1).remote()
        orphan = os.pidfd_open(await actor.leave_orphan.remote())
        await actor.disturb.remote()
        ends = [await exits(actor.end.remote(3))]
        await actor
        ends.append(await exits(actor.end.remote(4)))
        await actor
        await actor.disturb.remote()
        await actorlib.kill(actor)
        os.kill(await Actor.options(num_cpus=1).remote().template.remote(), 0)
        import select
        tell([ends, bool(select.select([orphan], [], [], 0)[0])])

asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("deed", "is_known"),
    [
        ("signal.signal(signal.SIGCHLD, signal.SIG_IGN)", False),
        ("signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])", True),
        *rarely(
            ("ctypes.CDLL(None).signal(signal.SIGCHLD, 1)", False),
            ("signal.signal(signal.SIGCHLD, signal.SIG_DFL)", True),
            ("signal.set_wakeup_fd(-1)", True),
        ),
    ],
    ids=["ignores", "blocks", "ignores in C", "resets", "closes wakeup"],
)
def test_end_of_a_worker_when_sigchld_is_touched_later_is_noticed(
    deed: str, *, is_known: bool, tmp_path: Path
) -> None:
    """A status that the kernel has dropped is said to be unknown, once."""
    (tmp_path / "touches_signals.py").write_text(LATER.format(deed=deed))
    with Owner(LATE_ENDS, "template", folder=tmp_path) as owner:
        (first, second), is_orphan_gone = owner.told()
        assert owner.end() == 0, owner.err
    assert first[0] == (3 if is_known else None)
    assert is_known or "SIGCHLD" in first[1]
    assert second[0] == 4
    assert is_orphan_gone


HANGING = """
import signal

def hang(*_):
    while True:
        signal.pause()

signal.signal(signal.SIGUSR1, hang)
"""


@pytest.mark.slow
@pytest.mark.parametrize("is_killed", [True, *rarely((False,))])
async def test_shutdown_when_the_template_hangs_ends_what_it_has_started(
    module: Callable[[str, str], None],
    monkeypatch: pytest.MonkeyPatch,
    *,
    is_killed: bool,
) -> None:
    launcher = "actorlib._processes.forkserver_launcher"
    monkeypatch.setattr(f"{launcher}.LEAVE_TIMEOUT", 0.1)
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


def test_descendants_when_the_owner_ignores_sigchld_end_with_the_template(
    tmp_path: Path,
) -> None:
    program = f"""{HEAD}
signal.signal(signal.SIGCHLD, signal.SIG_IGN)

async def main():
    async with actorlib.init(start_method=METHOD):
        serial = Serial.remote()
        home = await serial.household.remote("a session")
        tell(home)
        listen()
        tell(await Serial.remote().echo.remote(1))

asyncio.run(main())
"""
    with Owner(program, "template", folder=tmp_path) as owner:
        home = owner.told()
        with Watched(home.values()) as watched:
            os.kill(home["template"], signal.SIGKILL)
            owner.go_on()
            assert owner.told() == 1
            assert watched.left() == []
        assert owner.end() == 0, owner.err
