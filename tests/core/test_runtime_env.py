from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import pytest
from helpers.actors import Echo, running

import actorlib
from actorlib._options.runtime_env import checked_env, merged_env, variables_of
from actorlib.exceptions import ActorDiedError

if TYPE_CHECKING:
    from pathlib import Path

    from actorlib._options.runtime_options import RuntimeKeywords

# Values.


def test_env_when_it_has_a_wrong_type_then_refused_where_it_is_written() -> None:
    wrong: list[Any] = [
        *("A=1", [], 1, {"env_vars": "A=1"}, {"env_vars": {"A": 1}}),
        *({"env_vars": {1: "A"}}, {"env_vars": {"A": None}}),
        *({"working_dir": 1}, {"working_dir": ""}, {"working_dir": None}),
    ]
    for env in wrong:
        with pytest.raises(TypeError):
            actorlib.remote(runtime_env=env)
        with pytest.raises(TypeError):
            Echo.options(runtime_env=env)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"pip": ["torch"]}, "'pip'"),
        ({"env_var": {"A": "1"}}, "Did you mean 'env_vars'"),
        ({"env_vars": {"": "1"}}, "env_vars has"),
        ({"env_vars": {"A=B": "1"}}, "env_vars has"),
        ({"env_vars": {"A": "\0"}}, "env_vars has"),
        ({"working_dir": "s3://bucket/a.zip"}, "is an address"),
    ],
)
def test_env_when_a_key_or_a_value_cannot_be_then_refused_by_name(
    given: Any, said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        actorlib.remote(runtime_env=given)


def test_env_when_it_says_nothing_then_none() -> None:
    assert checked_env(None) is None
    assert checked_env({}) is None


def test_env_when_theirs_changes_then_ours_does_not() -> None:
    variables = {"A": "1"}
    env = checked_env({"env_vars": variables})
    variables["A"] = "2"

    assert env == {"env_vars": {"A": "1"}}


@pytest.mark.parametrize(
    ("outer", "own", "merged"),
    [
        ({}, {"A": "1"}, {"A": "1"}),
        ({"A": "1"}, {}, {"A": "1"}),
        ({"A": "1"}, {"A": "2", "B": "3"}, {"A": "2", "B": "3"}),
        ({"P": "/x:${P}"}, {"P": "/y:${P}"}, {"P": "/y:/x:${P}"}),
        ({"P": "/x"}, {"Q": "${P}/${R}"}, {"P": "/x", "Q": "/x/${R}"}),
    ],
)
def test_what_is_inherited_is_merged_with_what_is_said(
    outer: dict[str, str], own: dict[str, str], merged: dict[str, str]
) -> None:
    assert merged_env({"env_vars": outer}, {"env_vars": own}) == {"env_vars": merged}


def test_inherited_when_a_directory_is_said_then_it_wins() -> None:
    outer, own = {"working_dir": "/a"}, {"working_dir": "/b"}

    assert merged_env(outer, None) == outer  # type: ignore[arg-type]
    assert merged_env(outer, own) == own  # type: ignore[arg-type]
    assert merged_env(outer, {"env_vars": {"A": "1"}}) == {  # type: ignore[arg-type]
        "working_dir": "/a",
        "env_vars": {"A": "1"},
    }


def test_references_are_what_was_there_before() -> None:
    env = checked_env({"env_vars": {"P": "/x:${P}", "Q": "${none}$P"}})

    assert variables_of(env, {"P": "/bin"}) == {"P": "/x:/bin", "Q": "$P"}


# Processes.

process = pytest.mark.process


def in_processes(test: Any) -> Any:
    """Marks a test that uses the module's runtime."""
    test = pytest.mark.usefixtures("runtime")(test)
    return process(pytest.mark.asyncio(loop_scope="module")(test))


@actorlib.remote
class Place:
    """Says where it is."""

    seen = os.environ.get("ACTORLIB_TEST_A")

    def __init__(self) -> None:
        self.first = os.environ.get("ACTORLIB_TEST_A")

    def variable(self, name: str) -> str | None:
        return os.environ.get(name)

    def at_first(self) -> str | None:
        return self.first

    def make(self, **options: Any) -> Any:
        return Place.options(**options).remote()

    def directory(self) -> tuple[str, str]:
        return os.getcwd(), sys.path[0]  # noqa: PTH109  # what the actor itself sees

    def imported(self, name: str) -> Any:
        return __import__(name).VALUE

    def env(self) -> Any:
        return actorlib.get_runtime_context().runtime_env


@pytest.fixture(scope="module")
def runtime_options() -> RuntimeKeywords:
    return {"preload": [__name__], "num_cpus": 4, "grace": 0.5}


def with_variables(**variables: str) -> Any:
    return Place.options(runtime_env={"env_vars": variables})


@in_processes
async def test_variables_are_there_before_the_constructor_and_here_alone() -> None:
    place = with_variables(ACTORLIB_TEST_A="1", PATH="/nowhere:${PATH}").remote()
    other = Place.remote()

    assert await place.at_first.remote() == "1"
    assert await place.variable.remote("PATH") == f"/nowhere:{os.environ['PATH']}"
    assert await other.variable.remote("ACTORLIB_TEST_A") is None
    assert "ACTORLIB_TEST_A" not in os.environ
    env = {"ACTORLIB_TEST_A": "1", "PATH": "/nowhere:${PATH}"}
    assert await place.env.remote() == {"env_vars": env}
    assert await other.env.remote() == {}


@process
@pytest.mark.parametrize("method", ["template", "spawn"])
async def test_variables_when_taken_out_before_init_then_actors_never_have_them(
    monkeypatch: pytest.MonkeyPatch, method: Any
) -> None:
    """What the README says of keys and tokens; after ``init()`` it is too late."""
    for name in "ABC":
        monkeypatch.setenv(f"ACTORLIB_TEST_{name}", "secret")
    monkeypatch.delenv("ACTORLIB_TEST_A")
    async with running(start_method=method):
        monkeypatch.delenv("ACTORLIB_TEST_B")
        place = with_variables(ACTORLIB_TEST_C="").remote()

        seen = [await place.variable.remote(f"ACTORLIB_TEST_{name}") for name in "ABC"]

    assert seen == [None, "secret", ""]


@in_processes
async def test_variables_are_there_when_the_class_is_loaded() -> None:
    class Loaded:
        def __reduce__(self) -> Any:
            return os.getenv, ("ACTORLIB_TEST_A",)

    echo = Echo.options(runtime_env={"env_vars": {"ACTORLIB_TEST_A": "1"}}).remote()
    assert await echo.echo.remote(Loaded()) == "1"


@in_processes
async def test_actors_made_by_an_actor_inherit_its_variables() -> None:
    outer = with_variables(ACTORLIB_TEST_A="1", ACTORLIB_TEST_B="2").remote()
    inner = await outer.make.remote(
        runtime_env={"env_vars": {"ACTORLIB_TEST_B": "${ACTORLIB_TEST_B}3"}}
    )
    innermost = await inner.make.remote()

    assert await inner.variable.remote("ACTORLIB_TEST_A") == "1"
    assert await innermost.variable.remote("ACTORLIB_TEST_B") == "23"


@in_processes
async def test_a_restart_keeps_the_variables() -> None:
    env: Any = {"env_vars": {"ACTORLIB_TEST_A": "1"}}
    place = Place.options(runtime_env=env, max_restarts=1).remote()
    assert await place.at_first.remote() == "1"

    await actorlib.kill(place, no_restart=False)
    await place

    assert await place.at_first.remote() == "1"
    assert await place.variable.remote("ACTORLIB_TEST_A") == "1"


@process
async def test_the_user_s_word_on_devices_and_threads_is_the_last() -> None:
    async with running(num_gpus=2):
        variables = {"CUDA_VISIBLE_DEVICES": "7", "OMP_NUM_THREADS": "3,2"}
        place = Place.options(
            num_gpus=1, num_cpus=2, runtime_env={"env_vars": variables}
        ).remote()

        assert await place.variable.remote("CUDA_VISIBLE_DEVICES") == "7"
        assert await place.__ray_call__.remote(lambda _: actorlib.get_gpu_ids()) == [7]
        assert await place.variable.remote("OMP_NUM_THREADS") == "3,2"
        assert await place.variable.remote("MKL_NUM_THREADS") is None


@in_processes
@pytest.mark.parametrize("is_relative", [False, True])
async def test_working_dir_when_said_then_it_works_and_imports_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_relative: bool
) -> None:
    (tmp_path / f"actorlib_test_module_{is_relative}.py").write_text("VALUE = 5")
    monkeypatch.chdir(tmp_path.parent)  # where the maker is
    directory = tmp_path.name if is_relative else str(tmp_path)
    place = Place.options(runtime_env={"working_dir": directory}).remote()

    assert await place.directory.remote() == (str(tmp_path), str(tmp_path))
    assert await place.imported.remote(f"actorlib_test_module_{is_relative}") == 5


@in_processes
async def test_working_dir_when_it_is_not_there_then_refused_at_remote(
    tmp_path: Path,
) -> None:
    cls = Place.options(runtime_env={"working_dir": str(tmp_path / "none")})

    with pytest.raises(NotADirectoryError, match="none"):
        cls.remote()


@process
async def test_working_dir_when_it_goes_before_the_start_then_the_actor_says_so(
    tmp_path: Path,
) -> None:
    async with running(num_cpus=1):
        first = Echo.options(num_cpus=1).remote()
        await first
        late = tmp_path / "late"
        late.mkdir()
        second = Place.options(
            num_cpus=1, runtime_env={"working_dir": str(late)}
        ).remote()
        late.rmdir()
        await actorlib.kill(first)
        with pytest.raises(ActorDiedError, match="late"):
            await second
