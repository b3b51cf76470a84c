"""The parts of the fixtures for async tests, each on the loop of the test.

Loaded only with pytest-asyncio, where the scope of a fixture determines its loop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest_asyncio

from actorlib._pytest_plugin.items import engine_of, has_failed, report

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import pytest

    from actorlib._options.runtime_options import RuntimeKeywords
    from actorlib._runtime import Runtime


def _runtime_on(scope: Any) -> Any:
    # A separate function for each: pytest-asyncio stores the loop in it.
    async def runtime(
        request: pytest.FixtureRequest, actor_runtime_options: RuntimeKeywords
    ) -> AsyncIterator[Runtime]:
        from actorlib._runtime import init  # noqa: PLC0415  # few ask

        options: dict[str, Any] = {
            "engine": engine_of(request.config),
            **actor_runtime_options,
        }
        async with init(**options) as runtime:
            yield runtime

    name = f"_actor_runtime_on_{scope}_loop"
    return pytest_asyncio.fixture(loop_scope=scope, name=name)(runtime)


def _leaks_on(scope: Any) -> Any:
    async def leaks(request: pytest.FixtureRequest) -> AsyncIterator[None]:
        from actorlib._pytest_plugin.leaks import Watch  # noqa: PLC0415  # few ask

        watch = Watch()
        yield
        if not has_failed(request.node):
            report(await watch.check_on_loop())

    name = f"_actor_leaks_on_{scope}_loop"
    return pytest_asyncio.fixture(loop_scope=scope, name=name)(leaks)


_runtime_on_function_loop = _runtime_on("function")
_runtime_on_class_loop = _runtime_on("class")
_runtime_on_module_loop = _runtime_on("module")
_runtime_on_package_loop = _runtime_on("package")
_runtime_on_session_loop = _runtime_on("session")
_leaks_on_function_loop = _leaks_on("function")
_leaks_on_class_loop = _leaks_on("class")
_leaks_on_module_loop = _leaks_on("module")
_leaks_on_package_loop = _leaks_on("package")
_leaks_on_session_loop = _leaks_on("session")
