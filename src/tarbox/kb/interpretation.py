"""What the statements mean (ADR 3): from staged statements to facts, with an account of everything left out.

Each distinct statement gets one verdict. Those of `KEPT` make the knowledge base; every other one is a reason, and
`kb build` prints how many statements it took away.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, final

import pyarrow as pa

from tarbox.core.errors import SourceError
from tarbox.kb.facts import NO_SPLIT
from tarbox.kb.namespaces import DECLARING, TYPE, Declaration, Meaning, declaration_of, meaning_of
from tarbox.kb.staging import Staging
from tarbox.kb.terms import local_name


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
_SHOWN: Final = 20
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


def note_declarations(staging: Staging) -> None:
    """Make the table `stated` (id, role) of the names that the statements so far declare, for no other reason."""
    staging.flush()
    roles = " ".join(f"WHEN term_id('{type}') THEN '{role.value}'" for type, role in DECLARING.items())
    types = ", ".join(f"term_id('{type}')" for type in DECLARING)
    staging.execute(
        f"""CREATE TABLE stated AS SELECT DISTINCT s AS id, CASE o {roles} END AS role
            FROM statement WHERE p = term_id('{TYPE}') AND o IN ({types})"""
    )


def judge(staging: Staging, options: Interpretation) -> None:
    """Give each distinct statement its verdict: makes the table `fact` (s, p, o, split, verdict)."""
    _tabulate(staging, "predicate", "SELECT DISTINCT p AS id FROM statement", lambda t: meaning_of(t).value)
    type_id = f"term_id('{TYPE}')"
    _tabulate(
        staging,
        "class",
        f"SELECT DISTINCT o AS id FROM statement WHERE p = {type_id} AND o & 3 = 0",
        lambda text: getattr(declaration_of(text), "value", ""),
    )
    staging.execute(
        f"""CREATE TABLE declared AS SELECT DISTINCT s AS id, class.word AS word
            FROM statement JOIN class ON o = class.id WHERE p = {type_id} AND class.word <> '' AND s & 3 = 0"""
    )
    staging.execute(
        f"""UPDATE predicate SET word = '{Meaning.ANNOTATION.value}' WHERE word = '{Meaning.RELATION.value}'
            AND id IN (SELECT id FROM declared WHERE word = '{Declaration.ANNOTATION_PROPERTY.value}')
            AND id NOT IN (SELECT id FROM declared WHERE word IN
                           ('{Declaration.RELATION.value}', '{Declaration.DATA_PROPERTY.value}'))"""
    )
    staging.execute(  # what the data declare a relation is one, be it rdfs:seeAlso or owl:differentFrom
        f"""UPDATE predicate SET word = '{Meaning.RELATION.value}'
            WHERE word IN ('{Meaning.ANNOTATION.value}', '{Meaning.SCHEMA.value}')
            AND id IN (SELECT id FROM declared WHERE word = '{Declaration.RELATION.value}')"""
    )
    staging.execute(
        f"""CREATE TABLE obsolete AS
            SELECT id FROM declared WHERE word = '{Declaration.DEPRECATED.value}' UNION
            SELECT s FROM statement JOIN predicate ON p = predicate.id JOIN name ON o = name.id
            WHERE predicate.word = '{Meaning.DEPRECATED.value}' AND regexp_matches(text, '^"(true|1)"')"""
    )
    staging.execute(
        f"""CREATE TABLE fact AS
            SELECT s, p, o, split, CASE
                WHEN verdict IN ({_codes(_ABOUT_TERMS)}) AND (s IN (SELECT id FROM obsolete) OR
                     o IN (SELECT id FROM obsolete)) THEN {_CODE[Verdict.OBSOLETE]}
                ELSE verdict END :: UTINYINT AS verdict
            FROM (SELECT s, p, o, min(split) AS split, {_verdicts(options)} AS verdict
                  FROM statement JOIN predicate ON p = predicate.id
                  LEFT JOIN class ON o = class.id AND predicate.word = '{Meaning.TYPE.value}'
                  GROUP BY s, p, o, predicate.word, class.word)"""
    )
    staging.execute("DROP TABLE statement")


_ABOUT_TERMS: Final = (
    Verdict.ASSERTION,
    Verdict.TYPING,
    Verdict.SUBSUMPTION,
    Verdict.EQUIVALENCE,
    Verdict.DECLARATION,
    Verdict.LABEL,
    Verdict.SYNONYM,
)


def _codes(verdicts: tuple[Verdict, ...]) -> str:
    return ", ".join(str(_CODE[verdict]) for verdict in verdicts)


def _tabulate(staging: Staging, table: str, ids: str, word: object) -> None:
    """A table (id, word) of the few terms that `ids` selects, with what Python says of each."""
    assert callable(word)
    rows = staging.execute(f"SELECT id, text FROM ({ids}) JOIN name USING (id)").fetchall()
    staging.table(
        table,
        pa.table(
            {
                "id": pa.array([id for id, _ in rows], pa.uint64()),
                "word": pa.array([word(text) for _, text in rows], pa.string()),
            }
        ),
    )


def _verdicts(options: Interpretation) -> str:
    """The verdict on a statement as SQL, by its predicate's meaning and the kinds of its terms (last two bits)."""
    blank, literal = "(s & 3 = 2 OR o & 3 = 2)", "o & 3 = 1"
    names = f"WHEN s & 3 = 2 THEN {_CODE[Verdict.BLANK]} WHEN {literal} THEN {_CODE[Verdict.LITERAL_CLASS]}"
    classes = f"WHEN {blank} THEN {_CODE[Verdict.ANONYMOUS]} WHEN {literal} THEN {_CODE[Verdict.LITERAL_CLASS]}"
    kept = Verdict.ASSERTION if options.keep_literals else Verdict.LITERAL
    rules = f"WHEN {blank} THEN {_CODE[Verdict.BLANK]} WHEN {literal} THEN {_CODE[Verdict.LITERAL_CLASS]}"
    texts = f"WHEN s & 3 = 2 THEN {_CODE[Verdict.BLANK]} WHEN NOT {literal} THEN {_CODE[Verdict.ANNOTATION]}"
    cases: Mapping[Meaning, str] = {
        Meaning.RELATION: f"""WHEN {blank} THEN {_CODE[Verdict.BLANK]} WHEN {literal} THEN {_CODE[kept]}
                              ELSE {_CODE[Verdict.ASSERTION]}""",
        Meaning.TYPE: f"""WHEN o & 3 = 2 THEN {_CODE[Verdict.ANONYMOUS]} {names}
                          WHEN class.word = '{Declaration.OTHER.value}' THEN {_CODE[Verdict.SCHEMA]}
                          WHEN class.word <> '' THEN {_CODE[Verdict.DECLARATION]} ELSE {_CODE[Verdict.TYPING]}""",
        Meaning.SUBCLASS: f"""{classes} WHEN s = o THEN {_CODE[Verdict.REFLEXIVE]}
                              ELSE {_CODE[Verdict.SUBSUMPTION]}""",
        Meaning.EQUIVALENT: f"""{classes} WHEN s = o THEN {_CODE[Verdict.REFLEXIVE]}
                                ELSE {_CODE[Verdict.EQUIVALENCE]}""",
        Meaning.LABEL: f"{texts} ELSE {_CODE[Verdict.LABEL]}",
        Meaning.SYNONYM: f"{texts} ELSE {_CODE[Verdict.SYNONYM]}",
        Meaning.DEPRECATED: f"ELSE {_CODE[Verdict.DEPRECATION]}",
        Meaning.IMPORT: f"ELSE {_CODE[Verdict.IMPORT]}",
        Meaning.INVERSE: f"{rules} ELSE {_CODE[Verdict.SCHEMA]}",
        Meaning.SUBPROPERTY: f"{rules} ELSE {_CODE[Verdict.SCHEMA]}",
        Meaning.SAME: f"{rules} ELSE {_CODE[Verdict.SAME]}",
        Meaning.ANNOTATION: f"ELSE {_CODE[Verdict.ANNOTATION]}",
        Meaning.SCHEMA: f"ELSE {_CODE[Verdict.SCHEMA]}",
    }
    branches = " ".join(f"WHEN '{m.value}' THEN CASE WHEN false THEN 0 {sql} END" for m, sql in cases.items())
    return f"CASE predicate.word {branches} END"


