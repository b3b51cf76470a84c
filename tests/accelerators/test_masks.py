"""A visibility variable is read as the vendor reads it, and losses are told."""

from __future__ import annotations

import functools

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
OTHER = "OTHER_VISIBLE"
UUIDS = ("GPU-aaa1", "GPU-aab2", "GPU-bbb3")
CARDS = [(str(place), uuid) for place, uuid in enumerate(UUIDS)]
CudaMask = functools.partial(Mask, is_void_by_repeating=True)


def said(value: str) -> str:
    return f"{NAME}={value!r}"


def read(value: str) -> Mask:
    """As CUDA's driver reads it."""
    mask = read_mask(NAME, value, CUDA)
    assert mask is not None
    return mask


def plain(value: str, syntax: Syntax = PLAIN) -> Mask:
    """As vendors read it who take numbers alone."""
    mask = read_mask(OTHER, value, syntax)
    assert mask is not None
    return mask


def spans(text: str, _: str) -> list[str] | None:
    first, _, last = text.partition("-")
    if not first.isdecimal():
        return None
    return [str(i) for i in range(int(first), int(last or first) + 1)]


RANGES = Syntax(wanted="range", read=spans)


@pytest.mark.parametrize("syntax", [CUDA, PLAIN])
def test_read_mask_when_unset_then_nothing_is_hidden(syntax: Syntax) -> None:
    assert read_mask(NAME, None, syntax) is None


@pytest.mark.parametrize(
    ("value", "entries"),
    [
        ("0,1", ("0", "1")),
        ("3,1", ("3", "1")),
        ("0, 1", ("0", "1")),
        (" 1", ("1",)),
        ("+1", ("1",)),
        ("007", ("7",)),
        ("1gpu2,2ampere", ("1", "2")),
        ("0,1,", ("0", "1")),
        ("GPU-aaa,GPU-bbb", ("GPU-aaa", "GPU-bbb")),
        ("MIG-x,MIG-y", ("MIG-x", "MIG-y")),
        ("MIG-GPU-aaa/1/0", ("MIG-GPU-aaa/1/0",)),
    ],
)
def test_read_mask_when_all_of_it_counts_then_there_is_no_reason(
    value: str, entries: tuple[str, ...]
) -> None:
    assert read(value) == CudaMask(said=said(value), entries=entries)


@pytest.mark.parametrize(
    ("value", "entries", "end"),
    [
        ("0,2,-1,1", ("0", "2"), "'-1'"),
        ("0,,1", ("0",), "''"),
        ("1,GPU-aaa", ("1",), "'GPU-aaa'"),
        ("GPU-aaa,1", ("GPU-aaa",), "'1'"),
        ("GPU-aaa, GPU-bbb", ("GPU-aaa",), "' GPU-bbb'"),
        ("MIG-x,GPU-aaa", ("MIG-x",), "'GPU-aaa'"),
        ("0,-1,0", ("0",), "'-1'"),
    ],
)
def test_read_mask_when_an_entry_is_invalid_then_the_list_ends_and_says_where(
    value: str, entries: tuple[str, ...], end: str
) -> None:
    reason = f"{said(value)} ends before {end}, which is no {CUDA.wanted}"
    assert read(value) == CudaMask(said=said(value), entries=entries, reason=reason)


@pytest.mark.parametrize(
    "value", ["", " ", ",", "NoDevFiles", "-1", "abc", "none", "all", " GPU-aaa"]
)
def test_read_mask_when_the_first_entry_is_invalid_then_all_is_hidden(
    value: str,
) -> None:
    reason = f"{said(value)} hides every device"
    assert read(value) == CudaMask(said=said(value), entries=(), reason=reason)


@pytest.mark.parametrize(
    ("value", "entry"),
    [
        ("0,0", "0"),
        ("0,1,2,3,0", "0"),
        ("1, +1", "1"),
        ("GPU-aaa,GPU-aaa", "GPU-aaa"),
    ],
)
def test_read_mask_when_cuda_reads_an_entry_twice_then_all_is_hidden(
    value: str, entry: str
) -> None:
    mask = read(value)
    assert mask.entries == ()
    assert (
        mask.reason == f"{said(value)} names {entry!r} twice, which hides every device"
    )


@given(st.text(alphabet="0123456789+- ,GPUMIab") | st.text())
def test_read_mask_when_given_anything_then_its_entries_read_as_themselves(
    value: str,
) -> None:
    mask = read(value)

    assert len(set(mask.entries)) == len(mask.entries)
    if mask.entries:
        again = ",".join(mask.entries)
        assert read(again) == CudaMask(said=said(again), entries=mask.entries)
    else:
        assert mask.reason


@given(st.text(alphabet="0123456789+- ,") | st.text())
def test_read_mask_when_read_plainly_then_its_entries_are_numbers_and_each_is_once(
    value: str,
) -> None:
    mask = plain(value)

    assert len(set(mask.entries)) == len(mask.entries)
    assert [number(entry) for entry in mask.entries] == list(mask.entries)
    assert mask.entries or mask.reason


