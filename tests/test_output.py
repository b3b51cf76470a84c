"""What actors print appears in the owner's terminal, line by line and whole."""

from __future__ import annotations

import os
import re
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from helpers.owners import Owner

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="watches pidfds"),
]

both_methods = pytest.mark.parametrize("method", ["template", "spawn"])

HEAD = """
import asyncio, ctypes, os, subprocess, sys
import actorlib
from helpers.owners import listen, tell

METHOD = sys.argv[1]

@actorlib.remote
class Talker:
    def __init__(self, first=None):
        if first is not None:
            print(first)

    def pid(self):
        return os.getpid()

    def say(self, *values, **options):
        print(*values, **options)

    def complain(self, *values):
        print(*values, file=sys.stderr)

    def flood(self, mark, count, line):
        for number in range(count):
            print(mark, number, line)

    def write(self, descriptor, data):
        os.write(descriptor, data)

    def run(self, command):
        os.system(command)

    def put(self, text, flush):
        libc = ctypes.CDLL(None)
        libc.puts(text)
        if flush:
            libc.fflush(None)

    def die(self):
        os._exit(1)
"""

PREFIX = re.compile(r"\((\w+) pid=(\d+)\) ?")


def program(body: str, options: str = "") -> str:
    """A program that runs some lines with an actor whose process id it tells."""
    lines = "\n        ".join(body.strip().splitlines())
    return f"""{HEAD}
async def main():
    async with actorlib.init(start_method=METHOD, {options}):
        a = Talker.remote()
        tell(await a.pid.remote())
        {lines}

asyncio.run(main())
"""


def printed(
    folder: Path, text: str, method: str = "template", **environ: str
) -> tuple[list[str], list[str]]:
    """Runs a program; gives the lines that it printed, ours without their prefix.

    That the prefix is right is checked on the way.
    """
    with Owner(text, method, folder=folder, environ=environ) as owner:
        prefix = f"(Talker pid={owner.told()}) "
        assert owner.end(limit=60) == 0, owner.err
        streams = []
        for stream in (owner.out, owner.err):
            assert not stream or stream.endswith("\n")
            lines = stream.split("\n")[:-1]
            assert all(line.startswith(prefix) for line in lines), stream[:2000]
            streams.append([line.removeprefix(prefix) for line in lines])
    return streams[0], streams[1]


@both_methods
def test_prints_of_a_method_appear_line_by_line(method: str, tmp_path: Path) -> None:
    body = r"""
        await a.say.remote("one")
        await a.say.remote("two\nthree\n\nfive")
        await a.say.remote("grüße, 世界")
        await a.complain.remote("an", "error")
    """
    out, err = printed(tmp_path, program(body.replace("  ", "")), method)
    assert out == ["one", "two", "three", "", "five", "grüße, 世界"]
    assert err == ["an error"]


def test_prints_of_a_constructor_and_a_loop_appear(tmp_path: Path) -> None:
    text = f"""{HEAD}
@actorlib.remote
class Looped:
    def __init__(self):
        print("made")

    async def say(self, text):
        print(text, os.getpid())

async def main():
    async with actorlib.init(start_method=METHOD):
        talker, looped = Talker.remote("born"), Looped.remote()
        tell([await talker.pid.remote(), await looped.say.remote("hello")])

asyncio.run(main())
"""
    with Owner(text, "template", folder=tmp_path) as owner:
        pid, _ = owner.told()
        assert owner.end() == 0, owner.err
    assert f"(Talker pid={pid}) born" in owner.out.splitlines()
    assert re.search(r"^\(Looped pid=(\d+)\) made$", owner.out, re.MULTILINE)
    assert re.search(r"^\(Looped pid=(\d+)\) hello \1$", owner.out, re.MULTILINE)
    assert len(owner.out.splitlines()) == 3


def test_print_of_nothing_is_a_line_with_a_prefix(tmp_path: Path) -> None:
    assert printed(tmp_path, program("await a.say.remote()")) == ([""], [])


