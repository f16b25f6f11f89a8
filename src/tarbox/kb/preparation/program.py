"""The preparation of a store as one relational program: from staged statements to encoded tables.

It is SQL that DuckDB and Spark both take, in the order in which it runs; where they differ, `TableEngine` has the words
(ADR 54). A step is a table (`tarbox.kb.preparation.tables`) and what it is made of. No step changes a row: a table is
defined, defined anew, or more is added to it. What leaves the tables is in `tarbox.kb.preparation.queries`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tarbox.core.ids import Role
from tarbox.kb.facts import NO_SPLIT
from tarbox.kb.interpretation import Interpretation, Verdict, code, codes
from tarbox.kb.namespaces import DECLARING, LABEL_ORDER, OWL, TYPE, Declaration, Meaning
from tarbox.kb.preparation.engine import INCOMING, Steps, TableEngine

_ABOUT_TERMS: Final = (
    Verdict.ASSERTION,
    Verdict.TYPING,
    Verdict.SUBSUMPTION,
    Verdict.EQUIVALENCE,
    Verdict.DECLARATION,
    Verdict.LABEL,
    Verdict.SYNONYM,
)
HIERARCHY: Final = codes((Verdict.SUBSUMPTION, Verdict.EQUIVALENCE))
_LITERAL_TEXT: Final = '(?s)^"(.*)"[^"]*$'
_LITERAL_LANGUAGE: Final = '"@([A-Za-z0-9-]+)$'
_ESCAPES: Final = {r"\\": 1, r"\"": ord('"'), r"\n": 10, r"\r": 13, r"\t": 9}  # 1: not taken for another escape


# Statements as they are read


def taken_in(engine: TableEngine, as_context: bool) -> Steps:
    """What a block of statements adds; of those `as_context` no source makes any."""
    s, p, o, term = (engine.term_id(column) for column in ("subject", "predicate", "object", "text"))
    return {
        "statement": f"SELECT {s} AS s, {p} AS p, {o} AS o, split FROM {INCOMING}",
        **({"context": f"SELECT {s} AS s, {p} AS p, {o} AS o FROM {INCOMING}"} if as_context else {}),
        "term": f"""SELECT {term} AS id, text FROM (SELECT DISTINCT predicate AS text FROM {INCOMING} UNION ALL
            (SELECT subject FROM {INCOMING} UNION SELECT object FROM {INCOMING})) AS distinct_text""",
    }


def attributes_taken_in(engine: TableEngine) -> Steps:
    s, p, o = (engine.term_id(column) for column in ("s", "p", "o"))
    return {"attribute": f"SELECT {s} AS s, {p} AS p, {o} AS o, name, value FROM {INCOMING}"}


def noted(engine: TableEngine) -> Steps:
    """The names that the statements so far declare, for no other reason."""
    roles = " ".join(f"WHEN {engine.id_of(type)} THEN '{role.value}'" for type, role in DECLARING.items())
    return {
        "stated": f"""SELECT DISTINCT s AS id, CASE o {roles} END AS role
            FROM statement WHERE p = {engine.id_of(TYPE)} AND o IN ({engine.ids_of(DECLARING)})""",
    }


DISTINCT: Final[Steps] = {"name": "SELECT DISTINCT id, text FROM term"}


# What they mean


def judged(engine: TableEngine, options: Interpretation) -> Steps:
    """Declarations, and the verdict on each distinct statement, from `meaning` and `class`."""
    return {
        "declared": f"""SELECT DISTINCT s AS id, word FROM statement JOIN class ON o = class.id
            WHERE p = {engine.id_of(TYPE)} AND word <> '' AND s & 3 = 0""",
        "predicate": _predicates(),
        "obsolete": f"""SELECT id FROM declared WHERE word = '{Declaration.DEPRECATED.value}' UNION
            SELECT s FROM statement JOIN predicate ON p = predicate.id JOIN name ON o = name.id
            WHERE word = '{Meaning.DEPRECATED.value}' AND (text LIKE '"true"%' OR text LIKE '"1"%')""",
        "fact": f"""SELECT s, p, o, split, CASE WHEN verdict IN ({codes(_ABOUT_TERMS)})
              AND (a.id IS NOT NULL OR b.id IS NOT NULL) THEN {code(Verdict.OBSOLETE)} ELSE verdict END AS verdict
            FROM (SELECT s, p, o, split, {_verdicts(options)} AS verdict
                  FROM (SELECT s, p, o, min(split) AS split FROM statement GROUP BY s, p, o) AS stated_once
                  JOIN predicate ON p = predicate.id LEFT JOIN class ON o = class.id) AS judged
            LEFT JOIN obsolete AS a ON s = a.id LEFT JOIN obsolete AS b ON o = b.id""",
    }


def _predicates() -> str:
    """What data declare a relation is one, be it rdfs:seeAlso; an annotation property only is none."""

    def count(*words: Declaration) -> str:
        some = ", ".join(f"'{word.value}'" for word in words)
        return f"count(CASE WHEN word IN ({some}) THEN 1 END)"

    relation, annotation, schema = Meaning.RELATION.value, Meaning.ANNOTATION.value, Meaning.SCHEMA.value
    return f"""SELECT id, CASE WHEN word IN ('{annotation}', '{schema}') AND relations > 0 THEN '{relation}'
                 WHEN word = '{relation}' AND annotations > 0 AND others = 0 THEN '{annotation}' ELSE word END AS word
               FROM meaning LEFT JOIN (
                 SELECT id, {count(Declaration.RELATION)} AS relations,
                   {count(Declaration.ANNOTATION_PROPERTY)} AS annotations,
                   {count(Declaration.RELATION, Declaration.DATA_PROPERTY)} AS others
                 FROM declared GROUP BY id) AS counted USING (id)"""


def _verdicts(options: Interpretation) -> str:
    """The verdict on a statement, by its predicate's meaning and the kinds of its terms (last two bits)."""
    blank, literal = "(s & 3 = 2 OR o & 3 = 2)", "o & 3 = 1"
    subject = f"WHEN s & 3 = 2 THEN {code(Verdict.BLANK)}"
    no_literal = f"WHEN {literal} THEN {code(Verdict.LITERAL_CLASS)}"
    classes = f"WHEN {blank} THEN {code(Verdict.ANONYMOUS)} {no_literal} WHEN s = o THEN {code(Verdict.REFLEXIVE)}"
    rules = f"WHEN {blank} THEN {code(Verdict.BLANK)} {no_literal}"
    texts = f"{subject} WHEN NOT {literal} THEN {code(Verdict.ANNOTATION)}"
    value = Verdict.ASSERTION if options.keep_literals else Verdict.LITERAL
    types = f"""WHEN o & 3 = 2 THEN {code(Verdict.ANONYMOUS)} {subject} {no_literal}
                WHEN class.word = '{Declaration.OTHER.value}' THEN {code(Verdict.SCHEMA)}
                WHEN class.word <> '' THEN {code(Verdict.DECLARATION)}"""
    cases: Mapping[Meaning, tuple[str, Verdict]] = {
        Meaning.RELATION: (
            f"WHEN {blank} THEN {code(Verdict.BLANK)} WHEN {literal} THEN {code(value)}",
            Verdict.ASSERTION,
        ),
        Meaning.TYPE: (types, Verdict.TYPING),
        Meaning.SUBCLASS: (classes, Verdict.SUBSUMPTION),
        Meaning.EQUIVALENT: (classes, Verdict.EQUIVALENCE),
        Meaning.LABEL: (texts, Verdict.LABEL),
        Meaning.SYNONYM: (texts, Verdict.SYNONYM),
        Meaning.DEPRECATED: ("", Verdict.DEPRECATION),
        Meaning.IMPORT: ("", Verdict.IMPORT),
        Meaning.INVERSE: (rules, Verdict.SCHEMA),
        Meaning.SUBPROPERTY: (rules, Verdict.SCHEMA),
        Meaning.SAME: (rules, Verdict.SAME),
        Meaning.ANNOTATION: ("", Verdict.ANNOTATION),
        Meaning.SCHEMA: ("", Verdict.SCHEMA),
    }
    branches = " ".join(
        f"WHEN '{meaning.value}' THEN " + (f"CASE {when} ELSE {code(other)} END" if when else str(code(other)))
        for meaning, (when, other) in cases.items()
    )
    return f"CASE predicate.word {branches} END"


