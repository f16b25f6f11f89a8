"""The axioms among the staged statements.

Only statements in the words that RDF has for OWL are looked at, and of these only those about blank nodes are held in
memory as such; axioms become lines of text in a table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa

from tarbox.kb.axioms import axiom_names, write_axiom
from tarbox.kb.interpretation import Verdict, code
from tarbox.kb.namespaces import OWL, RDFS, TYPE, XML_SCHEMA, Declaration
from tarbox.kb.owl_rdf import AXIOM_PREDICATES, AXIOM_TYPES, NODE_PREDICATES, NODE_TYPES, AxiomGraph, Row, Unmapped
from tarbox.kb.staging import Staging

_TO_MARK: Final = ", ".join(str(code(v)) for v in (Verdict.SCHEMA, Verdict.BLANK, Verdict.ANONYMOUS, Verdict.SAME))
NAMELESS: Final = ("SameIndividual", "DifferentIndividuals")  # on the web, mostly of names that no other fact has
_BLOCK: Final = 1 << 16


def collect_axioms(staging: Staging) -> None:
    """Make the table `axiom` (text) of distinct axioms; statements left out so far that they are made of get `AXIOM`.

    A name that an axiom uses as a class, relation or individual is declared one.
    """
    type = f"p = term_id('{TYPE}')"
    staging.execute(
        f"""UPDATE fact SET verdict = {code(Verdict.ANNOTATION)} WHERE s & 3 = 2 AND s IN (
              SELECT s FROM fact WHERE {type} AND o IN ({_ids((OWL + "Axiom", OWL + "Annotation"))}))"""
    )
    nodes: dict[str, list[Row]] = {}
    shared: dict[str, str] = {}
    types = f"{type} AND o IN ({_ids(AXIOM_TYPES | NODE_TYPES)})"
    for row, s, p, o in _rows(staging, f"s & 3 = 2 AND (p IN ({_ids(NODE_PREDICATES)}) OR {types})"):
        nodes.setdefault(s, []).append((row, shared.setdefault(p, p), shared.setdefault(o, o)))
    graph = AxiomGraph(nodes, *_properties(staging))
    used: list[int] = []
    names: set[tuple[str, str]] = set()
    blocks = [pa.array(block, pa.string()) for block in _lines(staging, graph, used, names)]
    staging.table("found", pa.table({"text": pa.chunked_array(blocks, pa.string())}))
    staging.execute("CREATE TABLE axiom AS SELECT DISTINCT text FROM found")
    staging.table("used", pa.table({"id": pa.array(used, pa.int64())}))
    staging.execute(
        f"""UPDATE fact SET verdict = {code(Verdict.AXIOM)}
            WHERE verdict IN ({_TO_MARK}) AND rowid IN (SELECT id FROM used)"""
    )
    kinds, iris = list(zip(*sorted(names), strict=True)) or ((), ())
    staging.table("used", pa.table({"word": pa.array(kinds, pa.string()), "text": pa.array(iris, pa.string())}))
    staging.execute("INSERT INTO declared SELECT DISTINCT term_id(text), word FROM used EXCEPT SELECT * FROM declared")


def _lines(staging: Staging, graph: AxiomGraph, used: list[int], names: set[tuple[str, str]]) -> Iterator[list[str]]:
    """Blocks of axioms as text; what they are made of is put into `used` and `names`."""
    main = f"""(p IN ({_ids(AXIOM_PREDICATES)}) AND NOT (s & 3 = 2 AND p IN ({_ids(NODE_PREDICATES)})))
               OR (p = term_id('{TYPE}') AND (o & 3 = 2 OR o IN ({_ids(AXIOM_TYPES)})))"""
    lines: list[str] = []
    for row, s, p, o in _rows(staging, main):
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


def _rows(staging: Staging, which: str) -> Iterator[tuple[int, str, str, str]]:
    """(row, subject, predicate, object) of the facts that may say an axiom and are no fact of the tables."""
    verdicts = f"{_TO_MARK}, {code(Verdict.DECLARATION)}"
    found = staging.reader(
        f"""SELECT row, a.text AS s, b.text AS p, c.text AS o
            FROM (SELECT rowid AS row, * FROM fact WHERE verdict IN ({verdicts}) AND ({which})) AS f
            JOIN name AS a ON f.s = a.id JOIN name AS b ON f.p = b.id JOIN name AS c ON f.o = c.id"""
    ).read_all()
    for block in found.to_batches(_BLOCK):
        yield from zip(*(column.to_pylist() for column in block.columns), strict=True)


def _properties(staging: Staging) -> tuple[set[str], set[str]]:
    """The data properties, declared or with a datatype as their range, and what is an annotation property only."""
    declared: dict[str, set[str]] = {}
    for word, text in staging.execute("SELECT word, text FROM declared JOIN name USING (id)").fetchall():
        declared.setdefault(word, set()).add(text)
    ranged = staging.execute(
        f"""SELECT a.text FROM fact JOIN name AS a ON s = a.id JOIN name AS b ON o = b.id
            WHERE p = term_id('{RDFS}range') AND (starts_with(b.text, '{XML_SCHEMA}') OR b.text = '{RDFS}Literal')"""
    ).fetchall()
    relations, annotations, data = (
        declared.get(kind.value, set())
        for kind in (Declaration.RELATION, Declaration.ANNOTATION_PROPERTY, Declaration.DATA_PROPERTY)
    )
    return data | ({text for (text,) in ranged} - relations - annotations), annotations - relations - data


def _ids(terms: Iterable[str]) -> str:
    return ", ".join(f"term_id('{term}')" for term in sorted(terms))
