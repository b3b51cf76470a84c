"""The state of the screen of ``actorlib top``, how keys change it, and what it selects.

Everything here is a function of values: keys and rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from actorlib._cli.actor_columns import waiting_calls

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from actorlib._queries.rows import ActorStatus

    Order = Callable[[ActorStatus], Any]

SORT_KEYS: Final[Mapping[str, str]] = {
    "cpu": "c",
    "memory": "m",
    "device": "d",
    "name": "n",
    "calls": "r",
    "waiting": "w",
    "age": "a",
    "pid": "p",
}
"""The orders of actors, and the key for each."""

_BY_KEY = {key: name for name, key in SORT_KEYS.items()}
_ASCENDING = frozenset({"name", "pid"})
_ESCAPES: Mapping[str, str] = {
    "[A": "up",
    "OA": "up",
    "[B": "down",
    "OB": "down",
    "[5~": "page up",
    "[6~": "page down",
    "[H": "home",
    "OH": "home",
    "[1~": "home",
    "[F": "end",
    "OF": "end",
    "[4~": "end",
}
_CONTROLS: Mapping[str, str] = {
    "\r": "enter",
    "\n": "enter",
    "\x7f": "backspace",
    "\b": "backspace",
    "\x15": "clear",
    "\x1b": "escape",
}
_END = 2**31


@dataclass(frozen=True, slots=True, kw_only=True)
class Screen:
    """The state of the screen.

    Attributes:
        sort: The order of actors: a name of ``SORT_KEYS``.
        is_reversed: Whether the order is reversed.
        needle: The text to search in actors; empty for none.
        is_typing: Whether keys are letters of that text.
        previous_needle: The text before the user began to type another one.
        first: The first visible row, from 0; past the end for the last page.
        is_over: Whether the user has quit.
    """

    sort: str = "cpu"
    is_reversed: bool = False
    needle: str = ""
    is_typing: bool = False
    previous_needle: str = ""
    first: int = 0
    is_over: bool = False


def keys_in(typed: bytes) -> Iterator[str]:
    """Splits the bytes from a terminal, which sends all bytes of a key at once.

    Yields:
        Letters, and words for other keys: ``"up"``, ``"enter"``, ``"escape"``. Unknown
        keys are left out.
    """
    text = typed.decode("utf-8", "ignore")
    while text:
        if text[0] == "\x1b" and text[1:2] in ("[", "O"):
            end = 2
            while end < len(text) and text[end] in "0123456789;":
                end += 1
            word = _ESCAPES.get(text[1 : end + 1])
            text = text[end + 1 :]
            if word is not None:
                yield word
            continue
        letter, text = text[0], text[1:]
        if letter in _CONTROLS:
            yield _CONTROLS[letter]
        elif letter.isprintable():
            yield letter


def pressed(screen: Screen, key: str, page: int = 10) -> Screen:
    """Applies a key to the screen, of which ``page`` rows are visible."""
    if screen.is_typing:
        return _typed(screen, key)
    if key in _BY_KEY:
        name = _BY_KEY[key]
        again = name == screen.sort and not screen.is_reversed
        return replace(screen, sort=name, is_reversed=again, first=0)
    first = _moved(screen.first, key, page)
    if first is not None:
        return replace(screen, first=max(0, first))
    if key == "/":
        needle = screen.needle
        return replace(screen, is_typing=True, previous_needle=needle, needle="")
    if key == "escape":
        return replace(screen, needle="", first=0)
    return replace(screen, is_over=key in ("q", "Q"))


def _moved(first: int, key: str, page: int) -> int | None:
    """Returns the first row after a key; None for a key that does not move."""
    moves = {
        "up": first - 1,
        "k": first - 1,
        "down": first + 1,
        "j": first + 1,
        "page up": first - page,
        "page down": first + page,
        " ": first + page,
        "home": 0,
        "end": _END,
    }
    return moves.get(key)


def _typed(screen: Screen, key: str) -> Screen:
    if key == "enter":
        return replace(screen, is_typing=False, previous_needle="", first=0)
    if key == "escape":
        needle = screen.previous_needle
        return replace(screen, is_typing=False, needle=needle, previous_needle="")
    if key == "backspace":
        return replace(screen, needle=screen.needle[:-1], first=0)
    if key == "clear":
        return replace(screen, needle="", first=0)
    if len(key) == 1:
        return replace(screen, needle=screen.needle + key, first=0)
    return screen


def settled(screen: Screen, count: int, page: int) -> Screen:
    """Limits the first row so that ``count`` rows fill a page of ``page`` rows."""
    return replace(screen, first=max(0, min(screen.first, count - page)))


def selected(screen: Screen, actors: Sequence[ActorStatus]) -> list[ActorStatus]:
    """Returns the actors that contain the needle, sorted."""
    needle = screen.needle.casefold()
    matches = [actor for actor in actors if needle in _text(actor)]
    is_falling = (screen.sort not in _ASCENDING) != screen.is_reversed
    # Equal actors stay in the order of their creation.
    return sorted(matches, key=_ORDERS[screen.sort], reverse=is_falling)


def _text(actor: ActorStatus) -> str:
    parts = (
        actor.label,
        actor.class_name,
        actor.state,
        actor.actor_id,
        str(actor.pid),
        *actor.devices,
    )
    return "\n".join(parts).casefold()


def _on_devices(actor: ActorStatus) -> tuple[float, ...]:
    """Sorts by bytes in use, then by bytes granted, then by shares."""
    return (
        sum(actor.device_memory.values()),
        sum(nbytes or 0 for nbytes in actor.device_nbytes.values()),
        sum(actor.devices.values()),
    )


_ORDERS: Final[Mapping[str, Order]] = {
    "cpu": lambda actor: actor.process.cpu or 0.0,
    "memory": lambda actor: actor.process.pss or actor.process.rss or 0,
    "device": _on_devices,
    "name": lambda actor: actor.label,
    "calls": lambda actor: actor.rate or 0.0,
    "waiting": waiting_calls,
    "age": lambda actor: actor.age or 0.0,
    "pid": lambda actor: actor.pid,
}