def merged() -> Steps:
    """Every group of same entities, in `member`, gets one name, the first by IRI."""
    return {
        "merged": """SELECT id, kept FROM (
             SELECT id, first_value(id) OVER (PARTITION BY root ORDER BY text) AS kept FROM member JOIN name USING (id)
           ) AS grouped WHERE id <> kept""",
        "fact": f"""SELECT s, p, o, min(split) AS split, verdict FROM (
              SELECT coalesce(a.kept, s) AS s, p, coalesce(b.kept, o) AS o, split, verdict
              FROM fact LEFT JOIN merged AS a ON s = a.id
              LEFT JOIN merged AS b ON o = b.id AND verdict = {code(Verdict.ASSERTION)}
              WHERE verdict <> {code(Verdict.SAME)}) AS renamed GROUP BY s, p, o, verdict UNION ALL
            SELECT s, p, o, split, {code(Verdict.MERGED)} FROM fact WHERE verdict = {code(Verdict.SAME)}""",
        "declared": "SELECT id, word FROM declared ANTI JOIN merged ON word = 'entity' AND declared.id = merged.id",
    }


# Axioms


def reified(engine: TableEngine) -> Steps:
    """The nodes that annotate an axiom: what is said of them is no axiom."""
    types = engine.ids_of((OWL + "Axiom", OWL + "Annotation"))
    return {
        "reified": f"SELECT DISTINCT s FROM fact WHERE p = {engine.id_of(TYPE)} AND o IN ({types}) AND s & 3 = 2",
    }


