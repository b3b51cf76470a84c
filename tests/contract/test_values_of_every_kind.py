"""Values of every kind and size, which are equal where they arrive: both directions."""

from __future__ import annotations

import dataclasses
import enum
import math
import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from helpers.actors import Echo, Keeper
from helpers.callers import all_items

import actorlib
from actorlib.exceptions import UnsupportedOptionError

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from helpers.callees import Callee
    from helpers.callers import Api

pytestmark = [
    pytest.mark.process,
    pytest.mark.asyncio(loop_scope="module"),
    # Ray's client says so when large values have been sent.
    pytest.mark.filterwarnings("ignore:More than 10MB of messages"),
]

KINDS = pytest.mark.parametrize("callee", ["function", "plain", "async"], indirect=True)

LARGE = 256 * 1024
"""Bytes from which a value goes through shared memory, where there is any."""

# Scalars, which are encoded differently if a call has nothing else.


class Whole(int):
    """A subclass, which is not encoded as a scalar."""


class Letter(enum.IntEnum):
    """Another one."""

    A = 1


SCALARS: list[Any] = [
    *(None, True, False, 0, 1, -1, 127, 128, 255, 256),
    *(2**63 - 1, 2**63, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1, 10**30),
    *(0.0, -0.0, 0.1, 5e-324, math.inf, -math.inf, math.nan),
    *("", "a", "\0", "x" * 256, "x" * 257, "\u00e4", "\ud800", "x" * 70_000),
    *(b"", b"x", Whole(3), Letter.A, [1], {"a": 1}, (1, 2)),
]


def shape(value: Any) -> tuple[str, str]:
    return type(value).__name__, repr(value)


def shapes(values: Any) -> list[tuple[str, str]]:
    return [shape(value) for value in values]


def shapes_of_all(*values: Any) -> list[tuple[str, str]]:
    return shapes(values)


def call_with(first: Any, values: list[Any]) -> Generator[Any, Any, Any]:
    return (yield [first.remote(value) for value in values])


async def test_scalar_when_it_is_an_argument_or_a_result_then_it_is_the_same(
    api: Api, callee: Callee
) -> None:
    method = callee.method("first", name="first")

    alone = await api.get([callee.first(value) for value in SCALARS])
    beside_others = await api.get([callee.first(value, []) for value in SCALARS])
    with_an_option = await api.get([method.remote(value) for value in SCALARS])
    together = await api.get(callee.all(*SCALARS))
    there = await api.get(callee.run(shapes_of_all, *SCALARS))

    expected = shapes(SCALARS)
    assert shapes(alone) == shapes(beside_others) == expected
    assert shapes(with_an_option) == shapes(together) == there == expected


@KINDS
async def test_scalar_when_a_callee_calls_then_it_is_the_same(
    api: Api, callee: Callee
) -> None:
    other = callee.new()
    values = await api.get(callee.run(call_with, other.method("first"), SCALARS))

    assert shapes(values) == shapes(SCALARS)


async def test_scalars_when_they_are_mixed_with_others_then_each_call_has_its_own(
    api: Api, callee: Callee
) -> None:
    chance = random.Random(7)  # nothing secret
    calls = [chance.choices(SCALARS, k=chance.randrange(20)) for _ in range(60)]
    calls.append([1] * 5000)
    refs = [callee.all(*args) for args in calls]
    first_refs = [callee.first(*args) for args in calls]

    assert [*map(shapes, await api.get(refs))] == [*map(shapes, calls)]
    firsts = [args[0] if args else None for args in calls]
    assert shapes(await api.get(first_refs)) == shapes(firsts)


async def test_scalar_when_it_is_behind_a_ref_then_it_is_the_same(
    api: Api, callee: Callee
) -> None:
    results = [callee.first(value) for value in SCALARS]
    pending = [callee.all(1, ref, "x", ref) for ref in results]
    beside_others = [callee.all(1, ref, "x", ref, []) for ref in results]
    await api.get(results)
    method = callee.method("all", name="n")
    done = [callee.all(1, ref, "x", ref) for ref in results]
    done_named = [method.remote(1, ref, "x", ref) for ref in results]

    cases: list[Any] = [
        (pending, []),
        (done, []),
        (done_named, []),
        (beside_others, [[]]),
    ]
    for refs, others in cases:
        for value, args in zip(SCALARS, await api.get(refs), strict=True):
            assert shapes(args) == shapes([1, value, "x", value, *others])


