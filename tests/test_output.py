"""What actors print appears in the owner's terminal, line by line and whole.

A program runs several scenes, one actor each: what an actor prints has its process id
in front, which tells the scenes apart.
"""

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

async def die(actor):
    try:
        await actor.die.remote()
    except actorlib.exceptions.ActorDiedError as error:
        return error.exit.log_tail
"""


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


SCENES: dict[str, tuple[str, list[str], list[str]]] = {
    "lines": (
        """
        await a.say.remote("one")
        await a.say.remote("two\\nthree\\n\\nfive")
        await a.say.remote("grüße, 世界")
        await a.say.remote()
        await a.complain.remote("an", "error")
        """,
        ["one", "two", "three", "", "five", "grüße, 世界", ""],
        ["an error"],
    ),
    "rest of a line": (
        """
        for word in ("a", "whole"):
            await a.say.remote(word, end=" ", flush=True)
        await a.say.remote("line")
        """,
        ["a whole line"],
        [],
    ),
    "last words": (
        'await a.say.remote("first\\nlast words", end="", flush=True)',
        ["first", "last words"],
        [],
    ),
    "last words of a killed actor": (
        """
        await a.say.remote("first\\nlast words", end="", flush=True)
        await actorlib.kill(a)
        """,
        ["first", "last words"],
        [],
    ),
    "last words of an actor without handles": (
        """
        await a.say.remote("first\\nlast words", end="", flush=True)
        a = None; await asyncio.sleep(0)
        """,
        ["first", "last words"],
        [],
    ),
    "not flushed": ('await a.say.remote("last words", end="")', ["last words"], []),
    "not flushed by C": ('await a.put.remote(b"from C", False)', ["from C"], []),
    "child": ('await a.run.remote("echo out; echo err >&2")', ["out"], ["err"]),
    "flushed by C": ('await a.put.remote(b"from C", True)', ["from C"], []),
}


def scene(name: str) -> str:
    """A coroutine function with the lines of a scene."""
    body = [line.strip("\n") for line in SCENES[name][0].strip().splitlines()]
    lines = "\n    ".join(line.removeprefix(" " * 8) for line in body)
    return f"""
async def scene_{name.replace(" ", "_")}():
    a = Talker.remote()
    tell(await a.pid.remote())
    {lines}
    return a
"""


@pytest.mark.parametrize("method", ["template", "spawn"])
def test_prints_when_made_in_any_way_then_they_appear_line_by_line(
    method: str, tmp_path: Path
) -> None:
    calls = [f"kept.append(await scene_{name.replace(' ', '_')}())" for name in SCENES]
    text = f"""{HEAD}
{"".join(map(scene, SCENES))}
async def main():
    async with actorlib.init(start_method=METHOD, num_cpus=0):
        kept = []
        {"; ".join(calls)}

asyncio.run(main())
"""
    with Owner(text, method, folder=tmp_path) as owner:
        pids = {name: owner.told() for name in SCENES}
        assert owner.end(limit=60) == 0, owner.err
    for name, (_, out, err) in SCENES.items():
        assert lines_of(pids[name], owner.out) == out, name
        assert lines_of(pids[name], owner.err) == err, name
    for stream in (owner.out, owner.err):
        prefixes = tuple(f"(Talker pid={pid}) " for pid in pids.values())
        assert all(line.startswith(prefixes) for line in stream.splitlines()), stream


def lines_of(pid: int, stream: str) -> list[str]:
    """The lines of an actor, without what is in front of each."""
    prefix = f"(Talker pid={pid}) "
    return [
        line.removeprefix(prefix)
        for line in stream.split("\n")
        if line.startswith(prefix)
    ]


def test_prefix_says_who_prints(tmp_path: Path) -> None:
    text = f"""{HEAD}
@actorlib.remote
class Looped:
    def __init__(self):
        print("made")

    async def say(self, text):
        print(text, os.getpid())

@actorlib.remote
class Worker:
    def __init__(self):
        print("made")

    def __repr__(self):
        return "Worker(7)"

    def say(self, text):
        print(text)

@actorlib.remote
def prepare(text):
    print(text)

async def main():
    async with actorlib.init(start_method=METHOD, num_cpus=1):
        looped = Looped.remote()
        talker = Talker.options(name="t1").remote("born")
        worker = Worker.options(name="w1").remote()
        await looped.say.remote("hello")
        await talker.say.remote("hello")
        await worker.say.remote("there")
        await prepare.remote("one")
        await prepare.options(name="again").remote("two")

asyncio.run(main())
"""
    with Owner(text, "template", folder=tmp_path) as owner:
        assert owner.end() == 0, owner.err
    assert re.search(r"^\(Looped pid=(\d+)\) hello \1$", owner.out, re.MULTILINE)
    out = re.sub(r"pid=\d+", "pid=1", owner.out).splitlines()
    assert sorted(line for line in out if " hello " not in line) == [
        "(Looped pid=1) made",
        "(Talker 't1' pid=1) born",
        "(Talker 't1' pid=1) hello",
        "(Worker 'w1' pid=1) made",
        "(Worker(7) 'w1' pid=1) there",
        "(again pid=1) two",
        "(prepare pid=1) one",
    ]


def test_last_words_appear_before_the_call_fails(tmp_path: Path) -> None:
    body = """
