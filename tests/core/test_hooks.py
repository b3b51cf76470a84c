"""Which methods begin and end an actor's life, and what cannot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import actorlib
from actorlib._options.hooks import Hooks, hooks_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class Marked:
    @actorlib.setup
    def load(self) -> None: ...

    @actorlib.close
    async def flush(self) -> None: ...

    def setup(self, rank: int) -> None: ...


class Overriding(Marked):
    def load(self) -> None: ...


class Managed:
    async def __aenter__(self) -> None: ...

    async def __aexit__(self, *_: object) -> None: ...


class MarkedToo(Managed):
    @actorlib.close
    def flush(self) -> None: ...


@pytest.mark.parametrize(
    ("cls", "found"),
    [
        (object, Hooks()),
        (Marked, Hooks("load", "flush")),
        (Overriding, Hooks("load", "flush")),
        (Managed, Hooks("__aenter__", "__aexit__", are_context=True)),
        (MarkedToo, Hooks(None, "flush")),
    ],
)
def test_hooks_when_looked_for_then_by_their_marks(cls: type, found: Hooks) -> None:
    assert hooks_of(cls) == found


def test_hooks_when_two_are_of_a_kind_then_refused_where_the_class_is_decorated() -> (
    None
):
    with pytest.raises(ValueError, match=r"@setup, load\(\) and prepare\(\): mark one"):

        @actorlib.remote
        class Twice(Marked):
            @actorlib.setup
            def prepare(self) -> None: ...


def test_hooks_when_one_takes_arguments_then_refused_where_it_is_decorated() -> None:
    with pytest.raises(TypeError, match=r"Asking\.load is marked with @setup, which"):

        @actorlib.remote
        class Asking:
            @actorlib.setup
            def load(self, path: str) -> None: ...


async def items(_: object) -> AsyncIterator[int]:
    yield 1


@pytest.mark.parametrize("marked", [Marked, 3, items])
def test_hooks_when_it_is_no_method_that_returns_then_refused(marked: Any) -> None:
    with pytest.raises(TypeError, match="@close marks a method"):
        actorlib.close(marked)
