from __future__ import annotations

import pytest

from actorlib._worker.executors.task_executor import FunctionTiming


@pytest.mark.parametrize(
    ("before", "seconds", "news"),
    [
        ([], 0.5, 0.5),
        ([0.5], 0.6, None),  # about as long
        ([0.001], 0.5, 0.5),  # longer: at once
        ([1.0], 0.001, None),  # quicker: not at once
    ],
)
def test_timing_when_a_function_has_run_then_whether_that_is_news(
    before: list[float], seconds: float, news: float | None
) -> None:
    timing = FunctionTiming()
    for each in before:
        timing.record("f", each)

    assert timing.record("f", seconds) == news
    assert timing.record("another", 0.001) == 0.001


def test_timing_when_it_is_quicker_then_the_slow_run_is_forgiven_bit_by_bit() -> None:
    timing = FunctionTiming()
    timing.record("f", 1.0)
    news = [timing.record("f", 0.001) for _ in range(40)]
    told = [seconds for seconds in news if seconds is not None]
    assert told == sorted(told, reverse=True)
    assert told[-1] < 0.002
