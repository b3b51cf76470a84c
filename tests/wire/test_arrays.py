"""Arrays of NumPy that travel as a header and their bytes, and those that do not."""

from __future__ import annotations

import pickle
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import actorlib
from actorlib._wire import serialization
from actorlib._wire.serialization import LARGE, decode, decode_call, encode, encode_call

MANY = LARGE // 8
PICKLED = b"\x80\x05"


def arrived(value: Any) -> Any:
    return decode(encode(value))


def is_pickled(payload: Any) -> bool:
    head = payload if isinstance(payload, bytes) else payload[0]
    return head[:2] == PICKLED


def assert_same(here: Any, there: Any) -> None:
    assert type(here) is type(there)
    assert (here.dtype, here.shape) == (there.dtype, there.shape)
    assert here.flags.f_contiguous == there.flags.f_contiguous
    np.testing.assert_array_equal(here, there)


DTYPES = ["?", "i1", "<u2", ">i4", "u8", "e", "f", "d", "g", "F", "D", np.longlong]
SHAPES = [(), (0,), (3, 0), (7,), (4, 5), (2, 3, 4), (MANY,)]


@pytest.mark.parametrize("dtype", DTYPES)
def test_array_when_it_is_of_numbers_then_it_arrives_without_a_pickle(
    dtype: Any,
) -> None:
    for shape in SHAPES:
        numbers = np.arange(np.prod(shape), dtype=float).reshape(shape).astype(dtype)
        frozen = numbers.copy()
        frozen.setflags(write=False)
        for array in (numbers, np.asfortranarray(numbers), frozen):
            payload = encode(array)

            assert not is_pickled(payload), shape
            assert_same(decode(payload), array)


def carried(payload: Any) -> Any:
    """The payload as it comes out of a pipe."""
    return [*map(bytearray, payload)] if type(payload) is list else payload


class Memory:
    """Takes part in pickle's protocol 5 with a buffer of its own, as tables do."""

    def __init__(self, buffer: Any) -> None:
        self.buffer = buffer

    def __reduce__(self) -> Any:
        return Memory, (pickle.PickleBuffer(self.buffer),)


@pytest.mark.parametrize("size", [4, LARGE, 64 * LARGE])
def test_buffer_when_a_class_pickles_it_then_it_arrives_read_only(size: int) -> None:
    there = decode(carried(encode(Memory(bytearray(size)))))

    assert memoryview(there.buffer).readonly
    assert bytes(there.buffer) == bytes(size)


