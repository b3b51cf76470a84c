"""Rows come back as they were, and documents have the columns that were named."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import msgpack
import pytest
from helpers.listings import actor, device, info, share, snapshot
from hypothesis import given
from hypothesis import strategies as st

from actorlib._base.value import dataclass
from actorlib._queries.rows import ActorStatus, Frame, Standstill, Status
from actorlib._rows.rows import RowEncoder, decode_row, encode_row, extend_row
from actorlib.types import (
    ActorInfo,
    ActorShare,
    BundleInfo,
    CallInfo,
    ClientInfo,
    DemandInfo,
    DeviceShare,
    GroupInfo,
    LogLine,
    ObjectInfo,
    Snapshot,
    WorkerGroupInfo,
)

EVERYTHING = snapshot(
    waiting=("Model 'w': GPU=2",),
    actors=(
        info(share=share("mps"), earlier_deaths=("it was killed",)),
        info(actor_id="cd" * 16, name=None, device_nbytes={"0": None}),
    ),
    devices=(device(),),
    groups=(
        GroupInfo(
            group_id="ef",
            name="",
            strategy="PACK",
            state="CREATED",
            bundles=(
                BundleInfo(
                    resources={"GPU": 1.0}, available={}, devices={}, actors=("ab",)
                ),
            ),
        ),
    ),
    demands=(DemandInfo(resources={"GPU": 2.0}, count=3, is_infeasible=True),),
    worker_groups=(
        WorkerGroupInfo(
            resources="CPU=1",
            waiting=0,
            running=1,
            blocked=0,
            pids=(4, 5),
            host_memory=(None, 7),
        ),
    ),
    clients=(ClientInfo(pid=9, program="a\udcff", attached_at=1.5),),
)
CALL = CallInfo(actor_id="", class_name="", method="f", state="running")
OBJECT = ObjectInfo(
    kind="ref",
    state="pending",
    object_id="ab",
    nbytes=None,
    maker="the program",
    holders={"the program": 2},
    arguments_of=("f",),
)
LINE = LogLine(
    number=1, time=1.5, source="log", actor_id="", label="f", pid=3, text="a\n"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dated(ActorInfo):
    """An actor with a field more."""

    seen_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A row in which another may be."""

    stuck: Standstill | None


STUCK = Standstill(
    seconds=1.5,
    is_exact=True,
    is_running=False,
    frames=(Frame(file="a.py", line=1, function="f", code="", is_users=True),),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrong:
    """No row: a value of this type cannot cross."""

    names: set[str]


def crossed(row: object) -> Any:
    """The same row, from another process."""
    packed = msgpack.packb(encode_row(row), unicode_errors="surrogatepass")
    values = msgpack.unpackb(packed, unicode_errors="surrogatepass")
    return decode_row(type(row), values)


@pytest.mark.parametrize("row", [EVERYTHING, CALL, OBJECT, LINE, actor()])
def test_row_when_it_crosses_then_it_comes_back_as_it_was(row: object) -> None:
    assert crossed(row) == row


@given(st.dictionaries(st.text(max_size=3), st.integers(0, 9) | st.none()))
def test_row_when_a_dict_is_in_it_then_its_values_come_back(values: Any) -> None:
    row = info(device_nbytes=values)

    assert crossed(row) == row


@pytest.mark.parametrize(
    ("value", "expected"),
    [([1], "<list>"), (2**64, "<int>"), (float("inf"), "inf"), (None, None), (7, 7)],
)
def test_value_of_the_users_when_it_has_no_plain_form_then_its_kind_is_told(
    value: object, expected: object
) -> None:
    call = replace(CALL, variables={"v": value})

    assert crossed(call).variables == {"v": expected}


@pytest.mark.parametrize(
    "values", [{}, {"pid": 1, "unknown": 2}, {"snapshot": 3}, None, [1]]
)
def test_values_when_they_are_of_no_such_row_then_said_so(values: Any) -> None:
    with pytest.raises(ValueError, match="not a row of Status"):
        decode_row(Status, values)


def test_row_when_it_has_a_value_that_cannot_cross_then_said_so() -> None:
    with pytest.raises(TypeError, match="no row has values of the type set"):
        encode_row(Wrong(names=set()))


def test_document_when_columns_are_named_then_it_has_those_alone() -> None:
    encoder = RowEncoder(
        {
            ActorStatus: "id=actor_id label cpu=process.cpu share",
            Snapshot: "actors",
        }
    )

    document = encoder.encode(snapshot(actors=(actor(cpu=1.5),)))

    assert json.loads(json.dumps(document)) == {
        "actors": [
            {
                "id": "ab" * 16,
                "label": "Model 'm1'",
                "cpu": 1.5,
                "share": {
                    "devices": [
                        {
                            "device": "0",
                            "kind": "GPU",
                            "units": 0.5,
                            "nbytes": None,
                            "enforced_by": "watchdog",
                            "not_stronger_because": "",
                        }
                    ]
                },
            }
        ]
    }


def test_row_when_extended_then_it_keeps_its_fields() -> None:
    base = info()

    row = extend_row(Dated, base, seen_at=2.0)

    assert isinstance(row, ActorInfo)
    assert encode_row(base).items() <= encode_row(row).items()
    assert row.seen_at == 2.0
    assert row == Dated(**{**encode_row(base), "share": base.share, "seen_at": 2.0})


@pytest.mark.parametrize("more", [{}, {"why": ""}, {"seen_at": 2.0, "why": ""}])
def test_row_when_extended_by_other_fields_then_said_so(more: Any) -> None:
    with pytest.raises(TypeError, match="Dated takes seen_at in addition"):
        extend_row(Dated, info(), **more)


@pytest.mark.parametrize("stuck", [None, STUCK])
def test_optional_row_when_it_crosses_then_it_is_the_same(
    stuck: Standstill | None,
) -> None:
    assert crossed(Holder(stuck=stuck)) == Holder(stuck=stuck)


# Shares: what several devices have in common.


def device_share(**fields: Any) -> DeviceShare:
    known: dict[str, Any] = {
        "device": "0",
        "kind": "GPU",
        "units": 0.5,
        "nbytes": 5,
        "enforced_by": "frameworks",
    }
    known |= fields
    return DeviceShare(not_stronger_because=f"no {known['enforced_by']}", **known)


@pytest.mark.parametrize(
    ("devices", "units", "nbytes", "enforced_by", "reason"),
    [
        ([], 0.0, 0, "off", ""),
        (
            [{"enforced_by": "mps"}, {}, {"units": 0.25, "nbytes": 7}],
            1.25,
            17,
            "frameworks",
            "no frameworks",
        ),
        ([{}, {"nbytes": None}], 1.0, None, "frameworks", "no frameworks"),
    ],
)
def test_share_when_of_several_devices_then_sums_and_the_weakest_enforcement(
    devices: list[dict[str, Any]],
    units: float,
    nbytes: int | None,
    enforced_by: str,
    reason: str,
) -> None:
    whole = ActorShare(devices=tuple(device_share(**fields) for fields in devices))

    assert bool(whole) == bool(devices)
    assert (whole.units, whole.nbytes) == (units, nbytes)
    assert (whole.enforced_by, whole.not_stronger_because) == (enforced_by, reason)
