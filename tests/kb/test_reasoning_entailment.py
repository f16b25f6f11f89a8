"""Questions to an ontology: taxonomies of relations, realisation, expressions, entailments, contradictions."""

from __future__ import annotations

import sys

import pytest

from tarbox.core.errors import MissingDependency, TarboxError
from tarbox.kb.axioms import Axiom, read_axioms
from tarbox.kb.facts import Facts
from tarbox.kb.reasoning import fixpoint
from tarbox.kb.reasoning.classification import classify, reached
from tarbox.kb.reasoning.entailment import entails, query_expression, realize
from tarbox.kb.reasoning.inference import InferenceMode, infer, infer_individuals
from tarbox.kb.reasoning.relations import classify_relations
from tarbox.kb.vocabulary import Vocabulary


def axioms(text: str) -> tuple[Axiom, ...]:
    """Functional syntax in which a word that opens no bracket is a name."""
    words = text.replace("(", "( ").replace(")", " )").split()
    named = [word if word.endswith(("(", ")")) or word.isdigit() else f"<urn:{word}>" for word in words]
    found = " ".join(named).replace("<urn:Thing>", "<http://www.w3.org/2002/07/owl#Thing>")
    return tuple(read_axioms(found.replace("<urn:Nothing>", "<http://www.w3.org/2002/07/owl#Nothing>")))


def one(text: str) -> Axiom:
    (axiom,) = axioms(text)
    return axiom


ZOO = axioms("""
    EquivalentClasses(Parent ObjectSomeValuesFrom(child Thing)) SubClassOf(Mother Parent) SubClassOf(Mother Woman)
    ObjectPropertyRange(child Person) DisjointClasses(Person Stone) SubObjectPropertyOf(son child)
    ClassAssertion(Woman ada) ObjectPropertyAssertion(son ada bob) SameIndividual(bob rob)
    EquivalentClasses(Empty ObjectIntersectionOf(Person Stone))
""")


def test_realize_says_who_is_what() -> None:
    found = realize(ZOO)
    assert found.types["urn:ada"] == {"urn:Woman", "urn:Parent"}
    assert found.types["urn:rob"] == found.types["urn:bob"] == {"urn:Person"}
    assert found.taxonomy.unsatisfiable == ("urn:Empty",)


def test_an_expression_has_a_place() -> None:
    found = query_expression(ZOO, one("ObjectSomeValuesFrom(child Person)"))
    assert found.equivalent == {"urn:Parent"}
    assert found.direct_subs == {"urn:Mother"}
    assert found.instances == {"urn:ada"}
    narrow = query_expression(ZOO, one("ObjectIntersectionOf(Woman Parent)"))
    assert (narrow.direct_supers, narrow.direct_subs) == ({"urn:Woman", "urn:Parent"}, {"urn:Mother"})
    nobody = query_expression(ZOO, one("ObjectSomeValuesFrom(child Stone)"))
    assert not nobody.satisfiable
    assert nobody.equivalent == {"urn:Empty"}


@pytest.mark.parametrize(
    ("goal", "holds"),
    [
        ("ClassAssertion(ObjectSomeValuesFrom(child Person) ada)", True),
        ("ObjectPropertyAssertion(child ada rob)", True),
        ("ObjectPropertyAssertion(child rob ada)", False),
        ("SubClassOf(Mother ObjectSomeValuesFrom(child Person))", True),
        ("SubClassOf(Woman Mother)", False),
        ("DisjointClasses(Person Stone)", True),
        ("ObjectPropertyDomain(son Parent)", True),
        ("SubObjectPropertyOf(son child)", True),
        ("SubObjectPropertyOf(child son)", False),
        ("SameIndividual(bob rob)", True),
        ("SameIndividual(bob ada)", False),
        ("TransitiveObjectProperty(child)", False),
        ("FunctionalObjectProperty(child)", False),
    ],
)
def test_entailments(goal: str, holds: bool) -> None:
    assert entails(ZOO, one(goal)) is holds


def test_everything_follows_from_a_contradiction() -> None:
    broken = (*ZOO, one("ClassAssertion(Stone rob)"))
    assert realize(broken).taxonomy.inconsistent
    assert entails(broken, one("SubClassOf(Woman Mother)"))


def test_relations_have_a_taxonomy() -> None:
    found = classify_relations(
        axioms("""SubObjectPropertyOf(son child) InverseObjectProperties(child parent) SubObjectPropertyOf(parent kin)
                  SymmetricObjectProperty(kin) SubClassOf(ObjectSomeValuesFrom(never Thing) Nothing)
                  ReflexiveObjectProperty(near) SubObjectPropertyOf(ObjectPropertyChain(son near) heir)""")
    )
    assert {upper.removeprefix("urn:") for upper in reached("urn:son", found.direct)} == {"child", "kin", "heir"}
    assert found.unsatisfiable == ("urn:never",)


