"""Names of runtimes: what one may be called, so that other processes find it."""

import re

from actorlib._base.validation import check_text

LONGEST_RUNTIME_NAME = 40
"""Characters: the address of a socket is made of it, and has few more."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_OTHERS = ("auto", "local")
"""Words that mean something else where a script says which runtime it wants."""


def check_runtime_name(option: str, name: object) -> None:
    """Makes sure that a value may be the name of a runtime.

    Args:
        option: What messages call it.
        name: The value.

    Raises:
        TypeError: It is no string.
        ValueError: It has other characters than it may, or too many, or is a word that
            means something else.
    """
    check_text(option, name, "'service'")
    text = str(name)
    if len(text) > LONGEST_RUNTIME_NAME or not _NAME.fullmatch(text):
        raise ValueError(
            f"{option} takes up to {LONGEST_RUNTIME_NAME} letters, digits, '.', '_' "
            f"and '-', a letter or a digit first, for example 'service', not {text!r}"
        )
    if text in _OTHERS:
        raise ValueError(
            f"{option} cannot be {text!r}: as an address that word means something else"
        )
