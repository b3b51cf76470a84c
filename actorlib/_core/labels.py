"""What an actor is called in everything that people read: ``Model 'm1' (pid 812)``."""

from __future__ import annotations

from types import FunctionType
from typing import Final, final

LONGEST_NAME: Final = 100
"""How many characters an actor may call itself by."""


@final
class Label:
    """What one actor is called in everything that people read.

    Args:
        class_name: The name of its class.
        name: The name that it was given, or None.
        own: What its own ``__repr__`` calls it, or the empty string: that stands in
            the place of the class.

    Attributes:
        class_name: See above.
        own: See above.
    """

    __slots__ = ("_name", "class_name", "own")

    def __init__(self, class_name: str, name: str | None = None, own: str = "") -> None:
        self.class_name = class_name
        self.own = own
        self._name = name

    def __str__(self) -> str:
        """``Model 'm1'``, or ``Model``."""
        head = self.own or self.class_name
        return head if self._name is None else f"{head} {self._name!r}"

    def at(self, pid: int) -> str:
        """The same with its process, if it has one: ``Model 'm1' (pid 812)``."""
        return _at(str(self), pid)

    def method(self, name: str, pid: int = 0) -> str:
        """One of its methods: ``Model.ping of 'm1' (pid 812)``."""
        of = "" if self._name is None else f" of {self._name!r}"
        return _at(f"{self.own or self.class_name}.{name}{of}", pid)

    def calling_itself(self, own: str) -> Label:
        """The same actor once it has said what it calls itself."""
        return Label(self.class_name, self._name, own)


def _at(text: str, pid: int) -> str:
    return f"{text} (pid {pid})" if pid else text


def own_name(instance: object) -> str:
    """What an actor's own ``__repr__`` calls it; empty if there is none of use.

    It is the user's code, so it may fail, and it may tell the whole of a model: what
    goes in front of every line has to be one short line.
    """
    # What is written in C, as a list's, was not written to name anybody.
    if not isinstance(type(instance).__repr__, FunctionType):
        return ""
    try:
        told = repr(instance)
    except BaseException:  # noqa: BLE001  # whatever it raises, the actor was born
        return ""
    return told if told.isprintable() and 0 < len(told) <= LONGEST_NAME else ""
