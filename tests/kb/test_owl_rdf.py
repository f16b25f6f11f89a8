"""Axioms as RDF and back, and what RDF says that no axiom holds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarbox.kb.axioms import Axiom, axiom_names, canonical, class_links, read_axioms
from tarbox.kb.namespaces import OWL, RDF, RDFS, SUBCLASS, TOP, TYPE, XML_SCHEMA
from tarbox.kb.owl_rdf import AXIOM_PREDICATES, AXIOM_TYPES, NODE_PREDICATES, AxiomGraph, Row, Unmapped
from tarbox.kb.owl_statements import StatementMaker

from .conftest import BuildTurtle

Statement = tuple[str, str, str]
CLASSES = st.sampled_from(["urn:A", "urn:B", TOP])
RELATIONS = st.sampled_from(["urn:p", "urn:q"])
VALUES = st.sampled_from(["urn:d", "urn:e"])
MEMBERS = st.sampled_from(["urn:i", "urn:j"])
LITERALS = st.sampled_from(['"x"', '"y"@en', f'"1"^^<{XML_SCHEMA}integer>'])
NUMBERS = st.integers(0, 5).map(str)


def made(word: str, *parts: st.SearchStrategy[object]) -> st.SearchStrategy[Axiom]:
    return st.tuples(st.just(word), *parts)  # type: ignore[return-value]


def many(word: str, part: st.SearchStrategy[object], least: int = 1, most: int = 3) -> st.SearchStrategy[Axiom]:
    return st.lists(part, min_size=least, max_size=most).map(lambda parts: (word, *parts))  # type: ignore[arg-type,return-value]


OBJECTS = RELATIONS | made("ObjectInverseOf", RELATIONS)
FACETS = st.lists(LITERALS, min_size=1, max_size=2, unique=True).map(
    lambda values: (
        "DatatypeRestriction",
        XML_SCHEMA + "integer",
        *(t for v in values for t in (XML_SCHEMA + "minInclusive", v)),
    )
)
RANGES: st.SearchStrategy[object] = st.recursive(
    st.sampled_from([XML_SCHEMA + "string", "urn:type", RDFS + "Literal"]) | many("DataOneOf", LITERALS) | FACETS,
    lambda inner: many("DataIntersectionOf", inner) | many("DataUnionOf", inner, 2) | made("DataComplementOf", inner),
    max_leaves=4,
)


def restrictions(inner: st.SearchStrategy[object]) -> st.SearchStrategy[Axiom]:
    return st.one_of(
        many("ObjectIntersectionOf", inner),
        many("ObjectUnionOf", inner),
        made("ObjectComplementOf", inner),
        many("ObjectOneOf", MEMBERS),
        *(made(f"Object{word}ValuesFrom", OBJECTS, inner) for word in ("Some", "All")),
        *(made(f"Data{word}ValuesFrom", VALUES, RANGES) for word in ("Some", "All")),
        made("ObjectHasValue", OBJECTS, MEMBERS),
        made("DataHasValue", VALUES, LITERALS),
        made("ObjectHasSelf", OBJECTS),
        *(made(f"Object{word}Cardinality", NUMBERS, OBJECTS, inner) for word in ("Min", "Max", "Exact")),
        *(made(f"Data{word}Cardinality", NUMBERS, VALUES, RANGES) for word in ("Min", "Max", "Exact")),
    )


CONCEPTS: st.SearchStrategy[object] = st.recursive(CLASSES, restrictions, max_leaves=6)
AXIOMS = st.one_of(
    made("SubClassOf", CONCEPTS, CONCEPTS),
    many("EquivalentClasses", CONCEPTS, 2, 2),
    many("DisjointClasses", CONCEPTS, 2),
    st.tuples(CLASSES, st.lists(CONCEPTS, min_size=2, max_size=3)).map(lambda p: ("DisjointUnion", p[0], *p[1])),
    made("SubObjectPropertyOf", OBJECTS | many("ObjectPropertyChain", OBJECTS, 2), OBJECTS),
    many("EquivalentObjectProperties", OBJECTS, 2, 2),
    many("DisjointObjectProperties", OBJECTS, 2),
    made("InverseObjectProperties", RELATIONS, OBJECTS),
    made("ObjectPropertyDomain", OBJECTS, CONCEPTS),
    made("ObjectPropertyRange", OBJECTS, CONCEPTS),
    *(
        made(f"{word}ObjectProperty", OBJECTS)
        for word in (
            "Functional",
            "InverseFunctional",
            "Reflexive",
            "Irreflexive",
            "Symmetric",
            "Asymmetric",
            "Transitive",
        )
    ),
    made("SubDataPropertyOf", VALUES, VALUES),
    many("EquivalentDataProperties", VALUES, 2, 2),
    many("DisjointDataProperties", VALUES, 2),
    made("DataPropertyDomain", VALUES, CONCEPTS),
    made("DataPropertyRange", VALUES, RANGES),
    made("FunctionalDataProperty", VALUES),
    made("DatatypeDefinition", st.just("urn:type"), many("DataUnionOf", RANGES, 2)),
    made("HasKey", CONCEPTS, many("", OBJECTS), many("", VALUES)),
    many("SameIndividual", MEMBERS, 2, 2),
    many("DifferentIndividuals", MEMBERS, 2),
    made("ClassAssertion", CONCEPTS.filter(lambda concept: isinstance(concept, tuple)), MEMBERS),
    made("NegativeObjectPropertyAssertion", OBJECTS, MEMBERS, MEMBERS),
    made("NegativeDataPropertyAssertion", VALUES, MEMBERS, LITERALS),
)


def read(statements: list[Statement]) -> tuple[list[Axiom], set[int]]:
    """The axioms of a few statements, and the places of those statements that they were made of."""
    nodes: dict[str, list[Row]] = {}
    for place, (s, p, o) in enumerate(statements):
        if s.startswith("_:") and (p in NODE_PREDICATES or p == TYPE):
            nodes.setdefault(s, []).append((place, p, o))
    graph = AxiomGraph(nodes, {"urn:d", "urn:e"})
    found, used = [], set[int]()
    for place, (s, p, o) in enumerate(statements):
        if (p in AXIOM_PREDICATES and not (s.startswith("_:") and p in NODE_PREDICATES)) or (
            p == TYPE and (o in AXIOM_TYPES or o.startswith("_:"))
        ):
            found.append(graph.axiom(s, p, o))
            used |= {place, *graph.passed}
    return found, used


@given(AXIOMS)
def test_what_is_said_in_rdf_is_read(axiom: Axiom) -> None:
    statements = StatementMaker().statements(axiom)
    found, used = read(statements)
    assert found == [canonical(axiom)]
    assert used == set(range(len(statements)))


def test_an_equivalence_of_three_is_two_of_two() -> None:
    found, _ = read(
        StatementMaker().statements(("EquivalentClasses", "urn:A", ("ObjectComplementOf", "urn:B"), "urn:C"))
    )
    assert found == [
        ("EquivalentClasses", "urn:A", "urn:C"),
        ("EquivalentClasses", "urn:A", ("ObjectComplementOf", "urn:B")),
    ]


LIST = [("_:l", RDF + "first", "urn:A"), ("_:l", RDF + "rest", RDF + "nil")]


@pytest.mark.parametrize(
    "statements",
    [
        [("_:x", OWL + "intersectionOf", "_:l")],
        [("_:x", OWL + "intersectionOf", "_:x")],
        [("_:x", OWL + "complementOf", "_:x")],
        [("_:x", OWL + "unionOf", "_:l"), ("_:x", OWL + "intersectionOf", "_:l"), *LIST],
        [("_:x", OWL + "unionOf", "_:l"), *LIST, ("_:l", RDF + "rest", "_:l")],
        [("_:x", OWL + "onProperty", "urn:p")],
        [("_:x", OWL + "onProperty", "urn:p"), ("_:x", OWL + "cardinality", '"many"')],
        [("_:x", OWL + "onProperty", "urn:p"), ("_:x", OWL + "hasValue", "_:someone")],
        [("_:x", OWL + "oneOf", "_:l"), ("_:l", RDF + "first", "_:someone"), ("_:l", RDF + "rest", RDF + "nil")],
        [("_:x", TYPE, OWL + "Class")],
        [],
    ],
)
def test_what_is_no_expression_makes_no_axiom(statements: list[Statement]) -> None:
    with pytest.raises(Unmapped):
        read([("urn:A", SUBCLASS, "_:x"), *statements])


def test_nodes_that_share_nodes_do_not_fill_memory() -> None:
    doubling = [("urn:A", SUBCLASS, "_:x0")]
    for n in range(60):
        doubling += [(f"_:x{n}", OWL + "intersectionOf", f"_:a{n}"), (f"_:a{n}", RDF + "first", f"_:x{n + 1}")]
        doubling += [(f"_:a{n}", RDF + "rest", f"_:b{n}"), (f"_:b{n}", RDF + "first", f"_:x{n + 1}")]
        doubling += [(f"_:b{n}", RDF + "rest", RDF + "nil")]
    with pytest.raises(Unmapped):
        read([*doubling, ("_:x60", OWL + "complementOf", "urn:B")])


def test_a_class_may_be_defined_as_in_owl_1(build_turtle: BuildTurtle) -> None:
    store = build_turtle(
        """:Colour owl:oneOf (:red :white) .
           :Red owl:intersectionOf (:Wine [ owl:onProperty :has ; owl:hasValue :red ]) .
           :White owl:complementOf :Red . :year rdfs:range <http://www.w3.org/2001/XMLSchema#gYear> ."""
    )
    x = "http://example.org/"
    assert store.axioms() == (
        ("DataPropertyRange", x + "year", XML_SCHEMA + "gYear"),
        ("EquivalentClasses", x + "Colour", ("ObjectOneOf", x + "red", x + "white")),
        (
            "EquivalentClasses",
            x + "Red",
            ("ObjectIntersectionOf", x + "Wine", ("ObjectHasValue", x + "has", x + "red")),
        ),
        ("EquivalentClasses", x + "White", ("ObjectComplementOf", x + "Red")),
    )
    assert list(store.facts.vocabulary.entities) == [x + "red", x + "white"]
    assert list(store.facts.vocabulary.relations) == [x + "has"]
    assert store.manifest["report"]["left_out"] == {}


