"""A loop for refs where none runs, as in plain methods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable


def unlooped(error: Callable[[dict[str, Any]], None]) -> asyncio.AbstractEventLoop:
    """What a ref takes for its loop where none runs: callbacks run at once.

    Args:
        error: Gets the report of a failure that nobody looked at.
    """
    return cast("asyncio.AbstractEventLoop", _Unlooped(error))


class _Unlooped:
    def __init__(self, error: Callable[[dict[str, Any]], None]) -> None:
        self.call_exception_handler = error

    def get_debug(self) -> bool:
        return False

    def call_soon(
        self, callback: Callable[..., object], *args: object, context: object = None
    ) -> None:
        del context
        try:
            callback(*args)
        except Exception as error:  # noqa: BLE001  # what a loop does with it
            report = {"message": f"{callback!r} failed", "exception": error}
            self.call_exception_handler(report)
