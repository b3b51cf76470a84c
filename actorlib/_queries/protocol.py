"""The agreement between a runtime and who asks it: frames, versions, limits.

A frame is its length in four bytes, the highest first, and so many bytes of msgpack.
Who asks sends one, ``[version, verb, options]``, and gets one back, ``[version,
outcome, value]``; with that the connection is over. A value that is a row is sent as
``_rows/rows.py`` encodes it; which row it is follows from the verb. In every version
that there will be, a question begins with the version, and an answer to another version
is an answer of this form whose value is the runtime's ``actorlib.__version__``.

Nothing is unpickled on either side.
"""

from __future__ import annotations

import struct
import sys
from dataclasses import is_dataclass
from typing import Any, Final, NamedTuple, cast, final

import msgpack  # pyright: ignore[reportMissingTypeStubs]  # it ships none

from actorlib._rows.rows import decode_row, encode_row
from actorlib.exceptions import ProtocolError

VERSION: Final = 3
MOST_ASKED: Final = 4096
"""The longest question, in bytes."""
MOST_ANSWERED: Final = 64 * 1024 * 1024
"""The longest answer, in bytes."""
MOST_LINES: Final = 5000
"""How many lines of actors are told in one answer."""
LONGEST_PATIENCE: Final = 10.0
"""Seconds that the owner's loop is waited for, at the most."""

OK: Final = "ok"
"""The value is what was asked for."""
REFUSED: Final = "refused"
"""The value is a sentence that says why there is no answer."""
BLOCKED: Final = "blocked"
"""The owner's loop has not answered in time; the value says where it stands."""
OTHER_VERSION: Final = "other version"
"""The question is of another version than the runtime."""

_LENGTH = struct.Struct("!I")
_msgpack: Any = msgpack
_TROUBLES = (
    ValueError,  # most of msgpack's own errors are such
    TypeError,
    OverflowError,
    RecursionError,
    _msgpack.exceptions.UnpackException,
)


class Question(NamedTuple):
    """What somebody asks.

    Attributes:
        verb: What is asked for.
        options: How, by name.
    """

    verb: str
    options: dict[str, Any]


class Answer(NamedTuple):
    """What is answered.

    Attributes:
        version: The version of the agreement that the runtime speaks.
        outcome: ``OK``, ``REFUSED``, ``BLOCKED`` or ``OTHER_VERSION``.
        value: See there. A row, if the verb has one in ``ROWS``; a Standstill if the
            loop is blocked.
    """

    version: int
    outcome: str
    value: Any


class OtherVersionError(ProtocolError):
    """The question is of another version."""


@final
class FrameReader:
    """Puts one frame together from the pieces in which it comes.

    Args:
        limit: How many bytes it may have.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._data = bytearray()
        self._size = _LENGTH.size
        self._has_length = False

    @property
    def missing(self) -> int:
        """How many bytes may be read next; none of another frame is among them."""
        return self._size - len(self._data)

    def take(self, piece: bytes) -> bytes | None:
        """Takes the next piece; gives the frame's content once it is whole.

        Raises:
            ProtocolError: The frame would be longer than the limit.
        """
        self._data += piece
        if not self._has_length and not self.missing:
            (length,) = _LENGTH.unpack(self._data)
            if length > self._limit:
                raise ProtocolError(too_long(length, self._limit))
            self._has_length = True
            self._size += length
        if self.missing:
            return None
        return bytes(self._data[_LENGTH.size :])


def version() -> str:
    """Says which actorlib this is; of the package, which no room below it imports."""
    return str(vars(sys.modules["actorlib"])["__version__"])


def too_long(length: int, limit: int) -> str:
    """Says that a frame has more bytes than it may have."""
    return f"a frame of {length} bytes, where {limit} are the most"


def question_frame(verb: str, options: dict[str, Any]) -> bytes:
    """Makes the frame of a question.

    Raises:
        ValueError: It is longer than a runtime reads.
    """
    frame = _frame([VERSION, verb, options])
    length = len(frame) - _LENGTH.size
    if length > MOST_ASKED:
        raise ValueError(f"the question {verb!r}: {too_long(length, MOST_ASKED)}")
    return frame


def answer_frame(outcome: str, value: object) -> bytes:
    """Makes the frame of an answer; one that is too long says so instead."""
    if is_dataclass(value):
        value = encode_row(value)
    made = _frame([VERSION, outcome, value])
    if len(made) <= MOST_ANSWERED + _LENGTH.size:
        return made
    reason = too_long(len(made) - _LENGTH.size, MOST_ANSWERED)
    return _frame([VERSION, REFUSED, f"the answer: {reason}"])


def _frame(fields: list[object]) -> bytes:
    body = cast("bytes", _msgpack.packb(fields, unicode_errors="surrogatepass"))
    return _LENGTH.pack(len(body)) + body


def read_question(content: bytes) -> Question:
    """Reads the content of a frame that somebody has sent.

    Raises:
        OtherVersionError: It is of another version.
        ProtocolError: It is no question.
    """
    version, rest = _parts(content)
    if version != VERSION:
        raise OtherVersionError(f"version {version} was asked in, this is {VERSION}")
    if len(rest) != 2:
        raise ProtocolError("a question has a version, a verb and options")
    verb, options = rest
    if not isinstance(verb, str) or not isinstance(options, dict):
        raise ProtocolError("a question has a version, a verb and options")
    known = cast("dict[object, Any]", options)
    if not all(isinstance(name, str) for name in known):
        raise ProtocolError("the options of a question have names")
    return Question(verb, cast("dict[str, Any]", known))


def read_answer(content: bytes, verb: str = "") -> Answer:
    """Reads the content of a frame that a runtime has sent.

    Args:
        content: The content.
        verb: What was asked, which says of which row the value is.

    Raises:
        ProtocolError: It is no answer to that.
    """
    version, rest = _parts(content)
    if len(rest) != 2 or not isinstance(rest[0], str):
        raise ProtocolError("an answer has a version, an outcome and a value")
    answer = Answer(version, *rest)
    is_row = version == VERSION and answer.outcome in (OK, BLOCKED)
    return _with_rows(answer, verb) if verb and is_row else answer


def _with_rows(answer: Answer, verb: str) -> Answer:
    # Programs that attach to a runtime read none: this takes 4 ms to import.
    from actorlib._queries.rows import ROWS, Standstill  # noqa: PLC0415

    kind = Standstill if answer.outcome == BLOCKED else ROWS.get(verb)
    if kind is None:
        return answer
    try:
        return answer._replace(value=decode_row(kind, answer.value))
    except ValueError as error:
        raise ProtocolError(f"the answer to {verb!r}: {error}") from error


def _parts(content: bytes) -> tuple[int, list[Any]]:
    try:
        found: object = _msgpack.unpackb(content, unicode_errors="surrogatepass")
    except _TROUBLES as error:
        raise ProtocolError(f"a frame makes no sense: {error}") from error
    if not isinstance(found, list) or not found:
        raise ProtocolError("a frame has a version in front")
    version, *rest = cast("list[Any]", found)
    if type(version) is not int:
        raise ProtocolError("a frame has a version in front")
    return version, rest
