"""What pytest loads: the options, the mark and the fixtures of actorlib.

It imports nothing of actorlib outside of this room by itself: whoever runs pytest with
actorlib installed pays for it.
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
    """Adds what says the engine of ``actor_runtime``."""
    group = parser.getgroup("actorlib")
    group.addoption(
        OPTION,
        choices=ENGINES,
        default=None,
        help="where the actors of the fixture actor_runtime are: in threads of this "
        "process (inline), or in processes of their own (local)",
    )
    parser.addini(INI, f"the default of {OPTION}", default="inline")


def pytest_configure(config: pytest.Config) -> None:
    """Makes the mark known, and has async fixtures made if something can run them."""
    config.addinivalue_line(
        "markers",
        "fake_devices(*words): the runtimes of the test believe in these devices, "
        'for example fake_devices("2xH100")',
    )
    if config.pluginmanager.hasplugin("asyncio"):
        from actorlib._pytest_plugin import on_loops  # noqa: PLC0415  # it may be missing

        config.pluginmanager.register(on_loops, "actorlib-on-loops")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, None]:
    """Notes that a test has failed: its traceback holds whatever it had."""
    outcome = yield
    if outcome.get_result().failed:
        item.stash[HAS_FAILED] = True


@pytest.fixture
def actor_runtime_options() -> RuntimeKeywords:
    """The options of ``actor_runtime``, as for ``actorlib.init``: none.

    A module, a class or a ``conftest.py`` says otherwise by a fixture of this name.
    """
    return {}


@pytest.fixture
def actor_runtime(
    request: pytest.FixtureRequest, actor_runtime_options: RuntimeKeywords
) -> Any:
    """A runtime for one test, which ends with it.

    An async test gets the ``Runtime``. A plain test gets ``actorlib.blocking``, whose
    runtime runs in a thread. The engine is the inline one, unless the options, the
    command line (``--actorlib-engine=local``) or the configuration say otherwise.
    """
    del actor_runtime_options  # made before, as it may want to change the machine
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
    """Has the next runtimes believe in devices: ``fake_devices("2xH100", "1xL4")``.

    A word is a model, a kind (``"4xTPU"``) or a family (``"amd"``); ``"none"`` is a
    machine without any. It holds until the test ends, in processes that it starts, too.
    Of what is said twice the last counts. The mark ``fake_devices`` says the same
    before ``actor_runtime`` starts.
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
        said = ", ".join(words)
        fake_detections(said, families())
        if find_engine() is not None:
            raise RuntimeError(
                f"fake_devices({said!r}): a runtime is running already, which has "
                "looked at its devices. Call it before, or write "
                f"@pytest.mark.fake_devices({said!r}) where the test uses actor_runtime"
            )
        monkeypatch.setenv(_FAKES, said)

    marker = request.node.get_closest_marker("fake_devices")
    if marker is not None:
        fake(*marker.args)
    return fake


@pytest.fixture
def actor_leaks(request: pytest.FixtureRequest) -> None:
    """Fails a test that leaves actors, calls, refs, objects or placement groups.

    What was there before the test, or before this fixture, is not its. A test that has
    failed is not looked at: its traceback holds what it had.
    """
    if "actor_runtime" in request.fixturenames:
        request.getfixturevalue("actor_runtime")  # so that it ends behind the look
    scope = loop_of(request.node, "actor_leaks")
    place = "_in_thread" if scope is None else f"_on_{scope}_loop"
    request.getfixturevalue(f"_actor_leaks{place}")


@pytest.fixture
def _actor_leaks_in_thread(request: pytest.FixtureRequest) -> Iterator[None]:
    from actorlib._pytest_plugin.leaks import Watch  # noqa: PLC0415  # few ask

    watch = Watch()
    yield
    if not has_failed(request.node):
        report(watch.look())
