"""Laws that hold for every query: round trips, and rewrites that keep the exact answers."""

from __future__ import annotations

import pyoxigraph as ox
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from oracle import Oracle
from shapes import arrange
from sparql_text import is_thing, to_sparql
from tarbox.core.errors import QueryTooLarge
from tarbox.kb.facts import Facts
from tarbox.kb.terms import from_ntriples, to_ntriples
from tarbox.kb.vocabulary import Vocabulary
from tarbox.query.algebra import (
    And,
    AtLeast,
    Concept,
    DataRange,
    Direction,
    Entity,
    Exists,
    HasSelf,
    Not,
    Or,
    Query,
    Slot,
    depth,
    ground,
    lift,
    operands,
    rename,
    size,
    walk,
)
from tarbox.query.betae import from_query, to_query
from tarbox.query.manchester import parse
from tarbox.query.names import ANYTHING, OWL_THING, RDF_TYPE, SUBCLASS_OF, XSD
from tarbox.query.render import render
from tarbox.query.restrictions import restrict, restriction
from tarbox.query.rewrites import canonical, disjunctive_normal_form, negation_normal_form, simplify
from tarbox.query.sparql import parse_sparql

ENTITIES = [f"urn:e{i}" for i in range(6)] + ['"1977"^^<http://www.w3.org/2001/XMLSchema#gYear>', '"a\\"b"@en']
YEAR, INTEGER = XSD + "gYear", XSD + "integer"
RANGES = [
    DataRange(YEAR),
    DataRange(YEAR, ((">=", f'"1970"^^<{YEAR}>'), ("<", f'"1980"^^<{YEAR}>'))),
    DataRange(INTEGER, ((">", f'"-3"^^<{INTEGER}>'),)),
    DataRange(XSD + "string"),
    DataRange("http://www.w3.org/2000/01/rdf-schema#Literal"),
]
CONCEPTS = [f"urn:c{i}" for i in range(4)]
RELATIONS = ["urn:p", "urn:q"]
VOCABULARY = Vocabulary.of(ENTITIES, CONCEPTS, [*RELATIONS, "urn:z"])


def queries(
    entities: list[str] = ENTITIES, concepts: list[str] = CONCEPTS, more: bool = True
) -> st.SearchStrategy[Query]:
    """Queries of every node kind over the names above, or without counts, loops and data ranges."""
    leaves: st.SearchStrategy[Query] = st.sampled_from(entities).map(Entity)
    if concepts:
        leaves |= st.sampled_from(concepts).map(Concept)
    if more:
        leaves |= st.sampled_from(RELATIONS).map(HasSelf) | st.sampled_from(RANGES)

    def larger(inner: st.SearchStrategy[Query]) -> st.SearchStrategy[Query]:
        several = st.lists(inner, min_size=2, max_size=3).map(tuple)
        relation, direction = st.sampled_from(RELATIONS), st.sampled_from(Direction)
        found = st.builds(Exists, relation, direction, inner) | several.map(And) | several.map(Or) | inner.map(Not)
        if not more:
            return found
        words = st.sampled_from(["only", "min", "max", "exactly"])
        return (
            found
            | st.builds(AtLeast, st.integers(2, 3), relation, direction, inner)
            | st.builds(restrict, words, relation, direction, inner, st.integers(0, 2))
        )

    return st.recursive(leaves, larger, max_leaves=8)


def all_facts() -> st.SearchStrategy[Facts]:
    """Small graphs over the names above; literals are never heads, and `urn:z` leads to every entity."""
    subjects = [row for row, name in enumerate(VOCABULARY.entities) if not name.startswith('"')]
    reach = {(subjects[0], 2, row) for row in range(len(ENTITIES))}
    entity, concept = st.integers(0, len(ENTITIES) - 1), st.integers(0, len(CONCEPTS) - 1)
    assertion = st.tuples(st.sampled_from(subjects), st.integers(0, 1), entity)
    typing = st.tuples(st.sampled_from(subjects), concept)
    return st.builds(
        lambda ee, ec, cc: Facts.of(VOCABULARY, ee | reach, ec, cc),
        st.sets(assertion, max_size=14),
        st.sets(typing, max_size=8),
        st.sets(st.tuples(concept, concept), max_size=4),
    )


