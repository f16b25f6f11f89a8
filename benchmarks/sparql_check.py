"""Exact answers against pyoxigraph's SPARQL engine: random tree queries, entities and concepts.

::

    python benchmarks/sparql_check.py --data /work/shared/data/dbpedia77k/kb.nt.gz --queries 1000

The engine loads the N-Triples file as it is; tarbox builds a store of it. Each query has a random tree of all node
kinds and is drawn so that it has answers. Entities are compared with the query's own SPARQL form, concepts with
`rdf:type/rdfs:subClassOf*` of its answers.
"""

from __future__ import annotations

import argparse
import gzip
import io
import random
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any, Final

import numpy as np

from tarbox.benchmark.options import BenchmarkOptions
from tarbox.benchmark.sampling import Collector, Ground, Task
from tarbox.execution.exact import answer_query
from tarbox.execution.graph import Index
from tarbox.execution.rows import decode
from tarbox.query.algebra import And, Concept, Direction, Entity, Exists, Not, Or, Query, lift, slots
from tarbox.query.names import RDF_TYPE, SUBCLASS_OF
from tarbox.query.sparql_text import to_sparql

MOST_ANSWERS: Final = 2_000
ANY: Final = "any"
PATH: Final = re.compile(rf"(\?\w+) <{re.escape(RDF_TYPE)}>/<{re.escape(SUBCLASS_OF)}>\* (<[^>]+>) \.")


def random_tree(source: random.Random, depth: int) -> Query:
    """A tree of all node kinds, without names; a negation stands beside what it is taken from."""
    draw = source.random()
    if depth == 0 or draw < 0.08:
        return Concept(ANY) if source.random() < 0.25 else Entity(ANY)
    if draw < 0.6:
        return Exists(ANY, Direction.FORWARD, random_tree(source, depth - 1))
    parts = [random_tree(source, depth - 1) for _ in range(2)]
    if draw < 0.75:
        return Or(tuple(parts))
    return And((parts[0], Not(parts[1]) if draw < 0.87 else parts[1]))


def random_queries(index: Index, number: int, seed: int) -> Iterator[Query]:
    """Queries with random trees of depth 1 to 4 and between 1 and `MOST_ANSWERS` answers."""
    ground = Ground(index, False, np.zeros(index.concepts, np.bool_))
    source, made, tried = random.Random(seed), 0, 0
    while made < number:
        shape = lift(random_tree(source, source.randint(1, 4)))[0]
        options = BenchmarkOptions(counts=(1, 0, 0), max_answers=MOST_ANSWERS, seed=tried)
        tried += 1
        if len(slots(shape)) < 2:
            continue
        collector = Collector(Task("random", shape, "train", 1), ground, options)
        collector.advance()
        ids = collector.result().ids
        if len(ids):
            made += 1
            yield decode(shape, ids[0], index.facts.vocabulary)


def with_classes_listed(text: str, engine: Any) -> str:
    """The query with each `rdf:type/rdfs:subClassOf*` to a class as a list of classes, which the engine finds itself.

    The meaning is the same; the engine walks such a path from every subject, which takes minutes for some queries.
    """
    numbers = count()

    def listed(match: re.Match[str]) -> str:
        kind = f"?k{next(numbers)}"
        below = ask(engine, f"SELECT DISTINCT ?c WHERE {{ ?c <{SUBCLASS_OF}>* {match[2]} }}", "c")
        classes = " ".join(f"<{iri}>" for iri in sorted(below))
        return f"{match[1]} <{RDF_TYPE}> {kind} . VALUES {kind} {{ {classes} }}"

    return PATH.sub(listed, text)


def ask(engine: Any, text: str, variable: str) -> set[str]:
    """The IRIs that a variable is bound to."""
    return {solution[variable].value for solution in engine.query(text)}


def check(index: Index, engine: Any, query: Query) -> int:
    """Compares both levels; returns the number of answers compared."""
    vocabulary = index.facts.vocabulary
    answer = answer_query(query, index)
    text = with_classes_listed(to_sparql(query), engine)
    entities = ask(engine, text, "x")
    ours = {vocabulary.entities.iri(int(number)) for number in answer.entities}
    assert ours == entities, f"{text}: {len(ours)} entities here, {len(entities)} there"
    path = f"?x <{RDF_TYPE}>/<{SUBCLASS_OF}>* ?c"
    above = ask(engine, f"SELECT DISTINCT ?c WHERE {{ {{ {text} }} {path} }}", "c")
    known = {iri for iri in above if vocabulary.concepts.find(iri) is not None}
    assert all("www.w3.org/2002/07/owl#" in iri for iri in above - known), above - known
    mine = {vocabulary.concepts.iri(int(number)) for number in answer.concepts}
    assert mine == known, f"{text}: {len(mine)} concepts here, {len(known)} there"
    return len(ours) + len(mine)


def main() -> int:
    import pyoxigraph

    from tarbox.kb.build import build
    from tarbox.kb.sources import find_sources

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="an N-Triples file, plain or .gz")
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    content = given.data.read_bytes()
    content = gzip.decompress(content) if given.data.suffix == ".gz" else content
    engine = pyoxigraph.Store()
    engine.bulk_load(io.BytesIO(content), format=pyoxigraph.RdfFormat.N_TRIPLES)
    with tempfile.TemporaryDirectory() as folder:
        index = Index.of(build(find_sources([str(given.data)])[0], Path(folder) / "store").facts)
        start, answers = time.perf_counter(), 0
        for query in random_queries(index, given.queries, given.seed):
            answers += check(index, engine, query)
    elapsed = time.perf_counter() - start
    print(f"{given.queries:,} queries agree with pyoxigraph, {answers:,} answers at both levels, {elapsed:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
