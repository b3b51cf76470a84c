"""The methods that every actor has, for scripts that know them from Ray.

They are put into the class, in this process alone, so that calling one is like calling
any other and costs nothing where none is called.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from actorlib._interface import CALL, READY

if TYPE_CHECKING:
    from collections.abc import Callable


def install(cls: type) -> None:
    """Gives a class the methods that every actor has."""
    with suppress(TypeError):  # a class written in C cannot have more than it has
        type.__setattr__(cls, READY.name, _ready)
        type.__setattr__(cls, CALL.name, _call)


def _ready(instance: object) -> bool:
    """True: whoever is answered knows that the constructor has finished."""
    del instance
    return True


def _call(
    instance: object, function: Callable[..., object], /, *args: Any, **kwargs: Any
) -> object:
    """Calls a function with the actor's object in front."""
    return function(instance, *args, **kwargs)