def test_print_without_an_end_waits_for_the_rest_of_its_line(tmp_path: Path) -> None:
    body = """
for word in ("a", "whole"):
    await a.say.remote(word, end=" ", flush=True)
await a.say.remote("line")
"""
    assert printed(tmp_path, program(body)) == (["a whole line"], [])


@pytest.mark.parametrize(
    "end", ["pass", "await actorlib.kill(a)", "a = None; await asyncio.sleep(0)"]
)
def test_print_without_an_end_appears_at_the_end(end: str, tmp_path: Path) -> None:
    body = f"""
await a.say.remote("first\\nlast words", end="", flush=True)
{end}
"""
    assert printed(tmp_path, program(body)) == (["first", "last words"], [])


def test_print_that_was_not_flushed_appears_at_a_graceful_end(tmp_path: Path) -> None:
    body = "await a.say.remote('last words', end='')"
    assert printed(tmp_path, program(body)) == (["last words"], [])


def test_last_words_appear_before_the_call_fails(tmp_path: Path) -> None:
    body = """
await a.complain.remote("I go")
try:
    await a.die.remote()
except actorlib.exceptions.ActorDiedError as error:
    tell(error.exit.log_tail)
"""
    with Owner(program(body), "template", folder=tmp_path) as owner:
        pid = owner.told()
        assert owner.told() == "I go"
        assert owner.end() == 0
    assert f"(Talker pid={pid}) I go" in owner.err.splitlines()


@both_methods
def test_output_of_children_and_of_c_appears(method: str, tmp_path: Path) -> None:
    body = """
await a.run.remote("echo out; echo err >&2")
await a.put.remote(b"from C", True)
"""
    out, err = printed(tmp_path, program(body), method)
    assert sorted(out) == ["from C", "out"]
    assert err == ["err"]


def test_output_of_c_that_was_not_flushed_appears_at_a_graceful_end(
    tmp_path: Path,
) -> None:
    body = 'await a.put.remote(b"from C", False)'
    assert printed(tmp_path, program(body)) == (["from C"], [])


def test_long_line_loses_nothing(tmp_path: Path) -> None:
    body = """
await a.say.remote("<" + "é" * 500_000 + "世" * 500_000 + ">")
await a.say.remote("short")
"""
    out, err = printed(tmp_path, program(body))
    assert out[-1] == "short"
    is_whole = "".join(out[:-1]) == "<" + "é" * 500_000 + "世" * 500_000 + ">"
    assert is_whole  # a diff of this would take for ever
    assert err == []


def test_binary_rubbish_harms_no_line_beside_it(tmp_path: Path) -> None:
    body = """
await a.say.remote("before")
await a.write.remote(1, bytes(range(256)).replace(b"\\n", b"") + b"\\n")
await a.write.remote(1, b"\\xff\\xfe\\x00\\n\\x00\\n")
await a.say.remote("after")
"""
    out, _ = printed(tmp_path, program(body))
    assert out[0] == "before"
    assert out[-1] == "after"
    assert "ABCDEFGHIJ" in "".join(out)


def test_output_where_the_owner_cannot_encode_it_is_not_lost(tmp_path: Path) -> None:
    body = r"""
await a.write.remote(1, "grüße\n".encode())
await a.say.remote("afterwards")
await a.write.remote(1, "ü".encode())
try:
    await a.die.remote()
except actorlib.exceptions.ActorDiedError:
    print("(Talker pid=%d) it is told" % PID)
"""
    text = program(body).replace(
        "tell(await a.pid.remote())", "PID = await a.pid.remote(); tell(PID)"
    )
    with Owner(
        text, "template", folder=tmp_path, environ={"PYTHONIOENCODING": "ascii:strict"}
    ) as owner:
        prefix = f"(Talker pid={owner.told()}) "
        assert owner.end() == 0, owner.err
    out = [line.removeprefix(prefix) for line in owner.out.splitlines()]
    assert len(out) == 4
    assert out[0].startswith("gr")
    assert out[1] == "afterwards"
    assert "it is told" in out[2:]


