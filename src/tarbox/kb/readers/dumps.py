"""The dumps of YAGO 4 and of DBpedia: N-Triples, less what the preparation of the TAR paper leaves out.

That preparation reads each file for one thing only: subsumptions, typings or assertions. A statement of another kind
is counted as left out. Labels are kept, which it has no use for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final, final

import pyarrow as pa
import pyarrow.compute as pc

from tarbox.kb.namespaces import LABEL, SUBCLASS, TYPE
from tarbox.kb.readers.lines import read_lines
from tarbox.kb.sources import Source
from tarbox.kb.statements import Piece, ReadOptions


@final
@dataclass(frozen=True, slots=True)
class Rule:
    """What a file is read for: predicates that match are kept, or all but those; `top` is left out as an object."""

    predicates: str
    keep: bool
    top: str = ""

    def chosen(self, statements: pa.RecordBatch) -> tuple[pa.Array, pa.Array]:
        """Masks: of the kind that the file is read for; not about the top concept."""
        matches = pc.match_substring_regex(statements["predicate"], self.predicates)
        return (matches if self.keep else pc.invert(matches)), pc.not_equal(statements["object"], self.top)


_THING: Final = "http://schema.org/Thing"
_ONTOLOGY: Final = f"^({re.escape(SUBCLASS)}|{re.escape(LABEL)})$"
_TYPINGS: Final = f"^{re.escape(TYPE)}$"
DUMP_RULES: Final[dict[str, Rule]] = {
    "yago4-class": Rule(_ONTOLOGY, keep=True, top=_THING),
    "yago4-facts": Rule("type|unitCode", keep=False),  # the authors' patterns: anywhere in the relation's IRI
    "yago4-types": Rule(_TYPINGS, keep=True, top=_THING),
    "dbpedia-ontology": Rule(_ONTOLOGY, keep=True),
    "dbpedia-objects": Rule("type|homepage", keep=False),
    "dbpedia-types": Rule(_TYPINGS, keep=True),
}


def read_dump(source: Source, options: ReadOptions, progress: Callable[[int], None]) -> Iterator[Piece]:
    rule = DUMP_RULES[source.format]
    for piece in read_lines(replace(source, format="ntriples"), options, progress):
        yield _apply(rule, piece)


def _apply(rule: Rule, piece: Piece) -> Piece:
    kind, below_top = rule.chosen(piece.statements)
    left_out = {
        "kind of statement that the paper's preparation does not take": pc.sum(pc.invert(kind)).as_py() or 0,
        "typing or subsumption by the top concept": pc.sum(pc.and_(kind, pc.invert(below_top))).as_py() or 0,
    }
    return Piece(
        piece.statements.filter(pc.and_(kind, below_top)),
        piece.rejected,
        {reason: number for reason, number in left_out.items() if number},
    )
