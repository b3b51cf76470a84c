from __future__ import annotations

import pytest

import actorlib
from actorlib._options.runtime_options import LONGEST_RUNTIME_NAME, check_runtime_name
from actorlib.exceptions import UnsupportedOptionError


@pytest.mark.parametrize("name", ["service", "a", "2", "My.Service_2-b", "x" * 40])
def test_name_when_it_may_be_one_then_it_is_taken(name: str) -> None:
    check_runtime_name("name", name)

    assert actorlib.RuntimeOptions(name=name).name == name


@pytest.mark.parametrize(
    "name",
    [
        *["", " ", "-x", ".x", "a b", "a/b", "a\0", "a:6379", "ä", "auto", "local"],
        "x" * (LONGEST_RUNTIME_NAME + 1),
    ],
)
def test_name_when_it_may_be_none_then_the_error_names_the_option(name: str) -> None:
    with pytest.raises(ValueError, match=r"^name "):
        actorlib.RuntimeOptions(name=name)
    with pytest.raises(ValueError, match=r"^attach\(name\) "):
        actorlib.attach(name)


def test_name_when_it_is_no_string_then_the_type_is_told() -> None:
    with pytest.raises(TypeError, match=r"name takes a name.*5 \(int\)"):
        actorlib.RuntimeOptions(name=5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # on purpose


def test_name_when_the_engine_has_no_clients_then_it_is_refused() -> None:
    with pytest.raises(UnsupportedOptionError, match="engine='inline'"):
        actorlib.init(name="service", engine="inline")
