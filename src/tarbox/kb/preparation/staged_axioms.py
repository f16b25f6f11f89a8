"""The axioms among the staged statements.

Only statements in the words that RDF has for OWL are looked at, and of these only those about blank nodes are held in
memory as such; axioms become lines of text in a table.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, final

import pyarrow as pa

from tarbox.kb.axioms import axiom_names, write_axiom
from tarbox.kb.namespaces import Declaration
from tarbox.kb.owl_rdf import AxiomGraph, Row, Unmapped
from tarbox.kb.preparation import program, queries
from tarbox.kb.preparation.engine import TableEngine

NAMELESS: Final = ("SameIndividual", "DifferentIndividuals")  # on the web, mostly of names that no other fact has
_BLOCK: Final = 1 << 16


def collect_axioms(engine: TableEngine) -> None:
    """Make the table `axiom` of distinct axioms; statements left out so far that they are made of get `AXIOM`.

    A name that an axiom uses as a class, relation or individual is declared one.
    """
    engine.run(program.reified(engine))
    nodes: dict[str, list[Row]] = {}
    shared: dict[str, str] = {}
    parts = _Parts()
    for row, s, p, o in parts.read(engine, queries.node_parts(engine)):
        nodes.setdefault(s, []).append((row, shared.setdefault(p, p), shared.setdefault(o, o)))
    graph = AxiomGraph(nodes, *_properties(engine))
    used: list[int] = []
    names: set[tuple[str, str]] = set()
    heads = parts.read(engine, queries.axiom_heads(engine))
    blocks = [pa.array(block, pa.string()) for block in _lines(heads, graph, used, names)]
    engine.load("found", pa.table({"text": pa.chunked_array(blocks, pa.string())}))
    engine.load("used", parts.left_out(used))
    kinds, iris = list(zip(*sorted(names), strict=True)) or ((), ())
    engine.load("used_name", pa.table({"word": pa.array(kinds, pa.string()), "text": pa.array(iris, pa.string())}))
    engine.run(program.axioms_noted(engine))


@final
class _Parts:
    """The statements that may be parts of axioms, numbered in the order in which they are read."""

    def __init__(self) -> None:
        self._ids: list[pa.Table] = []
        self._rows = 0

    def read(self, engine: TableEngine, sql: str) -> Iterator[tuple[int, str, str, str]]:
        """(number, subject, predicate, object) of what `sql` finds."""
        found = engine.fetch(sql).read_all()
        self._ids.append(found.select(["s", "p", "o", "is_left_out"]))
        for block in found.select(["subject", "predicate", "object"]).to_batches(_BLOCK):
            numbers = range(self._rows, self._rows + len(block))
            self._rows += len(block)
            yield from zip(numbers, *(column.to_pylist() for column in block.columns), strict=True)

    def left_out(self, numbers: list[int]) -> pa.Table:
        """The ids of the statements with these numbers that are left out so far."""
        found = pa.concat_tables(self._ids).take(pa.array(numbers, pa.int64()))
        return found.filter(found["is_left_out"]).select(["s", "p", "o"])


def _lines(
    heads: Iterator[tuple[int, str, str, str]], graph: AxiomGraph, used: list[int], names: set[tuple[str, str]]
) -> Iterator[list[str]]:
    """Blocks of axioms as text; what they are made of is put into `used` and `names`."""
    lines: list[str] = []
    for row, s, p, o in heads:
        try:
            axiom = graph.axiom(s, p, o)
        except Unmapped:
            continue
        used += [row, *graph.passed]
        lines.append(write_axiom(axiom))
        if axiom[0] not in NAMELESS:
            names.update(axiom_names(axiom))
        if len(lines) == _BLOCK:
            yield lines
            lines = []
    yield lines


def _properties(engine: TableEngine) -> tuple[set[str], set[str]]:
    """The data properties, declared or with a datatype as their range, and what is an annotation property only."""
    declared: dict[str, set[str]] = {}
    for word, text in engine.rows(queries.DECLARED):
        declared.setdefault(word, set()).add(text)
    relations, annotations, data = (
        declared.get(kind.value, set())
        for kind in (Declaration.RELATION, Declaration.ANNOTATION_PROPERTY, Declaration.DATA_PROPERTY)
    )
    ranged = {text for (text,) in engine.rows(queries.data_ranges(engine))}
    return data | (ranged - relations - annotations), annotations - relations - data
