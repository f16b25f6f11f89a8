"""Exact answers against pyoxigraph's SPARQL engine: random tree queries, entities and concepts.

::

    python benchmarks/sparql_check.py --data ../shared/data/dbpedia77k/kb.nt.gz --queries 1000

The engine loads the N-Triples file as it is; tarbox builds a store of it. Each query has a random tree of all node
kinds and is drawn so that it has answers. Entities are compared with the query's own SPARQL form, concepts with
`rdf:type/rdfs:subClassOf*` of its answers.
"""

from __future__ import annotations

import argparse
import gzip
import io
import multiprocessing
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, final

import numpy as np

from tarbox.benchmark.options import BenchmarkOptions
from tarbox.benchmark.sampling import Collector, SamplingGraph, SamplingTask
from tarbox.execution.exact import answer_query
from tarbox.execution.graph import Index
from tarbox.execution.rows import decode
from tarbox.query.algebra import And, Concept, Direction, Entity, Exists, Not, Or, Query, lift, slots
from tarbox.query.names import RDF_TYPE, SUBCLASS_OF

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from sparql_text import to_sparql

MOST_ANSWERS: Final = 2_000
ANY: Final = "any"
ENDLESS: Final = 10**9


def random_tree(source: random.Random, depth: int, concepts: bool = True) -> Query:
    """A tree of all node kinds, without names; a negation stands beside what it is taken from.

    What is negated has no concepts: the engine takes minutes for many of those.
    """
    draw = source.random()
    if depth == 0 or draw < 0.08:
        return Concept(ANY) if concepts and source.random() < 0.25 else Entity(ANY)
    if draw < 0.6:
        return Exists(ANY, Direction.FORWARD, random_tree(source, depth - 1, concepts))
    first = random_tree(source, depth - 1, concepts)
    if draw < 0.75:
        return Or((first, random_tree(source, depth - 1, concepts)))
    if draw < 0.87:
        return And((first, Not(random_tree(source, depth - 1, False))))
    return And((first, random_tree(source, depth - 1, concepts)))


def random_queries(index: Index, number: int, seed: int) -> Iterator[Query]:
    """Queries with random trees of depth 1 to 4 and between 1 and `MOST_ANSWERS` answers."""
    graph = SamplingGraph(index, False, np.zeros(index.concepts, np.bool_))
    source, made, tried = random.Random(seed), 0, 0
    while made < number:
        shape = lift(random_tree(source, source.randint(1, 4)))[0]
        options = BenchmarkOptions(counts=(1, 0, 0), max_answers=MOST_ANSWERS, seed=tried)
        tried += 1
        if len(slots(shape)) < 2:
            continue
        collector = Collector(SamplingTask("random", shape, "train", 1), graph, options)
        collector.advance()
        ids = collector.result().ids
        if len(ids):
            made += 1
            yield decode(shape, ids[0], index.facts.vocabulary)


Ask = Callable[[str, str], set[str]]
"""The IRIs that a SPARQL query binds to a variable."""


def ask_store(store: Any, text: str, variable: str) -> set[str]:
    return {solution[variable].value for solution in store.query(text)}


@final
class Engine:
    """pyoxigraph in a process of its own, so that a query it takes too long for can be given up."""

    def __init__(self, file: Path, seconds: float) -> None:
        self._file, self._seconds = file, seconds
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(self._file, theirs), daemon=True)
        self._process.start()
        self._pipe.recv()  # it is ready

    def ask(self, text: str, variable: str) -> set[str]:
        self._pipe.send((text, variable))
        if not self._pipe.poll(self._seconds):
            self._process.terminate()
            self._start()
            raise TimeoutError
        found: set[str] = self._pipe.recv()
        return found


def serve(file: Path, pipe: Any) -> None:
    """The loop of the engine's process."""
    import pyoxigraph

    content = file.read_bytes()
    store = pyoxigraph.Store()
    content = gzip.decompress(content) if file.suffix == ".gz" else content
    store.bulk_load(io.BytesIO(content), format=pyoxigraph.RdfFormat.N_TRIPLES)
    pipe.send(None)
    with suppress(EOFError):  # the other end is gone: all is asked
        while True:
            pipe.send(ask_store(store, *pipe.recv()))


def check(index: Index, ask: Ask, query: Query) -> int:
    """Compares both levels; returns the number of answers compared."""
    vocabulary = index.facts.vocabulary
    answer = answer_query(query, index)
    text = to_sparql(query)
    entities = ask(text, "x")
    ours = {vocabulary.entities.iri(int(number)) for number in answer.entities}
    assert ours == entities, f"{text}: {len(ours)} entities here, {len(entities)} there"
    ways = "|".join(f"<{vocabulary.relations.iri(relation)}>" for relation in index.facts.annotations)
    path = f"?x {f'({ways})?/' if ways else ''}<{RDF_TYPE}>/<{SUBCLASS_OF}>* ?c"
    above = ask(f"SELECT DISTINCT ?c WHERE {{ {{ {text} }} {path} }}", "c")
    known = {iri for iri in above if vocabulary.concepts.find(iri) is not None}
    assert all("www.w3.org/2002/07/owl#" in iri for iri in above - known), above - known
    mine = {vocabulary.concepts.iri(int(number)) for number in answer.concepts}
    assert mine == known, f"{text}: {len(mine)} concepts here, {len(known)} there"
    return len(ours) + len(mine)


def main() -> int:
    from tarbox.kb.build import build
    from tarbox.kb.sources import find_sources

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="an N-Triples file, plain or .gz")
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=5, help="give up on a query that takes the engine longer")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        index = Index.of(build(find_sources([str(given.data)])[0], Path(folder) / "store").facts)
    engine, agreed, answers, given_up = Engine(given.data, given.seconds), 0, 0, 0
    start = time.perf_counter()
    queries = random_queries(index, ENDLESS, given.seed)
    while agreed < given.queries:
        try:
            answers += check(index, engine.ask, next(queries))
            agreed += 1
            if agreed % 100 == 0:
                print(f"{agreed:,} agree after {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
        except TimeoutError:
            given_up += 1
    print(f"{agreed:,} queries agree with pyoxigraph, {answers:,} answers at both levels")
    print(f"{given_up:,} queries took it more than {given.seconds:g} s; {time.perf_counter() - start:.0f} s in all")
    return 0


if __name__ == "__main__":
    sys.exit(main())
