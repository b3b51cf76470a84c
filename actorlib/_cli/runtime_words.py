"""The heading of a runtime, and the text of a blocked event loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actorlib._options.resources import format_bytes, format_counted

if TYPE_CHECKING:
    from actorlib._cli.listing import RuntimeRow
    from actorlib._queries.rows import Standstill


def heading(runtime: RuntimeRow) -> str:
    """Returns one line about a runtime and its resources."""
    process, snapshot = runtime.process, runtime.snapshot
    parts = [f"pid {runtime.pid}"]
    if snapshot.name:
        parts.insert(0, f"{snapshot.name!r}")
    if runtime.program:
        parts.append(f"{runtime.program!r}")
    if runtime.version:
        parts.append(f"actorlib {runtime.version}")
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
    """Describes a loop that does not answer, with the stack of its thread."""
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
