"""What statements mean, and that none vanishes silently."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tarbox.core.errors import ConfigError, SourceError
from tarbox.core.ids import Role
from tarbox.kb.build import BuildOptions, build
from tarbox.kb.sources import find_sources
from tarbox.kb.store import Store

from .conftest import PREFIXES, BuildTurtle

EX = "http://example.org/"


def names(store: Store, role: Role) -> list[str]:
    return [iri.removeprefix(EX) for iri in store.facts.vocabulary.names(role)]


def assertions(store: Store) -> set[tuple[str, str, str]]:
    facts, vocabulary = store.facts, store.facts.vocabulary
    rows = zip(facts.heads.tolist(), facts.relations.tolist(), facts.tails.tolist(), strict=True)
    entity, relation = vocabulary.entities.iri, vocabulary.relations.iri
    return {tuple(t.removeprefix(EX) for t in (entity(h), relation(r), entity(o))) for h, r, o in rows}  # type: ignore[misc]


def subsumptions(store: Store) -> set[tuple[str, str]]:
    iri = store.facts.vocabulary.concepts.iri
    pairs = zip(store.facts.subs.tolist(), store.facts.supers.tolist(), strict=True)
    return {(iri(a).removeprefix(EX), iri(b).removeprefix(EX)) for a, b in pairs}


def left_out(store: Store) -> dict[str, int]:
    return {reason: number for reason, number in store.manifest["report"]["left_out"].items() if number}


def test_roles(build_turtle: BuildTurtle) -> None:
    store = build_turtle(
        ":a a :C ; :p :b . :C rdfs:subClassOf :D . :E a owl:Class . :q a owl:ObjectProperty .:i a owl:NamedIndividual ."
    )
    assert names(store, Role.ENTITY) == ["a", "b", "i"]
    assert names(store, Role.CONCEPT) == ["C", "D", "E"]
    assert names(store, Role.RELATION) == ["p", "q"]
    assert left_out(store) == {}


def test_punning_keeps_both_roles(build_turtle: BuildTurtle) -> None:
    store = build_turtle(":eagle a :Species ; rdfs:label 'eagle' . :harry a :eagle . :Species a owl:Class .")
    assert "eagle" in names(store, Role.ENTITY)
    assert "eagle" in names(store, Role.CONCEPT)
    assert store.manifest["report"]["both_entity_and_concept"] == 1
    vocabulary = store.facts.vocabulary
    for role in (Role.ENTITY, Role.CONCEPT):
        found = vocabulary.names(role)
        assert found.label(found.find(EX + "eagle") or 0) == "eagle"


def test_thing_is_a_concept_where_it_is_used_as_one(build_turtle: BuildTurtle) -> None:
    store = build_turtle(":a a owl:Thing .")
    assert names(store, Role.CONCEPT) == ["http://www.w3.org/2002/07/owl#Thing"]


def test_anonymous_classes_make_axioms_and_other_blank_nodes_are_counted(build_turtle: BuildTurtle) -> None:
    store = build_turtle(
        """:C rdfs:subClassOf [ a owl:Restriction ; owl:onProperty :p ; owl:someValuesFrom :D ] .
           :C rdfs:subClassOf [ rdfs:label "no class" ] .
           :a a [ owl:unionOf (:C :D) ] ; :p [ :q :b ] ; :p :b ."""
    )
    reasons = left_out(store)
    assert assertions(store) == {("a", "p", "b")}
    assert {kind: n for kind, n in reasons.items() if n} == {"anonymous class": 1, "blank node": 3}
    assert store.manifest["report"]["kept"]["part of an axiom"] == 10
    assert store.manifest["axioms"] == {"ClassAssertion": 1, "SubClassOf": 1}


def test_literals(build_turtle: BuildTurtle) -> None:
    text = ':a :born "1977"^^<http://www.w3.org/2001/XMLSchema#gYear> ; :name "A \\"B\\""@en ; :p :b .'
    dropped = build_turtle(text)
    assert assertions(dropped) == {("a", "p", "b")}
    assert left_out(dropped) == {"literal value (keep with --literals keep)": 2}
    kept = build_turtle(text, keep_literals=True)
    assert ("a", "born", '"1977"^^<http://www.w3.org/2001/XMLSchema#gYear>') in assertions(kept)
    assert ("a", "name", '"A \\"B\\""@en') in assertions(kept)


def test_annotations_are_not_facts(build_turtle: BuildTurtle) -> None:
    store = build_turtle(
        """:note a owl:AnnotationProperty . :a :note :b ; rdfs:comment "x" ; rdfs:seeAlso :c ; :p :d .
           rdfs:seeAlso a owl:ObjectProperty ."""
    )
    assert assertions(store) == {("a", "p", "d"), ("a", "http://www.w3.org/2000/01/rdf-schema#seeAlso", "c")}
    assert left_out(store) == {"annotation": 2}


def test_obsolete_terms_are_left_out(build_turtle: BuildTurtle) -> None:
    store = build_turtle(
        """:Old a owl:Class ; owl:deprecated true ; rdfs:label "old" ; rdfs:subClassOf :New .
           :Kept a owl:Class ; owl:deprecated false . :a a :Old , :New . :gone a owl:DeprecatedClass ."""
    )
    assert names(store, Role.CONCEPT) == ["Kept", "New"]
    assert store.manifest["report"]["obsolete_terms"] == 2
    assert left_out(store)["about an obsolete term"] == 5


def test_equivalence_and_cycles(build_turtle: BuildTurtle) -> None:
    store = build_turtle(
        ":A owl:equivalentClass :B . :C rdfs:subClassOf :D . :D rdfs:subClassOf :C . :E rdfs:subClassOf :E , :A ."
    )
    assert subsumptions(store) == {("A", "B"), ("B", "A"), ("C", "D"), ("D", "C"), ("E", "A")}
    assert store.manifest["report"]["equivalent_concepts"] == [[EX + "A", EX + "B"], [EX + "C", EX + "D"]]
    assert left_out(store) == {"concept that subsumes itself": 1}


def test_labels_by_predicate_and_language(build_turtle: BuildTurtle) -> None:
    text = """:a a :C ; rdfs:label "Katze"@de , "cat"@en ; skos:prefLabel "feline"@en .
              :b a :C ; skos:prefLabel "dog" ; skos:altLabel "hound" ; oio:hasAlternativeId "X:1" .
              :c a :C ; rdfs:label "souris"@fr . :d a :C ."""
    english = build_turtle(text).facts.vocabulary
    assert [english.entities.label(i) for i in range(4)] == ["cat", "dog", "souris", None]
    assert english.entities.show(3) == "d"
    rows = {(row["role"], row["id"], row["text"]) for row in english.synonyms.to_pylist()}
    assert rows == {("entity", 0, "feline"), ("entity", 1, "hound"), ("entity", 1, "X:1")}
    german = build_turtle(text, language="DE").facts.vocabulary
    assert german.entities.label(0) == "Katze"


def test_labels_left_out_are_counted(build_turtle: BuildTurtle) -> None:
    store = build_turtle(
        """:a a :C ; rdfs:label "Pizza"@en , "Pizze"@it , "Pizza"@de ; skos:altLabel "pie"@en , "torta"@it , "" .
           :b a :C ; rdfs:label "Brot"@de , "Pain"@fr . :nothing rdfs:label "nothing" ; skos:altLabel "nix"@de ."""
    )
    assert store.manifest["report"]["kept"] == {"typing": 2, "label": 3, "synonym or alternative id": 1}
    assert left_out(store) == {
        "label or synonym in another language (--language)": 3,
        "empty label or synonym": 1,
        "label or synonym of a name that no fact uses": 2,
    }
    vocabulary = store.facts.vocabulary
    assert [vocabulary.entities.label(row) for row in range(2)] == ["Pizza", "Brot"]
    assert vocabulary.synonyms["text"].to_pylist() == ["pie"]


def test_a_language_is_no_sql(build_turtle: BuildTurtle) -> None:
    store = build_turtle(':a a :C ; rdfs:label "a" .', language="d'e")
    assert store.facts.vocabulary.entities.label(0) == "a"


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(st.characters(exclude_categories=["Cs", "Cc"], include_characters='\n\t\r"\\'), min_size=1))
def test_any_label_survives(build_turtle: BuildTurtle, label: str) -> None:
    from tarbox.kb.terms import literal, split_literal

    store = build_turtle(f":a a :C ; rdfs:label {literal(label)} .")
    assert store.facts.vocabulary.entities.label(0) == label
    assert split_literal(literal(label, language="en")) == (label, "en", "")


def test_same_entities_are_merged_on_request(build_turtle: BuildTurtle) -> None:
    text = ":p owl:inverseOf :q . :q rdfs:subPropertyOf :r . :a :p :b . :b owl:sameAs :bee . :bee a :C ."
    store = build_turtle(text)
    assert assertions(store) == {("a", "p", "b")}
    assert left_out(store) == {}
    merged = build_turtle(text, merge_same=True)
    assert names(merged, Role.ENTITY) == ["a", "b"]
    assert merged.facts.vocabulary.synonyms.to_pylist() == [{"role": "entity", "id": 1, "text": EX + "bee"}]
    assert merged.manifest["report"]["merged"] == 1
    assert merged.manifest["report"]["kept"]["same entities, merged"] == 1
    assert left_out(merged) == {}
    assert "SameIndividual" not in merged.manifest["axioms"]


def test_degree_filter(build_turtle: BuildTurtle) -> None:
    chain = ":a :p :b . :b :p :c . :c :p :a . :c :p :d . :d :q :e . :e a :Leaf . :a a :C ."
    once = build_turtle(chain, min_degree=2)
    assert names(once, Role.ENTITY) == ["a", "b", "c", "d"]
    assert names(once, Role.CONCEPT) == ["C"]
    core = build_turtle(chain, min_degree=2, core=True)
    assert names(core, Role.ENTITY) == ["a", "b", "c"]
    assert names(core, Role.RELATION) == ["p"]
    assert core.manifest["report"]["entities_below_min_degree"] == 2
    assert left_out(core) == {"entity below --min-degree": 3}


def test_imports_are_resolved_or_reported(tmp_path: Path) -> None:
    (tmp_path / "main.ttl").write_text(
        PREFIXES + "<http://o/main> a owl:Ontology ; owl:imports <http://o/beside> , <http://o/cat> , <http://o/gone> ."
        ":a :p :b ."
    )
    (tmp_path / "beside.ttl").write_text(PREFIXES + "<http://o/beside> a owl:Ontology . :c :p :d .")
    (tmp_path / "listed.ttl").write_text(PREFIXES + "<http://o/cat> a owl:Ontology . :e :p :f .")
    (tmp_path / "catalog-v001.xml").write_text(
        '<catalog xmlns="urn:oasis:names:tc:entity:xmlns:xml:catalog">'
        '<uri name="http://o/cat" uri="listed.ttl"/></catalog>'
    )
    sources, _ = find_sources([str(tmp_path / "main.ttl")])
    store = build(sources, tmp_path / "kb")
    assert assertions(store) == {("a", "p", "b"), ("c", "p", "d"), ("e", "p", "f")}
    fates = store.manifest["report"]["imports"]
    assert "not found" in fates["http://o/gone"]
    assert [source["name"] for source in store.manifest["sources"]] == ["main.ttl", "beside.ttl", "listed.ttl"]


def test_nothing_useful_is_an_error_and_keeps_the_old_store(build_turtle: BuildTurtle, tmp_path: Path) -> None:
    before = build_turtle(":a :p :b .").manifest["content_hash"]
    with pytest.raises(SourceError, match="no entity, no concept and no axiom"):
        build_turtle(":a rdfs:comment 'nothing' .")
    from tarbox.kb.store import open_store

    assert open_store(tmp_path / "kb").manifest["content_hash"] == before


terms = st.sampled_from(
    [":a", ":b", ":C", ":D", ":p", ":q", "_:x", '"l"', '"m"@it', "owl:Class", "owl:Restriction", "owl:Thing"]
)
predicates = st.sampled_from(
    [":p", ":q", "a", "rdfs:subClassOf", "owl:equivalentClass", "rdfs:label", "skos:altLabel", "rdfs:comment",
     "owl:deprecated", "owl:imports", "owl:inverseOf", "rdfs:subPropertyOf", "owl:sameAs", "rdfs:domain"]
)  # fmt: skip
statements = st.tuples(terms.filter(lambda t: not t.startswith('"')), predicates, terms)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(statements, min_size=1, max_size=12), st.booleans(), st.booleans())
def test_every_statement_is_accounted_for(
    build_turtle: BuildTurtle, rows: list[tuple[str, str, str]], literals: bool, merge: bool
) -> None:
    text = "".join(f"{s} {p} {o} .\n" for s, p, o in [*rows, (":kept", ":r", ":kept2")])
    report = build_turtle(text, keep_literals=literals, merge_same=merge).manifest["report"]
    accounted = report["duplicates"] + sum(report["kept"].values()) + sum(report["left_out"].values())
    assert report["statements"] == len(rows) + 1
    assert accounted == report["statements"]


def test_base_resolves_relative_iris(tmp_path: Path) -> None:
    (tmp_path / "a.ttl").write_text("<a> <p> <b> .")
    sources, _ = find_sources([str(tmp_path / "a.ttl")], "turtle")
    store = build(sources, tmp_path / "kb", BuildOptions(base="http://base.org/"))
    assert list(store.facts.vocabulary.entities) == ["http://base.org/a", "http://base.org/b"]


@pytest.mark.parametrize("base", ["not iri", "", "relative/", "http://[", "http://e/%zz", "http://e/\udcff"])
@pytest.mark.parametrize("name", ["a.ttl", "a.tsv"])
def test_a_base_is_an_absolute_iri(base: str, name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("<a>\t<p>\t<b> .")
    sources, _ = find_sources([str(tmp_path / name)])
    with pytest.raises(ConfigError, match="write an absolute IRI, such as"):
        build(sources, tmp_path / "kb", BuildOptions(base=base))
    assert not (tmp_path / "kb").exists()


def test_interpretation_needs_no_order(build_turtle: BuildTurtle) -> None:
    lines = [":n a owl:AnnotationProperty .", ":a :n :b .", ":a :p :c .", ":c owl:deprecated true .", ":d :p :a ."]
    hashes = {build_turtle(" ".join(order)).manifest["content_hash"] for order in (lines, lines[::-1])}
    assert len(hashes) == 1
