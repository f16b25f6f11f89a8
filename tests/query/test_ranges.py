"""Which literals are in a data range."""

from __future__ import annotations

import pytest

from tarbox.query.algebra import DataRange
from tarbox.query.manchester import parse
from tarbox.query.names import XSD
from tarbox.query.ranges import holds
from tarbox.query.render import render

CASES = [
    (
        "xsd:integer[>= 1990]",
        ["1990 integer", "1991 int", "1990.0 decimal", "+1990 long"],
        ["1989 integer", "1990 gYear"],
    ),
    ("xsd:decimal[> 1.5, < 3]", ["2 integer", "1.51 decimal"], ["1.5 decimal", "3 byte", "2 float", "2 string"]),
    ("xsd:nonNegativeInteger", ["0 integer", "5 unsignedByte"], ["-1 integer", "0.5 decimal", "x integer"]),
    ("xsd:byte", ["127 integer", "-128 short"], ["128 integer"]),
    ("xsd:double[>= 1e3]", ["1000 double", "INF float"], ["999 double", "NaN double", "1000 integer"]),
    (
        'xsd:date[>= "1990-01-01"^^xsd:date, < "1991-01-01"^^xsd:date]',
        ["1990-01-01 date", "1990-12-31 date", "1990-12-31Z date"],
        ["1989-12-31 date", "1991-01-01 date", "1990-05-01T00:00:00 dateTime", "1990 date"],
    ),
    ("xsd:gYear[< 0100]", ["0099 gYear", "-0044 gYear"], ["0100 gYear", "99 gYear"]),
    (
        'xsd:dateTime[>= "2000-01-01T00:00:00Z"^^xsd:dateTime]',
        ["2000-01-01T00:00:00Z dateTime", "1999-12-31T23:30:00-01:00 dateTime", "2000-03-01T12:00:00Z dateTimeStamp"],
        ["2000-01-01T00:30:00+01:00 dateTime", "1999-12-31T23:59:59.9Z dateTime"],
    ),
    ("xsd:string", ["a string", "b@en"], ["1 integer"]),
    ("xsd:boolean", ["true boolean"], ["true string"]),
    ("rdfs:Literal", ["a string", "1 integer", "b@en"], []),
]


def literal(text: str) -> str:
    """``1990 integer`` and ``b@en`` as terms."""
    if "@" in text:
        return '"{}"@{}'.format(*text.split("@"))
    value, datatype = text.rsplit(" ", 1)
    return f'"{value}"' if datatype == "string" else f'"{value}"^^<{XSD}{datatype}>'


@pytest.mark.parametrize(("text", "inside", "outside"), CASES)
def test_what_is_in_a_range(text: str, inside: list[str], outside: list[str]) -> None:
    wanted = parse(text)
    assert isinstance(wanted, DataRange)
    assert [given for given in inside if not holds(wanted, literal(given))] == []
    assert [given for given in outside if holds(wanted, literal(given))] == []
    assert not holds(wanted, "urn:a")
    assert parse(render(wanted)) == wanted


def test_months_and_leap_days_are_in_order() -> None:
    days = ["1999-12-31", "2000-01-01", "2000-02-28", "2000-02-29", "2000-03-01", "2000-12-31", "2001-01-01"]
    for place, bound in enumerate(days):
        wanted = parse(f'xsd:date[< "{bound}"^^xsd:date]')
        assert isinstance(wanted, DataRange)
        assert [day for day in days if holds(wanted, literal(f"{day} date"))] == days[:place]
