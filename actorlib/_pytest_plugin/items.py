"""The properties of one test: its engine, its loop, its outcome."""

from __future__ import annotations

import inspect
from contextlib import suppress
from typing import Any, cast

import pytest

ENGINES = ("inline", "local")
OPTION = "--actorlib-engine"
INI = "actorlib_engine"
HAS_FAILED = pytest.StashKey[bool]()


def engine_of(config: pytest.Config) -> str:
    """Returns the engine from the command line or the configuration.

    Raises:
        pytest.UsageError: The configuration has an unknown engine.
    """
    engine = config.getoption(OPTION) or config.getini(INI)
    if engine not in ENGINES:
        raise pytest.UsageError(
            f"{INI} = {engine!r} in the configuration of pytest: it is "
            f"{' or '.join(ENGINES)}"
        )
    return cast("str", engine)


def has_failed(item: pytest.Item) -> bool:
    return item.stash.get(HAS_FAILED, False)


def loop_of(item: pytest.Item, fixture: str) -> str | None:
    """Returns the scope of the loop that a test runs on; None for a plain test.

    Raises:
        pytest.fail.Exception: It is async, and no plugin runs it. The message names the
            fixture.
    """
    is_async = inspect.iscoroutinefunction(getattr(item, "function", None))
    if not item.config.pluginmanager.hasplugin("asyncio"):
        if is_async:
            pytest.fail(
                f"{fixture}: {item.name} is an async test, which needs pytest-asyncio, "
                "and that is not installed, or is turned off: pip install "
                f"pytest-asyncio, or write a plain 'def', for which {fixture} starts a "
                "runtime in a thread",
                pytrace=False,
            )
        return None
    import pytest_asyncio  # noqa: PLC0415  # it may not be installed

    if not pytest_asyncio.is_async_test(item):
        if is_async:
            pytest.fail(
                f"{fixture}: {item.name} is an async test that pytest-asyncio does not "
                "run: write @pytest.mark.asyncio, or asyncio_mode = auto in the "
                "configuration of pytest",
                pytrace=False,
            )
        return None
    marker = item.get_closest_marker("asyncio")
    scope: Any = None
    if marker is not None:
        scope = marker.kwargs.get("loop_scope") or marker.kwargs.get("scope")
    with suppress(ValueError):  # older versions have no such option
        scope = scope or item.config.getini("asyncio_default_test_loop_scope")
    return cast("str", scope or "function")


def report(leaks: list[str]) -> None:
    __tracebackhide__ = True
    if leaks:
        rows = "\n".join(f"  - {row}" for row in leaks)
        pytest.fail(f"the test has left behind:\n{rows}", pytrace=False)
