"""Formats the names of actors for messages: ``Model 'm1' (pid 812)``.

A replica has a number instead of a name: ``Model[2] (pid 812)``.
"""

from __future__ import annotations

from types import FunctionType
from typing import Final, final

LONGEST_NAME: Final = 100
"""The maximum number of characters of a name from an actor's ``__repr__``."""


@final
class Label:
    """The name of an actor in logs, errors and tables.

    Attributes:
        class_name: The name of its class.
        own: The result of its own ``__repr__``, or the empty string. It replaces the
            class in the label.
        slot: Its number among replicas, as in ``Model[2]``; None if it is none.
    """

    __slots__ = ("_name", "class_name", "own", "slot")

    def __init__(
        self,
        class_name: str,
        name: str | None = None,
        own: str = "",
        slot: int | None = None,
    ) -> None:
        self.class_name = class_name
        self.own = own
        self.slot = slot
        self._name = name

    @property
    def head(self) -> str:
        """The label without the name."""
        head = self.own or self.class_name
        return head if self.slot is None else f"{head}[{self.slot}]"

    def __str__(self) -> str:
        return self.head if self._name is None else f"{self.head} {self._name!r}"

    def at(self, pid: int) -> str:
        """Returns the label with a process id, unless that is 0."""
        return with_pid(str(self), pid)

    def method(self, name: str, pid: int = 0) -> str:
        """Returns the label of one of its methods: ``Model.ping of 'm1' (pid 812)``."""
        of = "" if self._name is None else f" of {self._name!r}"
        return with_pid(f"{self.head}.{name}{of}", pid)

    def with_own(self, own: str) -> Label:
        """Returns a copy of this label with the result of the actor's ``__repr__``."""
        return Label(self.class_name, self._name, own, self.slot)


def with_pid(text: str, pid: int) -> str:
    return f"{text} (pid {pid})" if pid else text


def own_name(instance: object) -> str:
    """Returns the result of an actor's own ``__repr__``; empty if it cannot be a name.

    It is the user's code, so it may raise, and it may print a whole model. A name that
    precedes each line of a log has to be one short line.
    """
    # A repr written in C, such as a list's, is not meant as a name.
    if not isinstance(type(instance).__repr__, FunctionType):
        return ""
    try:
        name = repr(instance)
    except BaseException:  # noqa: BLE001  # the actor was created all the same
        return ""
    return name if name.isprintable() and 0 < len(name) <= LONGEST_NAME else ""
