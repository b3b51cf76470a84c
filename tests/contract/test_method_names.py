"""Methods that have the name of an attribute of the object."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import pytest

import actorlib

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from helpers.callees import Callee
    from helpers.callers import Api

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="module")]


class Shadowed:
    """Has attributes with the names of its methods."""

    def __init__(self) -> None:
        for name in ("value", "later", "items", "items_later", "cls", "static"):
            setattr(self, name, 7)
        vars(self).update(partial=None, __call__=None)
        self.replaced = lambda: "of the object"

    def value(self) -> tuple[str, Any]:
        return "value", vars(self)["value"]

    async def later(self) -> str:
        return "later"

    def items(self) -> Iterator[str]:
        yield "items"

    async def items_later(self) -> AsyncIterator[str]:
        yield "items"

    @classmethod
    def cls(cls) -> str:
        return cls.__name__

    @staticmethod
    def static(*, wanted: str = "static") -> str:
        return wanted

    partial = functools.partialmethod(static, wanted="partial")

    def __call__(self) -> str:
        return "call"

    def replaced(self) -> str:
        return "of the class"


class ShadowedPlain(Shadowed):
    """The same without a loop."""

    later = items_later = None  # type: ignore[assignment]

    @actorlib.setup
    def begin(self) -> None:
        assert self.begin == 0

    def __new__(cls) -> Any:
        made = super().__new__(cls)
        made.begin = 0  # type: ignore[method-assign]
        return made


@pytest.mark.parametrize(
    "callee", ["plain", "threaded", "async", "group"], indirect=True
)
async def test_method_when_an_attribute_has_its_name_then_the_method_is_called(
    api: Api, callee: Callee, engine: str
) -> None:
    cls = Shadowed if callee.is_async else ShadowedPlain
    actor = callee.new_actor(cls)
    expected: dict[str, Any] = {
        "value": ("value", 7),
        "cls": cls.__name__,
        "static": "static",
        "partial": "partial",
        "__call__": "call",
        "replaced": "of the object",
    }
    if callee.is_async:
        expected["later"] = "later"

    for name, value in expected.items():
        assert await api.get(callee.method_of(actor, name).remote()) == value
    assert await api.get(actor.static.remote(wanted="given")) == "given"
    if engine != "client":  # it has no streams
        names = ["items", "items_later"] if callee.is_async else ["items"]
        for name in names:
            method = callee.method_of(actor, name, num_returns=1)
            assert await api.get(method.remote()) == "items"