@pytest.mark.parametrize(
    "closes",
    [
        "sys.stdout.close(); sys.stderr.close()",
        "sys.stdout = sys.stderr = None",
        "reads, writes = os.pipe(); os.dup2(writes, 1); os.close(writes); "
        "os.close(reads)",
    ],
    ids=["closed", "none", "broken pipe"],
)
def test_output_where_nobody_reads_it_harms_nothing(
    closes: str, tmp_path: Path
) -> None:
    body = f"""
{closes}
await a.flood.remote("A", 1000, "line")
await a.complain.remote("line")
await a.say.remote("last", end="", flush=True)
try:
    await a.die.remote()
except actorlib.exceptions.ActorDiedError:
    tell("it is told")
tell(await Talker.remote("another").pid.remote())
sys.stdout = sys.stderr = None
"""
    with Owner(program(body), "template", folder=tmp_path) as owner:
        owner.told()
        assert owner.told() == "it is told"
        assert owner.told() > 0
        # Python's own complaint about a broken pipe at its exit is 120.
        assert owner.end() in (0, 120), owner.err
        assert "Traceback" not in owner.err


@pytest.mark.parametrize("numbers", ["0", "1", "2", "012"])
def test_owner_without_standard_streams_works(numbers: str, tmp_path: Path) -> None:
    text = program("""
await a.say.remote("hello")
await a.complain.remote("hello")
tell(await a.pid.remote())
""")
    closing = """
import os, sys
for number in sys.argv[1]:
    os.close(int(number))
os.execv(sys.executable, [sys.executable, "-c", *sys.argv[2:]])
"""
    with Owner(closing, numbers, text, "template", folder=tmp_path) as owner:
        assert owner.told() == owner.told()
        assert owner.end() == 0, owner.err


def test_output_of_a_flood_loses_no_line(tmp_path: Path) -> None:
    count, line = 50_000, "x" * 1000
    text = program(f"await a.flood.remote('A', {count}, '{line}')")
    with Owner(text, "template", folder=tmp_path) as owner:
        pid = owner.told()
        assert owner.end(limit=60) == 0, owner.err
    expected = "".join(f"(Talker pid={pid}) A {i} {line}\n" for i in range(count))
    assert len(expected) > 50_000_000
    is_whole = owner.out == expected  # a diff of this would take for ever
    assert is_whole


def test_flood_of_an_actor_holds_up_no_other(tmp_path: Path) -> None:
    body = """
flood = a.flood.remote("A", 10**9, "x" * 90)
b = Talker.remote()
for turn in range(20):
    assert await b.pid.remote()
tell("not held up")
await actorlib.kill(a)
await asyncio.wait([flood])
flood.exception()
"""
    with Owner(program(body), "template", folder=tmp_path) as owner:
        owner.told()
        assert owner.told() == "not held up"
        assert owner.end() == 0, owner.err


def test_lines_of_two_actors_are_never_torn(tmp_path: Path) -> None:
    body = """
b = Talker.remote()
tell(await b.pid.remote())
line = "0123456789" * 20
floods = [x.flood.remote(m, 20_000, line) for x, m in ((a, "A"), (b, "B"))]
await asyncio.gather(*floods)
"""
    with Owner(program(body), "template", folder=tmp_path) as owner:
        pids = {"A": owner.told(), "B": owner.told()}
        assert owner.end() == 0, owner.err
    line = "0123456789" * 20
    expected = Counter(
        f"(Talker pid={pid}) {mark} {number} {line}"
        for mark, pid in pids.items()
        for number in range(20_000)
    )
    assert Counter(owner.out.splitlines()) == expected


