"""Which calls have an object among their arguments; what cannot be asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from actorlib._owner.objects.stored_objects import MOST_NAMED, calls_with

if TYPE_CHECKING:
    from actorlib import Runtime


def test_calls_when_several_have_an_object_then_the_oldest_of_them_are_named() -> None:
    many = [(f"call {number}", [b"common"]) for number in range(MOST_NAMED + 1)]

    found = calls_with([("first", [b"a", b"b", b"a"]), ("second", [b"b"]), *many])

    assert found[b"a"] == ["first"]
    assert found[b"b"] == ["first", "second"]
    assert found[b"common"] == [f"call {number}" for number in range(MOST_NAMED)]


@pytest.mark.memory
@pytest.mark.asyncio(loop_scope="module")
async def test_objects_when_asked_in_vain_then_told_what_there_is(
    runtime: Runtime,
) -> None:
    assert runtime.objects() == []  # threads share nothing
    bad: Any = "name"
    with pytest.raises(ValueError, match="sort takes one of 'size', 'age'"):
        runtime.objects(sort=bad)
    with pytest.raises(ValueError, match="limit takes a number of rows >= 1"):
        runtime.objects(limit=0)
    with pytest.raises(TypeError, match="limit takes a number of rows, 1 or more"):
        runtime.objects(limit=bad)
