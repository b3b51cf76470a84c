"""Every benchmark, or those that are named, with one table at the end.

``compare OLD NEW`` measures two versions of actorlib in turns instead.
"""

import sys
from importlib import import_module
from typing import Final

from benchmarks._command import conduct_all
from benchmarks._compare import main as compare_versions

_NAMES: Final = (
    "placement",
    "first_answer",
    "many_actors",
    "enforcement",
    "whole_program",
    "idle",
    "calls",
    "engines",
    "scaling",
    "actor_to_actor",
    "clients",
    "batches",
    "tasks",
    "observing",
    "streams",
    "payload",
    "sharing",
    "deaths",
    "ledger",
    "growth",
    "churn",
)
"""In the order of running and showing."""


if __name__ == "__main__":
    if sys.argv[1:2] == ["compare"]:
        compare_versions(sys.argv[2:])
        sys.exit()
    conduct_all(
        {name: import_module(f"benchmarks.{name}").make_plan for name in _NAMES}
    )
