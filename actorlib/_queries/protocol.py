"""The protocol between a runtime and its clients: frames, versions, limits.

A frame is its length in four bytes, the highest first, and so many bytes of msgpack. A
client sends one frame, ``[version, verb, options]``, and receives one, ``[version,
outcome, value]``. Then the connection is closed. A value that is a row is encoded by
``_rows/rows.py``; the verb determines the class of the row. In all versions, a question
begins with the version. The answer to a question of another version has this form, and
its value is the runtime's ``actorlib.__version__``.

Neither side unpickles anything.
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
"""The most lines of actors in one answer."""
LONGEST_PATIENCE: Final = 10.0
"""The most seconds for which a client may wait for the owner's loop."""

OK: Final = "ok"
"""The value is the result."""
REFUSED: Final = "refused"
"""The value is a sentence with the reason."""
BLOCKED: Final = "blocked"
"""The owner's loop has not answered in time; the value is a Standstill."""
OTHER_VERSION: Final = "other version"
"""The question is of another version than the runtime."""

_LENGTH = struct.Struct("!I")
_msgpack: Any = msgpack
_TROUBLES = (
    ValueError,  # the base of most errors of msgpack
    TypeError,
    OverflowError,
    RecursionError,
    _msgpack.exceptions.UnpackException,
)


class Question(NamedTuple):
    """A question: the name of a query, and its parameters."""

    verb: str
    options: dict[str, Any]


class Answer(NamedTuple):
    """An answer.

    Attributes:
        version: The version of the runtime's protocol.
        outcome: ``OK``, ``REFUSED``, ``BLOCKED`` or ``OTHER_VERSION``.
        value: Depends on the outcome. With ``OK`` a row, if the verb is in ``ROWS``.
    """

    version: int
    outcome: str
    value: Any


class OtherVersionError(ProtocolError):
    """The question is of another version."""


@final
class FrameReader:
    """Joins the pieces of one frame, of up to ``limit`` bytes."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._data = bytearray()
        self._size = _LENGTH.size
        self._has_length = False

    @property
    def missing(self) -> int:
        """The number of bytes that may be read next without reading the next frame."""
        return self._size - len(self._data)

    def take(self, piece: bytes) -> bytes | None:
        """Adds the next piece; returns the content when the frame is complete.

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
    """Returns the version of actorlib; this subpackage may not import the package."""
    return str(vars(sys.modules["actorlib"])["__version__"])


def too_long(length: int, limit: int) -> str:
    """Returns the message for a frame of too many bytes."""
    return f"a frame of {length} bytes, where {limit} are the most"


def question_frame(verb: str, options: dict[str, Any]) -> bytes:
    """Encodes a question.

    Raises:
        ValueError: The frame is longer than a runtime reads.
    """
    frame = _frame([VERSION, verb, options])
    length = len(frame) - _LENGTH.size
    if length > MOST_ASKED:
        raise ValueError(f"the question {verb!r}: {too_long(length, MOST_ASKED)}")
    return frame


def answer_frame(outcome: str, value: object) -> bytes:
    """Encodes an answer; an answer that is too long becomes a refusal."""
    if is_dataclass(value):
        value = encode_row(value)
    frame = _frame([VERSION, outcome, value])
    if len(frame) <= MOST_ANSWERED + _LENGTH.size:
        return frame
    reason = too_long(len(frame) - _LENGTH.size, MOST_ANSWERED)
    return _frame([VERSION, REFUSED, f"the answer: {reason}"])


def _frame(fields: list[object]) -> bytes:
    body = cast("bytes", _msgpack.packb(fields, unicode_errors="surrogatepass"))
    return _LENGTH.pack(len(body)) + body


def read_question(content: bytes) -> Question:
    """Decodes the content of a question.

    Raises:
        OtherVersionError: The question is of another version.
        ProtocolError: The content is not a question.
    """
    version, rest = _parts(content)
    if version != VERSION:
        raise OtherVersionError(f"a question of version {version}, not {VERSION}")
    if len(rest) != 2:
        raise ProtocolError("a question has a version, a verb and options")
    verb, options = rest
    if not isinstance(verb, str) or not isinstance(options, dict):
        raise ProtocolError("a question has a version, a verb and options")
    if not all(isinstance(name, str) for name in cast("dict[object, Any]", options)):
        raise ProtocolError("the options of a question have names")
    return Question(verb, cast("dict[str, Any]", options))


def read_answer(content: bytes, verb: str = "") -> Answer:
    """Decodes the content of an answer; the verb determines the class of the row.

    Raises:
        ProtocolError: The content is not an answer to this question.
    """
    version, rest = _parts(content)
    if len(rest) != 2 or not isinstance(rest[0], str):
        raise ProtocolError("an answer has a version, an outcome and a value")
    answer = Answer(version, *rest)
    is_row = version == VERSION and answer.outcome in (OK, BLOCKED)
    return _with_rows(answer, verb) if verb and is_row else answer


def _with_rows(answer: Answer, verb: str) -> Answer:
    # Programs that attach to a runtime read no rows: this takes 4 ms to import.
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
        fields: object = _msgpack.unpackb(content, unicode_errors="surrogatepass")
    except _TROUBLES as error:
        raise ProtocolError(f"a frame cannot be decoded: {error}") from error
    if not isinstance(fields, list) or not fields:
        raise ProtocolError("a frame has a version in front")
    version, *rest = cast("list[Any]", fields)
    if type(version) is not int:
        raise ProtocolError("a frame has a version in front")
    return version, rest
