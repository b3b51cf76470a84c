"""What may be said about a call: checked once, then frozen.

Written twice side by side: a ``TypedDict`` for the type checker of whoever writes the
keywords, a dataclass for whoever reads them. A test keeps the two equal.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Literal, TypedDict

from actorlib._checks import checked, count, limit, one_of, text

if TYPE_CHECKING:
    from collections.abc import Mapping

RAYS_NAMES = {"_generator_backpressure_num_objects": "backpressure"}
"""What Ray calls some of them."""


class CallKeywords(TypedDict, total=False):
    """The keywords of ``@method(...)`` and ``handle.ping.options(...)``."""

    concurrency_group: str | None
    backpressure: int | None
    num_returns: int | Literal["streaming", "dynamic"] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallOptions:
    """How one method is called, or one call is made.

    Attributes:
        concurrency_group: The group that it counts in. None is the one of the methods
            that name none.
        backpressure: Of a generator: how many items it may be ahead of its reader, -1
            for any number. None is 256 items or 8 MiB, whichever is met first.
        num_returns: ``"streaming"``, for generators: what they are anyhow. Of other
            methods 1, the default.
    """

    concurrency_group: str | None = None
    backpressure: int | None = None
    num_returns: int | Literal["streaming", "dynamic"] | None = None

    def __post_init__(self) -> None:
        if self.concurrency_group is not None:
            text("concurrency_group", self.concurrency_group, "'io'")
        if self.backpressure is not None:
            limit("backpressure", self.backpressure)
        if isinstance(self.num_returns, str):
            one_of("num_returns", self.num_returns, ("streaming", "dynamic"))
        elif self.num_returns is not None:
            count("num_returns", self.num_returns, 0)
        if self.num_returns == "dynamic":
            warnings.warn(
                'num_returns="dynamic" is deprecated: a generator streams its items '
                'without it, as with "streaming"',
                DeprecationWarning,
                stacklevel=6,
            )
            object.__setattr__(self, "num_returns", "streaming")

    def check(self, method: str, *, is_stream: bool) -> None:
        """Refuses what a method cannot be, generator or not.

        Raises:
            ValueError: An option is of the other kind of method.
        """
        if is_stream:
            if isinstance(self.num_returns, int):
                raise ValueError(
                    f"{method} is a generator and gives as many items as it likes: "
                    f'num_returns={self.num_returns} is not for it, "streaming" is'
                )
            return
        if self.num_returns == "streaming":
            raise ValueError(
                f'{method} is no generator: num_returns="streaming" is for methods '
                "with yield"
            )
        if self.backpressure is not None:
            raise ValueError(
                f"{method} is no generator: backpressure={self.backpressure} is for "
                "methods with yield"
            )
        if self.num_returns not in (None, 1):
            raise ValueError(
                f"num_returns={self.num_returns}: {method} has one result; give it a "
                "tuple and take that apart, or make it a generator"
            )

    def updated(self, given: Mapping[str, object]) -> CallOptions:
        """These options with some of them replaced; None leaves one as it is.

        Raises:
            TypeError: An option is unknown, or a value has the wrong type.
            ValueError: A value is out of range.
        """
        kept = {option.name: getattr(self, option.name) for option in fields(self)}
        new = {
            RAYS_NAMES.get(name, name): value
            for name, value in given.items()
            if value is not None
        }
        return checked(CallOptions, "a method", {**kept, **new}, unknown=TypeError)