await a.complain.remote("I go")
tell(await die(a))
"""
    with Owner(program(body), "template", folder=tmp_path) as owner:
        pid = owner.told()
        assert owner.told() == "I go"
        assert owner.end() == 0
    assert lines_of(pid, owner.err) == ["I go"]


def test_output_that_is_long_or_rubbish_loses_nothing(tmp_path: Path) -> None:
    body = """
await a.say.remote("<" + "é" * 500_000 + "世" * 500_000 + ">")
await a.say.remote("short")
await a.write.remote(1, bytes(range(256)).replace(b"\\n", b"") + b"\\n")
await a.write.remote(1, b"\\xff\\xfe\\x00\\n\\x00\\n")
await a.say.remote("after")
"""
    with Owner(program(body), "template", folder=tmp_path) as owner:
        pid = owner.told()
        assert owner.end(limit=60) == 0, owner.err
    out = lines_of(pid, owner.out)
    short = out.index("short")
    is_whole = "".join(out[:short]) == "<" + "é" * 500_000 + "世" * 500_000 + ">"
    assert is_whole  # a diff of this would take for ever
    assert out[-1] == "after"
    assert "ABCDEFGHIJ" in "".join(out[short:])
    assert owner.err == ""


def test_output_where_the_owner_cannot_encode_it_is_not_lost(tmp_path: Path) -> None:
    body = r"""
await a.write.remote(1, "grüße\n".encode())
await a.say.remote("afterwards")
await a.write.remote(1, "ü".encode())
await die(a)
print("it is told")
"""
    with Owner(
        program(body),
        "template",
        folder=tmp_path,
        environ={"PYTHONIOENCODING": "ascii:strict"},
    ) as owner:
        pid = owner.told()
        assert owner.end() == 0, owner.err
    first, second, _ = lines_of(pid, owner.out)
    assert first.startswith("gr")
    assert second == "afterwards"
    assert "it is told" in owner.out.splitlines()


@pytest.mark.parametrize(
    "closes",
    [
        pytest.param(
            "sys.stdout.close(); sys.stderr.close()",
            marks=pytest.mark.thorough,
            id="closed",
        ),
        pytest.param(
            "sys.stdout = sys.stderr = None", marks=pytest.mark.thorough, id="none"
        ),
        pytest.param(
            "reads, writes = os.pipe(); os.dup2(writes, 1); os.close(writes); "
            "os.close(reads)",
            id="broken pipe",
        ),
    ],
)
def test_output_where_nobody_reads_it_harms_nothing(
    closes: str, tmp_path: Path
) -> None:
    body = f"""
{closes}
await a.flood.remote("A", 1000, "line")
await a.complain.remote("line")
await a.say.remote("last", end="", flush=True)
await die(a)
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


@pytest.mark.parametrize(
    "numbers",
    ["012", *(pytest.param(n, marks=pytest.mark.thorough) for n in "012")],
)
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


def test_floods_of_actors_and_the_owner_lose_and_tear_no_line(tmp_path: Path) -> None:
    count, line = 20_000, "0123456789" * 20
    body = f"""
b = Talker.remote()
tell(await b.pid.remote())
floods = [x.flood.remote(m, {count}, "{line}") for x, m in ((a, "A"), (b, "B"))]
while not all(flood.done() for flood in floods):
    print("a line of the owner")
    await asyncio.sleep(0)
await asyncio.gather(*floods)
"""
    with Owner(program(body), "template", folder=tmp_path) as owner:
        pids = {"A": owner.told(), "B": owner.told()}
        assert owner.end(limit=60) == 0, owner.err
    found = Counter(owner.out.splitlines())
    assert found.pop("a line of the owner") > 0
    is_whole = found == Counter(
        f"(Talker pid={pid}) {mark} {number} {line}"
        for mark, pid in pids.items()
        for number in range(count)
    )
    assert is_whole  # a diff of this would take for ever
    for mark, pid in pids.items():
        numbers = [int(each.split()[1]) for each in lines_of(pid, owner.out)]
        assert numbers == [*range(count)], mark


@pytest.mark.thorough
def test_output_of_a_long_flood_loses_no_line(tmp_path: Path) -> None:
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


def test_output_when_not_shown_is_silent_and_still_remembered(tmp_path: Path) -> None:
    (tmp_path / "preload_of_a_test.py").write_text(
        "import sys\nprint('imported', end='')\nprint('!', end='', file=sys.stderr)\n"
    )
    body = """
await a.say.remote("unseen")
await a.run.remote("echo unseen; echo unseen >&2")
await a.complain.remote("remembered")
tell(await die(a))
await asyncio.gather(*(Talker.remote().pid.remote() for _ in range(3)))
"""
    text = program(body, "log_to_driver=False, preload=['preload_of_a_test']")
    with Owner(text, "template", folder=tmp_path) as owner:
        owner.told()
        assert owner.told() == "unseen\nremembered"
        assert owner.end() == 0, owner.err
    # A preload is imported once, and prints for the program.
    assert owner.out == "imported"
    assert owner.err.startswith("!")
    assert (owner.err.count("!"), "unseen" in owner.err) == (1, False)


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
