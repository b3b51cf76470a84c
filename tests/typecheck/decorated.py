"""The same for a decorated class, whose change of type mypy does not follow."""

from __future__ import annotations

from typing import assert_type

import actorlib
from actorlib import ActorHandle


@actorlib.remote(num_gpus=0.5)
class Echo:
    def __init__(self) -> None: ...
    @actorlib.method
    def echo(self, value: int) -> int:
        return value


async def use() -> None:
    handle = Echo.remote()
    assert_type(await handle, ActorHandle[Echo.__wrapped__])  # type: ignore  # noqa: PGH003
    assert_type(await actorlib.typed(handle).echo.remote(1), int)
    actorlib.typed(handle).echo.remote("1")  # rejected
    Echo.remote(1)  # rejected
    assert_type(handle.share.nbytes, int | None)
    assert_type(handle.share.devices[0].enforced_by, str)
    assert_type(await handle.suspend(timeout=1), None)
    assert_type(await handle.resume(), None)