def collect_names(staging: Staging) -> None:
    """The ids of entities, concepts and relations: facts and declarations give names their roles."""
    names = {
        "entity": f"""SELECT s AS id FROM fact WHERE verdict = {_CODE[Verdict.ASSERTION]} UNION
                      SELECT o FROM fact WHERE verdict = {_CODE[Verdict.ASSERTION]} UNION
                      SELECT s FROM fact WHERE verdict = {_CODE[Verdict.TYPING]}""",
        "concept": f"""SELECT o AS id FROM fact WHERE verdict = {_CODE[Verdict.TYPING]} UNION
                       SELECT s FROM fact WHERE verdict IN ({_codes(_HIERARCHY)}) UNION
                       SELECT o FROM fact WHERE verdict IN ({_codes(_HIERARCHY)})""",
        "relation": f"SELECT p AS id FROM fact WHERE verdict = {_CODE[Verdict.ASSERTION]}",
    }
    for role, sql in names.items():
        staging.execute(
            f"""CREATE OR REPLACE TABLE {role} AS {sql} UNION
                SELECT id FROM declared WHERE word = '{role}' AND id NOT IN (SELECT id FROM obsolete)"""
        )


_HIERARCHY: Final = (Verdict.SUBSUMPTION, Verdict.EQUIVALENCE)