def axioms_noted(engine: TableEngine) -> Steps:
    """Of the lines of axioms, what they are made of, and the names that they use."""
    return {
        "axiom": "SELECT DISTINCT text FROM found",
        "revised": f"""SELECT s, p, o, {code(Verdict.ANNOTATION)} AS verdict FROM fact SEMI JOIN reified USING (s) UNION
            SELECT s, p, o, {code(Verdict.AXIOM)} FROM used""",
        "declared": f"SELECT id, word FROM declared UNION SELECT {engine.term_id('text')}, word FROM used_name",
    }


# Names


def named() -> Steps:
    """Facts and declarations give names their roles."""
    assertion, typing = code(Verdict.ASSERTION), code(Verdict.TYPING)
    names = {
        Role.ENTITY: f"""SELECT s AS id FROM fact WHERE verdict IN ({assertion}, {typing}) UNION
                         SELECT o FROM fact WHERE verdict = {assertion}""",
        Role.CONCEPT: f"""SELECT o AS id FROM fact WHERE verdict IN ({typing}, {HIERARCHY}) UNION
                          SELECT s FROM fact WHERE verdict IN ({HIERARCHY})""",
        Role.RELATION: f"SELECT p AS id FROM fact WHERE verdict = {assertion}",
    }
    said = "SELECT id FROM declared ANTI JOIN obsolete USING (id) WHERE word"
    return {role.value: f"{sql} UNION {said} = '{role.value}'" for role, sql in names.items()}


BOTH_ROLES: Final = "SELECT id FROM entity SEMI JOIN concept USING (id)"


def weak(least: int) -> Steps:
    """The entities with fewer than `least` assertions."""
    assertion = code(Verdict.ASSERTION)
    return {
        "weak": f"""SELECT id FROM entity LEFT JOIN (
              SELECT id, count(*) AS degree FROM (
                SELECT s AS id FROM fact WHERE verdict = {assertion} UNION ALL
                SELECT o FROM fact WHERE verdict = {assertion} AND s <> o) AS ends
              GROUP BY id) AS counted USING (id) WHERE coalesce(degree, 0) < {least}""",
    }


