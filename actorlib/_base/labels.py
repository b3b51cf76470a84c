"""How messages name an actor: ``Model 'm1' (pid 812)``."""

from __future__ import annotations

from types import FunctionType
from typing import Final, final

LONGEST_NAME: Final = 100
"""How many characters an actor may call itself by."""


@final
class Label:
    """The name of an actor in logs, errors and tables.

    Args:
        class_name: The name of its class.
        name: The name that it was given, or None.
        own: What its own ``__repr__`` returns, or the empty string; it is shown in
            place of the class.

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
        """The label with a process id, if there is one: ``Model 'm1' (pid 812)``."""
        return with_pid(str(self), pid)

    def method(self, name: str, pid: int = 0) -> str:
        """The label of one of its methods: ``Model.ping of 'm1' (pid 812)``."""
        of = "" if self._name is None else f" of {self._name!r}"
        return with_pid(f"{self.own or self.class_name}.{name}{of}", pid)

    def with_own(self, own: str) -> Label:
        """The label of the same actor, with what its own ``__repr__`` returned."""
        return Label(self.class_name, self._name, own)


def with_pid(text: str, pid: int) -> str:
    """A label with a process id, if there is one."""
    return f"{text} (pid {pid})" if pid else text


def own_name(instance: object) -> str:
    """What an actor's own ``__repr__`` returns; empty if that is of no use as a name.

    It is the user's code, so it may raise, and it may print a whole model: a name that
    stands in front of each line of a log has to be one short line.
    """
    # A repr written in C, such as a list's, is not meant as a name.
    if not isinstance(type(instance).__repr__, FunctionType):
        return ""
    try:
        name = repr(instance)
    except BaseException:  # noqa: BLE001  # whatever it raises, the actor was created
        return ""
    return name if name.isprintable() and 0 < len(name) <= LONGEST_NAME else ""