@pytest.mark.parametrize("size", [4, LARGE, 64 * LARGE])
def test_copy_when_it_arrived_then_it_may_be_written(size: int) -> None:
    sent = (
        bytearray(size),
        np.zeros(size, dtype="u1").view(Derived),
        np.array([0] * -(-size // 64), dtype=object),
    )
    for there in decode(carried(encode(sent))):
        there[0] = 1
        assert there[0] == 1


@pytest.mark.parametrize("is_in_a_list", [False, True])
def test_array_when_it_is_large_then_it_is_not_copied(*, is_in_a_list: bool) -> None:
    array = np.arange(MANY, dtype=float)
    head, buffer = encode([array] if is_in_a_list else array)

    assert len(head) < 100
    assert np.shares_memory(np.frombuffer(buffer), array)


class Derived(np.ndarray[Any, Any]):
    pass


BIG = np.arange(LARGE, dtype="f8").reshape(-1, 256)
ODD = {
    "objects": np.array([1, None], dtype=object),
    "strings": np.array(["a", "bc"]),
    "bytes": np.array([b"a", b"bc"]),
    "dates": np.array(["2026-11-22"], dtype="datetime64[D]"),
    "records": np.zeros(3, dtype=[("a", "i4"), ("b", "f8")]),
    "gaps": np.arange(10.0)[::2],
    "reversed": BIG[::-1],
    "columns": BIG[:, ::3],
    "repeated": np.broadcast_to(BIG[0], (64, 256)),
    "metadata": np.zeros(3, dtype=np.dtype("f8", metadata={"unit": "m"})),
    "derived": np.zeros(3).view(Derived),
    "matrix": np.ma.masked_array([1, 2], mask=[True, False]),
}


@pytest.mark.parametrize("name", ODD)
def test_array_when_it_is_of_another_kind_then_pickle_carries_it(name: str) -> None:
    array = ODD[name]
    payload = encode(array)
    there = decode(payload)

    assert is_pickled(payload)
    assert type(there) is type(array)
    assert there.dtype == array.dtype
    assert there.tolist() == array.tolist()


SCALARS = st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.text(max_size=5)
ARRAYS = st.builds(np.arange, st.integers(0, 9)) | st.just(MANY).map(np.zeros)


def assert_equal(here: Any, there: Any) -> None:
    assert type(here) is type(there)
    if isinstance(here, np.ndarray):
        assert_same(here, there)
    elif isinstance(here, list | tuple):
        assert len(here) == len(there)
        for one, other in zip(here, there, strict=True):
            assert_equal(one, other)
    elif isinstance(here, dict):
        assert [*here] == [*there]
        assert_equal([*here.values()], [*there.values()])
    else:
        assert here == there


@given(
    st.lists(SCALARS | ARRAYS)
    | st.dictionaries(st.text(max_size=3) | st.integers(0, 5), SCALARS | ARRAYS)
    | st.tuples(SCALARS | ARRAYS, ARRAYS)
)
def test_values_when_arrays_are_among_them_then_all_arrive(value: Any) -> None:
    assert_equal(value, arrived(value))


@given(
    st.lists(SCALARS | ARRAYS | st.lists(SCALARS) | ARRAYS.map(lambda a: [a])),
    st.dictionaries(st.text(max_size=3), ARRAYS, max_size=2),
)
def test_arguments_when_arrays_are_among_them_then_all_arrive(
    values: list[Any], named: dict[str, Any]
) -> None:
    args, kwargs = decode_call(encode_call(tuple(values), named))

    assert_equal([values, named], [[*args], kwargs])


@pytest.mark.parametrize("size", [3, MANY])
def test_array_when_it_stands_twice_then_it_arrives_as_one(size: int) -> None:
    array = np.zeros(size)
    one, other = arrived([array, array])
    [first, second], _ = decode_call(encode_call((array, array), {}))

    assert one is other
    assert first is second


def test_array_when_a_serializer_is_registered_then_that_carries_it() -> None:
    actorlib.register_serializer(
        np.ndarray, serializer=lambda array: array.tolist(), deserializer=tuple
    )
    try:
        assert arrived(np.arange(3)) == (0, 1, 2)
    finally:
        actorlib.deregister_serializer(np.ndarray)


def test_list_when_its_small_arrays_are_large_together_then_all_arrive() -> None:
    arrays = [np.full(100, number) for number in range(200)]
    payload = encode(arrays)

    assert isinstance(payload, list)
    assert_equal(arrays, decode(payload))


@pytest.mark.parametrize(
    "payload",
    [
        b"\xd4\x05x",  # an extension that nobody sends
        b"\xd4\x01x",  # a header that is none
        b"\xd4\x02\x00",  # bytes that did not come
        b"\xd4\x02\xc0",  # bytes in no place
        b"\xc7\x0b\x01\x95\xa2<q\x91\x01\x01\xff\xc4\x01x",  # a dtype there is not
        b"\xc7\x0e\x01\x95\xa3<f8\x91\x05\x01\xff\xc4\x02xy\x00",  # too few bytes
    ],
)
def test_decode_when_what_came_is_no_array_then_it_raises(payload: bytes) -> None:
    with pytest.raises((IndexError, TypeError, ValueError)):
        decode(payload)


class Storage:
    """Stands for a storage of PyTorch's, over memory that may be written."""

    device = SimpleNamespace(type="cpu")

    def __init__(self, memory: Any) -> None:
        self.memory = np.frombuffer(memory, dtype="u1")

    def data_ptr(self) -> int:
        return self.memory.ctypes.data

    def nbytes(self) -> int:
        return self.memory.nbytes

    def untyped_storage(self) -> Storage:
        return self


@pytest.mark.parametrize("size", [4, LARGE, 64 * LARGE])
def test_tensor_when_it_is_written_then_its_payload_stays_as_it_came(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch: Any = ModuleType("torch")
    torch.uint8, torch.frombuffer = 0, lambda memory, **_: Storage(memory)
    monkeypatch.setitem(sys.modules, "torch", torch)
    reducers = {Storage: serialization._reduce_untyped}
    monkeypatch.setattr(serialization._Pickler, "dispatch_table", reducers)
    payload = carried(encode(Storage(bytearray(b"a" * size))))
    there: Storage = decode(payload)
    there.memory[0] = ord("b")

    assert bytes(there.memory) == b"b" + b"a" * (size - 1)
    again: Storage = decode(payload)  # a ref sends this payload on
    assert bytes(again.memory) == b"a" * size