# Bytes, text and containers of every size.


@KINDS
async def test_bytes_and_text_when_of_any_size_then_they_are_equal(
    api: Api, callee: Callee
) -> None:
    values: list[Any] = []
    for size in (0, 1, 65_535, 65_536, 65_537, 200_000):
        data = (bytes(range(251)) * 797)[:size]
        values += [data, "\u00e9" * size, [data], {"k": data}, (data, data)]

    for value, back in zip(
        values, await api.get([callee.first(value) for value in values]), strict=True
    ):
        assert type(back) is type(value)
        assert back == value


def squared(nbytes: int) -> np.ndarray[Any, Any]:
    return np.arange(nbytes, dtype=np.uint8) ** 2


@pytest.mark.parametrize(
    "sizes",
    [[4096, LARGE - 200, LARGE - 1, LARGE, LARGE + 1], [3 * (1 << 20) + 3]],
    ids=["around", "above"],
)
@KINDS
async def test_large_value_when_around_the_threshold_then_it_is_equal(
    api: Api, callee: Callee, sizes: list[int]
) -> None:
    for nbytes in sizes:
        array = np.arange(nbytes, dtype=np.uint8)
        data = array.tobytes()
        back, result, copy = await api.get(
            [callee.first(array), callee.run(squared, nbytes), callee.first(data)]
        )

        assert np.array_equal(back, array)
        assert back.dtype == array.dtype
        assert np.array_equal(result, array**2)
        assert type(copy) is bytes
        assert copy == data


@KINDS
async def test_bytearray_and_memoryview_when_of_any_size_then_they_keep_their_class(
    api: Api,
    callee: Callee,
    request: pytest.FixtureRequest,
    is_on_ray: bool,  # noqa: FBT001  # a fixture
) -> None:
    if is_on_ray:
        reason = "Ray sends a bytearray and a memoryview as bytes"
        request.applymarker(pytest.mark.xfail(strict=True, reason=reason))
    for size in (0, 1, 65_536, 200_000, LARGE - 1, LARGE, LARGE + 1):
        data = (bytes(range(251)) * 1045)[:size]
        array, view, inside = await api.get(
            [
                callee.first(bytearray(data)),
                callee.first(memoryview(data)),
                callee.first({"k": (bytearray(data), "text")}),
            ]
        )

        assert (type(array), type(view)) == (bytearray, memoryview)
        assert type(inside["k"][0]) is bytearray
        assert array == data == view == inside["k"][0]


@KINDS
async def test_large_values_when_they_go_both_ways_at_once_then_all_arrive(
    api: Api, callee: Callee
) -> None:
    values = [bytes([number]) * 1_500_000 for number in range(8)]
    refs = [callee.first(value) for value in values]
    answers = [callee.run(bytes, 500_000) for _ in range(20)]

    assert await api.get(refs) == values
    assert {len(answer) for answer in await api.get(answers)} == {500_000}


# Arrays.


def arrays() -> list[Any]:
    return [
        np.arange(0),
        np.arange(10),
        np.arange(300_000, dtype=np.float32).reshape(3, -1),
        np.asfortranarray(np.arange(90_000.0).reshape(300, 300)),
        np.arange(200_000)[::3],
        np.array(["a", None, 1], dtype=object),
        np.float64(3.5),
        np.ma.masked_array(np.arange(50_000), mask=np.arange(50_000) % 2 == 1),
        np.arange(50_000).view(np.recarray),
    ]


@KINDS
async def test_array_when_of_any_layout_then_it_is_equal(
    api: Api, callee: Callee
) -> None:
    values = arrays()

    for value, back in zip(
        values, await api.get([callee.first(value) for value in values]), strict=True
    ):
        assert type(back) is type(value)
        assert (back.dtype, back.shape) == (value.dtype, value.shape)
        np.testing.assert_equal(back, value)


@KINDS
async def test_array_when_inside_of_a_value_then_it_is_equal(
    api: Api, callee: Callee
) -> None:
    array = np.arange(100_000)
    values: list[Any] = [
        {"a": np.ones(100_000), "b": [np.zeros(3), "text"], 3: (None,)},
        [np.arange(100_000)[::3], np.asfortranarray(np.ones((300, 300)))],
        (b"y" * LARGE, "z" * LARGE),
    ]
    backs = await api.get([callee.first(value) for value in values])

    assert [*map(type, backs)] == [dict, list, tuple]
    assert list(backs[0]) == ["a", "b", 3]
    for back, value in zip(backs, values, strict=True):
        np.testing.assert_equal(back, value)
    assert await api.get(callee.run(lambda: int(array.sum()))) == array.sum()


