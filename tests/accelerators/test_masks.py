"""A visibility variable is read as the vendor reads it, and losses are told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorlib.accelerators.masks import (
    CUDA,
    PLAIN,
    Mask,
    Syntax,
    choose,
    number,
    read_mask,
)

NAME = "CUDA_VISIBLE_DEVICES"
UUIDS = ("GPU-aaa1", "GPU-aab2", "GPU-bbb3")
CARDS = [(str(place), uuid) for place, uuid in enumerate(UUIDS)]


def spans(text: str, _: str) -> list[str] | None:
    first, _, last = text.partition("-")
    if not first.isdecimal():
        return None
    return [str(i) for i in range(int(first), int(last or first) + 1)]


RANGES = Syntax(wanted="range", read=spans)


def read(value: str, syntax: Syntax = CUDA) -> Mask:
    mask = read_mask(NAME, value, syntax)
    assert mask is not None
    return mask


@pytest.mark.parametrize("syntax", [CUDA, PLAIN])
def test_read_mask_when_unset_then_nothing_is_hidden(syntax: Syntax) -> None:
    assert read_mask(NAME, None, syntax) is None


HIDES = "hides every device"
NO_NAME = f"which is no {CUDA.wanted}"


@pytest.mark.parametrize(
    ("syntax", "value", "entries", "reason"),
    [
        (CUDA, "3,1", "3 1", ""),
        (CUDA, "0, 1", "0 1", ""),
        (CUDA, "+1", "1", ""),
        (CUDA, "007", "7", ""),
        (CUDA, "1gpu2,2ampere", "1 2", ""),
        (CUDA, "0,1,", "0 1", ""),
        (CUDA, "GPU-aaa,GPU-bbb", "GPU-aaa GPU-bbb", ""),
        (CUDA, "MIG-x,MIG-y", "MIG-x MIG-y", ""),
        (CUDA, "MIG-GPU-aaa/1/0", "MIG-GPU-aaa/1/0", ""),
        (CUDA, "0,2,-1,1", "0 2", f"ends before '-1', {NO_NAME}"),
        (CUDA, "0,,1", "0", f"ends before '', {NO_NAME}"),
        (CUDA, "1,GPU-aaa", "1", f"ends before 'GPU-aaa', {NO_NAME}"),
        (CUDA, "GPU-aaa,1", "GPU-aaa", f"ends before '1', {NO_NAME}"),
        (CUDA, "GPU-a, GPU-b", "GPU-a", f"ends before ' GPU-b', {NO_NAME}"),
        (CUDA, "MIG-x,GPU-a", "MIG-x", f"ends before 'GPU-a', {NO_NAME}"),
        (CUDA, "0,-1,0", "0", f"ends before '-1', {NO_NAME}"),
        (CUDA, "", "", HIDES),
        (CUDA, " ", "", HIDES),
        (CUDA, ",", "", HIDES),
        (CUDA, "NoDevFiles", "", HIDES),
        (CUDA, "-1", "", HIDES),
        (CUDA, "all", "", HIDES),
        (CUDA, " GPU-aaa", "", HIDES),
        (CUDA, "0,1,2,3,0", "", f"names '0' twice, which {HIDES}"),
        (CUDA, "1, +1", "", f"names '1' twice, which {HIDES}"),
        (CUDA, "GPU-aaa,GPU-aaa", "", f"names 'GPU-aaa' twice, which {HIDES}"),
        (PLAIN, "3, 1,", "3 1", ""),
        (PLAIN, "0,0,1", "0 1", "names '0' twice, which counts once"),
        (PLAIN, "0,+1", "0", "ends before '+1', which is no index"),
        (PLAIN, "1gpu", "", HIDES),
        (PLAIN, "GPU-aaa", "", HIDES),
        (PLAIN, "", "", HIDES),
        (PLAIN, "-1", "", HIDES),
        (PLAIN, "\u0663", "", HIDES),
        (RANGES, "4-6,1", "4 5 6 1", ""),
        (RANGES, "4-6,5-7", "4 5 6 7", "names '5' twice, which counts once"),
        (RANGES, "4-6,x", "4 5 6", "ends before 'x', which is no range"),
    ],
)
def test_read_mask_when_it_is_read_then_it_ends_where_the_vendors_does(
    syntax: Syntax, value: str, entries: str, reason: str
) -> None:
    mask = read(value, syntax)

    assert mask.said == f"{NAME}={value!r}"
    assert mask.entries == tuple(entries.split())
    assert mask.reason == (f"{mask.said} {reason}" if reason else "")
    if mask.entries:
        assert mask.is_void_by_repeating is (syntax is CUDA)


@given(st.text(alphabet="0123456789+- ,GPUMIab"))
def test_read_mask_when_given_anything_then_its_entries_read_as_themselves(
    value: str,
) -> None:
    mask, plain = read(value), read(value, PLAIN)

    assert len(set(mask.entries)) == len(mask.entries)
    if mask.entries:
        again = read(",".join(mask.entries))
        assert (again.entries, again.reason) == (mask.entries, "")
    else:
        assert mask.reason
    assert len(set(plain.entries)) == len(plain.entries)
    assert [number(entry) for entry in plain.entries] == list(plain.entries)
    assert plain.entries or plain.reason


@pytest.mark.parametrize(
    ("text", "expected"),
    [("7", "7"), (" 007 ", "7"), ("-1", None), ("", None), ("\u0663", None)],
)
def test_number_when_it_is_plain_and_decimal_then_it_is_read(
    text: str, expected: str | None
) -> None:
    assert number(text) == expected


@pytest.mark.parametrize(
    ("value", "is_ordinal"), [("0,1", True), ("", True), ("GPU-aaa", False)]
)
def test_mask_when_it_has_numbers_alone_then_it_is_ordinal(
    value: str, *, is_ordinal: bool
) -> None:
    assert read(value).ordinal is is_ordinal


MISSING = "there is no such device"


@pytest.mark.parametrize(
    ("value", "places", "reason"),
    [
        ("2,0", (2, 0), ""),
        ("GPU-bbb3,GPU-aaa1", (2, 0), ""),
        ("GPU-b,GPU-aab", (2, 1), ""),
        ("GPU-b,GPU-aa", (2,), "ends before 'GPU-aa': several devices match"),
        ("0,1,8,2", (0, 1), f"ends before '8': {MISSING}"),
        ("0,1,3", (0, 1), f"ends before '3': {MISSING}"),
        ("0,8,x", (0,), f"ends before '8': {MISSING}"),
        ("GPU-b,GPU-bb", (), "names 'GPU-bb' twice, which hides every device"),
        ("0,x,1", (0,), f"ends before 'x', {NO_NAME}"),
    ],
)
def test_choose_when_entries_lead_to_devices_then_the_order_is_the_masks(
    value: str, places: tuple[int, ...], reason: str
) -> None:
    whole = f"{NAME}={value!r} {reason}" if reason else ""
    assert choose(read(value), CARDS) == (places, whole)


def test_choose_when_repeating_is_no_fault_then_the_list_ends_at_the_second() -> None:
    mask = Mask(said="OTHER='1,npu-b,0'", entries=("1", "npu-b", "0"))
    names = [("0",), ("1", "npu-b7")]
    reason = "OTHER='1,npu-b,0' ends before 'npu-b': named before"
    assert choose(mask, names) == ((1,), reason)


def test_choose_when_a_device_has_fewer_names_then_only_those_lead_to_it() -> None:
    names: list[tuple[str, ...]] = [("0", "GPU-aaa"), ("1",), ()]

    assert choose(read("1"), names) == ((1,), "")
    assert choose(read("GPU-aaa"), names) == ((0,), "")
    assert choose(read("2"), names)[0] == ()


def test_choose_when_a_number_begins_like_another_then_it_has_to_be_equal() -> None:
    names = [("1", "12ab"), ("12",)]
    assert choose(read("12", PLAIN), names) == ((1,), "")
