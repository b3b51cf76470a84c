"""A page that a program serves itself: where it is, what it shows, and its end."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import threading
from contextlib import suppress
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

import pytest
from helpers.actors import Echo

import actorlib
from actorlib.__main__ import main
from actorlib.exceptions import UnsupportedOptionError

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from actorlib._web.uvicorn_server import _MOST

LIMIT = 20.0


def get(url: str, path: str = "") -> tuple[int, str]:
    """What is served there; the first line if it is a stream."""
    parts = urlsplit(url)
    connection = HTTPConnection(parts.hostname or "", parts.port, timeout=LIMIT)
    try:
        connection.request("GET", f"/{path}?{parts.query}")
        answer = connection.getresponse()
        body = answer.readline() if path == "looks" else answer.read()
        return answer.status, body.decode()
    finally:
        connection.close()


async def look(url: str) -> Any:
    """What the page is shown first."""
    _, line = await asyncio.to_thread(get, url, "looks")
    return json.loads(line.removeprefix("data: "))


async def test_dashboard_when_a_program_has_one_then_it_shows_it_until_its_end(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    runtime = actorlib.init(
        engine="inline", num_cpus=1, num_gpus=2, dashboard="127.0.0.1:0"
    )
    assert runtime.dashboard is None
    async with runtime:
        url = runtime.dashboard
        assert url is not None
        echo = Echo.options(name="<b>m1</b>", num_gpus=0.5).remote()
        await echo
        served, page = await asyncio.to_thread(get, url)
        seen = await look(url)
        refused, _ = await asyncio.to_thread(get, url.replace("token=", "token=x"))
        watching = socket.create_connection(("127.0.0.1", urlsplit(url).port))
        watching.sendall(f"GET /looks?{urlsplit(url).query} HTTP/1.1\r\n".encode())
        watching.sendall(b"Host: localhost\r\n\r\n")
        assert (await asyncio.to_thread(watching.recv, 15)) == b"HTTP/1.1 200 OK"

    assert (served, refused) == (200, 401)
    assert page.startswith("<!doctype html>")
    assert [row["name"] for row in seen["actors"]] == ["<b>m1</b>"]
    assert [row["available"] for row in seen["devices"]] == [0.5, 1.0]
    with watching:  # its end was told to whoever watched
        watching.settimeout(LIMIT)
        while await asyncio.to_thread(watching.recv, 65536):
            pass
    assert runtime.dashboard is None
    assert "actorlib page" not in [thread.name for thread in threading.enumerate()]
    with pytest.raises(OSError, match="refused"):
        await asyncio.to_thread(get, url)
    assert capfd.readouterr().err.count(url) == 1
    assert urlsplit(url).query not in caplog.text
    assert [r.name for r in caplog.records if r.name.startswith("uvicorn")] == []


async def test_dashboard_when_the_loop_is_blocked_then_it_says_where(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("actorlib._web.watch._PATIENCE", 0.01)
    async with actorlib.init(engine="inline", dashboard="localhost:0") as runtime:
        url = runtime.dashboard
        assert url is not None
        seen: list[Any] = []
        asking = threading.Thread(target=lambda: seen.append(get(url, "looks")[1]))
        asking.start()
        asking.join(LIMIT)  # on the loop, which does nothing else meanwhile

    blocked = json.loads(seen[0].removeprefix("data: "))
    assert blocked["state"] == "blocked"
    functions = [frame["function"] for frame in blocked["frames"]]
    assert "test_dashboard_when_the_loop_is_blocked_then_it_says_where" in functions


async def test_dashboard_when_its_port_is_taken_then_nothing_starts() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(OSError, match=f"cannot listen on {place}: .* Port 0 takes"):
            await actorlib.init(engine="inline", dashboard=place)

    assert not actorlib.is_initialized()


async def test_dashboard_when_it_is_for_others_too_then_the_log_warns(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with actorlib.init(engine="inline", dashboard="0.0.0.0:0") as runtime:
        assert runtime.dashboard is not None
        assert urlsplit(runtime.dashboard).hostname == socket.gethostname().lower()

    assert "beyond this machine: it is not encrypted" in caplog.text


def test_dashboard_when_what_serves_it_is_missing_then_init_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("actorlib._web.server.find_spec", lambda _: None)

    with pytest.raises(ImportError, match=r"pip install 'actorlib\[web\]'"):
        actorlib.init(dashboard="127.0.0.1:0")


def test_dashboard_when_the_engine_is_ray_s_then_it_is_refused() -> None:
    with pytest.raises(UnsupportedOptionError, match="has its own page"):
        actorlib.init(engine="ray", dashboard="127.0.0.1:0")


# Anybody on the machine may come to its port.


async def test_stranger_when_he_sends_nonsense_or_much_then_the_next_is_served(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with actorlib.init(engine="inline", dashboard="127.0.0.1:0") as runtime:
        url = runtime.dashboard
        assert url is not None
        place = ("127.0.0.1", urlsplit(url).port or 0)
        for said in (b"\x16\x03\x01\x02\x00", b"GET / HTTP/1.1\r\n\r\n", b"A" * 99_999):
            refused = await asyncio.to_thread(told, place, said)
            assert refused.startswith(b"HTTP/1.1 4")
        silent = [socket.create_connection(place) for _ in range(_MOST + 1)]
        assert await asyncio.to_thread(silent[-1].recv, 1) == b""
        for sock in silent:
            sock.close()
        await asyncio.to_thread(
            told, place, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
        )
        served, _ = await asyncio.to_thread(get, url)

    assert served == 200
    assert caplog.text == ""


@pytest.mark.parametrize("refused", [b"", b"POST / HTTP/1.1\r\nContent-Length: 9"])
async def test_stranger_when_he_does_not_end_what_he_says_then_he_is_sent_away(
    monkeypatch: pytest.MonkeyPatch, refused: bytes
) -> None:
    monkeypatch.setattr("actorlib._web.uvicorn_server._SILENCE", 0.1)
    async with actorlib.init(engine="inline", dashboard="127.0.0.1:0") as runtime:
        port = urlsplit(runtime.dashboard or "").port or 0
        with socket.create_connection(("127.0.0.1", port), timeout=LIMIT) as sock:
            is_gone = await asyncio.to_thread(sent_away, sock, refused)

    assert is_gone


def sent_away(sock: socket.socket, refused: bytes) -> bool:
    """Whether one is sent away who begins to say something, and does not go on."""
    with suppress(ConnectionError):  # he is already
        if refused:
            sock.sendall(refused + b"\r\nHost: localhost\r\n\r\n")
            assert sock.recv(64).startswith(b"HTTP/1.1 401")
        sock.sendall(b"G")
        while sock.recv(4096):
            pass
    return True


def told(place: tuple[str, int], said: bytes) -> bytes:
    """What comes back first."""
    with socket.create_connection(place, timeout=LIMIT) as sock:
        sock.sendall(said)
        return sock.recv(64)


# The command.


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--host", "127.0.0.1"], "--host and --port belong to the page: add --web"),
        (["--port", "0"], "--host and --port belong to the page: add --web"),
        (["--web", "--json"], "--web serves a page until Ctrl-C"),
        (["--web", "--pid", "999999999"], "there is no process 999999999"),
    ],
)
def test_top_when_its_words_do_not_go_together_then_it_says_so(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["top", *words]) != 0
    assert said in capsys.readouterr().err


def test_top_when_what_serves_the_page_is_missing_then_it_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("actorlib._web.server.find_spec", lambda _: None)

    assert main(["top", "--web"]) == 1
    assert "pip install 'actorlib[web]'" in capsys.readouterr().err
