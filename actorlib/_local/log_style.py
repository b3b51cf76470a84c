"""How lines of workers look in the owner's terminal, by its environment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actorlib._local.repeats import Line

_COLOURS = (36, 32, 33, 35, 34, 96, 92, 93, 95, 94)
_OFF = ("0", "false", "no")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogStyle:
    """How lines of workers look.

    Attributes:
        is_shown: Whether they appear at all.
        merges: Whether equal lines of several actors are shown once and counted.
        is_prefixed: Whether each says whose it is.
        is_coloured: Whether the prefix has a colour, one for each process.
    """

    is_shown: bool = True
    merges: bool = True
    is_prefixed: bool = True
    is_coloured: bool = False

    def told(self, line: Line, count: int = 0) -> str:
        """A line as it appears.

        Args:
            line: The line.
            count: How many equal ones it stands for; one or none is itself alone.
        """
        text = line.text.decode(errors="replace")
        if count > 1:
            text = f"{text} [repeated {count}x across actors]"
        if not self.is_prefixed:
            return f"{text}\n"
        prefix = f"({line.label} pid={line.pid})"
        if self.is_coloured:
            prefix = f"\033[{_COLOURS[line.pid % len(_COLOURS)]}m{prefix}\033[0m"
        return f"{prefix} {text}\n"


def style_of(environ: Mapping[str, str], *, is_shown: bool) -> LogStyle:
    """What the environment says; Ray's variables hold where ours say nothing.

    Args:
        environ: The owner's environment.
        is_shown: What ``init(log_to_driver=...)`` says.
    """

    def is_on(name: str, rays: str, *, default: bool) -> bool:
        said = environ.get(f"ACTORLIB_{name}") or environ.get(rays)
        return default if not said else said.lower() not in _OFF

    rays_none = environ.get("RAY_DISABLE_WORKER_LOG_PREFIX", "0").lower() not in _OFF
    return LogStyle(
        is_shown=is_shown and is_on("LOG_TO_DRIVER", "RAY_LOG_TO_DRIVER", default=True),
        merges=is_on("DEDUP_LOGS", "RAY_DEDUP_LOGS", default=True),
        is_prefixed=is_on("LOG_PREFIX", "", default=not rays_none),
        is_coloured=is_on("COLOR_PREFIX", "RAY_COLOR_PREFIX", default=False),
    )
