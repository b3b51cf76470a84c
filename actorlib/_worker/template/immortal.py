"""Makes the objects of the template immortal, so that forks share more of its memory.

Each use of a Python object changes its reference count, and the write copies a page
that was shared with the template. That is a third of the pages that a small actor
copies. CPython 3.12 and later have immortal objects, such as ``None``, whose references
are not counted: the lower 32 bits of their count are all set (PEP 683). No function
makes an object immortal, so the count is written in memory. That is done only for the
tested versions in ``_KNOWN``, and is tested on a temporary object each time. Other
interpreters are left unchanged.

Immortal objects are never freed. The objects of the template live as long as the
template, and its forks end without interpreter teardown (``exit_process``), so no
destructor is skipped that would have run. That is unknown of preloaded objects: the
user's code may drop them and expect their destructors. A template with preloads is left
unchanged.
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
"""The environment variable that switches this off with the value ``0``."""

_KNOWN = ((3, 12), (3, 13))
_IMMORTAL = 0xFFFFFFFF
_STEP = 5000
"""Objects per step, which takes a few milliseconds."""
_TRIED = 100
_FLEETING = (FrameType, GeneratorType)
"""Objects of running code, such as the steps of this file, which hold other objects."""


def is_known() -> bool:
    """Whether this interpreter counts references as in the tested versions."""
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
    """Makes a temporary object immortal, and checks that it is."""
    temporary = object()
    count = ctypes.c_ssize_t.from_address(id(temporary))
    own = count.value
    if own != sys.getrefcount(temporary) - 1 or sys.getrefcount(None) != _IMMORTAL:
        return False
    references = [temporary] * _TRIED
    is_counted = count.value == own + _TRIED
    references.clear()
    if not is_counted or count.value != own:
        return False
    _make_immortal(temporary)
    references = [temporary] * _TRIED
    is_immortal = count.value == _IMMORTAL
    references.clear()
    return is_immortal and count.value == _IMMORTAL


def _make_immortal(target: object) -> None:
    ctypes.c_uint32.from_address(id(target)).value = _IMMORTAL


def immortal_steps() -> Iterator[None]:
    """Makes all objects immortal, in steps of a few ms; requires ``is_known()``."""
    gc.unfreeze()
    objects: list[Any] = gc.get_objects()
    gc.freeze()
    # No object is freed, so no two have the same id.
    known_ids = set(map(id, objects))
    while objects:
        part = [one for one in objects[-_STEP:] if type(one) not in _FLEETING]
        del objects[-_STEP:]
        reached = gc.get_referents(*part)
        for one in part:
            if type(one) is CodeType:  # the collector does not track what it refers to
                reached += (one.co_consts, one.co_names)
            _make_immortal(one)
        for one in reached:
            if id(one) not in known_ids:
                known_ids.add(id(one))
                objects.append(one)
        yield
