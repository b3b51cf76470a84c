"""The runtime of a script, in a thread with an event loop.

That thread is the only state of the blocking API besides the slot of the engine. In an
actor there is no such thread, and everything uses the actor's own engine.
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
from actorlib._features.runtime import begin_timeline
from actorlib._loops.loop_thread import ThreadedLoop, new_loop
from actorlib.exceptions import (
    RuntimeNotStartedError,
    TemplateError,
    UnsupportedOptionError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from actorlib._core.engine import Engine, RuntimeEngine
    from actorlib._features.runtime import ReadTimeline
    from actorlib._options.runtime_options import RuntimeKeywords
    from actorlib._runtime import Runtime

T = TypeVar("T")

VARIABLE = "ACTORLIB_AUTO_INIT"
"""``0`` disables starting a runtime without ``init()``."""
TIMELINE_VARIABLE = "ACTORLIB_TIMELINE"
"""``1`` records the calls of a script; a greater number is the size of the record."""
KEPT = 100_000

_MULTIPROCESSING = "multiprocessing.process"
"""Checked only if it is imported: otherwise this is not a child of multiprocessing."""


class _RuntimeThread:
    """A thread with an event loop, and the runtime on it."""

    def __init__(self) -> None:
        self.loop = cast("ThreadedLoop", new_loop(ThreadedLoop))
        self.runtime: Runtime
        self.read_timeline: ReadTimeline | None = None
        self._begun = threading.Event()
        # A daemon: the interpreter waits for other threads before the handler that ends
        # this one.
        self._thread = threading.Thread(target=self._run, name="actorlib", daemon=True)
        try:
            self._thread.start()
        except RuntimeError as error:
            from actorlib._base.start_errors import explain_start_error  # noqa: PLC0415  # rarely needed

            message = f"the runtime cannot start: {explain_start_error(error)}"
            raise TemplateError(message) from error
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
        return self._home is not None

    def engine(self) -> Engine:
        """Returns the current engine; starts a runtime if there is none."""
        engine = find_engine()
        if engine is not None:
            return engine
        with self._lock:
            if find_engine() is None:
                self._refuse_unasked()
                self.start({})
        return cast("Engine", find_engine())

    def running(self) -> Engine:
        """Returns the current engine, in a script, an actor or a function."""
        engine = find_engine()
        if engine is None:
            raise RuntimeNotStartedError(_no_runtime())
        return engine

    def start(self, options: RuntimeKeywords) -> None:
        """Starts a runtime in a separate thread."""
        _refuse_import_of_main()
        count = kept_events()
        self._begin(_runtime.init(**options))
        home = self._home
        if count and home is not None:
            with suppress(UnsupportedOptionError):  # Ray's calls are not recorded
                engine = cast("RuntimeEngine", current_engine())
                home.read_timeline = home.loop.call(begin_timeline, engine, count)

    def attach(self, name: str, namespace: str | None) -> None:
        """Attaches this process to another runtime, in a separate thread."""
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
                # Handlers run in reverse order, and the import of Ray has registered
                # one that ends the cluster: the runtime has to end before.
                atexit.unregister(self.end)
                atexit.register(self.end)
        _runtime.watch_notebook()  # this thread runs the current cell

    def end(self) -> None:
        """Ends the runtime and everything in it; does nothing if there is none."""
        home = self._home
        if home is not None and home.loop.is_here():
            raise RuntimeError(
                "shutdown() is for the threads of the script: this code runs on that "
                "of the runtime, for example because a value is loaded"
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
        """Calls a function with the runtime, on its thread."""
        home = self._running_home()
        return home.loop.call(what, home.runtime)

    def recorded(self) -> tuple[float, list[dict[str, Any]]] | None:
        """Returns the record of the script until now, or None.

        The time is that of the monotonic clock. None if nothing is recorded.
        """
        home = self._running_home()
        return None if home.read_timeline is None else home.do(home.read_timeline)

    def _running_home(self) -> _RuntimeThread:
        home = self._home
        if home is None or find_engine() is None:
            raise RuntimeNotStartedError(_no_runtime())
        return home

    def forget(self) -> None:
        """Forgets the runtime of the parent, in a forked child."""
        self._lock = threading.RLock()
        self._home = None
        self._is_fork = True

    def _refuse_unasked(self) -> None:
        if self._is_fork:
            raise RuntimeNotStartedError(
                "this process is a fork of one that uses actors, and needs init() to "
                "start a runtime: call it here if this process needs its own one, or "
                "make it an actor"
            )
        _refuse_import_of_main()
        multiprocessing = sys.modules.get(_MULTIPROCESSING)
        if multiprocessing is not None and multiprocessing.parent_process() is not None:
            raise RuntimeNotStartedError(
                "this process was started by multiprocessing, and needs init() to "
                "start a runtime: call it here if this process needs its own one, or "
                "use actors or remote functions in its parent instead of processes"
            )
        if os.environ.get(VARIABLE) == "0":
            raise RuntimeNotStartedError(
                f"no runtime is running, and {VARIABLE}=0 disables the start at first "
                "use: call init() first"
            )


def kept_events() -> int:
    """Returns how many of the newest calls a script records; 0 for none."""
    value = os.environ.get(TIMELINE_VARIABLE) or "0"
    if not value.isdecimal():
        raise ValueError(
            f"{TIMELINE_VARIABLE} takes 1, or the number of the newest events to keep, "
            f"not {value!r}"
        )
    return KEPT if value == "1" else int(value)


async def _end_tasks() -> None:
    """Cancels the tasks of an interrupted start or end."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    with suppress(RuntimeError):  # the interpreter is ending, and starts no thread
        await asyncio.get_running_loop().shutdown_default_executor()


def _refuse_import_of_main() -> None:
    """Refuses a start while multiprocessing imports the script in its child."""
    multiprocessing = sys.modules.get(_MULTIPROCESSING)
    if multiprocessing is None:
        return
    # multiprocessing's own check; parent_process() does not work yet.
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise RuntimeNotStartedError(
            "multiprocessing imports the script in its child, which would run all of "
            "it again: put the code of the script under if __name__ == '__main__':"
        )


def _no_runtime() -> str:
    if find_engine() is None:
        return "no runtime is running in this process: call init() first"
    return (
        "only the script that has called init() can read the state of the runtime, "
        "and this code runs in an actor or a function: read it there, and pass it on"
    )


SCRIPT = ScriptRuntime()
atexit.register(SCRIPT.end)
os.register_at_fork(after_in_child=SCRIPT.forget)
