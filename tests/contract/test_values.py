"""Values of every kind and size: they arrive as they were, by calls and by ``put``."""

from __future__ import annotations

import asyncio
import dataclasses
import enum
import gc
import math
import random
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from helpers.actors import Counter, Keeper
from helpers.callers import all_items
from helpers.kinds import BLOCKING, CONTRACT, FEW_KINDS, OWN_ENGINES
from helpers.reused import Echo

import actorlib
import actorlib.blocking
from actorlib.exceptions import UnsupportedOptionError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from helpers.callees import Callee
    from helpers.callers import Api

    Steps = Generator[Any, Any, Any]


pytestmark = [
    *CONTRACT,
    # Ray's client says so when large values have been sent.
    pytest.mark.filterwarnings("ignore:More than 10MB of messages"),
]


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


@OWN_ENGINES
@FEW_KINDS
async def test_scalar_when_a_callee_calls_then_it_is_the_same(
    api: Api, callee: Callee
) -> None:
    other = callee.new()
    values = await api.get(callee.run(call_with, other.method("first"), SCALARS))

    assert shapes(values) == shapes(SCALARS)


@OWN_ENGINES
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


@OWN_ENGINES
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


@FEW_KINDS
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
@FEW_KINDS
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


@OWN_ENGINES
@FEW_KINDS
async def test_bytearray_and_memoryview_when_of_any_size_then_they_keep_their_class(
    api: Api,
    callee: Callee,  # a fixture
) -> None:
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


@OWN_ENGINES
@FEW_KINDS
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


@FEW_KINDS
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


@OWN_ENGINES
@FEW_KINDS
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
@FEW_KINDS
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


@FEW_KINDS
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


@FEW_KINDS
async def test_instance_when_it_travels_then_it_is_of_its_class(
    api: Api, callee: Callee
) -> None:
    back = await api.get(callee.first(Point(1, 2.5)))
    assert back == Point(1, 2.5)
    assert type(back) is Point

    locals_ = [cls() for cls in local_classes()]
    assert await api.get(callee.run(answers_of, locals_)) == [1, 2]


@OWN_ENGINES
@FEW_KINDS
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


@OWN_ENGINES
async def test_value_when_a_constructor_gets_it_then_it_is_equal(api: Api) -> None:
    values = [*SCALARS, bytes(LARGE), {"a": [Point(1, 2.5)]}]
    keeper = Keeper.remote(values)
    echo = Echo.remote()

    assert shapes(await api.get(keeper.kept.remote())) == shapes(values)
    back = await api.get(echo.echo.remote(keeper.kept.remote()))
    assert shapes(back) == shapes(values)


# Values behind refs: ``put``, and values that somebody changes later.


def values_of(refs: list[Any]) -> Steps:
    return (yield refs)


@pytest.mark.parametrize("size", [3, 200_000], ids=["small", "large"])
@FEW_KINDS
async def test_put_when_its_ref_is_an_argument_then_its_value_arrives(
    api: Api, callee: Callee, size: int
) -> None:
    array = np.zeros(size)
    ref = api.put({"array": array})
    array[:] = 1
    alone = await api.get(callee.first(ref))
    [inside] = await api.get(callee.run(values_of, [ref]))

    for value in (alone, inside, await api.get(ref)):
        assert value["array"].sum() == 0
    assert await api.get(callee.run(np.sum, api.put(np.ones(size)))) == size


@OWN_ENGINES
async def test_put_when_given_a_read_only_view_then_later_changes_are_unseen(
    api: Api,
) -> None:
    value = np.zeros(10_000)
    view = value.view()
    view.flags.writeable = False
    ref = api.put(view)
    value[:] = 1

    assert (await api.get(ref)).sum() == 0
    assert (await api.get(Echo.remote().echo.remote(ref))).sum() == 0


async def test_put_when_given_what_it_cannot_take_then_refused(
    api: Api,
) -> None:
    ref = api.put(1)

    with pytest.raises(TypeError, match="this is a ref"):
        api.put(ref)
    with pytest.raises(TypeError, match="pass the ref itself"):
        api.put(Echo.remote().echo.remote(ref))
    with pytest.raises(TypeError, match="lock"):
        api.put(threading.Lock())


class Reduced:
    """Counts how often it is encoded."""

    count = 0

    def __reduce__(self) -> tuple[Any, ...]:
        Reduced.count += 1
        return np.ones, (3,)


