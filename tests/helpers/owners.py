"""Owners in processes of their own, actors that misbehave, and how to watch both end.

The actors are here and not in the tests because workers import their module: this one
loads nothing that actorlib does not. Whatever waits here waits for the kernel to tell:
for the end of a process, or for bytes in a pipe.
"""

from __future__ import annotations

import asyncio
import atexit
import ctypes
import itertools
import json
import os
import resource
import select
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import actorlib

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from types import TracebackType

LIMIT = 10.0
"""Seconds after which something that should have happened never will."""

PATHS = os.pathsep.join(str(Path(__file__).parents[back]) for back in (1, 2))
"""What ``PYTHONPATH`` must be for a program that uses actorlib and these helpers."""

_REPORTS = "ACTORLIB_TEST_REPORTS"


# For the tests.


class Watched:
    """Processes that are watched from a time when they live, to be sure they end.

    Used as a context manager, it kills at the end of the block what has not ended.

    Args:
        pids: Their process ids.
    """

    def __init__(self, pids: Iterable[int]) -> None:
        self._descriptors = {pid: os.pidfd_open(pid) for pid in pids}

    def left(self, limit: float = LIMIT) -> list[int]:
        """Waits for the end of all of them; gives those that live on regardless."""
        poller = select.poll()
        waited = {descriptor: pid for pid, descriptor in self._descriptors.items()}
        for descriptor in waited:
            poller.register(descriptor, select.POLLIN)
        deadline = time.monotonic() + limit
        while waited and (rest := deadline - time.monotonic()) > 0:
            for descriptor, _ in poller.poll(rest * 1000):
                poller.unregister(descriptor)
                del waited[descriptor]
        return sorted(waited.values())

    def left_of(self, home: Mapping[str, int]) -> list[str]:
        """As ``left``, by the names that the processes have there."""
        left = self.left()
        return [name for name, pid in home.items() if pid in left]

    def alive(self) -> list[int]:
        """Those that live now."""
        return self.left(limit=1e-3)

    def close(self) -> None:
        """Kills what still lives and watches no more."""
        for descriptor in self._descriptors.values():
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            os.close(descriptor)
        self._descriptors.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class Bell:
    """A named pipe that an actor rings to say that it has come to some point.

    Args:
        folder: Where the pipe is made.
    """

    def __init__(self, folder: Path) -> None:
        self.path = str(folder / "bell")
        os.mkfifo(self.path)
        # Open for writing too, or the first ring to end would be the end of the file.
        self._descriptor = os.open(self.path, os.O_RDWR)
        self._rest = b""

    def heard(self, limit: float = LIMIT) -> int:
        """Waits for the next ring; gives the number that was sent with it."""
        while b"\n" not in self._rest:
            _wait_for(self._descriptor, limit, "nobody rang the bell")
            self._rest += os.read(self._descriptor, 4096)
        line, _, self._rest = self._rest.partition(b"\n")
        return int(line)

    def close(self) -> None:
        """Closes the pipe."""
        os.close(self._descriptor)


class Owner:
    """A program that owns a runtime, in a process and a session of its own.

    It says things by ``tell()`` and waits at ``listen()`` until told to ``go_on``.
    What it prints is kept until it has ended.

    Args:
        program: Its text, indented as it may be.
        *arguments: For its ``sys.argv``.
        folder: Its working directory, and where its temporary files are.
        environ: Variables that it gets besides those of this process.
    """

    def __init__(
        self,
        program: str,
        *arguments: str,
        folder: Path,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self.out = ""
        self.err = ""
        self.returncode: int | None = None
        self._temporary = folder / "temporary"
        self._temporary.mkdir(exist_ok=True)
        self._outputs = [tempfile.TemporaryFile() for _ in range(2)]  # noqa: SIM115  # closed at the end of the block
        self._reports, reports = os.pipe()
        self._rest = b""
        inherited = dict(os.environ)
        # Set where tests run, it would hide output that is buffered and then lost.
        inherited.pop("PYTHONUNBUFFERED", None)
        environment = {
            **inherited,
            "PYTHONPATH": PATHS,
            "TMPDIR": str(self._temporary),
            _REPORTS: str(reports),
            **(environ or {}),
        }
        self.process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(program), *arguments],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=self._outputs[0],
            stderr=self._outputs[1],
            pass_fds=[reports],
            start_new_session=True,
        )
        os.close(reports)

    @property
    def pid(self) -> int:
        """Its process id, which is also that of its process group."""
        return self.process.pid

    def told(self, limit: float = LIMIT) -> Any:
        """Waits for the next thing that it tells."""
        while b"\n" not in self._rest:
            _wait_for(self._reports, limit, f"the owner told nothing\n{self._printed}")
            data = os.read(self._reports, 4096)
            assert data, f"the owner ended without a word\n{self._printed}"
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        return json.loads(line)

    def go_on(self) -> None:
        """Lets it go on where it listens."""
        assert self.process.stdin is not None
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()

    def signal(self, number: int, *, group: bool = False) -> None:
        """Sends it a signal, or to its whole process group as a terminal does."""
        if group:
            os.killpg(self.pid, number)
        else:
            os.kill(self.pid, number)

    def end(self, limit: float = LIMIT) -> int:
        """Waits for its end; gives its return code and keeps what it printed."""
        self.returncode = self.process.wait(limit)
        self.out, self.err = self._printed
        return self.returncode

    def leftovers(self) -> list[str]:
        """The files that it has left behind, temporary ones and in shared memory."""
        shared = [
            name
            for name in os.listdir("/dev/shm")  # noqa: PTH208  # names alone
            if "actorlib" in name
        ]
        return [str(path) for path in self._temporary.iterdir()] + shared

    @property
    def _printed(self) -> tuple[str, str]:
        out, err = (
            os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0).decode(
                errors="replace"
            )
            for file in self._outputs
        )
        return out, err

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.close()
        for file in self._outputs:
            file.close()
        os.close(self._reports)


