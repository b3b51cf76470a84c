from __future__ import annotations

import pytest
from helpers.program_runner import run

import actorlib
from actorlib._options.runtime_options import RuntimeOptions
from actorlib._runtime import address_of, engine_name


def test_engine_when_the_environment_says_so_then_it_is_that_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ACTORLIB_ENGINE", "ray")

    assert engine_name(RuntimeOptions()) == "ray"
    assert engine_name(RuntimeOptions(engine="inline")) == "inline"


def test_address_when_said_twice_then_the_argument_wins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ACTORLIB_ADDRESS", "10.0.0.5:6379")

    assert address_of(RuntimeOptions(), "ray") == "10.0.0.5:6379"
    assert address_of(RuntimeOptions(address="auto"), "ray") == "auto"
    assert address_of(RuntimeOptions(), "local") is None


def test_address_when_the_engine_has_no_cluster_then_it_is_refused() -> None:
    with pytest.raises(ValueError, match="engine='ray'"):
        actorlib.init(engine="local", address="auto")


def test_address_when_it_is_no_text_then_it_is_refused() -> None:
    with pytest.raises(TypeError, match="address"):
        actorlib.init(engine="ray", address=6379)  # type: ignore[arg-type]


@pytest.mark.process
def test_ray_when_not_installed_then_the_error_names_the_extra() -> None:
    program = (
        "import sys; sys.modules['ray'] = None\n"
        "import actorlib\n"
        "async def main():\n"
        "    await actorlib.init(engine='ray')\n"
        "actorlib.run(main())"
    )
    done = run("-c", program, limit=60)

    assert "ImportError: engine='ray' needs Ray" in done.stderr
    assert "pip install 'actorlib[ray]'" in done.stderr
