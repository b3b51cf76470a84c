"""What is said of one test: its engine, its loop, and how it has ended."""

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
    """Returns the engine that the command line says, or the configuration.

    Raises:
        pytest.UsageError: The configuration names none.
    """
    said = config.getoption(OPTION) or config.getini(INI)
    if said not in ENGINES:
        raise pytest.UsageError(
            f"{INI} = {said!r} in the configuration of pytest: it is "
            f"{' or '.join(ENGINES)}"
        )
    return cast("str", said)


def has_failed(item: pytest.Item) -> bool:
    """Whether a test has failed by now."""
    return item.stash.get(HAS_FAILED, False)


def loop_of(item: pytest.Item, fixture: str) -> str | None:
    """Returns the scope of the loop that a test runs on; None for a plain test.

    Args:
        item: The test.
        fixture: Who asks, for messages.

    Raises:
        pytest.fail.Exception: It is async, and nothing here runs it.
    """
    is_async = inspect.iscoroutinefunction(getattr(item, "function", None))
    if not item.config.pluginmanager.hasplugin("asyncio"):
        if is_async:
            pytest.fail(
                f"{fixture}: {item.name} is an async test, which needs pytest-asyncio, "
                "and that is not installed, or is turned off: pip install "
                f"pytest-asyncio, or write a plain 'def', to which {fixture} gives a "
                "runtime in a thread",
                pytrace=False,
            )
        return None
    import pytest_asyncio  # noqa: PLC0415  # it may not be there

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
    said: Any = None
    if marker is not None:
        said = marker.kwargs.get("loop_scope") or marker.kwargs.get("scope")
    with suppress(ValueError):  # older ones have no such option
        said = said or item.config.getini("asyncio_default_test_loop_scope")
    return cast("str", said or "function")


def report(left: list[str]) -> None:
    """Fails the test that has left something."""
    __tracebackhide__ = True
    if left:
        rows = "\n".join(f"  - {row}" for row in left)
        pytest.fail(f"the test has left behind:\n{rows}", pytrace=False)
