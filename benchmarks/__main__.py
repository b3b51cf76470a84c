"""Every benchmark, or those that are named, with one table at the end."""

from importlib import import_module
from typing import Final

from benchmarks._command import conduct_all

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
    conduct_all(
        {name: import_module(f"benchmarks.{name}").make_plan for name in _NAMES}
    )
