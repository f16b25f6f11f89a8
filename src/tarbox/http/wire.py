"""What a server and its answering process say to each other: frames of JSON and bytes over a pair of sockets.

A frame is its size, the size of its head, the head in JSON, and bytes that the head tells apart. The server sends
questions and which of them were given up; the process sends replies. Nothing else can be said: no objects, no code.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, TypeAlias, final

from tarbox.core.errors import (
    AmbiguousName,
    NameLookupError,
    NotAnswerable,
    QueryError,
    QuerySyntaxError,
    QueryTooLarge,
    TarboxError,
    UnknownName,
)
from tarbox.http.replies import Asked
from tarbox.service.ordering import Order

ReplyOrError: TypeAlias = bytes | TarboxError
_SIZES: Final = struct.Struct("!II")
_ERRORS: Final = {
    kind.__name__: kind
    for kind in (AmbiguousName, NotAnswerable, QueryError, QuerySyntaxError, QueryTooLarge, TarboxError, UnknownName)
}


def write_questions(asked: Iterable[tuple[int, Asked]], forgotten: Sequence[int]) -> bytes:
    """A frame with numbered questions, and the numbers of those that nobody waits for any more."""
    questions = [(number, each.text, each.k, each.came, each.order, each.min_degree) for number, each in asked]
    return _frame({"questions": questions, "forgotten": forgotten}, b"")


def read_questions(head: Any) -> tuple[list[tuple[int, Asked]], list[int]]:
    asked = [
        (number, Asked(text, None, k, came, Order(order), min_degree))
        for number, text, k, came, order, min_degree in head["questions"]
    ]
    return asked, head["forgotten"]


def write_replies(outcomes: Sequence[tuple[int, ReplyOrError]]) -> bytes:
    """A frame with the replies to numbered questions."""
    head = [(number, len(found) if isinstance(found, bytes) else _parts(found)) for number, found in outcomes]
    return _frame(head, b"".join(found for _, found in outcomes if isinstance(found, bytes)))


def read_replies(head: Any, content: bytes) -> list[tuple[int, ReplyOrError]]:
    found: list[tuple[int, ReplyOrError]] = []
    start = 0
    for number, told in head:
        if isinstance(told, int):
            found.append((number, content[start : start + told]))
            start += told
        else:
            found.append((number, _ERRORS[told[0]](*told[1:])))
    return found


@final
class Frames:
    """Puts together what arrives in pieces.

    >>> frames, sent = Frames(), write_replies([(7, b"yes")])
    >>> list(frames.feed(sent[:5])), [read_replies(*frame) for frame in frames.feed(sent[5:])]
    ([], [[(7, b'yes')]])
    """

    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[Any, bytes]]:
        """(head, content) of each frame that is complete now."""
        self._held += data
        while len(self._held) >= _SIZES.size:
            size, head = _SIZES.unpack_from(self._held)
            if len(self._held) < size:
                return
            frame = bytes(memoryview(self._held)[_SIZES.size : size])
            del self._held[:size]
            yield json.loads(frame[:head]), frame[head:]


def _frame(head: Any, content: bytes) -> bytes:
    written = json.dumps(head, separators=(",", ":")).encode()
    return b"".join((_SIZES.pack(_SIZES.size + len(written) + len(content), len(written)), written, content))


def _parts(error: TarboxError) -> list[Any]:
    """The name of an error's class, and what makes it again; those that no question causes say no more than text."""
    name = type(error).__name__ if type(error).__name__ in _ERRORS else TarboxError.__name__
    match error:
        case QuerySyntaxError():
            return [name, error.reason, error.text, error.position, error.candidates]
        case NameLookupError():
            return [name, str(error), error.candidates]
        case _:
            return [name, str(error)]
