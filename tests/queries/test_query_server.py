"""The server of a program in another process: who may ask, and that it goes with it."""

from __future__ import annotations

import os
import resource
import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from helpers.owners import Owner, Watched
from helpers.rare_cases import rarely

from actorlib._base.named_sockets import AbstractSockets, FolderSockets, named_sockets
from actorlib._queries.addresses import QUERY_SOCKETS, Address, find_servers
from actorlib._queries.client import ask, find_runtimes, the_runtime
from actorlib._queries.protocol import BLOCKED, OK, question_frame
from actorlib.exceptions import RuntimeNotFoundError, RuntimeUnreachableError

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc"),
]
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
NOBODY = 65534

HEAD = """
import asyncio, os, signal, sys, time
import actorlib
from helpers.actors import Echo
from helpers.owners import listen, tell

def stand_still():
    tell("blocked")
    listen()
"""


def program(does: str, *, options: str = "", run: str = "asyncio.run") -> str:
    """A program with an actor, and what it does then."""
    return f"""{HEAD}
async def main():
    async with actorlib.init(num_cpus=2, num_gpus=0{options}) as runtime:
        echo = Echo.options(name="m1").remote()
        tell(await echo.pid.remote())
        {does}

{run}(main())
"""


LISTENS = "await asyncio.to_thread(listen)"


def places(pid: int) -> list[Address]:
    return [found for found in find_servers() if found.pid == pid]


def test_program_when_it_lives_then_its_user_may_ask_until_it_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Owner(program(LISTENS), folder=tmp_path) as owner:
        worker = owner.told()

        (address,) = find_runtimes(owner.pid)
        answer = ask(address, "status", patience=10)
        poser, _ = named_sockets(QUERY_SOCKETS).listen(f"{owner.pid}-00posing")
        with poser:
            assert len(find_runtimes(owner.pid)) == 2
            assert the_runtime(owner.pid) == address
        with monkeypatch.context() as patch:
            patch.setattr(os, "geteuid", lambda: NOBODY)
            check_as_another_user(owner.pid)
        if os.geteuid() == 0:
            check_asked_by_another_user(address)
        owner.signal(signal.SIGSTOP)
        os.waitid(os.P_PID, owner.pid, os.WSTOPPED)
        with pytest.raises(RuntimeUnreachableError, match="is stopped"):
            ask(address, "status")
        owner.signal(signal.SIGCONT)
        assert ask(address, "status", patience=10).outcome == OK
        owner.signal(signal.SIGKILL)
        owner.end()

    assert address.uid == os.geteuid()
    assert answer.outcome == OK
    assert [(row.name, row.pid) for row in answer.value.snapshot.actors] == [
        ("m1", worker)
    ]
    assert places(owner.pid) == []
    with pytest.raises(RuntimeUnreachableError, match="ended before it answered"):
        ask(address, "status")
    with pytest.raises(RuntimeNotFoundError, match=f"there is no process {owner.pid}"):
        find_runtimes(owner.pid)


def check_as_another_user(pid: int) -> None:
    """The runtime of a user is not another's, who hears whose it is."""
    with pytest.raises(RuntimeUnreachableError, match="and root may query"):
        find_runtimes(pid)
    with pytest.raises(RuntimeNotFoundError, match="there are those of others: pid"):
        find_runtimes()


