"""How many items of a generator a second come to its reader.

Run it with ``python -m benchmarks.streams``.
"""

from benchmarks._cases import OURS, RAY, XOSCAR, Case, Panel, Plan, Target, Unit
from benchmarks._command import Scale, conduct
from benchmarks._jobs import Job

_NOTES = (
    "One reader, one generator method, small numbers; nothing is said of backpressure. "
    "actorlib and Ray give a ref for each item, which is awaited (Ray: the better one "
    "of ray.get and await); xoscar fetches an item when it is asked for. distributed "
    "and the standard library have no such thing.",
)


def make_plan(scale: Scale) -> Plan:
    """What this benchmark runs and shows."""
    many, few = (20_000, 1_000) if scale.is_quick else (100_000, 3_000)
    cases = [
        Case(
            section="one stream",
            title=f"{kind} generator",
            unit=Unit(name="items/s", more_is_better=True),
            cells={column: f"{column}/{kind} rate" for column in (OURS, RAY, XOSCAR)},
            targets=(Target(bound=100_000),),
        )
        for kind in ("sync", "async")
    ]
    return Plan(
        name="streams",
        question="Items of a stream",
        notes=_NOTES,
        jobs=[
            Job(
                name=name,
                subject=subject,
                arguments={"count": count, "times": 3},
                peer=peer,
            )
            for name, subject, count, peer in (
                (OURS, "streams_actorlib", many, ""),
                (RAY, "streams_ray", few, "ray"),
                (XOSCAR, "streams_xoscar", few // 3, "xoscar"),
            )
        ],
        cases=cases,
        panels=[Panel(title="items a second", cases=cases, is_logarithmic=True)],
    )


if __name__ == "__main__":
    conduct(make_plan)
