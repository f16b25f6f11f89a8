"""The program's run: SQL on the engine, and between its steps what Python says of few terms."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import pyarrow as pa

from tarbox.core.errors import SourceError
from tarbox.kb.interpretation import KEPT, Interpretation, Verdict
from tarbox.kb.namespaces import Declaration, declaration_of, meaning_of
from tarbox.kb.preparation import program, queries
from tarbox.kb.preparation.engine import TableEngine
from tarbox.kb.preparation.staged_axioms import collect_axioms
from tarbox.kb.terms import local_name

_SHOWN: Final = 20


def interpret(engine: TableEngine, options: Interpretation) -> dict[str, Any]:
    """Give all statements their verdicts, and names their roles and labels; the report accounts for each statement."""
    statements = engine.count("statement") - engine.count("context")
    _judge(engine, options)
    merged = _merge_same(engine) if options.merge_same else 0
    collect_axioms(engine)
    distinct = engine.count("fact") - engine.count("(SELECT DISTINCT s, p, o FROM context) AS known")
    engine.run(program.named())
    words = dict(engine.rows(queries.DECLARED_COUNTS))
    weak = _filter_degree(engine, options.min_degree, options.core) if options.min_degree > 0 else 0
    engine.run(program.called(engine, options.language))
    engine.add(program.useless(engine, options.language))
    engine.run(program.SAID)
    verdicts = {list(Verdict)[code]: count for code, count in engine.rows(queries.ACCOUNT)}
    return {
        "statements": statements,
        "duplicates": statements - distinct,
        "kept": {verdict.value: n for verdict, n in verdicts.items() if verdict in KEPT},
        "left_out": {verdict.value: n for verdict, n in verdicts.items() if verdict not in KEPT},
        "merged": merged,
        "obsolete_terms": engine.count("obsolete"),
        "entities_below_min_degree": weak,
        "both_entity_and_concept": engine.count(f"({program.BOTH_ROLES}) AS both_roles"),
        "declared": {declaration.value: words.get(declaration.value, 0) for declaration in Declaration},
    }


def _judge(engine: TableEngine, options: Interpretation) -> None:
    _tabulate(engine, "meaning", queries.PREDICATES, lambda text: meaning_of(text).value)
    _tabulate(engine, "class", queries.classes(engine), lambda text: getattr(declaration_of(text), "value", ""))
    engine.run(program.judged(engine, options))
    engine.drop("statement")


def _tabulate(engine: TableEngine, table: str, terms: str, word: Callable[[str], str]) -> None:
    """A table of the few terms that `terms` selects, with what Python says of each."""
    found = engine.fetch(terms).read_all()
    words = pa.array([word(text) for text in found["text"].to_pylist()], pa.string())
    engine.load(table, pa.table({"id": found["id"], "word": words}))


def _merge_same(engine: TableEngine) -> int:
    """Give every group of same entities one name, the first by IRI; the others become its synonyms."""
    parent: dict[int, int] = {}

    def root(id: int) -> int:
        while parent.setdefault(id, id) != id:
            parent[id] = parent[parent[id]]
            id = parent[id]
        return id

    for s, o in engine.rows(queries.SAME_PAIRS):
        parent[root(s)] = root(o)
    columns = {"id": list(parent), "root": [root(id) for id in parent]}
    engine.load("member", pa.table({name: pa.array(ids, pa.int64()) for name, ids in columns.items()}))
    engine.run(program.merged())
    return engine.count("merged")


def _filter_degree(engine: TableEngine, least: int, core: bool) -> int:
    """Leave out entities with fewer than `least` assertions, once or until none is left; returns how many went."""
    gone = 0
    while True:
        engine.run(program.weak(least))
        weak = engine.count("weak")
        if weak:
            engine.run(program.without_weak())
        gone += weak
        if not weak or not core:
            return gone


def find_annotations(engine: TableEngine, wanted: Iterable[str]) -> tuple[str, ...]:
    """The IRIs of the annotation relations, sorted: those wanted, and those that the sources declare."""
    rows = engine.rows(queries.annotation_candidates())
    found = {iri for iri, _, is_declared in rows if is_declared}
    for name in wanted:
        exact = [iri for iri, _, _ in rows if iri == name]
        called = exact or [iri for iri, label, _ in rows if name in (local_name(iri), label)]
        if len(called) != 1:
            why = f"names {', '.join(called)}: give one IRI" if called else "is no relation of these sources"
            some = ", ".join(local_name(iri) for iri, _, _ in rows[:_SHOWN]) or "none"
            raise SourceError(f"--annotation {name} {why}. Relations: {some}{', ...' if len(rows) > _SHOWN else ''}.")
        found.update(called)
    return tuple(sorted(found))


def type_terms(engine: TableEngine) -> int:
    """Make each name that is both entity and concept an instance of itself (ADR 39); returns how many were not."""
    engine.run(program.own_instances(engine))
    engine.add(program.ADDED)
    return engine.count("added")