def check_asked_by_another_user(address: Address) -> None:
    """The server closes the connection of another user without an answer."""
    words = address.place[1:], question_frame("status", {}).hex()
    asked = subprocess.run(
        [sys.executable, "-S", "-c", ASKS, *words],
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    assert asked.stdout == "b''\n"


ASKS = """
import os, socket, sys
os.seteuid(65534)
sock = socket.socket(socket.AF_UNIX)
sock.connect("\\0" + sys.argv[1])
try:
    sock.sendall(bytes.fromhex(sys.argv[2]))
    print(sock.recv(1000))
except ConnectionError:
    print(b"")
"""


@pytest.mark.parametrize("run", ["actorlib.run", *rarely("asyncio.run")])
def test_program_when_its_loop_is_blocked_then_it_says_where(
    tmp_path: Path, run: str
) -> None:
    with Owner(program("stand_still()", run=run), folder=tmp_path) as owner:
        owner.told()
        assert owner.told() == "blocked"

        answer = ask(find_runtimes(owner.pid)[0], "status", patience=0.01)
        owner.go_on()
        assert owner.end() == 0

    assert answer.outcome == BLOCKED
    assert answer.value.seconds > 0
    assert "stand_still" in [frame.function for frame in answer.value.frames]


def test_program_when_its_loop_does_not_run_then_it_says_so(tmp_path: Path) -> None:
    stops = f"""{HEAD}
loop = asyncio.new_event_loop()
async def main():
    return await actorlib.init(num_cpus=1)
runtime = loop.run_until_complete(main())
stand_still()
loop.run_until_complete(runtime.shutdown())
loop.close()
"""
    with Owner(stops, folder=tmp_path) as owner:
        assert owner.told() == "blocked"

        answer = ask(find_runtimes(owner.pid)[0], "status", patience=0.01)
        owner.go_on()
        assert owner.end() == 0

    assert answer.outcome == BLOCKED
    assert not answer.value.is_running


@pytest.mark.parametrize(
    ("options", "environ"),
    [
        (", control=False", {}),
        *rarely(("", {"ACTORLIB_CONTROL": "0"}), (", engine='inline'", {})),
    ],
)
def test_program_when_it_wants_no_query_server_then_it_has_none(
    tmp_path: Path, options: str, environ: dict[str, str]
) -> None:
    ends = program(LISTENS, options=options)
    with Owner(ends, folder=tmp_path, environ=environ) as owner:
        owner.told()

        with pytest.raises(RuntimeNotFoundError, match="has no runtime that answers"):
            find_runtimes(owner.pid)
        owner.go_on()
        assert owner.end() == 0


# However it ends.


@pytest.mark.thorough
@pytest.mark.parametrize("end", ["os._exit(0)", "raise ValueError", "sys.exit(3)"])
def test_program_when_it_ends_then_nothing_is_left_of_its_socket(
    tmp_path: Path, end: str
) -> None:
    with Owner(program(end), folder=tmp_path) as owner:
        owner.told()
        owner.end()

    assert places(owner.pid) == []


def test_fork_when_its_parent_has_ended_then_it_has_nothing_of_the_server(
    tmp_path: Path,
) -> None:
    forks = """
        pid = os.fork()
        if pid == 0:
            signal.pause()
        tell(pid)
        await asyncio.to_thread(listen)
        os._exit(0)
    """
    with Owner(program(forks.strip()), folder=tmp_path) as owner:
        owner.told()
        with Watched([owner.told()]) as fork:
            ask(find_runtimes(owner.pid)[0], "status", patience=10)
            owner.go_on()
            owner.end()

            assert fork.alive() != []
            assert places(owner.pid) == []


def test_runtime_when_another_follows_it_then_the_query_server_is_the_new_one_s(
    tmp_path: Path,
) -> None:
    twice = f"""{HEAD}
async def main():
    for name in "ab":
        async with actorlib.init(num_cpus=1, namespace=name):
            echo = Echo.options(name=name).remote()
            await echo
            tell(name)
            await asyncio.to_thread(listen)
            del echo

asyncio.run(main())
"""
    with Owner(twice, folder=tmp_path) as owner:
        seen = []
        for _ in range(2):
            owner.told()
            (address,) = find_runtimes(owner.pid)
            answer = ask(address, "status", patience=10)
            seen += [(row.name, row.state) for row in answer.value.snapshot.actors]
            owner.go_on()
        assert owner.end() == 0

    assert seen == [("a", "alive"), ("b", "alive")]


# Who may ask.


def test_program_when_it_has_no_descriptor_left_then_said_so() -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as cat:
        nowhere = Address(os.geteuid(), cat.pid, "\0actorlib-nobody-listens")
        with pytest.raises(RuntimeUnreachableError, match=r"not answer: (?!it has as)"):
            ask(nowhere, "status", patience=0, grace=0.1)
        limit = resource.prlimit(cat.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(cat.pid, resource.RLIMIT_NOFILE, (3, limit[1]))
        with pytest.raises(RuntimeUnreachableError, match="as many files"):
            ask(nowhere, "status", patience=0, grace=0.1)


POSES = """
import os, socket, sys
os.seteuid(65534)
sock = socket.socket(socket.AF_UNIX)
sock.bind("\\0" + sys.argv[1])
sock.listen()
print("there", flush=True)
sys.stdin.read()
"""


@AS_ROOT
def test_client_when_another_user_poses_as_a_runtime_then_asked_nothing() -> None:
    place = f"actorlib-door-{os.geteuid()}/{os.getpid()}-posing"
    posing = subprocess.Popen(
        [sys.executable, "-S", "-c", POSES, place],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with posing:
        assert posing.stdout is not None
        assert posing.stdout.readline() == "there\n"
        (address,) = find_runtimes(os.getpid())

        with pytest.raises(RuntimeUnreachableError, match="nothing was sent to it"):
            ask(address, "status")
        assert posing.stdin is not None
        posing.stdin.close()


# Addresses.


def test_table_when_it_has_anything_in_it_then_query_servers_alone_are_found(
    tmp_path: Path,
) -> None:
    table = tmp_path / "unix"
    head = "0000: 00000002 00000000 00010000 0001 01 "
    table.write_text(
        "Num       RefCount Protocol Flags    Type St Inode Path\n"
        f"{head}100 @actorlib-door-1000/812-aa\n"
        f"{head}101 @actorlib-door-1000/812-aa\n"
        f"{head}102 @actorlib-door-0/7-bb\n"
        f"{head}103 @actorlib-1000/nvidia/GPU-1/812\n"
        f"{head}104 @actorlib-door-/812-aa\n"
        f"{head}105 @actorlib-door-1000/x-aa\n"
        f"{head}106 /run/actorlib-door-1000/812-aa\n"
        f"{head}107\n"
    )

    assert find_servers(AbstractSockets(QUERY_SOCKETS, str(table))) == [
        Address(0, 7, "\0actorlib-door-0/7-bb"),
        Address(1000, 812, "\0actorlib-door-1000/812-aa"),
    ]
    assert find_servers(AbstractSockets(QUERY_SOCKETS, str(tmp_path / "none"))) == []


def test_folder_when_a_query_server_is_in_it_then_found_until_it_is_closed(
    tmp_path: Path,
) -> None:
    there = FolderSockets(QUERY_SOCKETS, str(tmp_path / "servers"))
    assert find_servers(there) == []

    name = f"{os.getpid()}-aa"
    listener, forget = there.listen(name)
    found = find_servers(there)
    listener.close()
    forget()

    assert found == [Address(os.geteuid(), os.getpid(), there.place(name))]
    assert (tmp_path / "servers").stat().st_mode & 0o777 == 0o700
    assert find_servers(there) == []


def test_folder_when_a_killed_program_left_a_query_server_then_it_is_removed(
    tmp_path: Path,
) -> None:
    there = FolderSockets(QUERY_SOCKETS, str(tmp_path / "servers"))
    listener, _ = there.listen(f"{os.getpid()}-aa")
    listener.close()

    assert find_servers(there) == []
    assert list((tmp_path / "servers").iterdir()) == []


def test_folder_when_others_may_enter_it_then_not_used(tmp_path: Path) -> None:
    open_to_all: Any = tmp_path / "servers"
    open_to_all.mkdir()
    open_to_all.chmod(0o755)
    there = FolderSockets(QUERY_SOCKETS, str(open_to_all))

    with pytest.raises(PermissionError, match="accessible to other users"):
        there.listen("812-aa")
    assert find_servers(there) == []


def test_query_server_when_open_then_it_is_a_socket_that_nobody_inherits() -> None:
    listener, forget = named_sockets(QUERY_SOCKETS).listen(f"{os.getpid()}-aa")
    with listener:
        assert not listener.get_inheritable()
        assert listener.type == socket.SOCK_STREAM
    forget()
