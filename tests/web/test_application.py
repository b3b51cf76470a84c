"""What the page's server serves, to whom, and what it asks the runtime for that."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import re
import threading
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

import pytest

pytest.importorskip("starlette")

from helpers.listings import status
from test_looks import actor

from actorlib._queries.protocol import BLOCKED, OK, VERSION, Answer
from actorlib._queries.rows import Calls, Logs, Stacks, Standstill, Task, Thread
from actorlib._rows.tables import clipped
from actorlib._web.address import WebAddress
from actorlib._web.application import Application
from actorlib._web.guard import Admission
from actorlib._web.questions import MOST_CALLS, MOST_LINES
from actorlib._web.watch import Watch
from actorlib.exceptions import RuntimeUnreachableError
from actorlib.types import CallInfo, LogLine

if TYPE_CHECKING:
    from helpers.goldens import Golden

TOKEN = "s3cret"
ACTOR = actor(1).actor_id
LETTERS = actor(0xAB).actor_id


class Told:
    """A runtime that answers as it is told, and remembers what it was asked."""

    def __init__(self, **answers: Any) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.answers = {"status": status(actor(1), actor(2, pid=0)), **answers}

    def __call__(self, verb: str, /, *, patience: float = 1.0, **said: Any) -> Answer:
        assert 0 < patience <= 10
        self.asked.append((verb, said))
        value = self.answers.get(verb, ValueError(f"not asked {verb!r}"))
        if isinstance(value, Exception):
            raise value
        return value if isinstance(value, Answer) else Answer(VERSION, OK, value)

    def count(self, verb: str) -> int:
        return sum(asked == verb for asked, _ in self.asked)


def stacks(*names: str, tasks: tuple[Task, ...] = ()) -> Stacks:
    """The threads of a program, by their names."""
    threads = tuple(Thread(name=name, number=None, frames=()) for name in names)
    return Stacks(pid=7, title="", threads=threads, tasks=tasks)


def threads_in(document: Any) -> list[str]:
    return [thread["name"] for thread in document["threads"]]


def standstill(seconds: float) -> Standstill:
    return Standstill(seconds=seconds, is_exact=True, is_running=True, frames=())


class Reply(NamedTuple):
    """What was answered."""

    status: int
    headers: dict[str, str]
    text: str

    def json(self) -> Any:
        return json.loads(self.text)


class Client:
    """Asks the application as its server does."""

    def __init__(self, told: Told) -> None:
        watch = Watch(told, usage=lambda _: None, interval=0.0)
        asyncio.run(watch.after(0))
        admission = Admission(TOKEN, WebAddress("127.0.0.1", 1))
        self._asgi = Application(told, watch, admission).asgi

    def get(self, path: str, **said: str) -> Reply:
        return self.request("GET", path, **said)

    def post(self, path: str, body: bytes) -> Reply:
        return self.request("POST", path, body)

    def request(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        *,
        query: str = f"token={TOKEN}",
        host: str = "127.0.0.1",
        is_whole: bool = True,
    ) -> Reply:
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "query_string": query.encode(),
            "headers": [(b"host", host.encode())],
        }
        sent: list[Any] = []

        received: list[dict[str, Any]] = [
            {"type": "http.request", "body": body, "more_body": not is_whole},
            {"type": "http.disconnect"},
        ]

        async def receive() -> Any:
            return received.pop(0)

        async def send(message: Any) -> None:
            sent.append(message)

        asyncio.run(self._asgi(scope, receive, send))
        headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
        text = b"".join(message["body"] for message in sent[1:]).decode()
        return Reply(sent[0]["status"], headers, text)


def call(number: int, **changed: Any) -> CallInfo:
    known: dict[str, Any] = {
        "actor_id": ACTOR if number % 2 else "",
        "class_name": "Model",
        "method": "predict",
        "state": "running",
        "name": f"call {number}",
    }
    return CallInfo(**{**known, **changed})


# Refusals.


KILL = f"/actors/{ACTOR}/kill"
REFUSED: list[tuple[str, str, bytes, int]] = [
    ("GET", "/nowhere", b"", 404),
    ("GET", "/actors/1/nothing", b"", 404),
    ("GET", "/../etc/passwd", b"", 404),
    ("GET", KILL, b"", 404),
    ("POST", "/", b"", 405),
    ("POST", f"/actors/{ACTOR}/stack", b"", 405),
    *(
        ("GET", f"/actors/{which}/{question}", b"", 404)
        for question in ("stack", "calls", "explain", "logs")
        for which in ("ff", ACTOR + "0", "\ufffd" * 16, "٣" * 32, "a" * 5000)
    ),
    *(
        ("GET", f"/actors/{ACTOR}/logs?after={after}", b"", 400)
        for after in ("", "x", "-1", "9" * 30, quote("٣"), "1&after=2")
    ),
    ("GET", f"/actors/{'f' * 32}/stack", b"", 404),
    ("GET", f"/actors/{actor(2).actor_id}/stack", b"", 404),
    *(
        ("POST", KILL, body, 400)
        for body in (
            b"",
            b"{",
            b'{"restart": "\xff"}',
            b"9" * 1000,
            b"[]",
            b'[["restart", true]]',
            b"NaN",
            b'{"restart": 1}',
            b'{"restart": NaN}',
            b'{"restart": null}',
            b'{"retsart": true}',
            b'{"restart": false, "restart": true}',
            b"[" * 1024,
            b'{"a":' * 200 + b"[" * 24,
            b" " * 2000 + b"{}",
        )
    ),
]


def test_requests_that_are_refused(golden: Golden) -> None:
    told = Told(kill=True, calls=1, explain=1, logs=1)
    client = Client(told)
    lines: list[str] = []
    for method, path, body, expected in REFUSED:
        where, _, more = path.partition("?")
        query = f"token={TOKEN}&{more}" if more else f"token={TOKEN}"
        answer = client.request(method, where, body, query=query)
        words = f"{method} {clipped(path, 60)} {clipped(repr(body)[1:], 40)}"
        assert answer.status == expected, words
        text = re.sub(r"(?<=not JSON: ).*(?=\"})", "...", answer.text)  # Python's words
        lines.append(f"{words} -> {answer.status} {text}")

    assert {verb for verb, _ in told.asked} == {"status"}
    golden.check("refusals.txt", "\n".join([*lines, ""]))


def test_request_when_it_has_no_token_or_another_host_then_nothing_is_served() -> None:
    told = Told()
    client = Client(told)

    for path in ("/", "/looks", "/nowhere"):
        answer = client.get(path, query="")
        assert answer.status == 401
        assert "runtime.dashboard" in answer.text
    assert client.get("/", host="evil.example").status == 421
    assert told.count("status") == 1


def test_kill_when_who_sends_it_leaves_then_nobody_is_killed() -> None:
    told = Told(kill=True)
    client = Client(told)
    client.request("POST", KILL, b'{"restart":', is_whole=False)

    assert told.count("kill") == 0


# Answers.


def test_page_when_served_then_browsers_run_what_is_in_it_and_nothing_else() -> None:
    client = Client(Told())
    answer = client.get("/")

    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; ")
    for kind in ("script", "style"):
        (text,) = re.findall(f"<{kind}>(.*?)</{kind}>", answer.text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["cache-control"] == "no-store"


def test_page_when_read_then_it_makes_no_markup_of_text_and_loads_nothing() -> None:
    client = Client(Told())
    page = client.get("/").text

    assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write", page)
    assert set(re.findall(r"https?://[\w./]+", page)) == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"<script[^>]+src|@import|url\(", page)


def test_kill_when_asked_then_the_runtime_is_asked_for_it() -> None:
    told = Told(kill=True)
    client = Client(told)
    answer = client.post(f"/actors/{ACTOR}/kill", b'{"restart": true}')

    assert answer.json() == {"killed": True}
    assert told.asked[-1] == ("kill", {"actor": ACTOR, "restart": True})


def test_calls_when_there_are_many_then_some_are_shown_and_the_rest_counted() -> None:
    calls = tuple(call(number) for number in range(2 * MOST_CALLS + 10))
    told = Told(calls=Calls(pid=7, calls=calls, left_out=3, silent=()))
    client = Client(told)
    answer = client.get(f"/actors/{ACTOR}/calls").json()
    all_of_them = client.get("/actors/owner/calls").json()

    assert len(answer["calls"]) == MOST_CALLS
    assert answer["left_out"] == 3 + MOST_CALLS + 10
    assert all_of_them == answer
    assert told.asked[-2:] == [("calls", {"actor": ACTOR}), ("calls", {})]


def test_calls_when_texts_are_no_utf_8_then_they_are_told_all_the_same() -> None:
    variables: dict[str, object] = {"path": "a\ud800"}
    odd = call(1, actor_name="\udcff", variables=variables)
    client = Client(Told(calls=Calls(pid=7, calls=(odd,), left_out=0, silent=())))

    (row,) = client.get("/actors/owner/calls").json()["calls"]
    assert (row["actor_name"], row["variables"]) == ("\udcff", variables)


@pytest.mark.parametrize(
    ("query", "after", "newest"), [("", 0, True), ("&after=17", 17, False)]
)
def test_logs_when_behind_a_line_then_those_that_follow_are_asked_for(
    query: str, after: int, *, newest: bool
) -> None:
    line = LogLine(
        number=18,
        time=1.0,
        source="stdout",
        actor_id=ACTOR,
        label="Model 'm1'",
        pid=101,
        text="loading",
    )
    told = Told(logs=Logs(pid=7, lines=(line,), lost=0, number=18))
    client = Client(told)
    answer = client.get(f"/actors/{ACTOR}/logs", query=f"token={TOKEN}{query}")
    client.get("/actors/owner/logs")

    document = answer.json()
    assert [row["text"] for row in document["lines"]] == ["loading"]
    assert (document["lost"], document["number"]) == (0, 18)
    said = {"after": after, "most": MOST_LINES, "newest": newest}
    assert told.asked[-2] == ("logs", {**said, "actor": ACTOR})
    assert "actor" not in told.asked[-1][1]


@pytest.mark.parametrize(
    ("found", "expected", "words"),
    [
        (ValueError("actor takes an id"), 409, "actor takes an id"),
        (RuntimeUnreachableError("it has ended"), 503, "it has ended"),
        (Answer(VERSION, BLOCKED, standstill(3.21)), 503, "3.2 s"),
    ],
)
def test_question_when_there_is_no_answer_then_it_says_why(
    found: object, expected: int, words: str
) -> None:
    client = Client(Told(explain=found))
    answer = client.get(f"/actors/{ACTOR}/explain")

    assert answer.status == expected
    assert words in answer.json()["error"]


@pytest.mark.parametrize("which", [LETTERS, LETTERS.upper()])
def test_stack_when_nobody_has_watched_then_it_is_that_of_the_process_now(
    which: str,
) -> None:
    told = Told(status=status(actor(0xAB, pid=0)), stack=stacks("MainThread"))
    client = Client(told)
    told.answers["status"] = status(actor(0xAB, pid=7))  # it was placed meanwhile

    document = client.get(f"/actors/{which}/stack").json()
    assert threads_in(document) == ["MainThread"]


def test_stack_when_the_loop_is_blocked_then_what_was_seen_is_used() -> None:
    told = Told(status=status(actor(1, pid=7)), stack=stacks("MainThread"))
    client = Client(told)
    told.answers["status"] = Answer(VERSION, BLOCKED, standstill(3.21))

    seen = client.get(f"/actors/{ACTOR}/stack")
    unseen = client.get(f"/actors/{actor(3).actor_id}/stack")

    assert threads_in(seen.json()) == ["MainThread"]
    assert (unseen.status, "3.2 s" in unseen.text) == (503, True)


def test_stack_when_the_actor_is_a_thread_of_the_program_then_it_is_its_own() -> None:
    task = Task(name="T1", coroutine="f", is_running=True, frames=())
    names = ("MainThread", "Model 'm1' #1", "Model #2")
    told = Told(status=status(actor(1, pid=7)), stack=stacks(*names, tasks=(task,)))
    client = Client(told)
    document = client.get(f"/actors/{ACTOR}/stack").json()

    assert threads_in(document) == ["Model 'm1' #1"]
    assert (document["tasks"], document["tasks_missing"]) == ([], "")


# Looks.


async def test_watch_when_several_wait_then_the_runtime_is_asked_once() -> None:
    told = Told()
    watch = Watch(told, usage=lambda _: None, interval=0.0)
    await watch.after(0)

    before = told.count("status")
    await asyncio.gather(*(watch.after(watch.latest.number) for _ in range(3)))

    assert told.count("status") == before + 1


@pytest.mark.parametrize(
    ("found", "state"),
    [
        (RuntimeUnreachableError("it has ended"), "gone"),
        (Answer(VERSION, BLOCKED, standstill(1.0)), "blocked"),
    ],
)
async def test_watch_when_the_runtime_does_not_answer_then_it_shows_that(
    found: object, state: str
) -> None:
    told = Told()
    watch = Watch(told, usage=lambda _: None, interval=0.0)
    await watch.after(0)
    told.answers["status"] = found

    look = await watch.after(1)

    assert look is not None
    assert look.content is not None
    assert look.content.state == state
    assert watch.known is not None  # what was known still is


async def test_watch_when_closed_then_who_waits_is_let_go() -> None:
    watch = Watch(Told(), usage=lambda _: None, interval=1000.0)
    await watch.after(0)
    waiting = [asyncio.ensure_future(watch.after(1)) for _ in range(3)]
    await asyncio.sleep(0)

    watch.close()

    assert await asyncio.gather(*waiting) == [None] * 3


async def test_looks_when_streamed_then_the_first_has_all_points() -> None:
    told = Told()
    watch = Watch(told, usage=lambda _: None, interval=0.0)
    for number in range(3):
        await watch.after(number)
    application = Application(told, watch, Admission(TOKEN, WebAddress("::1", 1)))

    events = application._events()
    first, second = [
        json.loads((await anext(events)).removeprefix("data: ")) for _ in "ab"
    ]
    await events.aclose()

    assert len(first["points"]) >= 3
    assert "points" not in second
    assert application._watching == 0


def test_question_when_the_runtime_is_asked_then_not_by_the_loop_that_serves() -> None:
    threads: list[int] = []

    def ask(*_: object, **__: object) -> Answer:
        threads.append(threading.get_ident())
        return Answer(VERSION, OK, status())

    watch: Any = Watch(ask, usage=lambda _: None)
    asyncio.run(watch.after(0))

    assert threads != []
    assert threading.get_ident() not in threads
