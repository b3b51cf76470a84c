"""The runtime that a script has: a thread with an event loop, begun and ended.

This is the one thing that the blocking API remembers besides the engine's slot: which
thread runs the loop. In an actor there is no such thread, and everything goes to the
actor's own engine.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar, cast

from actorlib import _runtime
from actorlib._base.stdio import fill_standard_streams
from actorlib._core.engine import current_engine, find_engine
from actorlib._features.runtime import recording_of
from actorlib._loops.loop_thread import ThreadedLoop, new_loop
from actorlib.exceptions import RuntimeNotStartedError, UnsupportedOptionError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from actorlib._core.engine import Engine, RuntimeEngine
    from actorlib._features.recording.runtime import CallRecording
    from actorlib._features.recording.trace_events import Event, Recorded
    from actorlib._options.runtime_options import RuntimeKeywords
    from actorlib._runtime import Runtime

T = TypeVar("T")

VARIABLE = "ACTORLIB_AUTO_INIT"
"""``0`` keeps a script from starting a runtime that it has not asked for."""
TIMELINE_VARIABLE = "ACTORLIB_TIMELINE"
"""``1`` has a script record what it does; a greater number says how much of it."""
KEPT = 100_000
_PATIENCE = 1.0
"""Seconds that workers have to send what they have recorded since the last time."""


_MULTIPROCESSING = "multiprocessing.process"
"""Looked at only if it is loaded: else this is no child of its."""


class _RuntimeThread:
    """A thread with an event loop, and the runtime on it."""

    def __init__(self) -> None:
        self.loop = cast("ThreadedLoop", new_loop(ThreadedLoop))
        self.runtime: Runtime
        self.recording_began: float | None = None
        self._begun = threading.Event()
        # A daemon: what waits for all other threads would wait for this one too, and
        # it is ended after that.
        self._thread = threading.Thread(target=self._run, name="actorlib", daemon=True)
        self._thread.start()
        self._begun.wait()

    def _run(self) -> None:
        loop = self.loop
        loop.begin()
        loop.call_soon(self._begun.set)
        try:
            loop.run_forever()
        finally:
            loop.run_until_complete(_end_tasks())
            loop.refusal = "this runtime was shut down"
            loop.close()

    def do(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Runs a coroutine on the loop and waits for it; cancels it if interrupted."""
        future = asyncio.run_coroutine_threadsafe(work(), self.loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def end(self) -> None:
        """Stops the loop and waits for the thread."""
        with suppress(RuntimeError):  # it has ended
            self.loop.post(self.loop.stop)
        self._thread.join()


class ScriptRuntime:
    """Starts and ends the runtime of this process, for scripts."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._home: _RuntimeThread | None = None
        self._is_fork = False

    @property
    def has_started(self) -> bool:
        """Whether the runtime of this process is its own."""
        return self._home is not None

    def engine(self) -> Engine:
        """Returns the current engine; starts a runtime if there is none.

        Raises:
            RuntimeNotStartedError: None runs, and none may be started unasked.
        """
        engine = find_engine()
        if engine is not None:
            return engine
        with self._lock:
            if find_engine() is None:
                self._refuse_unasked()
                self.start({})
        return cast("Engine", find_engine())

    def running(self) -> Engine:
        """Returns the current engine, in a script, an actor or a function.

        Raises:
            RuntimeNotStartedError: There is none.
        """
        engine = find_engine()
        if engine is None:
            raise RuntimeNotStartedError(_why_not())
        return engine

    def start(self, options: RuntimeKeywords) -> None:
        """Starts a runtime in a thread of its own.

        Raises:
            RuntimeError: One is running.
            ValueError: ``ACTORLIB_TIMELINE`` is not a number.
        """
        _refuse_import_of_main()
        kept = kept_events()
        self._begin(_runtime.init(**options))
        home = self._home
        if kept and home is not None:
            with suppress(UnsupportedOptionError):  # Ray's calls are not recorded
                home.recording_began = home.loop.call(_recording_here().begin, kept)

    def attach(self, name: str, namespace: str | None) -> None:
        """Makes this process a client of another runtime, in a thread of its own.

        Args:
            name: The name of that runtime.
            namespace: Where names of actors are looked for; None for where it looks.

        Raises:
            RuntimeError: One is running here.
            RuntimeNotFoundError: There is no such runtime.
            RuntimeUnreachableError: It does not answer, or lets nobody in.
        """
        _refuse_import_of_main()
        self._begin(_runtime.attach(name, namespace=namespace))

    def _begin(self, runtime: Runtime) -> None:
        fill_standard_streams()
        with self._lock:
            home = _RuntimeThread()
            try:
                home.do(runtime.__aenter__)
            except BaseException:
                home.end()
                raise
            home.runtime = runtime
            self._home = home
            if "ray" in sys.modules:
                # Its import has registered the end of the cluster, and handlers run in
                # reverse order: the runtime would end without its cluster.
                atexit.unregister(self.end)
                atexit.register(self.end)
        _runtime.watch_notebook()  # the cell that runs now is this thread's

    def end(self) -> None:
        """Ends the runtime and everything in it; harmless if there is none.

        Raises:
            RuntimeError: This is the loop's own thread, which it ends with.
        """
        home = self._home
        if home is not None and home.loop.is_here():
            raise RuntimeError(
                "shutdown() is for the script's own threads: this code runs on the "
                "runtime's, for example where a value is loaded"
            )
        with self._lock:
            home, self._home = self._home, None
            if home is None:
                return
            try:
                home.do(home.runtime.shutdown)
            finally:
                home.end()

    def read(self, what: Callable[[Runtime], T]) -> T:
        """Calls a function with the runtime, on its thread.

        Raises:
            RuntimeNotStartedError: None runs, or it is not this process that has it.
        """
        home = self._running_home()
        return home.loop.call(what, home.runtime)

    def recorded(self) -> tuple[float, list[Event]] | None:
        """Gives what the script has done so far; None if that is not recorded.

        Returns:
            When the record begins, by the monotonic clock, and the trace events.

        Raises:
            RuntimeNotStartedError: None runs, or it is not this process that has it.
        """
        home = self._running_home()
        began = home.recording_began
        if began is None:
            return None

        async def ask() -> Callable[[], Recorded]:
            return await _recording_here().end(began, _PATIENCE, goes_on=True)

        from actorlib._features.recording.trace_events import events  # noqa: PLC0415  # few ask

        recorded = home.do(ask)()
        return recorded.began, events(recorded)

    def _running_home(self) -> _RuntimeThread:
        home = self._home
        if home is None or find_engine() is None:
            raise RuntimeNotStartedError(_why_not())
        return home

    def forget(self) -> None:
        """Forgets the runtime, in a forked child: it is the parent's."""
        self._lock = threading.RLock()
        self._home = None
        self._is_fork = True

    def _refuse_unasked(self) -> None:
        if self._is_fork:
            raise RuntimeNotStartedError(
                "this process is a fork of one that uses actors, and starts no runtime "
                "unasked: call init() here if it is to have one of its own, or make "
                "it an actor"
            )
        _refuse_import_of_main()
        multiprocessing = sys.modules.get(_MULTIPROCESSING)
        if multiprocessing is not None and multiprocessing.parent_process() is not None:
            raise RuntimeNotStartedError(
                "this process was started by multiprocessing, and starts no runtime "
                "unasked: call init() here if it is to have one of its own, or use "
                "actors or remote functions in its parent instead of processes"
            )
        if os.environ.get(VARIABLE) == "0":
            raise RuntimeNotStartedError(
                f"no runtime is running, and {VARIABLE}=0 lets none start by itself: "
                "call init() first"
            )


def kept_events() -> int:
    """Gives how many of the newest calls a script records; 0 for none.

    Raises:
        ValueError: The variable is not a number.
    """
    value = os.environ.get(TIMELINE_VARIABLE) or "0"
    if not value.isdecimal():
        raise ValueError(
            f"{TIMELINE_VARIABLE} takes 1, or how many of the newest events are kept, "
            f"not {value!r}"
        )
    return KEPT if value == "1" else int(value)


def _recording_here() -> CallRecording:
    return recording_of(cast("RuntimeEngine", current_engine()), "timeline()")


async def _end_tasks() -> None:
    """Cancels the tasks that an interrupted start or end has left."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    with suppress(RuntimeError):  # the interpreter is going down, and starts no thread
        await asyncio.get_running_loop().shutdown_default_executor()


def _refuse_import_of_main() -> None:
    """Refuses to run a script once more where multiprocessing imports it.

    Raises:
        RuntimeNotStartedError: It does.
    """
    multiprocessing = sys.modules.get(_MULTIPROCESSING)
    if multiprocessing is None:
        return
    # How multiprocessing itself knows; its parent_process() is not there yet.
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise RuntimeNotStartedError(
            "multiprocessing imports the script in its child, which would run all of "
            "it once more: put what the script does under if __name__ == '__main__':"
        )


def _why_not() -> str:
    if find_engine() is None:
        return "no runtime is running in this process: call init() first"
    return (
        "only the script that has called init() knows the state of the runtime, and "
        "this is an actor's or a function's code: ask there, and pass it on"
    )


SCRIPT = ScriptRuntime()
atexit.register(SCRIPT.end)
os.register_at_fork(after_in_child=SCRIPT.forget)