def are_writeable(*values: Any, array: Any) -> list[bool]:
    arrays = [value if hasattr(value, "flags") else value[0] for value in values]
    return [each.flags.writeable for each in (*arrays, array)]


@pytest.mark.parametrize("size", [10, 10_000, 100_000])
@KINDS
async def test_array_when_it_arrives_then_it_is_read_only_whatever_its_size(
    api: Api, callee: Callee, size: int
) -> None:
    array = np.zeros(size)
    ref, result = api.put(array), callee.run(np.zeros, size)
    arguments = array, [array], {0: array}, (array, print), ref, result
    back = await api.get(result)

    flags = await api.get(callee.run(are_writeable, *arguments, array=array))
    assert flags == [False] * 7
    alone = await api.get(callee.first(array))
    assert not any(each.flags.writeable for each in (back, alone, await api.get(ref)))
    with pytest.raises(ValueError, match="read-only"):
        back += 1
    with pytest.raises(ValueError, match="WRITEABLE"):
        back.flags.writeable = True  # to write then could end the process
    array += 1  # the sender's own


def zeros(sizes: list[int]) -> Iterator[Any]:
    for size in sizes:
        yield np.zeros(size)


@KINDS
async def test_array_when_it_is_an_item_then_it_is_read_only_whatever_its_size(
    api: Api, callee: Callee, engine: str
) -> None:
    sizes = [10, 10_000, 100_000]
    if engine == "client":
        with pytest.raises(UnsupportedOptionError, match="passes no streams"):
            callee.items(zeros, sizes)
        return
    items = await all_items(api, callee.items(zeros, sizes))

    assert [item.size for item in items if not item.flags.writeable] == sizes


class ArrayKeeper:
    def __init__(self, *arrays: Any) -> None:
        self._arrays = arrays

    def are_writeable(self) -> list[bool]:
        return [array.flags.writeable for array in self._arrays]


@pytest.mark.usefixtures("runtime")
async def test_array_when_a_constructor_gets_it_then_it_is_read_only(api: Api) -> None:
    sizes = [10, 10_000, 100_000]
    keeper = actorlib.remote(ArrayKeeper).remote(*map(np.zeros, sizes))

    assert await api.get(keeper.are_writeable.remote()) == [False] * 3


# Other values.


@dataclasses.dataclass(frozen=True)
class Point:
    """A class of a module."""

    x: int
    y: float


def local_classes() -> list[type]:
    """Two classes of one name, which no module has."""

    def new_class(answer: int) -> type:
        class Local:
            def answer(self) -> int:
                return answer

        return Local

    return [new_class(1), new_class(2)]


def answers_of(values: list[Any]) -> list[int]:
    return [value.answer() for value in values]


@KINDS
async def test_instance_when_it_travels_then_it_is_of_its_class(
    api: Api, callee: Callee
) -> None:
    back = await api.get(callee.first(Point(1, 2.5)))
    assert back == Point(1, 2.5)
    assert type(back) is Point

    locals_ = [cls() for cls in local_classes()]
    assert await api.get(callee.run(answers_of, locals_)) == [1, 2]


@KINDS
async def test_value_when_it_holds_itself_then_it_arrives(
    api: Api, callee: Callee
) -> None:
    ring: list[Any] = [1]
    ring.append(ring)
    table: dict[str, Any] = {}
    table["self"] = table

    for value, key in ((ring, 1), (table, "self")):
        back = await api.get(callee.first(value))
        assert back[key] is back


@pytest.mark.usefixtures("runtime")
async def test_value_when_a_constructor_gets_it_then_it_is_equal(api: Api) -> None:
    values = [*SCALARS, bytes(LARGE), {"a": [Point(1, 2.5)]}]
    keeper = Keeper.remote(values)
    echo = Echo.remote()

    assert shapes(await api.get(keeper.kept.remote())) == shapes(values)
    back = await api.get(echo.echo.remote(keeper.kept.remote()))
    assert shapes(back) == shapes(values)
