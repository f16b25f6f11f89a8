"""The SPARQL surface: which texts are trees, and what they mean."""

from __future__ import annotations

import pytest

from tarbox.core.errors import NotAnswerable, QuerySyntaxError, QueryTooLarge
from tarbox.query.manchester import Limits, parse
from tarbox.query.rewrites import canonical
from tarbox.query.sparql import parse_sparql

HEAD = "PREFIX : <urn:> SELECT DISTINCT ?x WHERE "
ANY = "<https://tarbox.example/vocabulary#Anything>"

SAME = [
    ("{ ?x :p :a }", "<urn:p> value <urn:a>"),
    ("{ :a :p ?x }", "inverse <urn:p> value <urn:a>"),
    ("{ :a ^:p ?x }", "<urn:p> value <urn:a>"),
    ("{ ?x a :C }", "<urn:C>"),
    ("{ ?x rdf:type/rdfs:subClassOf* :C }", "<urn:C>"),
    ("{ ?x :p/rdf:type :C }", "<urn:p> some <urn:C>"),
    ("{ ?x :p ?y }", f"<urn:p> some {ANY}"),
    ("{ ?x :p ?y . ?y :q :a ; a :C }", "<urn:p> some (<urn:q> value <urn:a> and <urn:C>)"),
    ("{ ?x :p [ :q :a ] }", "<urn:p> some (<urn:q> value <urn:a>)"),
    ("{ ?x :p/:q :a }", "<urn:p> some (<urn:q> value <urn:a>)"),
    ("{ :a :p/:q ?x }", "inverse <urn:q> some (inverse <urn:p> value <urn:a>)"),
    ("{ ?x (:p|^:q) :a }", "(<urn:p> value <urn:a>) or (inverse <urn:q> value <urn:a>)"),
    ("{ ?x ^(:p/:q) :a }", "inverse <urn:q> some (inverse <urn:p> value <urn:a>)"),
    (
        "{ { ?x :p :a } UNION { ?x :q :a } UNION { ?x a :C } }",
        "<urn:p> value <urn:a> or <urn:q> value <urn:a> or <urn:C>",
    ),
    ("{ ?x a :C . { ?x :p :a } UNION { ?x :q ?z } }", f"<urn:C> and ((<urn:p> value <urn:a>) or <urn:q> some {ANY})"),
    ("{ ?x a :C FILTER NOT EXISTS { ?x :p ?y . ?y a :D } }", "<urn:C> and not (<urn:p> some <urn:D>)"),
    ("{ ?x a :C MINUS { ?x :p :a } }", "<urn:C> and not (<urn:p> value <urn:a>)"),
    ("{ ?x :p ?y FILTER NOT EXISTS { ?y a :D } }", "<urn:p> some (not <urn:D>)"),
    ("{ VALUES ?x { :a :b } ?x a :C }", "{<urn:a>, <urn:b>} and <urn:C>"),
    ('{ ?x :p "1977"^^xsd:gYear }', '<urn:p> value "1977"^^xsd:gYear'),
    ('{ ?x :p "a\\nb"@en }', '<urn:p> value "a\\nb"@en'),
]

REFUSED = [
    ("{ ?x :p :a OPTIONAL { ?x :q ?y } }", "OPTIONAL"),
    ("{ ?x :p ?y . ?y :q ?x }", "cycle"),
    ("{ ?x :p ?x }", "cycle"),
    ("{ ?x :p ?y . ?x :q ?y }", "cycle"),
    ("{ ?x :p :a . ?y :q :b }", "not connected"),
    ("{ ?x :p :a . :b :q :c }", "not connected"),
    ("{ ?x ?p :a }", "variable cannot stand for a relation"),
    ("{ ?x a ?c }", "type must be a class"),
    ("{ ?x :p+ :a }", "property paths"),
    ("{ ?x :p ?n FILTER(?n > 5) }", "FILTER other than NOT EXISTS"),
    ("{ ?x :p :a FILTER NOT EXISTS { ?y :q :b } }", "share one variable"),
    ("{ ?x :p ?y FILTER NOT EXISTS { ?x :q ?y } }", "share one variable"),
    ("{ ?x :p ?y . { ?x :q :a } UNION { ?y :q :a } }", "UNION"),
    ("{ { ?x :p :a } UNION { ?y :q :a } }", "every group"),
    ("{ ?x :p :a } LIMIT 3", "LIMIT"),
    ("{ BIND(:a AS ?x) }", "BIND"),
    ("{ { SELECT ?x { ?x :p :a } } }", "subquery"),
    ("{ VALUES (?x ?y) { (:a :b) } ?x :p ?y }", "one variable"),
    ("{ FILTER NOT EXISTS { ?x :p :a } }", "share one variable"),
]


@pytest.mark.parametrize(("pattern", "manchester"), SAME)
def test_same_query(pattern: str, manchester: str) -> None:
    assert canonical(parse_sparql(HEAD + pattern)) == canonical(parse(manchester))  # rdflib orders triples its way


@pytest.mark.parametrize(("pattern", "reason"), REFUSED)
def test_refused(pattern: str, reason: str) -> None:
    with pytest.raises(NotAnswerable, match=reason) as caught:
        parse_sparql(HEAD + pattern)
    assert "answerable is" in caught.value.reason


@pytest.mark.parametrize(
    "text",
    [
        "ASK { ?x ?p ?y }",
        "SELECT ?x ?y { ?x <urn:p> ?y }",
        "SELECT * { ?x <urn:p> ?y }",
        "SELECT (COUNT(?x) AS ?n) { ?x <urn:p> ?y }",
        "SELECT ?x FROM <urn:g> { ?x <urn:p> ?y }",
    ],
)
def test_one_variable_is_selected(text: str) -> None:
    with pytest.raises(NotAnswerable):
        parse_sparql(text)


@pytest.mark.parametrize("form", ["ASK", "DESCRIBE ?x", "CONSTRUCT { ?x a <urn:D> }"])
def test_other_forms_are_called_as_they_are_written(form: str) -> None:
    word = form.split(maxsplit=1)[0]
    with pytest.raises(NotAnswerable, match=f"^{word} is not answerable here; answerable is a SELECT") as caught:
        parse_sparql(f"BASE <urn:> {form} {{ ?x a <urn:C> }}")
    assert caught.value.text[caught.value.position :].startswith(word)


@pytest.mark.parametrize("prefix", ["", "no", "None", "a.b"])
def test_an_unknown_prefix_is_shown(prefix: str) -> None:
    text = f"PREFIX x: <urn:x> SELECT ?x {{ ?x x:p {prefix}:a }}"
    with pytest.raises(QuerySyntaxError, match=f"the prefix '{prefix}:' is not declared; declare it with") as caught:
        parse_sparql(text)
    assert caught.value.position == text.index(f" {prefix}:a") + 1


@pytest.mark.parametrize("text", ["", "SELECT", HEAD + "{ ?x :p }", HEAD + "{ ?x no:p :a }"])
def test_what_is_no_sparql(text: str) -> None:
    with pytest.raises(QuerySyntaxError, match="not SPARQL"):
        parse_sparql(text)


def test_limits() -> None:
    with pytest.raises(QueryTooLarge, match="deep"):
        parse_sparql(HEAD + "{ ?x a <urn:C> " + "FILTER NOT EXISTS { ?x a <urn:C> " * 300 + "}" * 301)
    with pytest.raises(QueryTooLarge, match="nodes"):
        parse_sparql(HEAD + "{ ?x :p/:p/:p/:p :a }", Limits(depth=3))
    with pytest.raises(QueryTooLarge, match="characters"):
        parse_sparql(" " * 100_001)
