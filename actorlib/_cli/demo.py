"""Shows placement and speed on this machine: ``actorlib demo``.

Only the command line loads this file, as it imports rich.
"""

from __future__ import annotations

import asyncio
import os
import platform
import time
from typing import TYPE_CHECKING, Literal

from rich.table import Table

import actorlib
from actorlib._cli import demo_figures
from actorlib._cli.pages import console
from actorlib._rows.tables import Column, table
from actorlib.accelerators import Device, Host, discover, families, inventory

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from rich.console import Console


_LOGICAL = 2
_PINGS = 2_000
_WINDOWS, _WINDOW = 30, 1_000


def show(
    *,
    actors: int,
    gpus: int | None,
    start_method: Literal["template", "spawn"] | None,
) -> None:
    """Places actors on this machine, and shows their devices and speed."""
    actorlib.run(_run_demo(console(), actors, gpus, start_method))


async def _run_demo(
    out: Console,
    actors: int,
    gpus: int | None,
    start_method: Literal["template", "spawn"] | None,
) -> None:
    cards = await _find_cards(out, gpus)
    count = gpus or len(cards) or _LOGICAL
    async with actorlib.init(
        num_gpus=count,
        start_method=start_method,
        preload=[] if start_method == "spawn" else [demo_figures.__name__],
        log_to_driver=False,
    ) as runtime:
        handles, reports = await demo_figures.reports(
            demo_figures.shares(count), _visibility_variables()
        )
        out.print(_placement_table(reports, cards))
        pids = {report.pid for report in reports}
        await asyncio.gather(*map(actorlib.kill, handles))
        figures = Table.grid(padding=(0, 2))
        figures.add_column(style="bold")
        figures.add_column(overflow="fold")
        crowd, took = await demo_figures.place(
            actors, demo_figures.share_of_many(count, actors)
        )
        pids |= {actor.pid for actor in runtime.snapshot().actors if actor.pid}
        figures.add_row(
            "placement",
            f"{actors} actors answered after {took:.3f} s: {actors / took:,.0f} a "
            "second",
        )
        took_each = await demo_figures.latencies(crowd[0], _PINGS)
        figures.add_row(
            "ping",
            f"p50 {_micros(took_each, 0.5)} us, p99 {_micros(took_each, 0.99)} us",
        )
        rate = await demo_figures.rate(crowd[0], _WINDOWS, _WINDOW)
        figures.add_row("pipelined", f"{rate:,.0f} calls a second")
        started = time.perf_counter()
    ended = time.perf_counter() - started
    figures.add_row("end", f"{_describe_remaining(pids)}, after {ended:.3f} s")
    out.print(figures)


async def _find_cards(out: Console, gpus: int | None) -> dict[str, Device]:
    """Returns the GPUs of this machine by id, and prints the machine."""
    cpus = Host().cpu_count()
    loop = type(asyncio.get_running_loop()).__module__.partition(".")[0]
    out.print(
        f"actorlib {actorlib.__version__}, Python {platform.python_version()}, {loop}, "
        f"{cpus} {'CPU' if cpus == 1 else 'CPUs'}"
    )
    detections = await asyncio.to_thread(discover, Host())
    devices = inventory(detections, {}).devices["GPU"]
    cards = {device.id: device for device in devices}
    reasons = "; ".join(dict.fromkeys(d.reason for d in detections if d.reason))
    why = f" ({reasons})" if reasons else ""
    if cards:
        out.print(f"{', '.join(_device_name(card, cards) for card in cards)}{why}")
        return cards
    out.print(f"No GPU is used{why}. Logical ones stand in: {gpus or _LOGICAL}")
    if gpus is None:
        # A mask without a device allows no declared ones either. The demo computes
        # nothing on devices, so it may remove the mask.
        for variable in _visibility_variables():
            os.environ.pop(variable, None)
    return cards


def _visibility_variables() -> list[str]:
    return [name for name in {f.visible_env: None for f in families()} if name]


def _placement_table(
    reports: Sequence[demo_figures.Report], cards: dict[str, Device]
) -> Table:
    columns: list[Column[demo_figures.Report]] = [
        Column("actor", lambda report: report.name),
        Column("process", lambda report: str(report.pid), is_number=True),
        Column(
            "device",
            lambda report: ", ".join(
                _device_name(str(d), cards) for d in report.devices
            ),
        ),
        Column("share", lambda report: f"{report.share:g}", is_number=True),
        Column("mask", lambda report: "\n".join(report.masks) or "none"),
    ]
    result = table(columns, reports, "Where each actor says it is")
    result.columns[0].no_wrap = True
    return result


def _device_name(device: str, cards: dict[str, Device]) -> str:
    model = (cards[device].model or "unknown") if device in cards else "logical"
    return f"GPU {device} ({model})"


def _micros(ascending: Sequence[float], quantile: float) -> str:
    return f"{ascending[int(quantile * (len(ascending) - 1))] * 1e6:.0f}"


def _describe_remaining(pids: Collection[int]) -> str:
    """Describes which workers still exist, and whether the template does."""
    living = [pid for pid in pids if _is_there(pid)]
    template = _has_children()
    if living or template:
        return (
            f"of {len(pids)} workers {len(living)} are left"
            f"{', and the template' if template else ''}"
        )
    return f"nothing is left of {len(pids)} workers and their template"


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, PermissionError):  # or the number is another's by now
        return False
    return True


def _has_children() -> bool:
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return False
    return True
