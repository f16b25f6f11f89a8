"""Exact answers equal those of a SPARQL engine, which knows nothing of ours."""

from __future__ import annotations

import importlib.util
import sys
from functools import partial
from pathlib import Path

import pyoxigraph
import pytest

from tarbox.execution.graph import Index
from tarbox.query.algebra import And, Concept, Entity, Exists, Not, Or, walk
from tarbox.query.names import RDF_TYPE, SUBCLASS_OF


@pytest.fixture(scope="module")
def sparql_check():
    path = Path(__file__).parents[2] / "benchmarks" / "sparql_check.py"
    spec = importlib.util.spec_from_file_location("sparql_check", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["sparql_check"] = module
    spec.loader.exec_module(module)
    return module


def fill(engine, facts):
    """The facts as RDF."""
    node, names = pyoxigraph.NamedNode, facts.vocabulary
    triples = [
        (names.entities.iri(h), names.relations.iri(r), names.entities.iri(t))
        for h, r, t in zip(facts.heads.tolist(), facts.relations.tolist(), facts.tails.tolist(), strict=True)
    ]
    triples += [
        (names.entities.iri(e), RDF_TYPE, names.concepts.iri(c))
        for e, c in zip(facts.typed.tolist(), facts.types.tolist(), strict=True)
    ]
    triples += [
        (names.concepts.iri(a), SUBCLASS_OF, names.concepts.iri(b))
        for a, b in zip(facts.subs.tolist(), facts.supers.tolist(), strict=True)
    ]
    for subject, predicate, target in triples:
        engine.add(pyoxigraph.Quad(node(subject), node(predicate), node(target)))


@pytest.mark.parametrize("seed", range(3))
def test_random_trees_have_the_answers_of_the_engine(sparql_check, make_maker, seed):
    facts = make_maker(seed, literals=0).facts(assertions=60, typings=16, subsumptions=4)
    engine, index = pyoxigraph.Store(), Index.of(facts)
    fill(engine, facts)
    ask = partial(sparql_check.ask_store, engine)
    queries = list(sparql_check.random_queries(index, 60, seed))
    assert sum(sparql_check.check(index, ask, query) for query in queries) > 60
    assert {type(node) for query in queries for node in walk(query)} == {And, Concept, Entity, Exists, Not, Or}
