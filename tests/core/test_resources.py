from __future__ import annotations

import math
import pickle
import re
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from actorlib._options.kinds import UNITS
from actorlib._options.resources import (
    Resources,
    add,
    bytes_of,
    format_amount,
    format_bytes,
    format_counted,
    request,
    totals,
    units_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable

MIB = 1024**2
NOT_NUMBERS = [None, 1j, Decimal(1), [1], True, False, np.bool_(True)]  # noqa: FBT003  # a value that is no number
NOT_AMOUNTS = [-1, -0.5, math.nan, math.inf, -math.inf, np.float64("nan")]

units = st.integers(min_value=0, max_value=10**12)
amounts = st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 10**9))


# Units.


@given(units)
def test_units_of_when_given_any_number_of_units_then_it_is_exactly_that(
    number: int,
) -> None:
    assert units_of("num_cpus", number / UNITS) == number


@pytest.mark.parametrize(
    "share", [lambda k: 1 / k, lambda k: Fraction(1, k), lambda k: np.float64(1) / k]
)
def test_units_of_when_a_device_is_cut_in_equal_parts_then_all_fit_on_it(
    share: Callable[[int], object],
) -> None:
    too_large = [
        parts
        for parts in range(1, UNITS + 1)
        if not 1 <= units_of("num_gpus", share(parts)) <= UNITS // parts
    ]

    assert too_large == []


@given(st.integers(1, 64), st.lists(st.integers(1, 9_999), min_size=1, max_size=200))
def test_units_of_when_true_sums_fit_then_what_is_counted_fits(
    whole: int, weights: list[int]
) -> None:
    """Not only equal parts: any that add up to no more than there is."""
    parts = [whole * weight / sum(weights) for weight in weights]

    granted = [units_of("num_cpus", part) for part in parts if part >= 1 / UNITS]

    assert sum(granted) <= whole * UNITS


@given(st.integers(1, 64), st.integers(1, UNITS))
def test_units_of_when_given_a_part_of_several_then_it_is_the_units_that_are_whole(
    whole: int, parts: int
) -> None:
    assume(whole * UNITS >= parts)
    assert units_of("num_cpus", whole / parts) == whole * UNITS // parts


@given(st.integers(0, 10**7))
def test_units_of_when_a_decimal_is_written_then_no_unit_is_lost(number: int) -> None:
    written = f"{number // UNITS}.{number % UNITS:04d}"

    assert units_of("num_cpus", float(written)) == number


@given(st.integers(1, 9), st.integers(1, 9))
def test_units_of_when_decimals_were_summed_as_floats_then_no_unit_is_lost(
    one: int, other: int
) -> None:
    assert units_of("lane", one / 10 + other / 10) == (one + other) * 1_000
    assert units_of("lane", 2 - one / 10) == 20_000 - one * 1_000


@given(st.integers(1, UNITS))
def test_units_of_when_given_less_precision_then_it_is_the_decimal_that_it_prints_as(
    number: int,
) -> None:
    assert units_of("num_gpus", np.float32(number / UNITS)) == number


@given(st.integers(0, 10**30))
def test_units_of_when_given_an_integer_of_any_size_then_it_is_exact(
    number: int,
) -> None:
    assert units_of("lane", number) == number * UNITS
    assert bytes_of("memory", number) == number


def test_units_of_when_given_a_small_integer_type_then_it_does_not_overflow() -> None:
    assert units_of("num_cpus", np.int8(100)) == 100 * UNITS


@pytest.mark.parametrize(
    "value", [0.00001, 0.00004, 0.00009, Fraction(1, 10**9), 5e-324]
)
def test_units_of_when_below_the_smallest_share_then_value_error(value: object) -> None:
    with pytest.raises(ValueError, match=r"smallest share, 0\.0001"):
        units_of("num_gpus", value)


READERS = {"num_cpus": units_of, "memory": bytes_of}


