"""How a term is written.

Inside tarbox a term is a string: an IRI stands bare (``http://example.org/a``), a literal stands in its N-Triples
form (``"1977"^^<http://www.w3.org/2001/XMLSchema#gYear>``), a blank node as ``_:b``. No IRI begins with a quotation
mark or an underscore-colon, so the first character tells the kind. Outside (JSON, query tables, exports) terms are
in N-Triples form throughout, IRIs in angle brackets.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote, unquote

URN: Final = "urn:tarbox:"
XSD_STRING: Final = "http://www.w3.org/2001/XMLSchema#string"
_IRI_FORBIDDEN = re.compile(r'[\x00-\x20<>"{}|^`\\]')
_LITERAL = re.compile(r'"(?:[^"\\\n\r]|\\.)*+"(?:@[A-Za-z]+(?:-[A-Za-z0-9]+)*|\^\^<[^<>"\s]+>)?')
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r"}
_UNESCAPES = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f", '"': '"', "'": "'", "\\": "\\"}


def is_literal(term: str) -> bool:
    return term.startswith('"')


def is_blank(term: str) -> bool:
    return term.startswith("_:")


def is_text(text: str) -> bool:
    """Whether UTF-8 can write `text`: it has no lone surrogates, Python's stand-ins for bytes it could not decode."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def is_literal_text(text: str) -> bool:
    """Whether the whole of `text` is one literal in N-Triples form."""
    return _LITERAL.fullmatch(text) is not None


def to_ntriples(term: str) -> str:
    """`term` as N-Triples writes it: ``<iri>``, a quoted literal or ``_:b``."""
    return term if term[:1] in ('"', "_") else f"<{term}>"


def from_ntriples(text: str) -> str:
    """The inverse of `to_ntriples`."""
    return text[1:-1] if text.startswith("<") and text.endswith(">") else text


def literal(value: str, datatype: str | None = None, language: str | None = None) -> str:
    """A literal in N-Triples form; plain strings carry no datatype."""
    quoted = '"' + re.sub(r'["\\\n\r]', lambda m: _ESCAPES[m.group()], value) + '"'
    if language:
        return f"{quoted}@{language}"
    return quoted if datatype in (None, XSD_STRING) else f"{quoted}^^<{datatype}>"


def split_literal(term: str) -> tuple[str, str, str]:
    """(value, language, datatype) of a literal; language and datatype are empty where there is none."""
    end = term.rindex('"')
    value, rest = term[1:end], term[end + 1 :]
    if "\\" in value:
        value = re.sub(r"\\(u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|.)", _unescape, value)
    if rest.startswith("@"):
        return value, rest[1:], ""
    return value, "", rest[3:-1] if rest.startswith("^^<") else ""


def _unescape(match: re.Match[str]) -> str:
    code = match.group(1)
    return chr(int(code[1:], 16)) if code[0] in "uU" and len(code) > 1 else _UNESCAPES.get(code, code)


def mint(identifier: str, base: str = URN) -> str:
    """The IRI of a table's id: the base and the percent-encoded id."""
    return base + quote(identifier, safe="")


def from_cell(cell: str, base: str = URN) -> str:
    """The term of a table's cell: an IRI in angle brackets, a quoted literal, or else an id."""
    if cell.startswith("<") and cell.endswith(">"):
        return cell[1:-1]
    return cell if is_literal_text(cell) else mint(cell, base)


def to_cell(term: str) -> str:
    """The inverse of `from_cell`."""
    cell = unquote(term.removeprefix(URN))
    return cell if term.startswith(URN) and from_cell(cell) == term else to_ntriples(term)


def valid_iri(text: str) -> bool:
    """Whether `text` can stand between angle brackets as an absolute IRI (scheme, no forbidden character)."""
    scheme, colon, _ = text.partition(":")
    return bool(colon) and scheme.isascii() and scheme[:1].isalpha() and not _IRI_FORBIDDEN.search(text)


def local_name(term: str) -> str:
    """The last part of an IRI, after ``#``, ``/`` or ``:``, percent-decoded; a literal's value."""
    if is_literal(term):
        return split_literal(term)[0]
    if term.startswith(URN):
        return unquote(term[len(URN) :])
    for separator in ("#", "/", ":"):
        _, found, tail = term.rpartition(separator)
        if found and tail:
            return unquote(tail)
    return unquote(term)


def namespace(term: str) -> str:
    """What stands before the local name, separator included; empty for literals."""
    if is_literal(term):
        return ""
    cut = max(term.rfind("#"), term.rfind("/")) + 1 or term.rfind(":") + 1
    return term[:cut]
