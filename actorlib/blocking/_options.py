"""Checks the options of ``init()``: those of Ray and of actorlib.

Options of Ray that change no result are ignored with a warning. Others are refused by
name, with advice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, cast

from actorlib._base.validation import check_bool, closest_names, names_of, wrong_type
from actorlib._options.runtime_options import RuntimeOptions, check_runtime_name
from actorlib.exceptions import InitError, UnknownOptionError

if TYPE_CHECKING:
    from collections.abc import Mapping

OURS = frozenset(names_of(RuntimeOptions))

_NOTED = frozenset(
    {
        "configure_logging",
        "dashboard_host",
        "dashboard_port",
        "include_dashboard",
        "labels",
        "logging_config",
        "logging_format",
    }
)
"""Options of Ray's own processes, which have no effect here."""

_REFUSED = {
    "local_mode": (
        "local_mode=True runs actors one after the other in this process, and hides "
        "errors between processes: init(engine='inline') runs them as threads of this "
        "process, with everything else unchanged"
    ),
    "cgroup_path": "no cgroups are made: start the script inside of one",
    "enable_resource_isolation": "no cgroups are made: start the script inside of one",
    "system_reserved_cpu": "there are no system processes: set num_cpus to the rest",
    "system_reserved_memory": "there are no system processes: set memory to the rest",
    "proxy_server_url": "there is no server to connect to",
}
_OTHERS = frozenset(
    {"ignore_reinit_error", "job_config", "logging_level", "reinit", *_REFUSED}
)


class UnknownInitOptionError(UnknownOptionError, InitError):
    """An option of a script's ``init()`` is unknown; Ray's users catch RuntimeError."""


class InitOptions(NamedTuple):
    """The checked options of ``init()``.

    Attributes:
        options: The options of the runtime.
        attached_to: The name of the runtime to attach to, or None.
        logging_level: The level of actorlib's logger, or None.
        ignores_second: Whether to use a runtime that is running already.
        replaces: Whether to end a running runtime of this script first.
        ignored: The names of options without effect.
    """

    options: dict[str, Any]
    attached_to: str | None
    logging_level: int | str | None
    ignores_second: bool
    replaces: bool
    ignored: list[str]


def checked_init(
    keywords: Mapping[str, object], *, is_on_ray: bool = False
) -> InitOptions:
    """Checks the keywords of ``init()``; on Ray, the address is that of a cluster."""
    options = _with_defaults(keywords)
    names = OURS | _NOTED | _OTHERS
    for name in options:
        if name not in names and not name.startswith("_"):
            close = closest_names(name, names - _REFUSED.keys() - _NOTED, 3)
            hint = f" Did you mean {' or '.join(map(repr, close))}?" if close else ""
            raise UnknownInitOptionError(
                f"init() has no option {name!r}.{hint} "
                "help(actorlib.types.RuntimeOptions) describes all options"
            )
    for name, reason in _REFUSED.items():
        if options.get(name):
            raise InitError(f"init({name}={options[name]!r}): {reason}")
    address = _checked_address(options.get("address"), is_on_ray=is_on_ray)
    attached_to = None
    if address is not None and not is_on_ray:
        attached_to, address = address, None
        _refuse_options(attached_to, options)
    again = options.get("ignore_reinit_error", False)
    check_bool("ignore_reinit_error", again)
    replaces = options.get("reinit", False)
    check_bool("reinit", replaces)
    if again and replaces:
        raise InitError(
            "init(): ignore_reinit_error=True continues with the existing runtime, and "
            "reinit=True ends it: write one of the two"
        )
    level = options.get("logging_level")
    if not isinstance(level, int | str | None):
        raise wrong_type(
            "logging_level takes a level of logging, such as 'WARNING' or "
            "logging.WARNING",
            level,
        )
    known_values = {name: options[name] for name in OURS & options.keys()}
    known_values["address"] = address
    return InitOptions(
        # None is the default of each option, as in Ray.
        {n: v for n, v in known_values.items() if v is not None},
        attached_to,
        level,
        cast("bool", again),
        cast("bool", replaces),
        sorted(
            name
            for name, value in options.items()
            if value and (name in _NOTED or name.startswith("_"))
        ),
    )


def _with_defaults(keywords: Mapping[str, object]) -> dict[str, object]:
    """Replaces ``_memory`` and ``job_config`` by the options with the same meaning."""
    options = dict(keywords)
    others = {"memory": options.pop("_memory", None)}
    config = options.get("job_config")
    if config is not None:
        from actorlib.blocking.job_config import JobConfig  # noqa: PLC0415  # few need it

        if not isinstance(config, JobConfig):
            raise wrong_type("job_config takes a JobConfig", config)
        others["runtime_env"] = config.runtime_env or None
        others["namespace"] = config.ray_namespace
    for name, value in others.items():
        if value is not None and options.get(name) is None:
            options[name] = value
    return options


def _checked_address(address: object, *, is_on_ray: bool) -> str | None:
    if address is not None and not isinstance(address, str):
        raise wrong_type("address takes a string, for example 'auto', or None", address)
    if address is None or is_on_ray:
        return address
    if address == "local":
        return None
    try:
        check_runtime_name("address", address)
    except ValueError as error:
        raise InitError(
            f"init(address={address!r}) is the address of a cluster. Here a runtime is "
            "on one machine: leave address out to start one with this script, write "
            "the name of a running one (init(name=...) in its program) to attach to "
            "it, or add engine='ray' to run on a cluster"
        ) from error
    return address


def _refuse_options(name: str, options: Mapping[str, object]) -> None:
    """Refuses options that only the program may set that starts a runtime."""
    refused = [
        option
        for option in sorted(OURS - {"address", "namespace"})
        if options.get(option) is not None
    ]
    if refused:
        raise InitError(
            f"init(address={name!r}) attaches this script to a runtime that has its "
            f"options already: leave out {', '.join(refused)}, or write it where that "
            "runtime is started"
        )