@pytest.mark.parametrize(
    ("value", "entries", "reason"),
    [
        ("3, 1,", ("3", "1"), ""),
        ("0,0,1", ("0", "1"), "names '0' twice, which counts once"),
        ("0,+1", ("0",), "ends before '+1', which is no index"),
        ("1gpu", (), "hides every device"),
        ("GPU-aaa", (), "hides every device"),
        ("", (), "hides every device"),
        ("NoDevFiles", (), "hides every device"),
        ("-1", (), "hides every device"),
        ("\u0663", (), "hides every device"),
    ],
)
def test_read_mask_when_read_plainly_then_only_plain_numbers_count(
    value: str, entries: tuple[str, ...], reason: str
) -> None:
    whole = f"{OTHER}={value!r} {reason}" if reason else ""
    said = f"{OTHER}={value!r}"
    assert plain(value) == Mask(said=said, entries=entries, reason=whole)


def test_read_mask_when_one_piece_stands_for_several_then_all_of_them_count() -> None:
    assert plain("4-6,1", RANGES).entries == ("4", "5", "6", "1")
    assert plain("4-6,5-7", RANGES).entries == ("4", "5", "6", "7")
    assert plain("4-6,x", RANGES).reason.endswith("'x', which is no range")


@pytest.mark.parametrize(
    ("text", "expected"),
    [("7", "7"), (" 007 ", "7"), ("-1", None), ("", None), ("\u0663", None)],
)
def test_number_when_it_is_plain_and_decimal_then_it_is_read(
    text: str, expected: str | None
) -> None:
    assert number(text) == expected


@pytest.mark.parametrize(
    ("value", "ordinal"), [("0,1", True), ("", True), ("GPU-aaa", False)]
)
def test_mask_when_it_has_numbers_alone_then_it_is_ordinal(
    value: str, *, ordinal: bool
) -> None:
    assert read(value).ordinal is ordinal


def test_choose_when_every_entry_leads_to_a_device_then_the_order_is_the_masks() -> (
    None
):
    assert choose(read("2,0"), CARDS) == ((2, 0), "")
    assert choose(read("GPU-bbb3,GPU-aaa1"), CARDS) == ((2, 0), "")


def test_choose_when_a_uuid_is_shortened_then_it_leads_to_the_one_device() -> None:
    assert choose(read("GPU-b,GPU-aab"), CARDS) == ((2, 1), "")


def test_choose_when_a_prefix_fits_several_then_the_list_ends_there() -> None:
    reason = f"{NAME}='GPU-b,GPU-aa' ends before 'GPU-aa': several devices match"
    assert choose(read("GPU-b,GPU-aa"), CARDS) == ((2,), reason)


@pytest.mark.parametrize("value", ["0,1,8,2", "0,1,3"])
def test_choose_when_there_is_no_such_device_then_the_list_ends_there(
    value: str,
) -> None:
    missing = value.split(",")[2]
    reason = f"{said(value)} ends before {missing!r}: there is no such device"
    assert choose(read(value), CARDS) == ((0, 1), reason)


def test_choose_when_the_list_was_cut_before_then_the_message_quotes_all_of_it() -> (
    None
):
    reason = f"{NAME}='0,8,x' ends before '8': there is no such device"
    assert choose(read("0,8,x"), CARDS) == ((0,), reason)


def test_choose_when_two_prefixes_lead_to_one_device_then_all_is_hidden() -> None:
    reason = f"{NAME}='GPU-b,GPU-bb' names 'GPU-bb' twice, which hides every device"
    assert choose(read("GPU-b,GPU-bb"), CARDS) == ((), reason)


def test_choose_when_repeating_is_no_fault_then_the_list_ends_at_the_second() -> None:
    mask = Mask(said="OTHER='1,npu-b,0'", entries=("1", "npu-b", "0"))
    names = [("0",), ("1", "npu-b7")]
    reason = "OTHER='1,npu-b,0' ends before 'npu-b': named before"
    assert choose(mask, names) == ((1,), reason)


def test_choose_when_the_mask_was_cut_before_then_its_reason_stays() -> None:
    mask = read("0,x,1")
    assert choose(mask, CARDS) == ((0,), mask.reason)


def test_choose_when_a_device_has_fewer_names_then_only_those_lead_to_it() -> None:
    names: list[tuple[str, ...]] = [("0", "GPU-aaa"), ("1",), ()]

    assert choose(read("1"), names) == ((1,), "")
    assert choose(read("GPU-aaa"), names) == ((0,), "")
    assert choose(read("2"), names)[0] == ()


def test_choose_when_a_number_begins_like_another_then_it_has_to_be_equal() -> None:
    names = [("1", "12ab"), ("12",)]
    assert choose(plain("12"), names) == ((1,), "")