@given(queries())
@example(And((And((Concept("urn:c0"), Concept("urn:c1"))), Concept("urn:c2"))))
@example(Or((Entity("urn:a"), Or((Entity("urn:b"), Entity("urn:c"))))))
@example(Not(Not(Exists("urn:p", Direction.INVERSE, Not(Entity("urn:a"))))))
def test_parse_undoes_render(query: Query) -> None:
    assert parse(render(query)) == query


@given(queries())
def test_ground_undoes_lift(query: Query) -> None:
    shape, slots = lift(query)
    assert ground(shape, slots) == query
    assert lift(shape)[0] == shape
    assert all(node.direction is Direction.FORWARD for node in walk(shape) if isinstance(node, Exists))
    assert size(shape) == size(query)
    assert depth(shape) == depth(query)


@given(queries())
def test_a_shape_does_not_depend_on_names(query: Query) -> None:
    renamed = rename(query, lambda role, _: f"urn:{role.value}")
    turned = ground(renamed, [_turn(slot) for slot in lift(renamed)[1]])
    assert lift(turned)[0] == lift(query)[0]


def _turn(slot: Slot) -> Slot:
    return Slot(slot.role, slot.name, slot.direction and slot.direction.opposite)


@given(queries(), all_facts())
def test_rewrites_keep_the_answers(query: Query, facts: Facts) -> None:
    oracle = Oracle.of(facts)
    answers = oracle.entities(query)
    for rewrite in (negation_normal_form, simplify, canonical, arrange, disjunctive_normal_form):
        try:
            rewritten = rewrite(query)
        except QueryTooLarge:
            assert rewrite is disjunctive_normal_form
            continue
        assert oracle.entities(rewritten) == answers, rewrite.__name__


@given(queries())
def test_normal_forms_are_normal(query: Query) -> None:
    normal = negation_normal_form(query)
    assert not any(isinstance(n, Not) and isinstance(n.operand, Not | And | Or) for n in walk(normal))
    try:
        clauses = disjunctive_normal_form(query)
    except QueryTooLarge:
        return
    inside = list(walk(clauses, lambda node: () if isinstance(node, AtLeast) else operands(node)))
    assert not any(isinstance(n, Or) for n in inside[1:])
    assert not any(isinstance(n, Not) and isinstance(n.operand, Not | And) for n in inside)


@given(queries())
def test_a_restriction_is_made_of_what_is_read(query: Query) -> None:
    for node in walk(query):
        said = restriction(node)
        if said is not None:
            assert restrict(said.word, said.relation, said.direction, said.operand, said.count or 0) == node


@given(queries(), st.randoms(use_true_random=False))
def test_canonical_forgets_order_nesting_and_duplicates(query: Query, random: object) -> None:
    assert canonical(_shuffle(query, random)) == canonical(query)  # type: ignore[arg-type]
    assert canonical(canonical(query)) == canonical(query)
    assert size(simplify(query)) <= size(query)
    assert simplify(simplify(query)) == simplify(query)


def _shuffle(query: Query, random) -> Query:  # type: ignore[no-untyped-def]
    match query:
        case And(operands) | Or(operands):
            mixed = [_shuffle(operand, random) for operand in operands]
            random.shuffle(mixed)
            doubled = [*mixed, mixed[0]] if random.random() < 0.3 else mixed
            kind = type(query)
            nested = len(doubled) > 2 and random.random() < 0.5
            return kind((kind(tuple(doubled[:2])), *doubled[2:])) if nested else kind(tuple(doubled))
        case Not(operand):
            turned = Not(_shuffle(operand, random))
            return Not(Not(turned)) if random.random() < 0.3 else turned
        case Exists(relation, direction, operand):
            return Exists(relation, direction, _shuffle(operand, random))
        case AtLeast(count, relation, direction, operand):
            return AtLeast(count, relation, direction, _shuffle(operand, random))
        case _:
            return query