@pytest.mark.parametrize(
    ("text", "who"),
    [
        ("DisjointClasses(A B) ClassAssertion(A x) ClassAssertion(B x)", "x"),
        ("SubClassOf(A ObjectComplementOf(ObjectSomeValuesFrom(p B))) ClassAssertion(A x) ClassAssertion(B y)", "x"),
        ("SubClassOf(A ObjectMaxCardinality(0 p)) ClassAssertion(A x)", "x"),
        ("IrreflexiveObjectProperty(p) SameIndividual(x y)", "x"),
        ("AsymmetricObjectProperty(p) SymmetricObjectProperty(p)", "x"),
        ("DisjointObjectProperties(p q) SubObjectPropertyOf(p q)", "x"),
        ("NegativeObjectPropertyAssertion(p x y)", "x"),
        ("DifferentIndividuals(x y z) FunctionalObjectProperty(p) ObjectPropertyAssertion(p x z)", "y"),
        ("ClassAssertion(Nothing x)", "x"),
        ("SubClassOf(Thing A) SubClassOf(A ObjectComplementOf(B)) ClassAssertion(B y)", "y"),
    ],
)
def test_contradictions_name_the_entity_and_the_axiom(text: str, who: str) -> None:
    vocabulary = Vocabulary.of(["urn:x", "urn:y", "urn:z"], ["urn:A", "urn:B"], ["urn:p", "urn:q"])
    given = Facts.of(vocabulary, [(0, 0, 1)])
    _, saturation = infer_individuals(given, axioms(text))
    found = {
        (saturation.rules.entities.term(entity), axioms(text)[axiom]) for entity, axiom in saturation.contradictions()
    }
    assert f"urn:{who}" in {entity for entity, _ in found}
    assert {axiom for _, axiom in found} <= set(axioms(text))
    harmless = infer_individuals(Facts.of(vocabulary, [(0, 0, 1)]), axioms("DisjointClasses(A B) ClassAssertion(A x)"))
    assert harmless[1].contradictions() == set()


def test_two_values_of_a_functional_relation_are_not_the_same() -> None:
    vocabulary = Vocabulary.of(['"1"', '"2"', "urn:x", "urn:y"], [], ["urn:age"])
    given = Facts.of(vocabulary, [(2, 0, 0), (2, 0, 1), (3, 0, 0)])
    every, saturation = infer_individuals(given, (("FunctionalDataProperty", "urn:age"),))
    assert len(every.heads) == 3
    assert {axiom for _, axiom in saturation.contradictions()} == {0}


def test_what_has_no_rule_is_named() -> None:
    vocabulary = Vocabulary.of(["urn:x"], ["urn:A", "urn:B"], ["urn:p"])
    stated = axioms(
        "SubClassOf(A ObjectUnionOf(B C)) SubClassOf(ObjectAllValuesFrom(p A) B) ReflexiveObjectProperty(p)"
    )
    _, report = infer(Facts.of(vocabulary, typings=[(0, 0)]), stated, InferenceMode.OWL)
    assert dict(report.outside) == {
        stated[0]: "ObjectUnionOf as a conclusion",
        stated[1]: "ObjectAllValuesFrom as a condition",
        stated[2]: "ReflexiveObjectProperty has no rule for individuals",
    }


def test_more_time_classifies_beyond_el() -> None:
    covering = axioms("EquivalentClasses(A ObjectUnionOf(B C)) SubClassOf(B D) SubClassOf(C D) SubClassOf(X A)")
    more = axioms("EquivalentClasses(Q ObjectAllValuesFrom(p D)) EquivalentClasses(R ObjectAllValuesFrom(p A))")
    assert "urn:Q" in reached("urn:R", classify((*covering, *more), seconds=5).direct)


def test_what_rustdl_cannot_read_is_named_and_the_rest_is_classified() -> None:
    odd: tuple[Axiom, ...] = (("SubClassOf", "no iri", "urn:B"), ("EquivalentClasses", "urn:A"))
    fine = axioms("SubClassOf(A ObjectIntersectionOf(B)) DisjointUnion(C D) SubClassOf(X ObjectOneOf())")
    found = classify((*odd, *fine))
    assert found.refused == odd[:1]
    assert ("urn:A", "urn:B") in found.direct
    assert ("urn:D", "urn:C") in found.direct
    assert found.unsatisfiable == ("urn:X",)


def test_axioms_that_contradict_each_other_are_reported() -> None:
    vocabulary = Vocabulary.of(["urn:x"], ["urn:A", "urn:B"], [])
    stated = axioms("SubClassOf(Thing A) SubClassOf(Thing B) DisjointClasses(A B)")
    every, report = infer(Facts.of(vocabulary, typings=[(0, 0)]), stated, InferenceMode.OWL)
    assert not report.consistent
    assert ("urn:x", stated[2]) in report.inconsistent
    assert len(every.asserted().typed) == 1


def test_too_much_is_refused_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fixpoint, "MOST_FACTS", 100)
    vocabulary = Vocabulary.of([f"urn:{n:03}" for n in range(100)], [], ["urn:p"])
    chain = Facts.of(vocabulary, [(n, 0, n + 1) for n in range(99)])
    with pytest.raises(TarboxError, match="more than 100 facts would follow"):
        infer_individuals(chain, axioms("TransitiveObjectProperty(p)"))


def test_a_missing_reasoner_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rustdl", None)
    with pytest.raises(MissingDependency, match=r"pip install 'tarbox\[owl\]'"):
        classify(ZOO)
