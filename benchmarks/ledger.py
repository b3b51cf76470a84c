"""How many placement decisions a second one core makes, from 10 devices to 100,000.

One decision is one request answered and one lease given back; on a full machine, one
lease given back, one waiter served, and one newcomer sent to the end of the line. The
devices are simulated: a decision touches none.

Run it with ``python -m benchmarks.ledger``.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from benchmarks._cases import FLOOR, OURS, SCAN, Case, Curve, Plan, Target, Unit
from benchmarks._command import Scale, conduct
from benchmarks._jobs import Job

_RATE = Unit(name="decisions/s", more_is_better=True)
_SIZES = (10, 100, 1_000, 10_000, 100_000)
_QUICK = (10, 1_000, 10_000)

_SMALLEST: Final = "10 devices"
"""Ourselves on the smallest machine: to compare with, not to show."""

_FLAT: Final = Target(bound=0.5, against=_SMALLEST)
"""A lease of a large machine is seldom in a cache of the CPU, and a heap is deeper: the
floor loses about half of its rate to that alone."""

_FAST: Final = Target(bound=100_000)


_BOTH: Final = (FLOOR, SCAN)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Situation:
    """One kind of decision.

    Attributes:
        title: What is decided.
        machine: Which machine of the subject it is measured on.
        figure: What the subject calls it.
        beside: Who is measured with it.
        targets: What the largest machine is to reach.
    """

    title: str
    machine: str
    figure: str
    beside: tuple[str, ...] = (FLOOR,)
    targets: tuple[Target, ...] = (_FLAT,)


_SHARES = _Situation(
    title="0.1 to 2 devices, packed",
    machine="plain",
    figure="shares",
    beside=_BOTH,
    targets=(_FAST, _FLAT),
)
_SITUATIONS = (
    _SHARES,
    _Situation(
        title="the same, acquires alone: empty to half full",
        machine="plain",
        figure="acquires",
        beside=(),  # the others have only acquired and released
    ),
    _Situation(
        title="shares of 0.25 to 0.75, spread",
        machine="plain",
        figure="spread",
        beside=_BOTH,
    ),
    _Situation(title="one whole", machine="whole", figure="one", beside=_BOTH),
    _Situation(title="two whole", machine="whole", figure="two", beside=_BOTH),
    _Situation(
        title="shares by type, of four models",
        machine="typed",
        figure="types",
        beside=_BOTH,
    ),
    _Situation(
        title="one or two whole, linked in pairs", machine="linked", figure="pairs"
    ),
    _Situation(title="halves near to an actor", machine="linked", figure="near"),
    _Situation(title="halves apart from an actor", machine="linked", figure="apart"),
    _Situation(
        title="line of 1,000, a release serves one", machine="whole", figure="line"
    ),
    _Situation(
        title="the same, for four types", machine="typed", figure="line of types"
    ),
)

_NOTES = (
    f"{_SMALLEST!r} is actorlib on the smallest machine. Seconds of the processor.",
    "A decision is an acquire and a release of a random lease, on a machine that stays "
    "half full; in the line, a release, a grant to the first of 1,000 waiters and a "
    "newcomer put behind them, on a full one. Wishes are resolved before, except that "
    "near and apart name the devices of a random actor each time.",
    "floor: heappush, heappop, two writes to a dict and the random choice of what is "
    "given back, inline. list scan: a list of free amounts, scanned for the best fit.",
    "The garbage collector is on, as it is for users. One full collection right before "
    "each measurement makes it start from the same counts; a steady state makes no "
    "garbage that it has to look for, while acquires alone pay for what it looks "
    "through as the leases become more.",
)


def make_plan(scale: Scale) -> Plan:
    """What this benchmark runs and shows."""
    sizes = _QUICK if scale.is_quick else _SIZES
    cases = {
        situation: [_case(situation, size, sizes) for size in sizes]
        for situation in _SITUATIONS
    }
    return Plan(
        name="ledger",
        question="Placement decisions a second on one core",
        notes=_NOTES,
        jobs=list(_jobs(sizes, 0.05 if scale.is_quick else 0.5)),
        cases=[case for each in cases.values() for case in each],
        curves=[
            Curve(
                title=_SHARES.title,
                across="devices",
                unit=_RATE,
                lines={
                    column: _line(sizes, cases[_SHARES], column)
                    for column in (OURS, FLOOR, SCAN)
                },
            ),
            Curve(
                title=f"{OURS}, every kind of decision",
                across="devices",
                unit=_RATE,
                lines={
                    situation.title: _line(sizes, cases[situation], OURS)
                    for situation in _SITUATIONS
                },
            ),
        ],
    )


def _jobs(sizes: Sequence[int], seconds: float) -> Iterator[Job]:
    machines = dict.fromkeys(situation.machine for situation in _SITUATIONS)
    subjects = (
        *((f"{OURS} {machine}", "ledger_actorlib", machine) for machine in machines),
        (FLOOR, "ledger_floor", ""),
        (SCAN, "ledger_scan", ""),
    )
    # The sizes of one subject are neighbours: it is they that are compared.
    for name, subject, machine in subjects:
        for size in sizes:
            yield Job(
                name=f"{name} {size}",
                subject=subject,
                arguments={"devices": size, "seconds": seconds, "machine": machine},
            )


def _case(situation: _Situation, size: int, sizes: Sequence[int]) -> Case:
    ours, figure = f"{OURS} {situation.machine}", situation.figure
    cells = {OURS: f"{ours} {size}/{figure}"}
    if size > sizes[0]:
        cells[_SMALLEST] = f"{ours} {sizes[0]}/{figure}"
    if FLOOR in situation.beside:
        cells[FLOOR] = f"{FLOOR} {size}/rate"
    if SCAN in situation.beside:
        cells[SCAN] = f"{SCAN} {size}/{figure}"
    return Case(
        section=situation.title,
        title=f"{size:,} devices",
        unit=_RATE,
        cells=cells,
        targets=situation.targets if size == sizes[-1] else (),
    )


def _line(
    sizes: Sequence[int], cases: Sequence[Case], column: str
) -> Mapping[int, str]:
    return {size: case.cells[column] for size, case in zip(sizes, cases, strict=True)}


if __name__ == "__main__":
    conduct(make_plan)
