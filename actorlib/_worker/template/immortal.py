"""Makes what lives in the template immortal, so that its forks share more of it.

Whoever looks at a Python object counts a reference, and that write copies the page
that was shared with the template: a third of the pages that a small actor copies.
Since CPython 3.12 there are objects that nobody counts, ``None`` for one: those in
whose count the lower 32 bits are all set (PEP 683). No call makes one there, so the
count is written where it lies. That is known of the versions in ``_KNOWN``, which were
tried, and is tried on a throw-away object each time; of any other interpreter nothing
is touched.

What is immortal is never freed. Of the template that is what lives for as long as it
anyway, and its forks end without taking the interpreter apart (``exit_process``), so no
destructor is missed that would have run. Of preloads nobody knows that: the user's code
may drop what they hold, and wait for its end. A template that has some is left alone.
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys
from types import CodeType, FrameType, GeneratorType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

SWITCH = "ACTORLIB_IMMORTAL"
"""The variable that turns this off: ``0``."""

_KNOWN = ((3, 12), (3, 13))
_IMMORTAL = 0xFFFFFFFF
_STEP = 5000
"""How many objects are looked at in a step, which takes some milliseconds."""
_TRIED = 100
_FLEETING = (FrameType, GeneratorType)
"""What runs, this file's own steps for one, which hold what they work on."""


def is_known() -> bool:
    """Whether this interpreter counts references in the way that was tried."""
    return (
        os.environ.get(SWITCH, "1") not in {"", "0"}
        and sys.implementation.name == "cpython"
        and sys.version_info[:2] in _KNOWN
        and not set(sys.abiflags) & set("dt")  # for debugging, or without the lock
        and sys.maxsize > 2**32
        and sys.byteorder == "little"
        and _is_as_known()
    )


def _is_as_known() -> bool:
    """Makes a throw-away object immortal, and looks whether it then is."""
    made = object()
    count = ctypes.c_ssize_t.from_address(id(made))
    own = count.value
    if own != sys.getrefcount(made) - 1 or sys.getrefcount(None) != _IMMORTAL:
        return False
    references = [made] * _TRIED
    is_counted = count.value == own + _TRIED
    references.clear()
    if not is_counted or count.value != own:
        return False
    _make_immortal(made)
    references = [made] * _TRIED
    is_immortal = count.value == _IMMORTAL
    references.clear()
    return is_immortal and count.value == _IMMORTAL


def _make_immortal(made: object) -> None:
    ctypes.c_uint32.from_address(id(made)).value = _IMMORTAL


def immortal_steps() -> Iterator[None]:
    """Makes all that lives now immortal, a step of some milliseconds at a time.

    Only where ``is_known`` says so.
    """
    gc.unfreeze()
    found: list[Any] = gc.get_objects()
    gc.freeze()
    seen = set(map(id, found))  # none is freed, so none has the place of another
    while found:
        part = [one for one in found[-_STEP:] if type(one) not in _FLEETING]
        del found[-_STEP:]
        reached = gc.get_referents(*part)
        for one in part:
            if type(one) is CodeType:  # of which the collector knows nothing
                reached += (one.co_consts, one.co_names)
            _make_immortal(one)
        for one in reached:
            if id(one) not in seen:
                seen.add(id(one))
                found.append(one)
        yield
