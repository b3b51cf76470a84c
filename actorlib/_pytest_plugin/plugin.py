"""The entry point for pytest: the options, the mark and the fixtures of actorlib.

It imports only this subpackage: every pytest run on a system with actorlib loads it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from actorlib._pytest_plugin.items import (
    ENGINES,
    HAS_FAILED,
    INI,
    OPTION,
    engine_of,
    has_failed,
    loop_of,
    report,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from actorlib._options.runtime_options import RuntimeKeywords

_FAKES = "ACTORLIB_FAKE_DEVICES"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("actorlib")
    group.addoption(
        OPTION,
        choices=ENGINES,
        default=None,
        help="where the actors of the fixture actor_runtime run: in threads of this "
        "process (inline), or in separate processes (local)",
    )
    parser.addini(INI, f"the default of {OPTION}", default="inline")


def pytest_configure(config: pytest.Config) -> None:
    """Registers the mark, and the async fixtures if pytest-asyncio is there."""
    config.addinivalue_line(
        "markers",
        "fake_devices(*words): the runtimes of the test find these devices, "
        'for example fake_devices("2xH100")',
    )
    if config.pluginmanager.hasplugin("asyncio"):
        from actorlib._pytest_plugin import on_loops  # noqa: PLC0415  # it may be missing

        config.pluginmanager.register(on_loops, "actorlib-on-loops")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, None]:
    """Records the failure of a test: its traceback holds the objects of the test."""
    outcome = yield
    if outcome.get_result().failed:
        item.stash[HAS_FAILED] = True


@pytest.fixture
def actor_runtime_options() -> RuntimeKeywords:
    """The options of ``actor_runtime``, as for ``actorlib.init``: none.

    A module, a class or a ``conftest.py`` overrides them by a fixture of this name.
    """
    return {}


@pytest.fixture
def actor_runtime(
    request: pytest.FixtureRequest, actor_runtime_options: RuntimeKeywords
) -> Any:
    """A runtime for one test, which ends with it.

    An async test gets the ``Runtime``. A plain test gets ``actorlib.blocking``, whose
    runtime runs in a thread. The engine is the inline one, unless the options, the
    command line (``--actorlib-engine=local``) or the configuration select another.
    """
    del actor_runtime_options  # created first, because it may change the machine
    if request.node.get_closest_marker("fake_devices") is not None:
        request.getfixturevalue("fake_devices")
    scope = loop_of(request.node, "actor_runtime")
    place = "_in_thread" if scope is None else f"_on_{scope}_loop"
    return request.getfixturevalue(f"_actor_runtime{place}")


@pytest.fixture
def _actor_runtime_in_thread(
    request: pytest.FixtureRequest, actor_runtime_options: RuntimeKeywords
) -> Iterator[Any]:
    from actorlib import blocking  # noqa: PLC0415  # few ask

    options: dict[str, Any] = {
        "engine": engine_of(request.config),
        **actor_runtime_options,
    }
    blocking.init(**options)
    yield blocking
    blocking.shutdown()


@pytest.fixture
def fake_devices(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., None]:
    """Makes the next runtimes find these devices: ``fake_devices("2xH100", "1xL4")``.

    A word is a model, a kind (``"4xTPU"``) or a family (``"amd"``); ``"none"`` is a
    machine without any. It applies until the test ends, including processes that the
    test starts. Of two calls the last one applies. The mark ``fake_devices`` does the
    same before ``actor_runtime`` starts.
    """

    def fake(*words: str) -> None:
        from actorlib._core.engine import find_engine  # noqa: PLC0415  # few ask
        from actorlib.accelerators import families  # noqa: PLC0415  # few ask
        from actorlib.accelerators.fake_devices import fake_detections  # noqa: PLC0415  # few ask

        if not words or not all(isinstance(word, str) for word in cast("Any", words)):
            raise TypeError(
                "fake_devices() takes words such as '2xH100', or 'none' for a machine "
                f"without any, not {words!r}"
            )
        devices = ", ".join(words)
        fake_detections(devices, families())
        if find_engine() is not None:
            raise RuntimeError(
                f"fake_devices({devices!r}): a runtime is running already, which has "
                "found its devices. Call it earlier, or write "
                f"@pytest.mark.fake_devices({devices!r}) where the test uses "
                "actor_runtime"
            )
        monkeypatch.setenv(_FAKES, devices)

    marker = request.node.get_closest_marker("fake_devices")
    if marker is not None:
        fake(*marker.args)
    return fake


@pytest.fixture
def actor_leaks(request: pytest.FixtureRequest) -> None:
    """Fails a test that leaves actors, calls, refs, objects or placement groups.

    Resources from before the test, or before this fixture, do not count. A failed test
    is not checked: its traceback holds its objects.
    """
    if "actor_runtime" in request.fixturenames:
        request.getfixturevalue("actor_runtime")  # so that it ends after the check
    scope = loop_of(request.node, "actor_leaks")
    place = "_in_thread" if scope is None else f"_on_{scope}_loop"
    request.getfixturevalue(f"_actor_leaks{place}")


@pytest.fixture
def _actor_leaks_in_thread(request: pytest.FixtureRequest) -> Iterator[None]:
    from actorlib._pytest_plugin.leaks import Watch  # noqa: PLC0415  # few ask

    watch = Watch()
    yield
    if not has_failed(request.node):
        report(watch.check())
