"""What ``init()`` may be told in a script: Ray's words and ours.

What changes nothing of a program's results is taken note of and left; what would is
refused by name, with what to write instead.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from actorlib._core.runtime_options import RuntimeOptions
from actorlib._core.validation import check_bool, closest_names
from actorlib.exceptions import InitError

if TYPE_CHECKING:
    from collections.abc import Mapping

OURS = frozenset(
    option.name for option in dataclasses.fields(RuntimeOptions) if option.init
) - {"address"}

_NOTED = frozenset(
    {
        "configure_logging",
        "dashboard_host",
        "dashboard_port",
        "include_dashboard",
        "job_config",
        "labels",
        "logging_config",
        "logging_format",
    }
)
"""What says how Ray's own processes look, and means nothing where they are not."""

_REFUSED = {
    "local_mode": (
        "local_mode=True runs actors one after the other in this process, and hides "
        "what goes wrong between processes: init(engine='inline') runs them as threads "
        "of this one, with everything else as it is"
    ),
    "cgroup_path": "no cgroups are made: start the script inside of one",
    "enable_resource_isolation": "no cgroups are made: start the script inside of one",
    "system_reserved_cpu": "there are no system processes: give num_cpus what is left",
    "system_reserved_memory": "there are no system processes: give memory what is left",
    "proxy_server_url": "there is no server to be reached",
}
_OTHERS = frozenset({"address", "ignore_reinit_error", "logging_level", *_REFUSED})


class InitOptions(NamedTuple):
    """What ``init()`` was told.

    Attributes:
        options: What the runtime is told.
        logging_level: From which level actorlib logs, or None.
        ignores_second: Whether a runtime that is running already will do.
        noted: What was given and means nothing here.
    """

    options: dict[str, Any]
    logging_level: int | str | None
    ignores_second: bool
    noted: list[str]


def checked_init(given: Mapping[str, object]) -> InitOptions:
    """What ``init()`` was told, by its keywords.

    Raises:
        InitError: A keyword is unknown, or asks for what there is not.
        TypeError: A value has the wrong type.
        ValueError: A value is out of range.
    """
    known = OURS | _NOTED | _OTHERS
    for name in given:
        if name not in known and not name.startswith("_"):
            close = closest_names(name, known)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise InitError(
                f"init() has no option {name!r}.{hint} Its options are "
                + ", ".join(sorted(known - _REFUSED.keys() - _NOTED))
            )
    for name, reason in _REFUSED.items():
        if given.get(name):
            raise InitError(f"init({name}={given[name]!r}): {reason}")
    _check_address(given.get("address"))
    again = given.get("ignore_reinit_error", False)
    check_bool("ignore_reinit_error", again)
    level = given.get("logging_level")
    if not isinstance(level, int | str | None):
        raise TypeError(f"logging_level takes a level of logging, not {level!r}")
    return InitOptions(
        # None is everywhere what is not said, as in Ray.
        {name: given[name] for name in OURS & given.keys() if given[name] is not None},
        level,
        cast("bool", again),
        sorted(
            name
            for name, value in given.items()
            if value and (name in _NOTED or name.startswith("_"))
        ),
    )


def _check_address(address: object) -> None:
    if address is not None and not isinstance(address, str):
        raise TypeError(f"address takes a text or None, not {address!r}")
    if address not in (None, "local"):
        raise InitError(
            f"init(address={address!r}): this runtime is one machine's and starts "
            "with the script, so there is nothing to connect to: leave address out. "
            "What has to run on a cluster runs on Ray itself"
        )
