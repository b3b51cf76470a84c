"""Starting and ending the runtime of a script."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Self

from actorlib._core.engine import current_engine, find_engine
from actorlib._core.public import public
from actorlib.blocking._options import wanted
from actorlib.blocking._session import SESSION

if TYPE_CHECKING:
    from types import TracebackType


_log = logging.getLogger("actorlib")


@public("actorlib.blocking")
class Context:
    """What ``init()`` gives: ``with init():`` ends the runtime with the block."""

    dashboard_url = ""

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Ends the runtime."""
        SESSION.end()

    def disconnect(self) -> None:
        """Ends the runtime."""
        SESSION.end()

    @property
    def address_info(self) -> dict[str, str]:
        """Where it runs: here."""
        return {"address": "local", "node_id": current_engine().context.node_id}

    def __getitem__(self, name: str) -> str:
        return self.address_info[name]

    def __repr__(self) -> str:
        return "<Context of a runtime>"


@public("actorlib.blocking")
def init(address: str | None = None, **options: Any) -> Context:
    """Starts the runtime, in a thread of its own; see ``actorlib.init``.

    It need not be called: what needs a runtime starts one. It ends with ``shutdown()``,
    or with the script, however that ends.

    Args:
        address: None or ``"local"``: the runtime is always this machine's.
        **options: What ``actorlib.init`` takes, and Ray's ``ignore_reinit_error`` and
            ``logging_level``. What of Ray's is about its dashboard, its logs or its own
            processes is noted in the log and does nothing.

    Returns:
        To be left alone, or to be used in ``with``.

    Raises:
        InitError: An option is unknown, or asks for what there is not. It is a
            ValueError and a RuntimeError.
        RuntimeError: A runtime is running, and ``ignore_reinit_error`` is not set.
        TypeError: A value has the wrong type.
        ValueError: A value is out of range.
        TemplateError: No worker can be started.
    """
    told = wanted({**options, "address": address})
    if find_engine() is not None:
        if told.ignores_second:
            return Context()
        end = (
            "call shutdown() before init()"
            if SESSION.has_started
            else "'await actorlib.shutdown()' ends it where actorlib.init() started it"
        )
        raise RuntimeError(
            f"a runtime is running in this process already: {end}, or write "
            "init(ignore_reinit_error=True) to go on with the one there is"
        )
    if told.logging_level is not None:
        _log.setLevel(told.logging_level)
    if told.noted:
        _log.warning(
            "init(): there is nothing here that %s would change", ", ".join(told.noted)
        )
    SESSION.start(told.options)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # checked where they are used
    return Context()


@public("actorlib.blocking")
def shutdown(wait_for_processes: bool = True) -> None:  # noqa: FBT001, FBT002  # as Ray's users write it
    """Ends the runtime, and every process of it; harmless if there is none.

    What is used afterwards starts a new one.

    Args:
        wait_for_processes: It always does; taken so that scripts may say so.
    """
    del wait_for_processes
    SESSION.end()


@public("actorlib.blocking")
def is_initialized() -> bool:
    """Whether a runtime is running: the script's own, or an actor's."""
    return find_engine() is not None