def test_absorption_removes_what_adds_nothing() -> None:
    a, b = Concept("urn:a"), Concept("urn:b")
    assert simplify(And((a, Or((b, a))))) == a
    assert simplify(Or((And((a, b)), b))) == b
    assert simplify(And((a, Not(a)))) == And((a, Not(a)))
    assert canonical(And((Or((a, b)), Or((b, a))))) == Or((a, b))


def test_a_disjunctive_normal_form_beyond_the_limit_is_an_error() -> None:
    pair = Or((Concept("urn:a"), Concept("urn:b")))
    with pytest.raises(QueryTooLarge, match="1,000 clauses"):
        disjunctive_normal_form(And((pair,) * 20))


@given(queries(concepts=[], more=False))
def test_betae_round_trip(query: Query) -> None:
    """Of the shape: a structure does not say directions, which are in the ids of relations."""
    shape = lift(query)[0]
    assert to_query(*from_query(shape)) == shape


@settings(max_examples=150, deadline=None)
@given(queries(), all_facts())
def test_sparql_has_the_same_answers_in_another_engine(query: Query, facts: Facts) -> None:
    assume(sum(isinstance(node, AtLeast) for node in walk(query)) <= 2)  # the engine joins as many variables
    oracle = Oracle.of(facts)
    store = ox.Store()
    store.extend(_quads(facts))
    expected = {VOCABULARY.entities.iri(row) for row in oracle.entities(query)}
    found = {_term(row[0]) for row in store.query(to_sparql(query))}
    assert found == expected


def _quads(facts: Facts) -> list[ox.Quad]:
    names = facts.vocabulary
    rows = [
        (names.entities.iri(h), names.relations.iri(r), names.entities.iri(t))
        for h, r, t in zip(facts.heads, facts.relations, facts.tails, strict=True)
    ]
    rows += [
        (names.entities.iri(e), RDF_TYPE, names.concepts.iri(c)) for e, c in zip(facts.typed, facts.types, strict=True)
    ]
    rows += [
        (names.concepts.iri(a), SUBCLASS_OF, names.concepts.iri(b))
        for a, b in zip(facts.subs, facts.supers, strict=True)
    ]
    text = "".join(f"{to_ntriples(s)} {to_ntriples(p)} {to_ntriples(o)} .\n" for s, p, o in rows)
    return list(ox.parse(text.encode(), ox.RdfFormat.N_QUADS))


def _term(term: object) -> str:
    return from_ntriples(str(term))


@settings(max_examples=60, deadline=None)
@given(queries(more=False), all_facts())
def test_parse_sparql_undoes_to_sparql(query: Query, facts: Facts) -> None:
    """Up to answers: a domain pattern reads back as `owl:Thing`, which is every entity."""
    oracle = Oracle.of(facts)
    entity = VOCABULARY.entities.iri(0)
    everything = Or((Entity(entity), Not(Entity(entity))))
    read = _replace_thing(parse_sparql(to_sparql(query, is_thing)), everything)
    assert oracle.entities(read) == oracle.entities(query)


def _replace_thing(query: Query, everything: Query) -> Query:
    match query:
        case Concept(name) if name in (ANYTHING, OWL_THING):
            return everything
        case And(operands) | Or(operands):
            return type(query)(tuple(_replace_thing(operand, everything) for operand in operands))
        case Not(operand):
            return Not(_replace_thing(operand, everything))
        case Exists(relation, direction, operand):
            return Exists(relation, direction, _replace_thing(operand, everything))
        case _:
            return query
