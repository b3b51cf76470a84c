"""Decorated classes as arguments, and results of unknown type.

It is read by checkers and never run. Each of them accepts every line, mypy also without
its plugin, to which a decorated class is the plain class.
"""

from __future__ import annotations

from typing import Any, assert_type

import actorlib
from actorlib import ActorHandle, ObjectRef, Replicas
from actorlib.blocking.util import state


@actorlib.remote(num_gpus=0.5)
class Echo:
    def __init__(self) -> None: ...
    @actorlib.method
    def echo(self, value: int) -> int:
        return value


class Source:
    def items(self, number: int) -> Any:
        yield number


async def use(handle: ActorHandle[Source], runtime: actorlib.Runtime) -> None:
    replicas = Replicas(Echo, 2, health="echo")
    assert_type(actorlib.typed(replicas).echo.remote(1), ObjectRef[int])
    await replicas.replace(Echo)
    assert_type(actorlib.get_actor("a", Echo).echo.remote(1), ObjectRef[int])
    assert_type(runtime.explain(Echo), str)
    assert_type(state.explain(Echo), str)

    async for ref in handle.items.options(backpressure=1).remote(3):
        assert_type(await ref, Any)
    stream = handle.items.remote(3)
    assert_type(await stream.completed(), int)
    stream.cancel()
    first, second = handle.items.options(num_returns=2).remote(3)
    assert_type((await first, await second), tuple[Any, Any])
    result: ObjectRef[int] = handle.items.remote(3)
    del result