def open_files() -> list[str]:
    """What this process's descriptors stand for, without numbers."""
    found: list[str] = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the folder itself
            found.append(str(descriptor.readlink()).partition("[")[0])
    return sorted(found)


def _wait_for(descriptor: int, limit: float, complaint: str) -> None:
    poller = select.poll()
    poller.register(descriptor, select.POLLIN)
    assert poller.poll(limit * 1000), complaint


# For the programs of owners.


def tell(value: object) -> None:
    """Says something to the test that started this owner."""
    os.write(int(os.environ[_REPORTS]), json.dumps(value).encode() + b"\n")


def listen() -> None:
    """Waits until the test lets this owner go on; blocks."""
    sys.stdin.readline()


# For the actors, and for the programs of owners that want to be watched too.


def ring(bell: str, value: int = 0) -> None:
    """Says to whoever waits at the bell that this point was reached."""
    with open(bell, "w", encoding="ascii") as pipe:  # noqa: PTH123  # no pathlib in workers
        pipe.write(f"{value}\n")


# Said from within, so that by then its environment is in place. The last command
# keeps the shell from becoming the sleep itself.
_NAP = "echo $$; sleep 1000; :"


def _shell(
    script: str = _NAP, *, new_session: bool = False, is_bare: bool = False
) -> int:
    """Starts a shell, perhaps without any variable; gives the pid that is said."""
    shell = subprocess.Popen(
        ["sh", "-c", script, _NAP],
        stdout=subprocess.PIPE,
        start_new_session=new_session,
        env={} if is_bare else None,
    )
    _children.append(shell)  # or it would complain that nobody waits for it
    assert shell.stdout is not None
    return int(shell.stdout.readline())


def _forked() -> int:
    told, tells = os.pipe()
    pid = os.fork()
    if not pid:
        os.setsid()
        os.write(tells, b"!")
        while True:
            signal.pause()
    os.read(told, 1)
    os.close(told)
    os.close(tells)
    return pid


DESCENDANTS: dict[str, Callable[[], int]] = {
    "a child": _shell,
    "a session": lambda: _shell(new_session=True),
    "a session's child": lambda: _shell('sh -c "$0" & wait', new_session=True),
    "a daemon": lambda: _shell('setsid sh -c "$0" &'),
    "a daemon's child": lambda: _shell("""setsid sh -c 'sh -c "$0" & wait' "$0" &"""),
    "a forked session": _forked,
    "an unmarked session": lambda: _shell(new_session=True, is_bare=True),
}
"""Ways for a process to have descendants; each gives the process id of one."""

_children: list[subprocess.Popen[bytes]] = []


def start(descendants: Sequence[str]) -> dict[str, int]:
    """Starts descendants of this process; gives their process ids by kind."""
    return {kind: DESCENDANTS[kind]() for kind in descendants}


