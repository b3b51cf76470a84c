"""Says in words what a runtime is and has, or where it is stuck."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actorlib._options.resources import format_bytes, format_counted

if TYPE_CHECKING:
    from actorlib._cli.listing import RuntimeRow
    from actorlib._queries.rows import Standstill


def heading(found: RuntimeRow) -> str:
    """Says in a line what a runtime is and has."""
    process, snapshot = found.process, found.snapshot
    parts = [f"pid {found.pid}"]
    if snapshot.name:
        parts.insert(0, f"{snapshot.name!r}")
    if found.program:
        parts.append(f"{found.program!r}")
    if found.version:
        parts.append(f"actorlib {found.version}")
    if process.cpu is not None:
        parts.append(f"{process.cpu:.0f} % CPU")
    memory = process.pss if process.pss is not None else process.rss
    if memory is not None:
        parts.append(format_bytes(memory))
    parts += [
        f"{format_counted(name, snapshot.available.get(name, 0))} of "
        f"{format_counted(name, total)} {name} free"
        for name, total in sorted(snapshot.total.items())
        if not name.startswith("accelerator_type:")
    ]
    return ", ".join(parts)


def stuck_text(stuck: Standstill) -> str:
    """Says in words that a loop does not answer, and where its thread stands."""
    if not stuck.is_running:
        head = "Its event loop is not running: nothing in this runtime goes on."
    else:
        bound = "for" if stuck.is_exact else "for at least"
        head = (
            f"Its event loop has been blocked {bound} {stuck.seconds:.1f} s. "
            "Its thread stands, the latest call last, at"
        )
    lines = [head]
    for frame in stuck.frames:
        lines.append(f"  {frame.file}:{frame.line} in {frame.function}")
        if frame.code:
            lines.append(f"    {frame.code}")
    return "\n".join([*lines, ""])
