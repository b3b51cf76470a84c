"""How each step of the owner's bookkeeping grows, up to a million of what there is.

Run it with ``python -m benchmarks.growth``.
"""

from typing import Final

from benchmarks._cases import OURS, Case, Curve, Plan, Target, Unit
from benchmarks._command import Scale, conduct
from benchmarks._jobs import Job

_TIME: Final = Unit(name="us", scale=1e6)
_EXPONENT: Final = Unit(name="", scale=1.0)
_SIZES: Final = (1_000, 10_000, 100_000, 1_000_000)

_STEPS: Final = {
    "actors": "a share of a device taken and given back, among so many leases",
    "devices": "the same, on so many devices",
    "waiting": "one of so many in line served, and one more behind them",
    "records": "an actor recorded, named, held, found and forgotten",
    "calls": "a call sent and one answered, with so many under way",
    "deadlines": "a deadline kept and one dropped",
}

_NOTES = (
    "A step among n of its kind takes n to the power of the exponent, times a "
    "constant: 0 is no growth, 1 in proportion. The slope of the line nearest to all "
    "sizes, on logarithmic scales. Seconds of the processor, one core.",
    "What is left is mostly the caches of the processor: a dictionary of a million "
    "entries is not in them.",
)


def make_plan(scale: Scale) -> Plan:
    """What this benchmark runs and shows."""
    cases: list[Case] = []
    for kind, step in _STEPS.items():
        sizes = _sizes(kind, scale)
        figures = {f"{size:,} {kind}": str(size) for size in (sizes[0], sizes[-1])}
        cases += [
            Case(section=step, title=title, unit=_TIME, cells={OURS: f"{kind}/{name}"})
            for title, name in figures.items()
        ]
        cases.append(
            Case(
                section=step,
                title="exponent",
                unit=_EXPONENT,
                cells={OURS: f"{kind}/exponent"},
                targets=(Target(bound=0.3),),
            )
        )
    return Plan(
        name="growth",
        question="How costs grow",
        notes=_NOTES,
        jobs=[
            Job(
                name=kind,
                subject="growth_actorlib",
                arguments={
                    "kind": kind,
                    "counts": _sizes(kind, scale),
                    "seconds": 0.1 if scale.is_quick else 0.5,
                },
            )
            for kind in _STEPS
        ],
        cases=cases,
        curves=[
            Curve(
                title="one step",
                across="actors, devices, calls",
                unit=_TIME,
                lines={
                    kind: {size: f"{kind}/{size}" for size in _sizes(kind, scale)}
                    for kind in _STEPS
                },
            )
        ],
    )


def _sizes(kind: str, scale: Scale) -> tuple[int, ...]:
    is_short = scale.is_quick or kind == "devices"
    return _SIZES[:-1] if is_short else _SIZES


if __name__ == "__main__":
    conduct(make_plan)
