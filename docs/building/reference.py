"""Generates parts of the reference from the code when the site is built.

In a page of docs/reference, mkdocstrings replaces ``::: actorlib.init`` by the text of
a name, and this module replaces comments such as ``<!-- options: ActorOptions -->``.
Public names that no page has go to a page of other names.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import inspect
import re
from textwrap import indent
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

MODULES = (
    "actorlib",
    "actorlib.accelerators",
    "actorlib.blocking",
    "actorlib.exceptions",
    "actorlib.observe",
    "actorlib.types",
)
"""The modules whose names are public."""

_FEW = 3
"""At most this number of choices appear in place of the value of an argument."""

OPTIONS = {
    "Engine": ["engine", "address"],
    "Resources": [
        *["num_cpus", "num_gpus", "gpu_memory", "memory", "resources"],
        *["accelerator_type", "devices", "device_memory"],
    ],
    "Placement": [
        *["placement", "device", "near", "apart_from", "placement_group"],
        *["placement_group_bundle_index", "placement_group_capture_child_tasks"],
        *["scheduling_strategy", "priority", "infeasible"],
    ],
    "Visibility and enforcement": [
        *["accelerators", "enforcement", "mps_thread_percentage"],
        *["device_memory_overuse", "torch", "mask_form"],
    ],
    "Calls": [
        *["max_concurrency", "concurrency_groups", "concurrency_group"],
        *["max_pending_calls", "max_unread_items", "allow_out_of_order_execution"],
        *["timeout", "num_returns", "backpressure", "detach", "max_calls"],
        *["max_retries", "max_task_retries", "retry_exceptions"],
    ],
    "Name and life": [
        *["name", "namespace", "get_if_exists", "lifetime", "max_restarts"],
        *["restart_window", "restart_backoff", "runtime_env", "grace"],
    ],
    "Start of workers": ["preload", "start_method"],
    "Shared memory": [
        "object_store_memory",
        "object_store_full",
        "shared_memory_threshold",
    ],
    "Observation": [
        *["log_to_driver", "log_level", "control", "dashboard", "middleware"],
        "actor_history",
    ],
}
"""The groups of options, in the order in which the reference shows them."""

_RULE = "|---|---|---|---|"
_BESIDE = {"__version__", "exceptions"}
_SHOWN = re.compile(r"^::: (actorlib[\w.]*)$|\{ #(actorlib[\w.]*) \}", re.MULTILINE)
_WRONG: tuple[object, ...] = (
    *(b"?", "?", "", -2, 0, 1.5, 101, True, (), []),
    *({"": 1}, {"io": 0}, {"io": "?"}, ["?", "?"], [b"?"]),
)
"""Values that most options refuse; the errors of the first ones are shown."""


def public_names() -> list[str]:
    """Lists every public name with its module, each object once."""
    seen: set[int] = set()
    names: list[str] = []
    for module in MODULES:
        loaded = importlib.import_module(module)
        for name in loaded.__all__:
            value: object = getattr(loaded, name)
            if name in _BESIDE or id(value) in seen:
                continue
            seen.add(id(value))
            names.append(f"{module}.{name}")
    return names


def shown_names(texts: Iterable[str]) -> list[str]:
    """Lists the names that pages show, with repetitions."""
    return [m[1] or m[2] for text in texts for m in _SHOWN.finditer(text)]


def other_names(texts: Iterable[str]) -> list[str]:
    """Lists the public names that no page shows."""
    shown = set(shown_names(texts))
    return [name for name in public_names() if name not in shown]


def page_of_others(names: Iterable[str]) -> str:
    """Writes the page of the names that no other page shows."""
    shown = "\n".join(f"::: {name}" for name in names)
    return (
        f"# Other names\n\nThese names are public, too. Import each from the "
        f"module before it.\n\n{shown}\n"
    )


# Options.


def attributes(made: type) -> dict[str, str]:
    """Reads the texts of the attributes in the docstring of a class."""
    doc = inspect.getdoc(made) or ""
    _, _, section = doc.partition("Attributes:\n")
    rows = re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", section, re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in rows}


def refusals(made: Callable[..., object], name: str) -> list[str]:
    """Returns the errors of an option for wrong values, one of each type.

    Args:
        made: The class of the options.
        name: The option.
    """
    errors: dict[str, str] = {}
    for value in _WRONG:
        try:
            made(**{name: value})
        except (TypeError, ValueError) as error:
            kind = type(error).__name__
            errors.setdefault(kind, f"{kind}: {error}")
    return [errors[kind] for kind in sorted(errors)]


def options(made: type[Any]) -> str:
    """Describes every option of a class: a table of all, then each by its group.

    Args:
        made: The dataclass with the options as its fields.
    """
    texts = attributes(made)
    groups = _grouped(field for field in dataclasses.fields(made) if field.init)
    rows = [
        _row(made, field, texts[field.name])
        for fields in groups.values()
        for field in fields
    ]
    table = "\n".join(["| option | type | default | meaning |", _RULE, *rows])
    parts = [f'<div class="options" markdown>\n\n{table}\n\n</div>']
    for group, fields in groups.items():
        parts.append(f"### {group}\n")
        parts += [_option(made, field, texts[field.name]) for field in fields]
    return "\n\n".join(parts)


def _grouped(
    fields: Iterable[dataclasses.Field[Any]],
) -> dict[str, list[dataclasses.Field[Any]]]:
    groups: dict[str, list[dataclasses.Field[Any]]] = {name: [] for name in OPTIONS}
    groups["Others"] = []
    group_of = {name: group for group, names in OPTIONS.items() for name in names}
    for field in fields:
        groups[group_of.get(field.name, "Others")].append(field)
    return {group: members for group, members in groups.items() if members}


def _row(made: type, field: dataclasses.Field[Any], text: str) -> str:
    sentence = re.split(r"(?<=\.)\s", text.replace("``", "`"))[0]
    return (
        f"| [`{field.name}`](#{_anchor(made, field)}) | `{_type(field.type)}` "
        f"| `{field.default!r}` | {sentence} |"
    )


def _anchor(made: type, field: dataclasses.Field[Any]) -> str:
    return f"{made.__name__.removesuffix('Options').lower()}-{field.name}"


def _option(made: type, field: dataclasses.Field[Any], text: str) -> str:
    errors = "\n".join(refusals(made, field.name))
    folded = indent(f"```text\n{errors}\n```", "    ")
    shown = f'\n??? note "Errors"\n\n{folded}\n' if errors else ""
    return (
        f"#### {field.name} {{ #{_anchor(made, field)} }}\n\n`{_type(field.type)}`\n\n"
        f"{text.replace('``', '`')}\n{shown}"
    )


def _type(annotation: object) -> str:
    """Formats a type as in a signature."""
    text = (
        annotation
        if isinstance(annotation, str)
        else inspect.formatannotation(annotation)
    )
    text = re.sub(r"^Optional\[(.*)\]$", r"\1 | None", text.replace("typing.", ""))
    return re.sub(r"\b(?:\w+\.)+(?=\w)", "", text)


# Commands.


def commands() -> str:
    """Describes every command with its arguments, as ``--help`` does."""
    from actorlib.__main__ import _parser  # noqa: PLC0415  # for this page alone

    return "\n".join(_command(name, sub) for name, sub in _commands(_parser()))


def _commands(
    parser: argparse.ArgumentParser,
) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    for action in parser._actions:  # noqa: SLF001  # argparse has no public API
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001  # no public API
            yield from action.choices.items()


def _command(name: str, parser: argparse.ArgumentParser) -> str:
    rows = [
        f"| `{_words(action)}` | {_meaning(action)} |"
        for action in parser._actions  # noqa: SLF001  # no public API
        if not isinstance(action, argparse._HelpAction)  # noqa: SLF001  # no public API
    ]
    table = "\n".join(["| argument | meaning |", "|---|---|", *rows]) if rows else ""
    example = re.sub(r"^examples?: ", "", parser.epilog or "")
    if example and not example.startswith("actorlib"):
        example = ""
    shown = "\n".join(part.strip() for part in example.split(";"))
    code = f"\n\n```sh\n{shown}\n```" if shown else ""
    about = parser.description or ""
    return f"## actorlib {name}\n\n{about}{code}\n\n{table}\n"


def _meaning(action: argparse.Action) -> str:
    choices = [str(choice) for choice in action.choices or ()]
    words = f"; one of {', '.join(choices)}" if len(choices) > _FEW else ""
    return f"{action.help or ''}{words}".replace("|", "\\|")


def _words(action: argparse.Action) -> str:
    value = ""
    if action.nargs != 0:
        choices = [str(choice) for choice in action.choices or ()]
        few = " or ".join(choices) if len(choices) <= _FEW else ""
        value = str(few or action.metavar or action.dest.upper())
    if not action.option_strings:
        return f"[{value}]" if action.nargs == "?" else value
    flags = ", ".join(action.option_strings)
    return f"{flags} {value}".strip()


# Metrics.


def metrics() -> str:
    """Describes every metric: its name in a scrape, its labels, its help."""
    from prometheus_client import CollectorRegistry  # noqa: PLC0415  # for this page

    from actorlib.observe import prometheus  # noqa: PLC0415  # for this page

    collector: Any = prometheus(registry=CollectorRegistry())
    rows = [
        f"| `{family.name}{'_total' if family.type == 'counter' else ''}` "
        f"| {family.type} | {_labels(family)} | {family.documentation} |"
        for family in sorted(collector.describe(), key=lambda family: family.name)
    ]
    return "\n".join(
        ["| metric | kind | labels | meaning |", "|---|---|---|---|", *rows]
    )


def _labels(family: Any) -> str:
    return ", ".join(f"`{label}`" for label in family._labelnames) or "none"  # noqa: SLF001  # no public API


# Exceptions.


def exceptions() -> str:
    """Lists the errors below their base classes, with links."""
    module = importlib.import_module("actorlib.exceptions")
    errors = [
        made
        for made in map(module.__dict__.__getitem__, module.__all__)
        if isinstance(made, type) and issubclass(made, BaseException)
    ]
    children: dict[type, list[type]] = {}
    for made in errors:
        parent = next((b for b in made.__mro__[1:] if b in errors), Exception)
        children.setdefault(parent, []).append(made)
    return _tree(Exception, children)


def _tree(parent: type, children: Mapping[type, list[type]]) -> str:
    lines: list[str] = []
    for made in children.get(parent, ()):
        beside = [b for b in made.__bases__ if not b.__module__.startswith("actorlib")]
        names = [_name(base) for base in beside if base is not Exception]
        also = "".join(f", also a `{name}`" for name in names)
        lines.append(f"* [{made.__name__}][actorlib.exceptions.{made.__name__}]{also}")
        below = _tree(made, children)
        if below:
            lines.append(indent(below, "    "))
    return "\n".join(lines)


def _name(made: type) -> str:
    module = made.__module__.removeprefix("_")
    return made.__name__ if module == "builtins" else f"{module}.{made.__name__}"


def made_for(marker: str) -> str:
    """Generates the content for a comment of a page.

    Args:
        marker: ``options: ActorOptions``, ``commands``, ``metrics`` or ``exceptions``.
    """
    word, _, name = marker.partition(": ")
    if word == "options":
        return options(getattr(importlib.import_module("actorlib.types"), name))
    return {"commands": commands, "metrics": metrics, "exceptions": exceptions}[word]()