class Mortal:
    """Can die in any way, and do anything that keeps it from dying.

    Args:
        bell: Where the constructor rings before it does something bad, if anywhere.
        deed: The method that the constructor calls then, with its arguments.
    """

    def __init__(self, bell: str = "", deed: str = "", *arguments: object) -> None:
        if bell:
            ring(bell, os.getpid())
        if deed:
            getattr(self, deed)(*arguments)

    def echo(self, value: Any = None) -> Any:
        return value

    def pid(self) -> int:
        return os.getpid()

    def household(self, *descendants: str) -> dict[str, int]:
        """Starts descendants; gives their process ids, its own, and the template's."""
        return {
            "worker": os.getpid(),
            "template": os.getppid(),
            **start(descendants),
        }

    def complain(self, *lines: str) -> None:
        for line in lines:
            print(line, file=sys.stderr)  # noqa: T201  # its last words

    # Ways to die.

    def get_signal(self, number: int) -> None:
        """Sends itself a signal."""
        self.complain("farewell")
        os.kill(os.getpid(), number)
        signal.pause()

    def segfault(self) -> None:
        self.complain("farewell")
        ctypes.string_at(0)

    def exit_at_once(self, code: int) -> None:
        self.complain("farewell")
        os._exit(code)

    def leave(self, code: object = None) -> None:
        self.complain("farewell")
        sys.exit(code)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # a text too

    def raise_error(self, text: str) -> None:
        raise ValueError(text)

    def close_everything(self) -> None:
        """Closes its pipe and its output, and stays."""
        os.closerange(0, 1024)
        threading.Event().wait()

    def echo_until(self, value: int, last: int) -> int:
        """Is quick, and leaves when its time has come."""
        if value == last:
            sys.exit(7)
        return value

    # Ways to die later, or not at all.

    def terminate(self, place: Any) -> str:
        """Sends itself SIGTERM, and goes on until the test lets it end."""
        os.kill(os.getpid(), signal.SIGTERM)
        place.stop_here()
        return "whole"

    def count(self, bell: str) -> None:
        """Runs Python code for ever."""
        ring(bell, os.getpid())
        while True:
            pass

    def count_in_c(self, bell: str) -> None:
        """Runs C code for ever, which never lets another thread run."""
        ring(bell, os.getpid())
        sum(itertools.repeat(0))

    def wait(self, bell: str) -> None:
        """Waits for ever."""
        ring(bell, os.getpid())
        threading.Event().wait()

    def stop_itself(self, bell: str) -> None:
        ring(bell, os.getpid())
        os.kill(os.getpid(), signal.SIGSTOP)

    def ignore_signals(self, bell: str) -> None:
        """Ignores what can be ignored, and waits for ever whatever else happens."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        ring(bell, os.getpid())
        while True:
            with suppress(BaseException):
                signal.pause()

    def keep_thread(self, bell: str) -> None:
        """Starts a thread that keeps an interpreter from ending."""
        threading.Thread(target=threading.Event().wait).start()
        ring(bell, os.getpid())

    # What is left of it.

    def write_at_exit(self, path: str) -> None:
        atexit.register(Path(path).write_text, "it was run")

    def ring_at_exit(self, bell: str) -> None:
        atexit.register(ring, bell)

    def descriptors(self) -> dict[int, str]:
        """What its open descriptors stand for."""
        found: dict[int, str] = {}
        for number in os.listdir("/proc/self/fd"):  # noqa: PTH208  # no pathlib in workers
            with suppress(OSError):
                found[int(number)] = os.readlink(f"/proc/self/fd/{number}")  # noqa: PTH115
        return found

    def descriptors_of_child(self) -> str:
        """The descriptors that a child inherits if nobody closes them for it."""
        child = subprocess.run(
            ["ls", "/proc/self/fd"],
            close_fds=False,
            stdout=subprocess.PIPE,
            check=True,
            text=True,
        )
        return child.stdout

    def groups(self) -> tuple[int, int, int]:
        """Its process id, its process group and its session."""
        return os.getpid(), os.getpgrp(), os.getsid(0)

    def open_files(self) -> int:
        """Its soft limit of open files."""
        return resource.getrlimit(resource.RLIMIT_NOFILE)[0]

    def variable(self, name: str) -> str | None:
        return os.environ.get(name)

    def place(self) -> tuple[str, list[str]]:
        """Its working directory and its ``sys.path``."""
        return str(Path.cwd()), sys.path


@actorlib.remote
class Serial(Mortal):
    """Has no event loop."""


@actorlib.remote
class Looped(Mortal):
    """Has an event loop, and can die in there."""

    async def nap(self, bell: str = "") -> None:
        """Waits for ever."""
        if bell:
            ring(bell, os.getpid())
        await asyncio.Event().wait()

    async def terminate_on_loop(self, place: Any) -> str:
        """As ``terminate``, in a coroutine."""
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.to_thread(place.stop_here)
        return "whole"

    async def do(self, deed: str, *arguments: Any) -> Any:
        """Does on the loop what it otherwise does on the main thread."""
        return getattr(self, deed)(*arguments)