def filter_degree(staging: Staging, least: int, core: bool) -> int:
    """Leave out entities with fewer than `least` assertions, once or until none is left; returns how many went.

    A concept that thereby loses its last typing stays if a subsumption or a declaration names it.
    """
    gone = 0
    while True:
        staging.execute(
            f"""CREATE OR REPLACE TABLE weak AS SELECT entity.id FROM entity LEFT JOIN (
                  SELECT id, count(*) AS degree FROM (
                    SELECT s AS id FROM fact WHERE verdict = {_CODE[Verdict.ASSERTION]} UNION ALL
                    SELECT o FROM fact WHERE verdict = {_CODE[Verdict.ASSERTION]} AND s <> o)
                  GROUP BY id) USING (id) WHERE coalesce(degree, 0) < {least}"""
        )
        weak = staging.number("SELECT count(*) FROM weak")
        if weak:
            staging.execute(
                f"""UPDATE fact SET verdict = {_CODE[Verdict.DEGREE]}
                    WHERE (verdict = {_CODE[Verdict.ASSERTION]}
                           AND (s IN (SELECT id FROM weak) OR o IN (SELECT id FROM weak)))
                       OR (verdict = {_CODE[Verdict.TYPING]} AND s IN (SELECT id FROM weak))"""
            )
            staging.execute("DELETE FROM declared WHERE word = 'entity' AND id IN (SELECT id FROM weak)")
            collect_names(staging)
        gone += weak
        if not weak or not core:
            return gone


def find_annotations(staging: Staging, wanted: Iterable[str]) -> tuple[str, ...]:
    """The IRIs of the annotation relations, sorted: those wanted, and those that the sources declare."""
    rows = staging.execute(
        f"""SELECT text, label, id IN (SELECT id FROM declared WHERE word = '{Declaration.ANNOTATION_RELATION.value}')
            FROM relation JOIN name USING (id) LEFT JOIN chosen USING (id) ORDER BY text"""
    ).fetchall()
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


def type_terms(staging: Staging) -> int:
    """Make each name that is both entity and concept an instance of itself (ADR 50); returns how many were not."""
    typing = _CODE[Verdict.TYPING]
    before = staging.number("SELECT count(*) FROM fact")
    staging.execute(
        f"""INSERT INTO fact (s, p, o, split, verdict)
            SELECT id, term_id('{TYPE}'), id, {NO_SPLIT}, {typing} FROM entity SEMI JOIN concept USING (id)
            WHERE id NOT IN (SELECT s FROM fact WHERE s = o AND verdict = {typing})"""
    )
    return staging.number("SELECT count(*) FROM fact") - before


def account(staging: Staging) -> dict[Verdict, int]:
    """How many distinct statements of the sources got each verdict."""
    rows = staging.execute("SELECT verdict, count(*) FROM fact ANTI JOIN context USING (s, p, o) GROUP BY 1").fetchall()
    verdicts = list(Verdict)
    return {verdicts[code]: count for code, count in sorted(rows)}


def code(verdict: Verdict) -> int:
    """The number of a verdict in the table `fact`."""
    return _CODE[verdict]