def test_annotated_axioms_are_axioms(build_turtle: BuildTurtle) -> None:
    store = build_turtle(
        """:A rdfs:subClassOf _:r . _:r a owl:Restriction ; owl:onProperty :p ; owl:someValuesFrom :B .
           [] a owl:Axiom ; owl:annotatedSource :A ; owl:annotatedProperty rdfs:subClassOf ; owl:annotatedTarget _:r ;
              rdfs:comment "because" ."""
    )
    assert class_links(store.axioms()) == [("http://example.org/A", "http://example.org/p", "http://example.org/B")]
    assert store.manifest["report"]["left_out"] == {"annotation": 5}


def test_class_links_are_the_existential_conjuncts_between_names() -> None:
    text = """SubClassOf(<A> ObjectSomeValuesFrom(<p> <B>)) SubClassOf(<A> ObjectAllValuesFrom(<p> <C>))
        EquivalentClasses(<D> ObjectIntersectionOf(<A> ObjectSomeValuesFrom(<q> <C>) ObjectSomeValuesFrom(<q> <B>)))
        SubClassOf(ObjectSomeValuesFrom(<p> <B>) <E>)
        EquivalentClasses(<F> ObjectUnionOf(<A> ObjectSomeValuesFrom(<p> <B>)))
        SubClassOf(<G> ObjectSomeValuesFrom(ObjectInverseOf(<p>) <B>))
        DisjointClasses(<A> ObjectSomeValuesFrom(<p> <D>))"""
    assert class_links(read_axioms(text)) == [("A", "p", "B"), ("D", "q", "B"), ("D", "q", "C")]


def test_names_have_the_kind_of_their_place() -> None:
    axiom = next(read_axioms("HasKey(ObjectMinCardinality(2 <p> <A>) (<q>) (<d>))"))
    assert set(axiom_names(axiom)) == {("relation", "p"), ("concept", "A"), ("relation", "q"), ("data property", "d")}