@pytest.mark.parametrize("name", READERS)
def test_amount_when_it_is_none_then_the_error_names_option_and_value(
    name: str,
) -> None:
    read = READERS[name]

    for value in (b"1GB", *NOT_NUMBERS):
        with pytest.raises(TypeError, match=rf"{name}.*{re.escape(repr(value))}"):
            read(name, value)
    for value in NOT_AMOUNTS:
        with pytest.raises(ValueError, match=name):
            read(name, value)


# Bytes.


@given(st.floats(min_value=0, max_value=2.0**50))
def test_bytes_of_when_given_a_fraction_then_it_is_rounded_down(nbytes: float) -> None:
    assert bytes_of("memory", nbytes) == math.floor(nbytes)


@pytest.mark.parametrize(
    ("words", "nbytes"),
    [
        ("0B", 0),
        ("7 b", 7),
        ("500MB", 500 * 10**6),
        ("2GiB", 2 * 2**30),
        ("1.5 GiB", 3 * 2**29),
        ("0.1TB", 10**11),
        ("1.0001 kb", 1000),
        ("0.3KiB", 307),
        ("9007199254740993TiB", 9007199254740993 * 2**40),
    ],
)
def test_bytes_of_when_given_words_then_it_is_exactly_that(
    words: str, nbytes: int
) -> None:
    assert bytes_of("memory", words) == nbytes


@pytest.mark.parametrize(
    "words",
    [
        *("", "ten", "10", "GB", "10GB ", " 10GB", "10  GB", "10iB", "10G", "-1GB"),
        *("1e3MB", "9" * 31 + "B", "1" * 5000 + "B", f"1.{'1' * 5000}GB"),
    ],
    ids=lambda words: words[:9],
)
def test_bytes_of_when_given_other_words_then_it_says_which_are_meant(
    words: str,
) -> None:
    with pytest.raises(ValueError, match=r"memory takes .* '2GiB', not") as caught:
        bytes_of("memory", words)
    assert repr(words) in str(caught.value)


# What is asked.


def test_request_when_everything_is_given_then_each_is_under_its_name() -> None:
    asked = request(num_cpus=2, num_gpus=0.5, memory=3 * MIB, resources={"lane": 1.5})

    assert asked.amounts == {
        "CPU": 20_000,
        "GPU": 5_000,
        "memory": 3 * MIB,
        "lane": 15_000,
    }


def test_request_when_zeros_are_given_then_they_are_as_if_not_given() -> None:
    asked = request(num_cpus=0, num_gpus=0.0, memory=0, resources={"lane": 0})

    assert asked == request()
    assert request().amounts == {}


@pytest.mark.parametrize("value", [1.5, 1.0001, 2.9999, 7.25], ids=repr)
def test_request_when_gpus_are_a_fraction_above_one_then_value_error_offers_whole_ones(
    value: float,
) -> None:
    below, above = math.floor(value), math.ceil(value)

    with pytest.raises(ValueError, match=f"Ask {below} or {above}"):
        request(num_gpus=value)


@pytest.mark.parametrize(
    ("name", "keyword"),
    [("CPU", "num_cpus"), ("GPU", "num_gpus"), ("memory", "memory")],
)
def test_request_when_a_custom_name_has_a_keyword_then_value_error_points_to_it(
    name: str, keyword: str
) -> None:
    with pytest.raises(ValueError, match=f"{keyword}="):
        request(resources={name: 1})


@pytest.mark.parametrize("name", [1, None, "", b"lane", ("a", "b")], ids=repr)
def test_request_when_a_custom_name_is_no_name_then_type_error(name: object) -> None:
    with pytest.raises(TypeError, match="names as keys"):
        request(resources={name: 1})


# Kinds of devices: what no machine gives is refused before there is one.


@pytest.mark.parametrize("name", ["tpu", "Gpu", "TPUs", "accelerator_type:A100"])
def test_request_when_a_name_is_merely_like_a_kind_then_it_is_a_custom_one(
    name: str,
) -> None:
    assert request(resources={name: 2.5}).amounts == {name: 25_000}


