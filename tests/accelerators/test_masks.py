"""A visibility variable is read as CUDA's driver reads it, and losses are told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actorlib.accelerators.masks import Mask, choose, read_mask

CUDA = "CUDA_VISIBLE_DEVICES"
UUIDS = ("GPU-aaa1", "GPU-aab2", "GPU-bbb3")


def said(value: str) -> str:
    return f"{CUDA}={value!r}"


def read(value: str) -> Mask:
    mask = read_mask(CUDA, value)
    assert mask is not None
    return mask


def test_read_mask_when_unset_then_nothing_is_hidden() -> None:
    assert read_mask(CUDA, None) is None


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
    assert read(value) == Mask(said=said(value), entries=entries)


@pytest.mark.parametrize(
    ("value", "entries", "end"),
    [
        ("0,2,-1,1", ("0", "2"), "'-1', which is no index"),
        ("0,,1", ("0",), "'', which is no index"),
        ("1,GPU-aaa", ("1",), "'GPU-aaa', which is no index"),
        ("GPU-aaa,1", ("GPU-aaa",), "'1', which is no GPU- UUID"),
        ("GPU-aaa, GPU-bbb", ("GPU-aaa",), "' GPU-bbb', which is no GPU- UUID"),
        ("MIG-x,GPU-aaa", ("MIG-x",), "'GPU-aaa', which is no MIG- UUID"),
        ("0,-1,0", ("0",), "'-1', which is no index"),
    ],
)
def test_read_mask_when_an_entry_is_invalid_then_the_list_ends_and_says_where(
    value: str, entries: tuple[str, ...], end: str
) -> None:
    reason = f"{said(value)} ends before {end}"
    assert read(value) == Mask(said=said(value), entries=entries, reason=reason)


@pytest.mark.parametrize(
    "value", ["", " ", ",", "NoDevFiles", "-1", "abc", "none", "all", " GPU-aaa"]
)
def test_read_mask_when_the_first_entry_is_invalid_then_all_is_hidden(
    value: str,
) -> None:
    reason = f"{said(value)} hides every device"
    assert read(value) == Mask(said=said(value), entries=(), reason=reason)


@pytest.mark.parametrize(
    ("value", "entry"),
    [
        ("0,0", "0"),
        ("0,1,2,3,0", "0"),
        ("1, +1", "1"),
        ("GPU-aaa,GPU-aaa", "GPU-aaa"),
    ],
)
def test_read_mask_when_an_entry_is_repeated_then_all_is_hidden(
    value: str, entry: str
) -> None:
    reason = f"{said(value)} names {entry!r} twice, which hides every device"
    assert read(value) == Mask(said=said(value), entries=(), reason=reason)


@given(st.text(alphabet="0123456789+- ,GPUMIab") | st.text())
def test_read_mask_when_given_anything_then_its_entries_read_as_themselves(
    value: str,
) -> None:
    mask = read(value)

    assert len(set(mask.entries)) == len(mask.entries)
    if mask.entries:
        plain = ",".join(mask.entries)
        assert read(plain) == Mask(said=said(plain), entries=mask.entries)
    else:
        assert mask.reason


def test_choose_when_every_entry_leads_to_a_device_then_the_order_is_the_masks() -> (
    None
):
    assert choose(read("2,0"), UUIDS) == ((2, 0), "")
    assert choose(read("GPU-bbb3,GPU-aaa1"), UUIDS) == ((2, 0), "")


def test_choose_when_a_uuid_is_shortened_then_it_leads_to_the_one_device() -> None:
    assert choose(read("GPU-b,GPU-aab"), UUIDS) == ((2, 1), "")


def test_choose_when_a_prefix_fits_several_then_the_list_ends_there() -> None:
    reason = f"{CUDA}='GPU-b,GPU-aa' ends before 'GPU-aa': several devices match"
    assert choose(read("GPU-b,GPU-aa"), UUIDS) == ((2,), reason)


@pytest.mark.parametrize("value", ["0,1,8,2", "0,1,3"])
def test_choose_when_there_is_no_such_device_then_the_list_ends_there(
    value: str,
) -> None:
    missing = value.split(",")[2]
    reason = f"{said(value)} ends before {missing!r}: there is no such device"
    assert choose(read(value), UUIDS) == ((0, 1), reason)


def test_choose_when_the_list_was_cut_before_then_the_message_quotes_all_of_it() -> (
    None
):
    reason = f"{CUDA}='0,8,x' ends before '8': there is no such device"
    assert choose(read("0,8,x"), UUIDS) == ((0,), reason)


def test_choose_when_two_prefixes_lead_to_one_device_then_all_is_hidden() -> None:
    reason = f"{CUDA}='GPU-b,GPU-bb' names 'GPU-bb' twice, which hides every device"
    assert choose(read("GPU-b,GPU-bb"), UUIDS) == ((), reason)


def test_choose_when_the_mask_was_cut_before_then_its_reason_stays() -> None:
    mask = read("0,x,1")
    assert choose(mask, UUIDS) == ((0,), mask.reason)


def test_choose_when_a_uuid_is_unknown_then_only_its_index_leads_to_it() -> None:
    uuids = ("GPU-aaa", None)
    assert choose(read("1"), uuids) == ((1,), "")
    assert choose(read("GPU-aaa"), uuids) == ((0,), "")
