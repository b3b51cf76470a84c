"""What may be said about a call: checked once, then frozen.

Written twice side by side: a ``TypedDict`` for the type checker of whoever writes the
keywords, a dataclass for whoever reads them. A test keeps the two equal.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, TypedDict

from actorlib._checks import checked, text

if TYPE_CHECKING:
    from collections.abc import Mapping


class CallKeywords(TypedDict, total=False):
    """The keywords of ``@method(...)`` and ``handle.ping.options(...)``."""

    concurrency_group: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallOptions:
    """How one method is called, or one call is made.

    Attributes:
        concurrency_group: The group that it counts in. None is the one of the methods
            that name none.
    """

    concurrency_group: str | None = None

    def __post_init__(self) -> None:
        if self.concurrency_group is not None:
            text("concurrency_group", self.concurrency_group, "'io'")

    def updated(self, given: Mapping[str, object]) -> CallOptions:
        """These options with some of them replaced; None leaves one as it is.

        Raises:
            TypeError: An option is unknown, or a value has the wrong type.
            ValueError: A value is out of range.
        """
        kept = {option.name: getattr(self, option.name) for option in fields(self)}
        new = {name: value for name, value in given.items() if value is not None}
        return checked(CallOptions, "a method", {**kept, **new}, unknown=TypeError)