def without_weak() -> Steps:
    """A concept that thereby loses its last typing stays if a subsumption or a declaration names it."""
    return {
        "fact": f"""SELECT s, p, o, split, CASE
              WHEN verdict = {code(Verdict.ASSERTION)} AND (a.id IS NOT NULL OR b.id IS NOT NULL)
              OR verdict = {code(Verdict.TYPING)} AND a.id IS NOT NULL THEN {code(Verdict.DEGREE)}
              ELSE verdict END AS verdict
            FROM fact LEFT JOIN weak AS a ON s = a.id LEFT JOIN weak AS b ON o = b.id""",
        "declared": "SELECT id, word FROM declared ANTI JOIN weak ON word = 'entity' AND declared.id = weak.id",
        **named(),
    }


# What names are called


def called(engine: TableEngine, language: str) -> Steps:
    """One label for each name, by language (the wanted one, none, any other), then by predicate."""
    value = f"regexp_extract(text, {engine.quote(_LITERAL_TEXT)}, 1)"
    for escape, character in _ESCAPES.items():
        value = f"replace({value}, {engine.quote(escape)}, chr({character}))"
    value = f"replace({value}, chr(1), {engine.quote(chr(92))})"
    rank = " ".join(f"WHEN {engine.id_of(iri)} THEN {rank}" for rank, iri in enumerate(LABEL_ORDER))
    order = f"CASE language WHEN {engine.quote(language.lower())} THEN 0 WHEN '' THEN 1 ELSE 2 END"
    return {
        "called": f"""SELECT s AS id, p, o, {value} AS value, CASE p {rank} ELSE 9 END AS rank,
              lower(regexp_extract(text, {engine.quote(_LITERAL_LANGUAGE)}, 1)) AS language,
              verdict = {code(Verdict.LABEL)} AS is_label
            FROM fact JOIN name ON o = name.id WHERE verdict IN ({codes((Verdict.LABEL, Verdict.SYNONYM))})""",
        "chosen": f"""SELECT id, label FROM (SELECT id, value AS label,
              row_number() OVER (PARTITION BY id ORDER BY {order}, rank, language, value) AS place
            FROM called WHERE is_label AND value <> '') AS placed WHERE place = 1""",
    }


def useless(engine: TableEngine, language: str) -> Steps:
    """The verdict on what no name is called, or in another language, or by nothing; it adds to what is there."""
    sql = f"""SELECT s, p, o, verdict FROM (
                 SELECT called.id AS s, p, o, CASE WHEN value = '' THEN {code(Verdict.EMPTY)}
                   WHEN used.id IS NULL THEN {code(Verdict.UNUSED)}
                   WHEN language NOT IN ({engine.quote(language.lower())}, '') AND value IS DISTINCT FROM label
                   THEN {code(Verdict.LANGUAGE)} END AS verdict
                 FROM called LEFT JOIN chosen ON called.id = chosen.id
                 LEFT JOIN (SELECT id FROM entity UNION SELECT id FROM concept UNION SELECT id FROM relation) AS used
                 ON called.id = used.id) AS judged WHERE verdict IS NOT NULL"""
    return {"revised": sql}


SAID: Final[Steps] = {
    "said": """SELECT id, value FROM called
        ANTI JOIN revised ON id = revised.s AND called.p = revised.p AND called.o = revised.o"""
}


# What annotation relations add


def linked() -> Steps:
    """Links between terms that were no facts; what they lead to is an entity."""
    verdict = code(Verdict.ASSERTION)
    return {
        "added": f"SELECT s, p, o, {NO_SPLIT} AS split, {verdict} AS verdict FROM link ANTI JOIN fact USING (s, p, o)",
        "entity": "SELECT id FROM entity UNION SELECT o FROM link",
    }


def own_instances(engine: TableEngine) -> Steps:
    """Each name that is both entity and concept as an instance of itself (ADR 39), where that is not said."""
    typing = code(Verdict.TYPING)
    return {
        "added": f"""SELECT id AS s, {engine.id_of(TYPE)} AS p, id AS o, {NO_SPLIT} AS split, {typing} AS verdict
            FROM ({BOTH_ROLES}) AS term ANTI JOIN (SELECT s FROM fact WHERE s = o AND verdict = {typing}) AS said
            ON id = said.s""",
    }


ADDED: Final[Steps] = {"fact": "SELECT s, p, o, split, verdict FROM added"}