def test_output_when_not_shown_is_silent_and_still_remembered(tmp_path: Path) -> None:
    body = """
await a.say.remote("unseen")
await a.run.remote("echo unseen; echo unseen >&2")
await a.complain.remote("remembered")
try:
    await a.die.remote()
except actorlib.exceptions.ActorDiedError as error:
    tell(error.exit.log_tail)
"""
    text = program(body, "log_to_driver=False")
    with Owner(text, "template", folder=tmp_path) as owner:
        owner.told()
        assert owner.told() == "unseen\nremembered"
        assert owner.end() == 0, owner.err
    assert "unseen" not in owner.out
    assert owner.out == ""


def test_print_of_a_preload_appears_once(tmp_path: Path) -> None:
    (tmp_path / "preload_of_a_test.py").write_text(
        "import sys\nprint('imported', end='')\nprint('!', end='', file=sys.stderr)\n"
    )
    text = program(
        "await asyncio.gather(*(Talker.remote().pid.remote() for _ in range(3)))",
        "preload=['preload_of_a_test']",
    )
    with Owner(text, "template", folder=tmp_path) as owner:
        owner.told()
        assert owner.end() == 0, owner.err
    assert owner.out == "imported"
    assert owner.err == "!"


def test_line_of_the_owner_is_not_torn_by_those_of_actors(tmp_path: Path) -> None:
    body = """
flood = a.flood.remote("A", 20_000, "x" * 50)
while not flood.done():
    print(f"(Talker pid={PID}) of the owner")
    await asyncio.sleep(0)
await flood
"""
    text = program(body).replace(
        "tell(await a.pid.remote())", "PID = await a.pid.remote(); tell(PID)"
    )
    out, _ = printed(tmp_path, text)
    kinds = Counter(line.split()[0] for line in out)
    assert kinds.keys() == {"A", "of"}
    assert kinds["A"] == 20_000


def test_readers_see_lines_while_the_actor_runs(tmp_path: Path) -> None:
    body = """
class Eavesdropper:
    def __init__(self):
        self.heard = asyncio.Event()

    def write(self, text):
        self.heard.set()

    def flush(self):
        pass

sys.stdout = Eavesdropper()
running = a.run.remote("echo it works; exec sleep 1000")
await asyncio.wait_for(sys.stdout.heard.wait(), 10)
tell(running.done())
await actorlib.kill(a)
try:
    await running
except actorlib.exceptions.ActorDiedError:
    pass
sys.stdout = sys.__stdout__
"""
    with Owner(program(body), "template", folder=tmp_path) as owner:
        owner.told()
        assert owner.told() is False
        assert owner.end() == 0, owner.err


def test_prefix_when_the_actor_has_a_name_or_a_repr_then_it_says_them(
    tmp_path: Path,
) -> None:
    text = f"""{HEAD}
@actorlib.remote
class Worker:
    def __init__(self):
        print("made")

    def __repr__(self):
        return "Worker(7)"

    def say(self, text):
        print(text)

async def main():
    async with actorlib.init(start_method=METHOD):
        talker = Talker.options(name="t1").remote()
        worker = Worker.options(name="w1").remote()
        await talker.say.remote("hello")
        await worker.say.remote("there")

asyncio.run(main())
"""
    with Owner(text, "template", folder=tmp_path) as owner:
        assert owner.end() == 0, owner.err
    out = re.sub(r"pid=\d+", "pid=1", owner.out).splitlines()
    assert "(Talker 't1' pid=1) hello" in out
    assert "(Worker 'w1' pid=1) made" in out
    assert "(Worker(7) 'w1' pid=1) there" in out


def test_prefix_when_a_function_prints_then_it_names_the_function(
    tmp_path: Path,
) -> None:
    text = f"""{HEAD}
@actorlib.remote
def prepare(text):
    print(text)

async def main():
    async with actorlib.init(start_method=METHOD, num_cpus=1):
        await prepare.remote("one")
        await prepare.options(name="again").remote("two")

asyncio.run(main())
"""
    with Owner(text, "template", folder=tmp_path) as owner:
        assert owner.end() == 0, owner.err
    out = re.sub(r"pid=\d+", "pid=1", owner.out).splitlines()
    assert out == ["(prepare pid=1) one", "(again pid=1) two"]
