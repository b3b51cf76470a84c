"""Adapts docstrings and classes for mkdocstrings.

``Example:`` becomes a section of code, and members for engines are left out.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import griffe

if TYPE_CHECKING:
    from typing import Any

_UNSAID = ("_", "Generic[")
_LITERAL = re.compile(r"::$", re.MULTILINE)
_QUOTED = re.compile(r"['\"](\w+)['\"]")
_EXAMPLE = re.compile(r"^Example:$", re.MULTILINE)


class Docstrings(griffe.Extension):
    """Changes the objects that griffe has read."""

    def on_object(
        self, *, obj: griffe.Object, loader: griffe.GriffeLoader, **_: Any
    ) -> None:
        """Gives each example the title that the parser expects.

        Users do not create a class whose docstring has no ``Args:``. Its constructor
        is left out, and so are bases without a meaning for users.
        """
        del loader
        text = "" if obj.docstring is None else obj.docstring.value
        if obj.docstring is not None:
            shown = _LITERAL.sub(":", _EXAMPLE.sub("Examples:", text))
            obj.docstring.value = shown
        if isinstance(obj, griffe.Class):
            obj.bases = [b for b in obj.bases if not str(b).startswith(_UNSAID)]
            for name in _names_of_engines(obj.module):
                obj.members.pop(name, None)
            if "\nArgs:\n" not in text:
                obj.members.pop("__init__", None)


def _names_of_engines(module: griffe.Module) -> list[str]:
    """Lists the members of a module's classes that are for engines."""
    names = module.members.get("_OF_ENGINES")
    return _QUOTED.findall(str(names.value)) if names is not None else []
