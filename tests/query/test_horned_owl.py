"""Manchester texts mean the same to py-horned-owl, where it supports the form."""

from __future__ import annotations

from typing import Any

import pyhornedowl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyhornedowl import model as owl

from tarbox.core.errors import QuerySyntaxError
from tarbox.query.algebra import And, Concept, Direction, Entity, Exists, HasSelf, Not, Or, Query, disjunction
from tarbox.query.manchester import parse
from tarbox.query.render import render
from tarbox.query.restrictions import restrict

FRAME = """Prefix: owl: <http://www.w3.org/2002/07/owl#>
Ontology: <urn:o>
ObjectProperty: <urn:p>
ObjectProperty: <urn:q>
Class: <urn:C>
Class: <urn:D>
Individual: <urn:a>
Individual: <urn:b>
Class: <urn:Query>
    EquivalentTo: {}
"""


def read_elsewhere(text: str) -> Query:
    ontology = pyhornedowl.open_ontology_from_string(FRAME.format(text), "omn")
    components = (axiom.component for axiom in ontology.get_axioms())
    equivalence = next(c for c in components if isinstance(c, owl.EquivalentClasses))
    return _query(next(e for e in equivalence.first if str(e) != "urn:Query"))


def _query(node: Any) -> Query:  # noqa: PLR0911
    match node:
        case owl.Class():
            return Concept(str(node.first))
        case owl.ObjectIntersectionOf():
            return And(tuple(map(_query, node.first)))
        case owl.ObjectUnionOf():
            return Or(tuple(map(_query, node.first)))
        case owl.ObjectComplementOf():
            return Not(_query(node.first))
        case owl.ObjectOneOf():
            return disjunction([Entity(str(member.first)) for member in node.first])
        case owl.ObjectSomeValuesFrom() | owl.ObjectHasValue():
            some = isinstance(node, owl.ObjectSomeValuesFrom)
            return Exists(*_relation(node.ope), _query(node.bce) if some else Entity(str(node.i.first)))
        case owl.ObjectAllValuesFrom():
            return restrict("only", *_relation(node.ope), _query(node.bce))
        case owl.ObjectMinCardinality() | owl.ObjectMaxCardinality() | owl.ObjectExactCardinality():
            word = {"Mi": "min", "Ma": "max", "Ex": "exactly"}[type(node).__name__[6:8]]
            return restrict(word, *_relation(node.ope), _query(node.bce), node.n)
        case owl.ObjectHasSelf():
            return HasSelf(_relation(node.first)[0])
    raise AssertionError(f"unexpected {node}")


def _relation(expression: Any) -> tuple[str, Direction]:
    if isinstance(expression, owl.InverseObjectProperty):
        return str(expression.first.first), Direction.INVERSE
    return str(expression.first), Direction.FORWARD


def texts() -> st.SearchStrategy[str]:
    """Texts with and without the parentheses that precedence makes superfluous."""
    relation = st.sampled_from(["<urn:p>", "<urn:q>", "inverse <urn:p>", "inverse (<urn:q>)"])
    entity = st.sampled_from(["<urn:a>", "<urn:b>"])
    atoms = st.sampled_from(["<urn:C>", "<urn:D>", "{<urn:a>}", "{<urn:a>, <urn:b>}"])
    values = st.builds("{} value {}".format, relation, entity) | relation.map("{} Self".format)

    def primary(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        closed = inner.map("({})".format) | atoms
        words = st.sampled_from(["some", "only", "min 1", "min 2", "max 0", "max 3", "exactly 1", "exactly 2"])
        restricted = st.builds("{} {} {}".format, relation, words, closed)
        part = closed | restricted | values | closed.map("not {}".format) | restricted.map("not {}".format)
        chain = st.lists(st.tuples(part, st.sampled_from([" and ", " or "])), min_size=2, max_size=4)
        return restricted | chain.map(lambda pairs: "".join(t + w for t, w in pairs[:-1]) + pairs[-1][0])

    return st.recursive(atoms | values, primary, max_leaves=6)


@settings(max_examples=300, deadline=None)
@given(texts())
def test_same_tree(text: str) -> None:
    mine = parse(text)
    assert read_elsewhere(text) == mine
    assert read_elsewhere(render(mine)) == mine


@pytest.mark.parametrize("text", ["<urn:C> and", "<urn:p> some", "{<urn:a> <urn:b>}", "(<urn:C>", "<urn:C> <urn:D>"])
def test_both_reject(text: str) -> None:
    with pytest.raises(ValueError, match="Failed to open"):
        read_elsewhere(text)
    with pytest.raises(QuerySyntaxError, match="expected"):
        parse(text)
