"""Which literals are in a data range: values by XML Schema, compared within one value space.

Numbers of all integer types and decimals share a space, so `xsd:integer` has every whole number in its bounds whatever
its type; floats and doubles share one; times have one for each type. What has no order (strings, truth values) takes no
facet of order.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Final, TypeAlias

from tarbox.query.algebra import DataRange
from tarbox.query.names import WELL_KNOWN, XSD, expand, literal_term, quote

ANY_LITERAL: Final = WELL_KNOWN["rdfs"] + "Literal"
FACETS: Final[dict[str, Callable[[Fraction | float, Fraction | float], bool]]] = {
    ">=": operator.ge,
    ">": operator.gt,
    "<=": operator.le,
    "<": operator.lt,
}
_BOUNDS: Final[dict[str, tuple[int | None, int | None]]] = {
    "integer": (None, None),
    "nonNegativeInteger": (0, None),
    "positiveInteger": (1, None),
    "nonPositiveInteger": (None, 0),
    "negativeInteger": (None, -1),
    **{f"{name}": (-(2**bits), 2**bits - 1) for name, bits in (("long", 63), ("int", 31), ("short", 15), ("byte", 7))},
    **{f"unsigned{name}": (0, 2**bits - 1) for name, bits in (("Long", 64), ("Int", 32), ("Short", 16), ("Byte", 8))},
}
_SPACES: Final = {
    **dict.fromkeys([*_BOUNDS, "decimal"], "number"),
    **dict.fromkeys(["float", "double"], "float"),
    **{name: name for name in ("dateTime", "date", "gYearMonth", "gYear")},
    "dateTimeStamp": "dateTime",
}
_TIME: Final = re.compile(
    r"(-?\d{4,})(?:-(\d\d)(?:-(\d\d)(?:T(\d\d):(\d\d):(\d\d(?:\.\d+)?))?)?)?(?:Z|([+-])(\d\d):(\d\d))?", re.ASCII
)
_NUMBER: Final = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)", re.ASCII)
_FLOAT: Final = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?|[+-]?INF", re.ASCII)
_LITERAL: Final = re.compile(r'("(?:[^"\\]|\\.)*")(?:\^\^<([^<>]*)>|@.*)?', re.S)
_EXAMPLES: Final = {
    "number": "5",
    "float": "1.5",
    "date": "1990-01-01",
    "dateTime": "1990-01-01T12:00:00Z",
    "gYear": "1990",
    "gYearMonth": "1990-01",
}
_WORDS: Final = (
    {">=": "from {} on", ">": "after {}", "<=": "up to {}", "<": "before {}"},
    {">=": "of at least {}", ">": "above {}", "<=": "of at most {}", "<": "below {}"},
)
_CALLED: Final = {
    "gYear": "year",
    "gYearMonth": "month",
    "dateTime": "time",
    "boolean": "truth value",
    "anyURI": "address",
}
DATATYPES: Final = frozenset([*_SPACES, "string", "boolean", "anyURI"])
"""The datatypes of XML Schema that a bare word can name, where no concept has the name."""
_Value: TypeAlias = tuple[str, Fraction | float]


def is_datatype(iri: str) -> bool:
    """Whether an IRI names a datatype and no concept."""
    return iri.startswith(XSD) or iri == ANY_LITERAL


def is_ordered(datatype: str) -> bool:
    """Whether the values of a datatype can be compared."""
    return datatype.removeprefix(XSD) in _SPACES


def facet_literal(text: str, datatype: str) -> str | None:
    """The literal that a facet of this datatype has, of a bare number or a literal; None where it has no such value.

    >>> facet_literal("1990", XSD + "gYear")
    '"1990"^^<http://www.w3.org/2001/XMLSchema#gYear>'
    """
    typed = text if text.startswith('"') else literal_term(quote(text), f"^^<{datatype}>")
    value, other = _value(typed), _SPACES.get(datatype.removeprefix(XSD))
    return typed if value is not None and value[0] == other else None


def example_of(datatype: str) -> str:
    """A value of an ordered datatype as a facet writes it."""
    return _write_value(f'"{_EXAMPLES[_SPACES[datatype.removeprefix(XSD)]]}"^^<{datatype}>', datatype)


def write_range(literals: DataRange) -> str:
    """The range in Manchester syntax, with well-known prefixes: it reads the same everywhere.

    >>> write_range(DataRange(XSD + "integer", ((">=", f'"1990"^^<{XSD}integer>'),)))
    'xsd:integer[>= 1990]'
    """
    facets = ", ".join(f"{sign} {_write_value(value, literals.datatype)}" for sign, value in literals.facets)
    return _write_name(literals.datatype) + (f"[{facets}]" if facets else "")


def say_range(literals: DataRange) -> tuple[str, str]:
    """(what its members are called, how the facets bound them) in English.

    >>> say_range(DataRange(XSD + "gYear", ((">=", f'"1990"^^<{XSD}gYear>'),)))
    ('year', ' from 1990 on')
    """
    name = "literal" if literals.datatype == ANY_LITERAL else literals.datatype.removeprefix(XSD)
    words = _WORDS[_SPACES.get(name) in ("number", "float")]
    said = [words[sign].format(local[1][1:-1]) for sign, bound in literals.facets if (local := _LITERAL.match(bound))]
    return _CALLED.get(name, name), "".join(" " + " and ".join(said) for _ in said[:1])


def holds(literals: DataRange, term: str) -> bool:
    """Whether a term is a literal in the range.

    >>> holds(DataRange(XSD + "integer", ((">", f'"3"^^<{XSD}integer>'),)), f'"4"^^<{XSD}byte>')
    True
    """
    if not term.startswith('"') or literals.datatype == ANY_LITERAL:
        return term.startswith('"')
    wanted = literals.datatype.removeprefix(XSD)
    if wanted not in _SPACES:
        return _datatype(term) == literals.datatype
    value = _value(term)
    if value is None or value[0] != _SPACES[wanted]:
        return False
    low, high = _BOUNDS.get(wanted, (None, None))
    if wanted in _BOUNDS and (value[1] % 1 or value[1] < _or(low, value[1]) or value[1] > _or(high, value[1])):
        return False
    bounds = ((sign, _value(bound)) for sign, bound in literals.facets)
    return all(bound is not None and FACETS[sign](value[1], bound[1]) for sign, bound in bounds)


def _or(bound: int | None, value: Fraction | float) -> Fraction | float:
    return value if bound is None else bound


def _datatype(term: str) -> str:
    found = _LITERAL.fullmatch(term)
    return (found and found[2]) or XSD + "string"


def _value(term: str) -> _Value | None:
    """(value space, value) of a literal; None where it has no order, or is no value of its datatype."""
    found = _LITERAL.fullmatch(term)
    name = found[2].removeprefix(XSD) if found and found[2] else ""
    text, space = (found[1][1:-1].strip() if found else ""), _SPACES.get(name)
    if space == "number":
        return (space, Fraction(text)) if _NUMBER.fullmatch(text) else None
    if space == "float":
        return (space, float(text)) if _FLOAT.fullmatch(text) else None
    moment = _TIME.fullmatch(text) if space else None
    parts = {"gYear": 1, "gYearMonth": 2, "date": 3}.get(name, 6)  # year, month, day, hour, minute, second
    if space is None or moment is None or sum(group is not None for group in moment.groups()[:6]) != parts:
        return None
    return space, _seconds(moment)


def _seconds(moment: re.Match[str]) -> float:
    """Seconds since the beginning of the calendar, in UTC."""
    year, month, day = int(moment[1]), int(moment[2] or 1), int(moment[3] or 1)
    shifted = year - (month < 3)
    days = 365 * shifted + shifted // 4 - shifted // 100 + shifted // 400 + (153 * ((month + 9) % 12) + 2) // 5 + day
    clock = 3600 * int(moment[4] or 0) + 60 * int(moment[5] or 0) + float(moment[6] or 0)
    ahead = 0 if moment[7] is None else math.copysign(3600 * int(moment[8]) + 60 * int(moment[9]), int(f"{moment[7]}1"))
    return 86400 * days + clock - ahead


def _write_value(value: str, datatype: str) -> str:
    found = _LITERAL.fullmatch(value)
    if found is None or found[2] is None:
        return value
    bare = re.fullmatch(r"[+-]?\d+(?:\.\d+)?", found[1][1:-1])
    return found[1][1:-1] if bare and found[2] == datatype else f"{found[1]}^^{_write_name(found[2])}"


def _write_name(iri: str) -> str:
    short = f"xsd:{iri.removeprefix(XSD)}" if iri.startswith(XSD) else "rdfs:Literal" if iri == ANY_LITERAL else ""
    return short if short and expand(short, WELL_KNOWN) == iri else f"<{iri}>"
