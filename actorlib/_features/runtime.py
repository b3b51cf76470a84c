"""The features of a runtime, each imported on its first use.

Each function below attaches one feature, or returns it if it is attached. If the folder
of a feature is missing, a request for the feature fails with an error that names the
folder. Everything else works without it.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

from actorlib.exceptions import UnsupportedOptionError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator, Mapping

    from actorlib._core.engine import RuntimeEngine
    from actorlib._enforcement.tiers import Site, Tier
    from actorlib._features.logs.runtime import Logs
    from actorlib._features.memory_monitor.runtime import MemoryMonitor
    from actorlib._features.middleware.runtime import Observation
    from actorlib._features.recording.runtime import CallRecording
    from actorlib._features.recording.trace_events import Event, Recorded
    from actorlib._options.runtime_options import RuntimeOptions
    from actorlib._queries.queries import Query
    from actorlib._queries.rows import Stacks

    ReadTimeline = Callable[[], Coroutine[Any, Any, tuple[float, list[Event]]]]
    """Returns when a record began, by the monotonic clock, and its trace events."""

TIERS = {
    "frameworks": ("actorlib._features.frameworks.tier", "Frameworks"),
    "watchdog": ("actorlib._features.watchdog.tier", "Watchdog"),
    "mps": ("actorlib._features.mps.tier", "Mps"),
    "cgroup": ("actorlib._features.cgroup.tier", "Cgroups"),
}
"""The tiers by the values of ``enforcement=``, the weakest first: module and class."""


_MEMORY_THRESHOLD = "init(memory_threshold=...)"


def make_tiers(site: Site) -> list[Tier]:
    """Makes all tiers. A tier that is not installed refuses the requests for it."""
    from actorlib._enforcement.tiers import AbsentTier

    tiers: list[Tier] = []
    for word, (module, name) in TIERS.items():
        try:
            with explain_missing(f"enforcement={word!r}"):
                tiers.append(getattr(import_module(module), name)(site))
        except UnsupportedOptionError as error:
            tiers.append(AbsentTier(word, str(error), site))
    return tiers


def attach(engine: RuntimeEngine, options: RuntimeOptions) -> None:
    """Attaches the features that a runtime has from its start; not for Ray's engine."""
    with suppress(UnsupportedOptionError):  # it works without logs
        logs_of(engine, "logs").receive_records(options)
    with suppress(UnsupportedOptionError):  # it works without a memory monitor
        memory_monitor_of(engine, _MEMORY_THRESHOLD).start(options.memory_threshold)
    for middleware in options.middleware:
        middlewares = middlewares_of(engine, "init(middleware=...)")
        middlewares.add(middleware, in_workers=True)


def check(options: RuntimeOptions, engine: str) -> None:
    """Checks that an engine has the features that options ask for.

    Raises:
        UnsupportedOptionError: The engine or this installation lacks one.
    """
    if options.memory_threshold is not None:
        with explain_missing(_MEMORY_THRESHOLD):
            import_module("actorlib._features.memory_monitor.runtime")
    if options.middleware:
        call = "init(middleware=...)"
        with explain_missing(call):
            from actorlib._features.middleware.runtime import Observation
        if engine == "ray":
            raise UnsupportedOptionError(f"{call}: {Observation.on_ray}")


def middlewares_of(engine: RuntimeEngine, call: str) -> Observation:
    """Returns the middlewares of a runtime.

    Args:
        engine: The engine of the runtime.
        call: The user's call that needs them, for messages.

    Raises:
        UnsupportedOptionError: The engine or this installation has no middlewares.
    """
    with explain_missing(call):
        from actorlib._features.middleware.runtime import Observation
    return engine.attached(Observation, call)


def recording_of(engine: RuntimeEngine, call: str) -> CallRecording:
    """Returns the call recording of a runtime, like ``middlewares_of``."""
    with explain_missing(call):
        from actorlib._features.recording.runtime import CallRecording
    return engine.attached(CallRecording, call)


def begin_timeline(engine: RuntimeEngine, kept: int) -> ReadTimeline:
    """Records the calls of a script from now on, like ``middlewares_of``.

    Args:
        engine: The engine of the runtime.
        kept: The most calls, and the most runs, that are kept.

    Returns:
        A function that reads the record, on the loop of the runtime.
    """
    with explain_missing("timeline()"):
        from actorlib._features.recording.runtime_trace import Timeline
    return Timeline(recording_of(engine, "timeline()"), kept).read


def trace_reader() -> Callable[[Mapping[str, Any]], Recorded]:
    """Returns the function that decodes the answer to the query ``trace``.

    Raises:
        UnsupportedOptionError: This installation lacks the feature.
    """
    with explain_missing("actorlib trace"):
        from actorlib._features.recording.trace_events import Recorded
    return Recorded.from_plain


def logs_of(engine: RuntimeEngine, call: str) -> Logs:
    """Returns the logs of a runtime, like ``middlewares_of``."""
    with explain_missing(call):
        from actorlib._features.logs.runtime import Logs
    return engine.attached(Logs, call)


def memory_monitor_of(engine: RuntimeEngine, call: str) -> MemoryMonitor:
    """Returns the memory monitor of a runtime, like ``middlewares_of``."""
    with explain_missing(call):
        from actorlib._features.memory_monitor.runtime import MemoryMonitor
    return engine.attached(MemoryMonitor, call)


def worker_stacks(pid: int, title: str) -> Stacks:
    """Lists the threads and the tasks of a worker.

    Raises:
        RuntimeUnreachableError: The worker is unreachable, or does not answer in time.
        UnsupportedOptionError: This installation lacks the feature.
    """
    with explain_missing("the stack of a worker"):
        from actorlib._features.stacks import runtime
    return runtime.worker_stacks(pid, title)


def find_query(name: str) -> Query | None:
    """Returns the function that answers a query; None for an unknown name.

    Raises:
        UnsupportedOptionError: This installation lacks the feature that answers it.
    """
    with explain_missing(f"actorlib {name}"):
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
def explain_missing(request: str) -> Generator[None]:
    """Translates the failed import of a part of actorlib into an error for the user.

    Args:
        request: What the user has requested, for the message.

    Raises:
        UnsupportedOptionError: A module of actorlib that the block imports is missing.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if not str(error.name).startswith("actorlib."):
            raise
        raise UnsupportedOptionError(
            f"{request} needs {error.name}, which this installation of actorlib does "
            "not have"
        ) from error
