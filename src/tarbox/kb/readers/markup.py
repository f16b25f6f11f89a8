"""What XML needs before a library reads it: its entities, and whether it ends where it should.

Protégé writes namespaces as internal entities. py-horned-owl knows none, pyoxigraph no single quotes and no bounds, so
they are resolved here; nothing outside the file is ever looked up.
"""

from __future__ import annotations

import re
from typing import Any, Final, final
from xml.parsers import expat

_MOST_HEAD: Final = 1 << 20
_MOST_VALUE: Final = 10_000  # characters of an entity: namespaces have a hundred
_MOST_NESTED: Final = 50
_MOST_GROWTH: Final = 8
_BLOCK: Final = 1 << 16
_REFERENCE = re.compile(rb"&([A-Za-z_][\w.-]*);")


class BadMarkup(Exception):
    """An XML document that cannot be given to a library; `line` is where."""

    def __init__(self, reason: str, line: int = 1) -> None:
        super().__init__(reason)
        self.line = line


@final
class _Prologue:
    """What stands before the first element: the DOCTYPE and its entities."""

    def __init__(self) -> None:
        self.read = b""
        self.complete = False
        self._place = (0, 0)
        self._values: dict[bytes, bytes] = {}
        self._resolved: dict[bytes, bytes] = {}
        self._parser = expat.ParserCreate()
        self._parser.EntityDeclHandler = self._entity
        self._parser.EndDoctypeDeclHandler = self._end
        self._parser.StartElementHandler = self._element

    def feed(self, block: bytes) -> None:
        self.read += block
        try:
            self._parser.Parse(block, False)
        except expat.ExpatError as error:
            if not self.complete:
                raise BadMarkup(f"not well-formed XML: {expat.ErrorString(error.code)}", error.lineno) from None

    def _entity(self, name: str, parameter: int, value: str | None, *_: object) -> None:
        if value is not None and not parameter:
            self._values.setdefault(name.encode(), value.encode())

    def _end(self) -> None:
        end = self.read.index(b">", self._parser.CurrentByteIndex) + 1
        self._place = self.read.rindex(b"<!DOCTYPE", 0, end), end

    def _element(self, *_: object) -> None:
        self.complete = True

    def replace(self, text: bytes, doctype: bytes) -> bytes:
        """The text that begins so, with another DOCTYPE on as many lines."""
        start, end = self._place
        return text[:start] + doctype + b"\n" * text.count(b"\n", start, end) + text[end:]

    def entities(self) -> dict[bytes, bytes]:
        """The entities by name, without references to one another."""
        return {name: self._resolve(name, ()) for name in self._values}

    def _resolve(self, name: bytes, above: tuple[bytes, ...]) -> bytes:
        if name in above or len(above) == _MOST_NESTED:
            raise BadMarkup(f"entity &{name.decode()}; is made of itself, or of too many others")
        if name not in self._resolved:

            def inner(match: re.Match[bytes]) -> bytes:
                return self._resolve(match[1], (*above, name)) if match[1] in self._values else match[0]

            self._resolved[name] = _REFERENCE.sub(inner, self._values[name])
            if len(self._resolved[name]) > _MOST_VALUE:
                raise BadMarkup(f"entity &{name.decode()}; has more than {_MOST_VALUE:,} characters")
        return self._resolved[name]


@final
class XmlStream:
    """A stream of RDF/XML, its entities in the one way that pyoxigraph reads.

    `ending` says what is missing when the document has ended too early.
    """

    def __init__(self, stream: Any) -> None:
        self.ending: str | None = None
        self._stream = stream
        self._parser: Any = expat.ParserCreate()
        prologue = _Prologue()
        while not prologue.complete and len(prologue.read) < _MOST_HEAD and (block := stream.read(_BLOCK)):
            prologue.feed(block)
        self._head = prologue.read
        self._check(self._head)
        entities = prologue.entities()
        if entities:
            declared = b"".join(b'<!ENTITY %s "%s">' % (name, _quoted(value)) for name, value in entities.items())
            self._head = prologue.replace(self._head, b"<!DOCTYPE x [" + declared + b"]>")

    def read(self, size: int) -> bytes:
        if self._head:
            block, self._head = self._head[:size], self._head[size:]
            return block
        block = bytes(self._stream.read(size))
        self._check(block, last=not block)
        return block

    def _check(self, block: bytes, last: bool = False) -> None:
        if self._parser is None:
            return
        try:
            self._parser.Parse(block, last)
        except expat.ExpatError as error:
            self._parser = None  # what else is wrong, the reader of RDF finds
            if last:
                self.ending = f"the file ends too early ({expat.ErrorString(error.code)}); what follows is missing"


def plain_xml(text: bytes) -> bytes:
    """An XML document without its DOCTYPE, entities written out, on the same lines; raises `BadMarkup`."""
    prologue = _Prologue()
    for start in range(0, len(text), _BLOCK):
        if not prologue.complete:
            prologue.feed(text[start : start + _BLOCK])
    entities = {name: value.replace(b'"', b"&quot;") for name, value in prologue.entities().items()}
    body = prologue.replace(text, b"")
    grown = sum(len(entities.get(match[1], b"")) for match in _REFERENCE.finditer(body))
    if grown > _MOST_GROWTH * len(body) + _MOST_HEAD:
        raise BadMarkup(f"its entities make more than {_MOST_GROWTH} times of its size")
    plain = _REFERENCE.sub(lambda match: entities.get(match[1], match[0]), body) if entities else body
    try:
        expat.ParserCreate().Parse(plain, True)
    except expat.ExpatError as error:
        raise BadMarkup(f"not well-formed XML: {expat.ErrorString(error.code)}", error.lineno) from None
    return plain


def _quoted(value: bytes) -> bytes:
    return value.replace(b"&", b"&#38;").replace(b'"', b"&#34;").replace(b"%", b"&#37;")