@OWN_ENGINES
async def test_put_when_many_calls_get_it_then_it_is_encoded_once(api: Api) -> None:
    Reduced.count = 0
    ref = api.put(Reduced())
    echo = Echo.remote()
    values = await api.get([echo.echo.remote(ref) for _ in range(5)])

    assert [value.sum() for value in values] == [3] * 5
    assert Reduced.count == 1


def put_in_callee(size: int) -> list[Any]:
    return [actorlib.put(np.ones(size)), actorlib.put("text")]


@pytest.mark.parametrize("size", [3, 200_000], ids=["small", "large"])
@FEW_KINDS
async def test_put_when_a_callee_does_then_its_values_are_here_and_elsewhere(
    api: Api, callee: Callee, size: int
) -> None:
    numbers, text = await api.get(callee.run(put_in_callee, size))

    assert (await api.get(numbers)).sum() == size
    assert await api.get(text) == "text"
    [back] = await api.get(callee.run(values_of, [numbers]))
    assert back.sum() == size
    assert await api.get(Echo.remote().echo.remote(text)) == "text"


# Values that are changed.


SMALL: list[Callable[[], Any]] = [
    lambda: [0, 1],
    lambda: [0, (1,)],
    lambda: [[0], {"a": 1}],
    lambda: {0: 0},
    lambda: np.zeros(4),
    lambda: np.zeros(10_000),
]
LARGE_LISTS: list[Callable[[], Any]] = [
    lambda: [0] * 20_000,
    lambda: [0] * 270_000,
]
BYTES: list[Callable[[], Any]] = [lambda: bytearray(2), lambda: bytearray(600_000)]
"""They make values of each way to be sent, whose first item is 0 or a list of it."""


AS_BYTES = pytest.mark.xfail(strict=True, reason="Ray sends a bytearray as bytes")


@pytest.fixture(
    params=[
        SMALL,
        pytest.param(LARGE_LISTS, marks=OWN_ENGINES),
        pytest.param(BYTES, marks=OWN_ENGINES),
    ],
    ids=["small", "large", "bytes"],
)
def makers(request: pytest.FixtureRequest, engine: str) -> list[Callable[[], Any]]:
    if engine == "ray" and request.param is BYTES:
        request.applymarker(AS_BYTES)
    return request.param


def new_value(make: Callable[[], Any]) -> Any:
    return make()


def pair_of(make: Callable[[], Any]) -> tuple[int, Any]:
    return 0, make()


def yield_pair(make: Callable[[], Any]) -> Iterator[Any]:
    yield 0
    yield make()


def change(value: Any) -> None:
    """Changes the first item of a value, unless it is an array that refuses that."""
    if isinstance(value, np.ndarray) and not value.flags.writeable:
        return
    if isinstance(value[0], list):
        value[0][0] = 1
    else:
        value[0] = 1


def first_item(value: Any) -> Any:
    while not isinstance(value, int | float):
        value = value[0]
    return int(value)


def first_of(value: Any) -> Steps:
    """The first item of a value as it came, or of one behind a ref in a tuple."""
    return first_item((yield value[0]) if isinstance(value, tuple) else value)


def forms(ref: Any) -> list[Any]:
    """A ref as it is given to a call: alone, and inside of a value."""
    return [ref, (ref,)]


@FEW_KINDS
async def test_value_when_it_was_changed_then_others_get_it_as_it_was_made(
    api: Api, callee: Callee, engine: str, makers: list[Callable[[], Any]]
) -> None:
    refs: list[Any] = []
    for make in makers:
        _, part = callee.method("run", num_returns=2).remote(pair_of, make)
        refs += [callee.run(new_value, make), api.put(make()), part]
        if engine != "client":  # it refuses calls that yield
            _, yielded = callee.method("items", num_returns=2).remote(yield_pair, make)
            stream = callee.items(yield_pair, make)
            _, item = [await api.next_item(stream) for _ in range(2)]
            refs += [yielded, item]
    for ref, value in zip(refs, await api.get(refs), strict=True):
        change(value)
        if not api.is_blocking:
            assert await ref is value

    items = [callee.run(first_of, value) for ref in refs for value in forms(ref)]
    assert await api.get(items) == [0] * 2 * len(refs)


def change_and_give(makers: list[Callable[[], Any]], other: Any) -> Steps:
    """What another callee sees of values that are changed here."""
    refs = [actorlib.put(make()) for make in makers]
    refs += [other.remote(new_value, make) for make in makers]
    for value in (yield refs):
        change(value)
    return (
        yield [other.remote(first_of, value) for ref in refs for value in forms(ref)]
    )


