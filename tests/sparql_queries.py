"""SPARQL queries of all forms over the embedded academia: written by hand, and drawn from triples."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import pyoxigraph

NS = "https://tarbox.example/academia#"
PREFIXES = f"PREFIX : <{NS}>\nPREFIX rdfs: <http://www.w3.org/2000/01/rdf-schema#>\n"
WRITTEN = [
    # several variables, two relations between one pair, cycles
    "SELECT ?x ?y { ?x :worksAt ?y }",
    "SELECT ?x ?y { ?x :uses ?y ; :develops ?y }",
    "SELECT ?x ?y { ?x :uses ?y . ?x :interestedIn ?y }",
    "SELECT * { ?a :worksAt ?b . ?b :uses ?c . ?a :investigates ?c }",
    "SELECT ?a ?b ?c { ?a ?p ?b . ?b ?q ?c . ?c ?r ?a }",
    "SELECT ?a ?b { ?a ?p ?b . ?b ?p ?a }",
    "SELECT ?x ?p ?y { ?x ?p ?y . ?y :locatedIn :Canada }",
    "SELECT DISTINCT ?p { ?x a :Person ; ?p ?y }",
    "SELECT ?p ?o { :Google ?p ?o }",
    "SELECT ?s ?p { ?s ?p :Google }",
    "SELECT ?x (?y AS ?z) { ?x :bornIn ?y }",
    "SELECT ?a ?b { ?a :worksAt ?u . ?b :worksAt ?u FILTER(?a != ?b) }",
    # comments, modifiers without blanks, names of variables
    "SELECT ?x { ?x a :Company } # LIMIT 1\n",
    "SELECT ?x { ?x a :Company }ORDER BY ?x LIMIT 1",
    "SELECT ?x{?x a :Company}ORDER BY ?x OFFSET 2 LIMIT 3",
    "SELECT ?x{?x a :Company}ORDER BY DESC(?x)LIMIT 1#one",
    'SELECT ?x { ?x rdfs:label ?l FILTER(?l != "a LIMIT 3") }',
    "SELECT ?degree ?status { ?degree :worksAt ?status }",
    "SELECT ?x { ?x a :Company } LIMIT 0",
    "SELECT REDUCED ?x { ?x a :Country }",
    # labels and schema
    'SELECT ?x { ?x rdfs:label "Google" }',
    "SELECT ?x ?l { ?x a :University ; rdfs:label ?l }",
    "SELECT ?c ?d { ?c rdfs:subClassOf ?d }",
    "SELECT ?c { ?c rdfs:subClassOf+ :Agent }",
    "SELECT ?c { ?c a <http://www.w3.org/2002/07/owl#Class> }",
    "SELECT ?p { ?p a <http://www.w3.org/2002/07/owl#ObjectProperty> }",
    "SELECT ?c (COUNT(?x) AS ?n) { ?x a ?c } GROUP BY ?c",
    "SELECT ?x { ?x a/rdfs:subClassOf* :Person }",
    "SELECT ?x ?t { ?x a ?t FILTER NOT EXISTS { ?x a ?u . ?u rdfs:subClassOf ?t } }",
    "SELECT ?root { ?root a <http://www.w3.org/2002/07/owl#Class> MINUS { ?root rdfs:subClassOf ?up } }",
    # paths
    "SELECT ?x ?y { ?x :worksAt/:locatedIn ?y }",
    "SELECT ?x { :Google ^:worksAt ?x }",
    "SELECT ?x ?y { ?x (:uses|:develops) ?y }",
    "SELECT ?x { :Google :partOf* ?x }",
    "SELECT ?x { :Google (:partOf|:locatedIn|^:worksAt)+ ?x }",
    "SELECT ?x ?y { ?x :partOf? ?y . ?y a :Company }",
    "SELECT DISTINCT ?x { :GeoffreyHinton !(:worksAt|a|rdfs:label) ?x }",
    "SELECT DISTINCT ?x { ?x :worksAt/^:worksAt/:bornIn :Canada }",
    # aggregates
    "SELECT (COUNT(*) AS ?n) { ?x ?p ?y }",
    "SELECT ?u (COUNT(?x) AS ?n) { ?x :worksAt ?u } GROUP BY ?u ORDER BY DESC(?n) ?u LIMIT 5",
    "SELECT ?u (COUNT(DISTINCT ?c) AS ?n) { ?x :worksAt ?u ; :bornIn ?c } GROUP BY ?u HAVING(COUNT(DISTINCT ?c) > 1)",
    "SELECT ?p (COUNT(*) AS ?n) (MIN(STR(?y)) AS ?least) (MAX(STR(?y)) AS ?most) { ?x ?p ?y } GROUP BY ?p",
    "SELECT (AVG(?n) AS ?mean) (SUM(?n) AS ?sum) { { SELECT ?u (COUNT(?x) AS ?n) { ?x :worksAt ?u } GROUP BY ?u } }",
    # OPTIONAL, UNION, MINUS, FILTER, BIND, VALUES, subqueries
    "SELECT ?x ?c { ?x a :Person OPTIONAL { ?x :bornIn ?c } }",
    "SELECT ?x { ?x a :Person OPTIONAL { ?x :bornIn ?c } FILTER(!BOUND(?c)) }",
    "SELECT ?x ?y { { ?x :worksAt ?y } UNION { ?x :bornIn ?y } }",
    "SELECT ?x { ?x a :Person MINUS { ?x :worksAt ?y } }",
    "SELECT ?x { ?x a :Person FILTER NOT EXISTS { ?x :worksAt ?y } }",
    "SELECT ?x { ?x a :Person FILTER EXISTS { ?x :worksAt/:locatedIn :Canada } }",
    'SELECT ?x { ?x rdfs:label ?l FILTER REGEX(?l, "^goo", "i") }',
    'SELECT ?x ?n { ?x a :Company ; rdfs:label ?l BIND(STRLEN(?l) AS ?n) FILTER(CONTAINS(LCASE(?l), "a")) }',
    "SELECT ?x ?y { VALUES ?x { :Google :Netflix } ?x :uses ?y }",
    "SELECT ?x ?y { VALUES (?x ?y) { (:Google UNDEF) (UNDEF :Transformer) } ?x :uses ?y }",
    "SELECT ?x ?y { { SELECT ?x { ?x a :Company } ORDER BY ?x LIMIT 3 } ?x :uses ?y }",
    'SELECT ?x (IF(?x = :Google, "yes", "no") AS ?it) { ?x a :Company }',
    "SELECT ?g { GRAPH ?g { ?s ?p ?o } }",
    "SELECT ?x { ?x a <urn:nothing> }",
    "SELECT (1 + 1 AS ?two) {}",
    # ASK
    "ASK { ?x a :Person ; :worksAt :Google }",
    "ASK { :GeoffreyHinton a :University }",
    "ASK {}",
    "# why not?\nASK { ?x :worksAt <urn:nowhere> }",
    "ASK { :Google :uses ?t . :GeoffreyHinton :investigates ?t }",
    # graphs
    "CONSTRUCT { ?y :employs ?x } WHERE { ?x :worksAt ?y }",
    "CONSTRUCT WHERE { ?x :worksAt ?y ; :bornIn ?z }",
    "CONSTRUCT { ?x :at [ :in ?z ] } WHERE { ?x :worksAt ?y . ?y :locatedIn ?z }",
    "CONSTRUCT { ?c rdfs:subClassOf ?d } WHERE { ?c rdfs:subClassOf+ ?d }",
    "DESCRIBE :Google",
    "DESCRIBE ?x { ?x :worksAt :Google }",
    "DESCRIBE <urn:nothing>",
]
YASGUI = "SELECT * WHERE {\n  ?sub ?pred ?obj .\n} LIMIT 10"
PROTEGE = """PREFIX rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#>
PREFIX owl: <http://www.w3.org/2002/07/owl#>
PREFIX rdfs: <http://www.w3.org/2000/01/rdf-schema#>
PREFIX xsd: <http://www.w3.org/2001/XMLSchema#>
SELECT ?subject ?object
\tWHERE { ?subject rdfs:subClassOf ?object }
"""


def drawn_queries(engine: pyoxigraph.Store, number: int, seed: int = 0) -> Iterator[str]:
    """Queries of two to four connected patterns that have a solution, with a random clause more and a random form."""
    source = random.Random(seed)
    triples = sorted(engine.quads_for_pattern(None, None, None, None), key=str)
    facts = [each for each in triples if str(each.predicate.value).startswith(NS)]
    for _ in range(number):
        patterns, nodes = _walk(source, engine, source.choice(facts))
        body = " . ".join(patterns)
        names = [f"?v{at}" for at in range(len(nodes))]
        first, last = names[0], names[-1]
        extra = source.choice(
            [
                "",
                f"OPTIONAL {{ {first} rdfs:label ?label }}",
                f"MINUS {{ {last} :locatedIn ?place }}",
                f"FILTER NOT EXISTS {{ {first} :worksAt ?place }}",
                f"FILTER({first} != {last})",
                f"{{ {first} a ?type }} UNION {{ {last} a ?type }}",
                f"BIND(STR({last}) AS ?text)",
                f"VALUES {first} {{ {nodes[0]} :Google }}",
                f"{last} a/rdfs:subClassOf? ?type",
            ]
        )
        where = f"{{ {body} . {extra} }}"
        yield source.choice(
            [
                f"SELECT * {where}",
                f"SELECT DISTINCT {first} {last} {where}",
                f"SELECT {first} (COUNT(*) AS ?n) {where} GROUP BY {first}",
                f"SELECT {' '.join(names)} {where} ORDER BY {' '.join(names)} LIMIT 7 OFFSET 1",
                f"ASK {where}",
                f"CONSTRUCT {{ {first} :related {last} }} WHERE {where}",
                f"DESCRIBE {first} {where}",
            ]
        )


def _walk(source: random.Random, engine: pyoxigraph.Store, start: pyoxigraph.Quad) -> tuple[list[str], Sequence[str]]:
    """Patterns along a random walk, which may close a cycle, and the nodes that their variables stood for."""
    nodes = [start.subject, start.object]
    edges = [(0, start.predicate, 1)]
    for _ in range(source.randint(1, 3)):
        at = source.randrange(len(nodes))
        around = [q for q in engine.quads_for_pattern(nodes[at], None, None, None) if q.predicate.value.startswith(NS)]
        if not around:
            continue
        step = source.choice(sorted(around, key=str))
        if step.object not in nodes:
            nodes.append(step.object)
        edge = (at, step.predicate, nodes.index(step.object))
        if edge not in edges:
            edges.append(edge)
    return [f"?v{a} {predicate} ?v{b}" for a, predicate, b in edges], [str(node) for node in nodes]
