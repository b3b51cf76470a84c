from __future__ import annotations

from actorlib._worker.executors.task_executor import FunctionTiming


def test_timing_when_a_function_runs_for_the_first_time_then_it_is_news() -> None:
    assert FunctionTiming().record("f", 0.5) == 0.5


def test_timing_when_it_takes_about_as_long_as_before_then_no_news() -> None:
    timing = FunctionTiming()
    timing.record("f", 0.5)
    assert timing.record("f", 0.6) is None


def test_timing_when_it_takes_longer_then_news_at_once() -> None:
    timing = FunctionTiming()
    timing.record("f", 0.001)
    assert timing.record("f", 0.5) == 0.5


def test_timing_when_it_is_quicker_then_the_slow_run_is_forgiven_bit_by_bit() -> None:
    timing = FunctionTiming()
    timing.record("f", 1.0)
    news = [timing.record("f", 0.001) for _ in range(40)]
    told = [seconds for seconds in news if seconds is not None]
    assert news[0] is None
    assert told == sorted(told, reverse=True)
    assert told[-1] < 0.002


def test_timing_when_two_functions_run_then_each_has_its_own() -> None:
    timing = FunctionTiming()
    timing.record("slow", 1.0)
    assert timing.record("quick", 0.001) == 0.001
