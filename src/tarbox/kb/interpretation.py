"""What statements can mean (ADR 3).

Each distinct statement gets one verdict. Those of `KEPT` make the knowledge base; every other one is a reason, and
`kb build` prints how many statements it took away. `tarbox.kb.preparation` gives the verdicts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final, final


class Verdict(Enum):
    """What becomes of a statement; the text is what a person reads."""

    ASSERTION = "assertion"
    TYPING = "typing"
    SUBSUMPTION = "subsumption"
    EQUIVALENCE = "equivalent concepts"
    DECLARATION = "declaration"
    LABEL = "label"
    SYNONYM = "synonym or alternative id"
    IMPORT = "import"
    DEPRECATION = "mark of an obsolete term"
    MERGED = "same entities, merged"
    AXIOM = "part of an axiom"
    LITERAL = "literal value (keep with --literals keep)"
    BLANK = "blank node"
    ANONYMOUS = "anonymous class"
    ANNOTATION = "annotation"
    SCHEMA = "schema of RDF, OWL or OBO"
    OBSOLETE = "about an obsolete term"
    REFLEXIVE = "concept that subsumes itself"
    SAME = "same entities (merge with --merge-same)"
    DEGREE = "entity below --min-degree"
    LITERAL_CLASS = "literal in the place of a name"
    LANGUAGE = "label or synonym in another language (--language)"
    EMPTY = "empty label or synonym"
    UNUSED = "label or synonym of a name that no fact uses"


KEPT: Final = frozenset(list(Verdict)[:11])
_CODE: Final = {verdict: code for code, verdict in enumerate(Verdict)}


@final
@dataclass(frozen=True, slots=True)
class Interpretation:
    """How statements are read. `annotations` name the annotation relations: by IRI, local name or label; of statements
    with an evidence code those of other codes than `evidence` are left out, where it names any.
    """

    keep_literals: bool = False
    language: str = "en"
    merge_same: bool = False
    min_degree: int = 0
    core: bool = False
    annotations: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()


def code(verdict: Verdict) -> int:
    """The number of a verdict in a table."""
    return _CODE[verdict]


def codes(verdicts: Iterable[Verdict]) -> str:
    """The numbers of verdicts as a list of SQL."""
    return ", ".join(str(_CODE[verdict]) for verdict in verdicts)
