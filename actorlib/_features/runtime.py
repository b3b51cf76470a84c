"""The features of a runtime, in order, each imported when somebody asks for it.

Each function below attaches one feature, or finds it attached. A folder that is missing
is named to whoever asks for its feature; all else works without it.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from importlib import import_module
from typing import TYPE_CHECKING

from actorlib.exceptions import UnsupportedOptionError

if TYPE_CHECKING:
    from collections.abc import Generator

    from actorlib._core.engine import RuntimeEngine
    from actorlib._enforcement.tiers import Site, Tier
    from actorlib._features.logs.runtime import Logs
    from actorlib._features.memory_monitor.runtime import MemoryMonitor
    from actorlib._features.middleware.runtime import Observation
    from actorlib._features.recording.runtime import CallRecording
    from actorlib._options.runtime_options import RuntimeOptions
    from actorlib._queries.queries import Query
    from actorlib._queries.rows import Stacks


TIERS = {
    "frameworks": ("actorlib._features.frameworks.tier", "Frameworks"),
    "watchdog": ("actorlib._features.watchdog.tier", "Watchdog"),
    "mps": ("actorlib._features.mps.tier", "Mps"),
    "cgroup": ("actorlib._features.cgroups.tier", "Cgroups"),
}
"""The tiers by the words of ``enforcement=``, the weakest first: module and class."""


_MEMORY_THRESHOLD = "init(memory_threshold=...)"


def make_tiers(site: Site) -> list[Tier]:
    """Makes every tier that is listed; one that is not installed refuses whoever asks.

    Args:
        site: Where workers run.
    """
    return [_make_tier(word, *place, site) for word, place in TIERS.items()]


def _make_tier(word: str, module: str, name: str, site: Site) -> Tier:
    from actorlib._enforcement.tiers import AbsentTier

    try:
        tier: Tier = getattr(import_module(module), name)(site)
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("actorlib._features."):
            raise
        return AbsentTier(word, f"{module} is not installed", site)
    return tier


def attach(engine: RuntimeEngine, options: RuntimeOptions) -> None:
    """Attaches what a runtime has from its beginning, in order.

    Args:
        engine: The local engine, or the inline one.
        options: The options of the runtime.
    """
    with suppress(UnsupportedOptionError):  # it works without logs
        logs_of(engine, "logs").take_records(options)
    with suppress(UnsupportedOptionError):  # it works without a memory monitor
        memory_monitor_of(engine, _MEMORY_THRESHOLD).start(options.memory_threshold)
    for middleware in options.middleware:
        middlewares = middlewares_of(engine, "init(middleware=...)")
        middlewares.add(middleware, in_workers=True)


def check(options: RuntimeOptions, engine: str) -> None:
    """Makes sure that an engine has the features that options ask for.

    Args:
        options: The options of the runtime.
        engine: The word for the engine.

    Raises:
        UnsupportedOptionError: It does not, or this installation.
    """
    if options.memory_threshold is not None:
        with needed_for(_MEMORY_THRESHOLD):
            import_module("actorlib._features.memory_monitor.runtime")
    if options.middleware:
        verb = "init(middleware=...)"
        with needed_for(verb):
            from actorlib._features.middleware.runtime import Observation
        if engine == "ray":
            raise UnsupportedOptionError(f"{verb}: {Observation.on_ray}")


def middlewares_of(engine: RuntimeEngine, verb: str) -> Observation:
    """Returns what keeps the middlewares of a runtime.

    Args:
        engine: The engine of the runtime.
        verb: What the user has called.

    Raises:
        UnsupportedOptionError: The engine has no middlewares, or this installation.
    """
    with needed_for(verb):
        from actorlib._features.middleware.runtime import Observation
    return engine.attached(Observation, verb)


def recording_of(engine: RuntimeEngine, verb: str) -> CallRecording:
    """Returns what records the calls of a runtime; see ``middlewares_of``."""
    with needed_for(verb):
        from actorlib._features.recording.runtime import CallRecording
    return engine.attached(CallRecording, verb)


def logs_of(engine: RuntimeEngine, verb: str) -> Logs:
    """Returns the logs of a runtime; see ``middlewares_of``."""
    with needed_for(verb):
        from actorlib._features.logs.runtime import Logs
    return engine.attached(Logs, verb)


def memory_monitor_of(engine: RuntimeEngine, verb: str) -> MemoryMonitor:
    """Returns the memory monitor of a runtime; see ``middlewares_of``."""
    with needed_for(verb):
        from actorlib._features.memory_monitor.runtime import MemoryMonitor
    return engine.attached(MemoryMonitor, verb)


def worker_stacks(pid: int, title: str) -> Stacks:
    """Lists the threads and the tasks of a worker.

    Args:
        pid: The worker.
        title: What messages call it.

    Raises:
        RuntimeUnreachableError: It cannot be asked, or does not answer in time.
        UnsupportedOptionError: This installation cannot ask it.
    """
    with needed_for("the stack of a worker"):
        from actorlib._features.stacks import runtime
    return runtime.worker_stacks(pid, title)


def find_query(name: str) -> Query | None:
    """Finds what answers a query; None if there is none of that name.

    Raises:
        UnsupportedOptionError: This installation has not the feature that answers it.
    """
    with needed_for(f"actorlib {name}"):
        if name == "logs":
            from actorlib._features.logs.runtime import logs

            return logs
        if name == "metrics":
            from actorlib._features.middleware.runtime import metrics

            return metrics
        if name == "trace":
            from actorlib._features.recording.runtime_trace import trace

            return trace
    from actorlib._queries.answers import ANSWERS

    return ANSWERS.get(name)


@contextmanager
def needed_for(verb: str) -> Generator[None]:
    """Names what a user has asked for if a part of actorlib is missing for it.

    Args:
        verb: What the user has asked for.

    Raises:
        UnsupportedOptionError: A package that is imported inside the block is missing.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if not str(error.name).startswith("actorlib."):
            raise
        raise UnsupportedOptionError(
            f"{verb} needs {error.name}, which this installation of actorlib does not "
            "have"
        ) from error
