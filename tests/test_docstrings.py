"""What ``help()`` shows: every option and parameter, and examples that run as shown.

The text of each option is in the docstring of the class that checks it. A function that
takes options names that class.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import doctest
import inspect
import io
import re
import sys
import types
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import pytest

import actorlib
import actorlib.accelerators
import actorlib.blocking

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PUBLIC = [actorlib, actorlib.accelerators, actorlib.blocking, actorlib.types]


def entries(made: object, section: str = "Args") -> dict[str, str]:
    """What a docstring says of each parameter or attribute, by its name."""
    doc = inspect.getdoc(made) or ""
    found = re.search(rf"^{section}:\n((?:    .*\n?|\n)*)", doc, re.MULTILINE)
    text = found[1] if found else ""
    return {
        name: " ".join(said.split())
        for name, said in re.findall(
            r"^    (\*{0,2}\w+): ((?:.*(?:\n {8}.*)*))", text, re.MULTILINE
        )
    }


OPTIONS: list[tuple[Callable[..., Any], type]] = [
    (actorlib.init, actorlib.types.RuntimeOptions),
    (actorlib.blocking.init, actorlib.types.RuntimeOptions),
    (actorlib.blocking.remote, actorlib.types.ActorOptions),
    (actorlib.blocking.remote, actorlib.types.FunctionOptions),
    (actorlib.remote, actorlib.types.ActorOptions),
    (actorlib.remote, actorlib.types.FunctionOptions),
    (actorlib.types.ActorClass.options, actorlib.types.ActorOptions),
    (actorlib.types.RemoteFunction.options, actorlib.types.FunctionOptions),
    (actorlib.method, actorlib.types.CallOptions),
    (actorlib.types.ActorMethod.options, actorlib.types.CallOptions),
]
"""Who takes options by name, and of which class."""


def named(value: object) -> str:
    return str(getattr(value, "__qualname__", value))


@pytest.mark.parametrize(("function", "options"), OPTIONS, ids=named)
def test_option_when_it_is_taken_then_the_docstring_names_where_it_is_described(
    function: Callable[..., Any], options: type
) -> None:
    described = f"help({options.__module__}.{options.__name__})"

    assert described in entries(function)["**options"]


@pytest.mark.parametrize(
    "options",
    [
        actorlib.types.ActorOptions,
        actorlib.types.FunctionOptions,
        actorlib.types.CallOptions,
        actorlib.types.RuntimeOptions,
    ],
)
def test_option_when_it_has_a_default_then_its_text_tells_it(options: Any) -> None:
    known = entries(options, "Attributes")
    untold = [
        (option.name, option.default)
        for option in fields(options)
        if option.init
        and f"Default: {option.default}"
        not in known[option.name].replace('``"', "").replace('"``', "")
    ]

    assert untold == []


def functions() -> Iterator[tuple[str, Any]]:
    """Every public function, and every public method of a public class."""
    for module in PUBLIC:
        for name in module.__all__:
            made = getattr(module, name)
            where = f"{module.__name__}.{name}"
            if inspect.isfunction(made):
                yield where, made
            elif inspect.isclass(made):
                # What only engines use, and completion does not offer.
                home = sys.modules[vars(made).get("__dir__", made).__module__]
                hidden = getattr(home, "_OF_ENGINES", ())
                for member, found in vars(made).items():
                    if member.startswith("_") or member in hidden:
                        continue
                    if inspect.isfunction(found):
                        yield f"{where}.{member}", found


def taken_by(function: Any) -> set[str]:
    """The parameters that a function has by a name."""
    return {
        name
        for name, parameter in inspect.signature(function).parameters.items()
        if name != "self"
        and not name.startswith("_")
        and parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
    }


def test_parameter_when_the_function_says_what_it_takes_then_each_is_there() -> None:
    unsaid = [
        (where, taken - said)
        for where, function in functions()
        if (taken := taken_by(function)) - (said := entries(function).keys())
        # Of one parameter the one line of a short docstring is enough.
        and (len(taken) > 1 or "\n" in str(inspect.getdoc(function)))
    ]

    assert unsaid == []


def test_parameter_when_it_has_a_default_then_its_text_tells_it() -> None:
    assert [
        f"{where}({name})"
        for where, function in functions()
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.default is not parameter.empty
        and name in (said := entries(function))
        and "Default:" not in said[name]
    ] == []


# Examples.


class Example:
    """The examples of one docstring, to be run as in ``python -m asyncio``."""

    def __init__(self, where: str, doc: str) -> None:
        self.where = where
        self.steps = doctest.DocTestParser().get_examples(doc)
        self.text = "".join(step.source for step in self.steps)

    @property
    def has_own_runtime(self) -> bool:
        """Whether it begins and ends a runtime itself."""
        return "actorlib.run(" in self.text or "actorlib.blocking" in self.text

    async def run(self) -> None:
        names: dict[str, Any] = {"__name__": "__main__", "actorlib": actorlib}
        for step in self.steps:
            self._compare(step, *await self._shown(step, names))
        names.clear()  # what a function of them has as its globals is a cycle

    async def _shown(
        self, step: doctest.Example, names: dict[str, Any]
    ) -> tuple[str, str]:
        code = compile(
            step.source,
            f"<{self.where}>",
            "single",
            ast.PyCF_ALLOW_TOP_LEVEL_AWAIT,
            dont_inherit=True,
        )
        out, raised = io.StringIO(), ""
        with contextlib.redirect_stdout(out):
            shows, sys.displayhook = sys.displayhook, sys.__displayhook__
            try:
                ended = types.FunctionType(code, names)()
                if inspect.iscoroutine(ended):
                    await ended
            except Exception as error:
                if step.exc_msg is None:
                    raise
                raised = f"{type(error).__name__}: {error}\n"
            finally:
                sys.displayhook = shows
        return out.getvalue(), raised

    def _compare(self, step: doctest.Example, shown: str, raised: str) -> None:
        flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
        want, got = (
            (step.exc_msg, raised) if step.exc_msg is not None else (step.want, shown)
        )
        assert doctest.OutputChecker().check_output(want, got, flags), (
            f"{self.where}: {step.source!r} shows {got!r} and not {want!r}"
        )


def documented() -> Iterator[tuple[str, object]]:
    """Everything public that has a docstring, by its name."""
    for module in PUBLIC:
        yield module.__name__, module
        for name in module.__all__:
            made = getattr(module, name)
            where = f"{module.__name__}.{name}"
            if not inspect.ismodule(made):
                yield where, made
            if inspect.isclass(made):
                for member, found in vars(made).items():
                    if not member.startswith("_"):
                        yield f"{where}.{member}", found


DOCS = {
    where: found
    for where, made in documented()
    if (inspect.isroutine(made) or inspect.isclass(made) or inspect.ismodule(made))
    and (found := inspect.getdoc(made))
}
EXAMPLES = {where: Example(where, doc) for where, doc in DOCS.items() if ">>> " in doc}
SHARED = [where for where, found in EXAMPLES.items() if not found.has_own_runtime]
ALONE = [where for where, found in EXAMPLES.items() if found.has_own_runtime]


@pytest.mark.parametrize("where", SHARED)
async def test_example_when_it_runs_then_it_shows_what_it_says(where: str) -> None:
    async with (
        asyncio.timeout(20),
        actorlib.init(engine="inline", num_cpus=4, num_gpus=2),
    ):
        await EXAMPLES[where].run()


@pytest.mark.parametrize("where", ALONE)
def test_example_when_it_has_a_runtime_of_its_own_then_it_shows_what_it_says(
    where: str,
) -> None:
    # No loop runs here: what there is to be awaited is so by actorlib.run().
    with contextlib.suppress(StopIteration):
        EXAMPLES[where].run().send(None)


async def test_example_when_it_shows_something_else_then_it_fails() -> None:
    with pytest.raises(AssertionError, match="shows '42"):
        await Example("wrong", ">>> 6 * 7\n43\n").run()
    with pytest.raises(ZeroDivisionError):
        await Example("raises", ">>> 1 / 0\n").run()


USED = [
    "ActorClass",
    "ActorHandle",
    "ActorMethod",
    "ActorPool",
    "MapResult",
    "GeneratorFunction",
    "ObjectRef",
    "ObjectRefGenerator",
    "PlacementGroup",
    "PlacementGroupSchedulingStrategy",
    "Queue",
    "RemoteFunction",
    "Results",
    "Runtime",
    "RuntimeContext",
    "Waiting",
]
"""The public classes that users hold; the others are rows, options and types."""


@pytest.mark.parametrize(
    "name",
    [
        *USED,
        *(n for n in actorlib.__all__ if inspect.isfunction(getattr(actorlib, n))),
    ],
)
def test_public_name_when_it_is_used_then_its_docstring_shows_how(name: str) -> None:
    module = "actorlib.types" if name in actorlib.types.__all__ else "actorlib"
    assert f"{module}.{name}" in EXAMPLES