def test_request_when_gpus_and_neuron_cores_are_asked_then_value_error() -> None:
    with pytest.raises(ValueError, match="exclude each other"):
        request(num_gpus=1, resources={"neuron_cores": 1})

    assert request(num_gpus=0, resources={"neuron_cores": 1}).amounts == {
        "neuron_cores": UNITS
    }


# What is declared.


def test_totals_when_whole_then_they_are_exact() -> None:
    declared = totals(
        num_cpus=3, num_gpus=2.0, memory=1.5, resources={"lane": 4, "TPU": 3}
    )

    assert declared.amounts == {
        "CPU": 30_000,
        "GPU": 20_000,
        "memory": 1,
        "lane": 40_000,
        "TPU": 30_000,
    }


@pytest.mark.parametrize(
    "declared",
    [
        {"num_cpus": 0.5},
        {"num_gpus": 0.25},
        *({"resources": {name: 1.5}} for name in ("lane", "TPU", "NPU")),
    ],
    ids=repr,
)
def test_totals_when_fractional_then_value_error(declared: dict[str, object]) -> None:
    nothing: dict[str, object] = dict.fromkeys(
        ("num_cpus", "num_gpus", "memory", "resources")
    )

    with pytest.raises(ValueError, match="whole number"):
        totals(**{**nothing, **declared})


# The value.


def test_resources_when_made_of_zeros_then_they_are_left_out() -> None:
    assert Resources.of({"CPU": 0, "GPU": 1}).amounts == {"GPU": 1}


@given(amounts)
def test_resources_when_pickled_then_they_are_equal(held: dict[str, int]) -> None:
    resources = Resources.of(held)

    assert pickle.loads(pickle.dumps(resources)) == resources


def test_resources_when_written_to_then_type_error() -> None:
    resources = Resources.of({"CPU": 1})

    with pytest.raises(TypeError):
        resources.amounts["CPU"] = 2  # type: ignore[index]


def test_resources_when_shown_then_as_a_user_writes_them() -> None:
    resources = request(num_cpus=2, num_gpus=0.25, memory=1536 * MIB)

    assert str(resources) == "CPU=2, GPU=0.25, memory=1.5 GiB"
    assert str(Resources.of({})) == "nothing"


@given(amounts, amounts)
def test_add_when_given_two_then_every_name_has_its_sum_and_they_are_unchanged(
    left: dict[str, int], right: dict[str, int]
) -> None:
    before = dict(left), dict(right)

    assert add(left, right) == {
        name: left.get(name, 0) + right.get(name, 0) for name in {*left, *right}
    }
    assert (left, right) == before


# For people.


@given(units)
def test_format_amount_when_read_back_then_it_is_the_same_amount(number: int) -> None:
    text = format_amount("CPU", number)

    assert units_of("num_cpus", float(text)) == number
    assert ("." in text) == bool(number % UNITS)


@pytest.mark.parametrize(
    ("nbytes", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (1536 * 1024, "1.5 MiB"),
        (24 * 1024**3, "24 GiB"),
        (2 * 1024**4, "2 TiB"),
        (None, "-"),
    ],
)
def test_format_bytes_when_given_bytes_then_in_the_largest_unit_that_fits(
    nbytes: int | None, text: str
) -> None:
    assert format_bytes(nbytes) == text
    assert format_bytes(None, "an unknown amount") == "an unknown amount"


@pytest.mark.parametrize(
    ("name", "amount", "text"),
    [("memory", 1.5 * 1024**3, "1.5 GiB"), ("GPU", 0.5, "0.5"), ("CPU", 64.0, "64")],
)
def test_format_counted_when_given_an_amount_then_bytes_of_memory_alone(
    name: str, amount: float, text: str
) -> None:
    assert format_counted(name, amount) == text
