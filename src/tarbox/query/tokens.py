"""The words of Manchester syntax, cut on demand and in linear time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, final

from tarbox.core.errors import QuerySyntaxError
from tarbox.query.names import WELL_KNOWN, Name, NameForm, expand, literal_term, unescape

KEYWORDS: Final = frozenset(
    ["and", "or", "not", "that", "some", "value", "inverse", "only", "min", "max", "exactly", "self"]
)
"""Read in any case. A thing with such a name is written in quotes, except where only an entity can stand."""


@final
@dataclass(frozen=True, slots=True)
class Token:
    """A piece of the text. `value` is what it means: a label without quotes, a literal in N-Triples form.

    Marks have no `form`, and the end has neither that nor a value.
    """

    form: NameForm | None
    value: str
    start: int

    @property
    def keyword(self) -> str:
        """The keyword this word is, in lower case; empty where it is none."""
        lowered = self.value.lower()
        return lowered if self.form is NameForm.WORD and lowered in KEYWORDS else ""

    def is_mark(self, mark: str) -> bool:
        return self.form is None and self.value == mark

    @property
    def name(self) -> Name | None:
        """The name this token can be; none for marks and the end."""
        return None if self.form is None else Name(self.form, self.value)

    @property
    def is_end(self) -> bool:
        return self.form is None and not self.value

    def describe(self) -> str:
        """How an error calls what it found."""
        if self.is_end:
            return "the end"
        shown = self.value if len(self.value) <= 40 else self.value[:37] + "..."
        return shown if self.form is NameForm.LITERAL else f"'{shown}'"


_SPACE = re.compile(r"\s*")
_WORD = r"""[^\s(){}\[\],<>"'?][^\s(){}\[\],<>"]*"""
_BARE = re.compile(_WORD)
_TOKEN = re.compile(
    rf"""
      (?P<iri><[^<>\s]*>)
    | (?P<label>'(?:[^'\\]|\\.)*')
    | (?P<literal>(?P<quoted>"(?:[^"\\]|\\.)*")(?P<suffix>@[A-Za-z]+(?:-[A-Za-z0-9]+)*|\^\^(?:<[^<>\s]*>|{_WORD}))?)
    | (?P<placeholder>\?[A-Za-z0-9_]+)
    | (?P<mark>[(){{}}\[\],])
    | (?P<word>{_WORD})
    """,
    re.VERBOSE | re.DOTALL,
)
_FACET = re.compile(r"(?P<mark>[<>]=?)")
_UNFINISHED = {
    "'": "this label has no closing quotation mark",
    '"': "this literal has no closing quotation mark",
    "<": "this IRI has no closing '>'",
    "?": "a placeholder is written ?e1, ?c1 or ?r1",
}


def tokenize(text: str) -> Iterator[Token]:
    """The tokens of `text` and the end. Raises `QuerySyntaxError` at a character that begins none.

    Between square brackets ``<`` and ``>`` compare; elsewhere they stand around an IRI.
    """
    position, facets = _end_of_space(text, 0), False
    while position < len(text):
        found = (_FACET.match(text, position) if facets else None) or _TOKEN.match(text, position)
        if found is None:
            reason = _UNFINISHED.get(text[position], f"a name cannot begin with {text[position]!r}")
            raise QuerySyntaxError(reason, text, position)
        facets = found.group() == "[" or (facets and found.group() != "]")
        yield _token(found, text)
        position = _end_of_space(text, found.end())
    yield Token(None, "", len(text))


def is_word(text: str) -> bool:
    """Whether `text` can stand in a query as it is: one word, and no keyword."""
    return _BARE.fullmatch(text) is not None and text.lower() not in KEYWORDS


def quote_label(text: str) -> str:
    """`text` between single quotation marks, as labels stand in a query."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def unquote_label(text: str) -> str | None:
    """The label that `quote_label` wrote; none where `text` is anything else.

    >>> unquote_label(quote_label("Alzheimer's disease")), unquote_label("'a' and 'b'")
    ("Alzheimer's disease", None)
    """
    found = _TOKEN.fullmatch(text)
    return unescape(text[1:-1]) if found and found.lastgroup == NameForm.LABEL.value else None


def _token(found: re.Match[str], text: str) -> Token:
    form, value = None if found.lastgroup == "mark" else NameForm(found.lastgroup), found.group()
    match form:
        case NameForm.IRI:
            value = value[1:-1]
        case NameForm.LABEL:
            value = unescape(value[1:-1])
        case NameForm.LITERAL:
            value = literal_term(found["quoted"], _suffix(found, text))
        case _:
            pass
    return Token(form, value, found.start())


def _suffix(found: re.Match[str], text: str) -> str:
    suffix = found["suffix"] or ""
    if not suffix.startswith("^^") or suffix.startswith("^^<"):
        return suffix
    datatype = expand(suffix[2:], WELL_KNOWN)
    if datatype is None:
        reason = f"unknown datatype '{suffix[2:]}': write one such as xsd:gYear, or its full IRI in angle brackets"
        raise QuerySyntaxError(reason, text, found.start("suffix") + 2)
    return f"^^<{datatype}>"


def _end_of_space(text: str, position: int) -> int:
    found = _SPACE.match(text, position)
    return found.end() if found else position