async def test_value_when_a_callee_changes_it_then_others_get_it_as_it_was_made(
    api: Api,
    callee: Callee,
    engine: str,
    makers: list[Callable[[], Any]],
    request: pytest.FixtureRequest,
) -> None:
    if engine == "client" and makers is BYTES:  # the client itself sends it as it is
        request.applymarker(AS_BYTES)
    other = callee.new().method("run")

    items = await api.get(callee.run(change_and_give, makers, other))
    assert items == [0] * 4 * len(makers)


@OWN_ENGINES
@FEW_KINDS
async def test_values_when_changed_then_calls_with_several_get_each_as_it_was_made(
    api: Api, callee: Callee
) -> None:
    values: list[Any] = [[0, "a"], {"a": 1}, [], {}, [[1], (2,)], 3, "text", None]
    refs = [api.put(value) for value in values]
    for value in await api.get(refs):
        if isinstance(value, list | dict):
            value.clear()
    pairs = [(one, other) for one in range(8) for other in range(8)]
    calls = [callee.all(refs[one], 1, refs[other], 0.5, [2]) for one, other in pairs]

    assert await api.get(calls) == [
        (values[one], 1, values[other], 0.5, [2]) for one, other in pairs
    ]
    assert await api.get(callee.all(*refs * 3)) == (*values, *values, *values)


# Scripts, in which each get() has a value of its own.


@BLOCKING
@FEW_KINDS
async def test_get_when_repeated_then_each_value_is_another_object(
    api: Api, callee: Callee, makers: list[Callable[[], Any]]
) -> None:
    for make in makers:
        _, part = callee.method("run", num_returns=2).remote(pair_of, make)
        stream = callee.items(yield_pair, make)
        _, item = [await api.next_item(stream) for _ in range(2)]
        refs = [callee.run(new_value, make), api.put(make()), part, item]
        for ref in refs:
            for _ in range(3):
                value = await api.get(ref)
                assert first_item(value) == 0
                change(value)
        values = await api.get(refs * 2)

        assert [first_item(value) for value in values] == [0] * 8
        assert len({id(value) for value in values}) == 8


def get_and_change(makers: list[Callable[[], Any]]) -> list[int]:
    items: list[int] = []
    for ref in [actorlib.blocking.put(make()) for make in makers]:
        for _ in range(3):
            value: Any = actorlib.blocking.get(ref)
            items.append(first_item(value))
            change(value)
    return items


@BLOCKING
async def test_get_when_repeated_in_a_callee_then_each_value_is_another_object(
    api: Api, callee: Callee, makers: list[Callable[[], Any]]
) -> None:
    items = await api.get(callee.run(get_and_change, makers))

    assert items == [0] * 3 * len(makers)


LOADED: list[int] = []


class Noted:
    """Notes in this process each time that it is loaded."""

    def __init__(self, items: list[int]) -> None:
        self.items = items

    def __reduce__(self) -> tuple[Any, ...]:
        return load_noted, (self.items,)


def load_noted(items: list[int]) -> Noted:
    LOADED.append(0)
    return Noted(items)


@BLOCKING
@FEW_KINDS
async def test_get_when_it_is_the_first_then_its_value_is_not_loaded_twice(
    api: Api, callee: Callee
) -> None:
    ref = callee.run(Noted, [0])
    await api.wait([ref])
    LOADED.clear()
    (await api.get(ref)).items.append(1)
    loads = len(LOADED)
    again = await api.get(ref)

    assert loads <= 1
    assert (len(LOADED), again.items) == (loads + 1, [0])


@BLOCKING
@FEW_KINDS
async def test_get_when_a_value_cannot_be_changed_then_it_is_the_same_object(
    api: Api, callee: Callee
) -> None:
    for ref in (callee.first(b"bytes" * 100_000), api.put("text" * 100)):
        assert await api.get(ref) is await api.get(ref)


@BLOCKING
@FEW_KINDS
async def test_get_when_it_was_awaited_before_then_the_value_is_as_it_was_made(
    api: Api, callee: Callee
) -> None:
    refs = [callee.first([0]), api.put([0])]
    values: list[Any] = [await refs[0], *await asyncio.gather(refs[1])]
    for value in values:
        value.append(1)

    assert await api.get(refs) == [[0], [0]]


@BLOCKING
@FEW_KINDS
async def test_get_when_a_handle_is_inside_then_each_value_has_one(
    api: Api, callee: Callee
) -> None:
    counter = Counter.remote()
    ref = callee.first([counter])
    del counter
    gc.collect()
    for total in (1, 2):
        value = await api.get(ref)
        assert await api.get(value.pop().add.remote(1)) == total
