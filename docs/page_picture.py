"""Takes the pictures of the dashboard for README.md: ``python docs/page_picture.py``.

The data is invented and the same each time. It needs Chromium with its chromedriver,
and ``pip install actorlib[web-test]``.
"""

from __future__ import annotations

import asyncio
import base64
import math
import shutil
import socket
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from selenium import webdriver

from actorlib._queries.processes import Usage
from actorlib._queries.protocol import OK, VERSION, Answer
from actorlib._queries.rows import Status
from actorlib._web.address import WebAddress
from actorlib._web.application import Application
from actorlib._web.guard import Admission
from actorlib._web.uvicorn_server import QuietServer
from actorlib._web.watch import Watch
from actorlib.types import ActorInfo, DeviceInfo, ObjectStoreInfo, Snapshot

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = Path(__file__).parent
SIZE = (1280, 800)
TOKEN = "picture"
BEGAN = 1_700_000_000.0
STEPS = 150
OWN = 4021
GIB = 2**30

LIVING: list[tuple[str, str | None, dict[int, float], int, float]] = [
    # class, name, devices, unanswered calls, calls per second
    *(("Trainer", f"train-{n}", {n: 1.0}, 1, 0.8) for n in range(2)),
    *(("Ranker", f"rank-{n}", {2 + n: 0.5}, 2, 38.0 + 7 * n) for n in range(3)),
    *(("Embedder", f"embed-{n}", {2 + n // 2: 0.25}, 3, 120.0 + n) for n in range(6)),
    *(("Captioner", f"caption-{n}", {5: 0.2}, 1, 9.0 + n) for n in range(4)),
    ("Judge", "judge", {6: 0.75}, 4, 2.5),
    ("Router", "front", {}, 12, 410.0),
    ("Router", "back", {}, 5, 390.0),
]
REASONS = {
    f"{90:032x}": "Trainer 'train-2' requests GPU=2; free is GPU=1 on device 7. Held: "
    "GPU=1 by Trainer 'train-0' (pid 4100), GPU=1 by Trainer 'train-1' (pid 4101) and "
    "15 more",
    f"{91:032x}": "Judge 'second' requests GPU=0.75. Ahead of it in the queue: Trainer "
    "'train-2' (GPU=2)",
}


def wave(seed: int, second: int) -> float:
    """Returns a number around 1 that varies with time."""
    noise = zlib.crc32(f"{seed} {second}".encode()) / 2**32 - 0.5
    slow = math.sin(second / 17 + seed) + math.sin(second / 41 + 2 * seed)
    return max(0.05, 1 + 0.18 * slow + 0.16 * noise)


def actors(second: int) -> Iterator[ActorInfo]:
    """Yields the rows of all actors, as a runtime does."""
    for number, (kind, name, devices, calls, rate) in enumerate(LIVING):
        total = sum(rate * wave(number, each) for each in range(second))
        unanswered = round(calls * wave(number + 50, second))
        yield actor(
            number,
            class_name=kind,
            name=name,
            devices={str(place): part for place, part in devices.items()},
            pending_calls=unanswered,
            made_calls=int(total) + unanswered,
        )
    line: dict[str, Any] = {"state": "pending", "pid": 0, "started_at": None}
    yield actor(90, class_name="Trainer", name="train-2", **line)
    yield actor(91, class_name="Judge", name="second", **line)


def actor(number: int, **changed: Any) -> ActorInfo:
    """Returns the row of one actor."""
    devices: dict[str, float] = changed.get("devices", {})
    granted = {place: int(part * 80 * GIB) for place, part in devices.items()}
    defaults: dict[str, Any] = {
        "actor_id": f"{number:032x}",
        "state": "alive",
        "pid": 4100 + number,
        "resources": {"GPU": sum(devices.values())} if devices else {"GPU": 2.0},
        "devices": devices,
        "device_nbytes": granted,
        "device_memory": {
            place: int(nbytes * (0.35 + number % 5 / 9))
            for place, nbytes in granted.items()
        },
        "mask": None,
        "pending_calls": 0,
        "restarts": int(number == 8),
        "started_at": BEGAN - 5000 + 37 * number,
        "death": "",
    }
    return ActorInfo(**{**defaults, **changed})


def status(second: int) -> Status:
    """Returns the status of the runtime."""
    rows = tuple(actors(second))
    free = [1.0] * 8
    for row in rows:
        for place, part in row.devices.items():
            free[int(place)] -= part
    devices = tuple(
        DeviceInfo(
            device=str(place),
            kind="GPU",
            model="NVIDIA H100 80GB HBM3",
            nbytes=80 * GIB,
            available=round(share, 4),
            is_logical=False,
        )
        for place, share in enumerate(free)
    )
    return Status(
        version="0.3.0",
        python="3.12.4",
        pid=OWN,
        program=("python", "serve.py", "--models", "all"),
        snapshot=Snapshot(
            total={"GPU": 8.0, "CPU": 64.0, "memory": 512.0 * GIB},
            available={"GPU": sum(free), "CPU": 23.0, "memory": 318.0 * GIB},
            waiting=("Trainer 'train-2': GPU=2", "Judge 'second': GPU=0.75"),
            actors=rows,
            object_store=ObjectStoreInfo(live=21 * GIB, warm=6 * GIB, limit=150 * GIB),
            devices=devices,
        ),
        waiting_count=2,
        running_calls={row.actor_id: min(row.pending_calls, 4) for row in rows},
        reasons=REASONS,
    )


async def main() -> None:
    """Serves the invented data, and takes its picture in both themes."""
    second = 0

    def ask(*_: object, **__: object) -> Answer:
        return Answer(VERSION, OK, status(second))

    def usage(pid: int) -> Usage:
        each = 0.12 if pid == OWN else 0.2 + pid % 7 / 9
        cpu = sum(each * wave(pid, past) for past in range(second))
        return Usage("S", cpu, (60 + pid % 11 * 90) * 2**20)

    watch = Watch(ask, usage=usage, clock=lambda: BEGAN + second, interval=0.0)
    for second in range(STEPS):  # noqa: B007  # the status depends on it
        await watch.after(watch.latest.number)
    watch._due = math.inf  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # the page shows the last status
    with socket.create_server(("127.0.0.1", 0)) as sock:
        host, port = sock.getsockname()
        admission = Admission(TOKEN, WebAddress(host, port))
        server = QuietServer(Application(ask, watch, admission).asgi)
        serving = asyncio.create_task(server.serve_on(sock))
        await asyncio.to_thread(shoot, f"http://{host}:{port}/?token={TOKEN}")
        watch.close()
        server.over.set()
        await serving


def shoot(url: str) -> None:
    """Takes the pictures."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    width, height = SIZE
    for word in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
    ):
        options.add_argument(word)
    service = webdriver.ChromeService(shutil.which("chromedriver") or "")
    driver: Any = webdriver.Chrome(options=options, service=service)
    try:
        driver.set_script_timeout(30)
        metrics = {"width": width, "height": height, "mobile": False}
        driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride", {**metrics, "deviceScaleFactor": 1}
        )
        driver.get(url)
        driver.execute_async_script(
            "const done = arguments[0], wait = () => document.body.dataset.looks"
            " ? done() : requestAnimationFrame(wait); wait();"
        )
        for theme in ("light", "dark"):
            media = {"name": "prefers-color-scheme", "value": theme}
            driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [media]})
            screenshot = driver.execute_cdp_cmd(
                "Page.captureScreenshot", {"format": "png"}
            )
            picture = base64.b64decode(screenshot["data"])
            (FOLDER / f"page-{theme}.png").write_bytes(picture)
    finally:
        driver.quit()


if __name__ == "__main__":
    asyncio.run(main())
