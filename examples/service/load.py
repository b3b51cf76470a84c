"""Puts replicas under a changing load, and draws their number and the latency.

    python -m examples.service.load          # half a minute; writes load.svg

A model answers 25 requests a second, one at a time. The load rises to several times
that and falls again. Requests beyond ``max_pending`` are refused at once.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import actorlib
from actorlib.exceptions import OverloadedError

PHASES = ((4.0, 15), (6.0, 60), (6.0, 150), (5.0, 40), (9.0, 5))
"""The seconds of each phase, and its requests a second."""
STEP = 0.5
"""Seconds of a point in the picture."""


@actorlib.remote(num_gpus=0.25)
class Model:
    """Takes 40 ms for an answer."""

    def predict(self, x: int) -> int:
        """Computes an answer."""
        time.sleep(0.04)
        return 2 * x


class Point(NamedTuple):
    """What happened in one step.

    Attributes:
        time: Seconds since the start.
        rate: Requests a second.
        refused: Refused requests a second.
        replicas: The number of replicas.
        latency: The 95th percentile in milliseconds; 0 without an answer.
    """

    time: float
    rate: float
    refused: float
    replicas: float
    latency: float


class Load:
    """Sends requests, and notes how long each took."""

    def __init__(self, models: actorlib.Replicas[Any]) -> None:
        self._models = models
        self._times: list[float] = []
        self._sent = self._refused = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> list[Point]:
        """Runs all phases; returns a point for each step."""
        points: list[Point] = []
        start = time.monotonic()
        for seconds, rate in PHASES:
            for _ in range(round(seconds / STEP)):
                await self._step(rate)
                points.append(self._point(time.monotonic() - start))
        await asyncio.gather(*self._tasks)
        return points

    async def _step(self, rate: int) -> None:
        begin = time.monotonic()
        for number in range(round(rate * STEP)):
            await asyncio.sleep(max(0, begin + number / rate - time.monotonic()))
            task = asyncio.create_task(self._request(number))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        await asyncio.sleep(max(0, begin + STEP - time.monotonic()))

    async def _request(self, number: int) -> None:
        self._sent += 1
        begin = time.monotonic()
        try:
            await self._models.predict.remote(number)
        except OverloadedError:
            self._refused += 1
        else:
            self._times.append(time.monotonic() - begin)

    def _point(self, now: float) -> Point:
        times = sorted(self._times)
        latency = 1000 * times[int(0.95 * len(times))] if times else 0.0
        point = Point(
            now, self._sent / STEP, self._refused / STEP, len(self._models), latency
        )
        self._times.clear()
        self._sent = self._refused = 0
        return point


def draw(points: list[Point]) -> str:
    """Returns the points as an SVG picture: three charts over one axis of time."""
    charts = (
        ("requests a second (red: refused)", ("rate", "refused")),
        ("replicas", ("replicas",)),
        ("95 % answered within, ms", ("latency",)),
    )
    width, height, left = 640, 130, 50
    last = points[-1].time
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width + left + 20}" '
        f'height="{len(charts) * (height + 40) + 20}" font-family="sans-serif" '
        'font-size="12"><rect width="100%" height="100%" fill="white"/>'
    ]
    for number, (title, names) in enumerate(charts):
        bottom = (number + 1) * (height + 40) - 10
        most = max(getattr(point, name) for point in points for name in names) or 1.0
        parts.append(
            f'<text x="{left}" y="{bottom - height - 8}">{title}</text>'
            f'<text x="{left - 6}" y="{bottom - height + 10}" text-anchor="end">'
            f"{most:.0f}</text>"
            f'<text x="{left - 6}" y="{bottom}" text-anchor="end">0</text>'
            f'<path d="M{left} {bottom - height}V{bottom}H{left + width}" '
            'fill="none" stroke="#999"/>'
        )
        for name, colour in zip(names, ("#2266aa", "#cc3333"), strict=False):
            places = " ".join(
                f"{left + width * point.time / last:.1f},"
                f"{bottom - height * getattr(point, name) / most:.1f}"
                for point in points
            )
            parts.append(
                f'<polyline points="{places}" fill="none" stroke="{colour}" '
                'stroke-width="2"/>'
            )
    end = len(charts) * (height + 40) + 8
    parts.append(f'<text x="{left}" y="{end}">0 s</text>')
    parts.append(
        f'<text x="{left + width}" y="{end}" text-anchor="end">{last:.0f} s</text>'
    )
    return "".join([*parts, "</svg>\n"])


async def main() -> list[Point]:
    """Measures, and prints a table."""
    async with (
        actorlib.init(num_gpus=2),
        actorlib.Replicas(Model, min=1, max=8, idle=3, max_pending=8) as models,
    ):
        points = await Load(models).run()
    print("  time  requests/s  refused/s  replicas  95 % within")
    for point in points[1::2]:
        print(
            f"{point.time:4.0f} s  {point.rate:10.0f}  {point.refused:9.0f}  "
            f"{point.replicas:8.0f}  {point.latency:8.0f} ms"
        )
    return points


if __name__ == "__main__":
    picture = Path(*sys.argv[1:2] or ["load.svg"])
    picture.write_text(draw(actorlib.run(main())), encoding="utf-8")
    print(f"The picture is in {picture}")
