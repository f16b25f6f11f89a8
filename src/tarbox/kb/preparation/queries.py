"""What leaves the tables of the preparation: for Python between its steps, and for the store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tarbox.core.ids import Role
from tarbox.kb.interpretation import Verdict, code, codes
from tarbox.kb.namespaces import OWL, RDFS, TYPE, XML_SCHEMA, Declaration
from tarbox.kb.owl_rdf import AXIOM_PREDICATES, AXIOM_TYPES, NODE_PREDICATES, NODE_TYPES
from tarbox.kb.preparation.engine import Steps, TableEngine
from tarbox.kb.preparation.program import BOTH_ROLES, HIERARCHY

_AXIOM_PARTS: Final = (Verdict.SCHEMA, Verdict.BLANK, Verdict.ANONYMOUS, Verdict.SAME)
_SOME_LINK: Final = r"^SubClassOf\(<([^>]*)> ObjectSomeValuesFrom\(<([^>]*)> <([^>]*)>\)\)$"


# Of statements as they are read


def imports_wanted(engine: TableEngine) -> str:
    return f"""SELECT DISTINCT text FROM statement JOIN term ON o = id WHERE p = {engine.id_of(OWL + "imports")}
               ORDER BY text"""


def ontologies(engine: TableEngine) -> str:
    return f"""SELECT DISTINCT text FROM statement JOIN term ON s = id
               WHERE p = {engine.id_of(TYPE)} AND o = {engine.id_of(OWL + "Ontology")}"""


MENTIONED: Final = "SELECT DISTINCT text FROM term WHERE id & 3 = 0 ORDER BY text"
COLLISIONS: Final = "SELECT count(*) - count(DISTINCT id) FROM name"


# Of what they mean

PREDICATES: Final = "SELECT id, text FROM (SELECT DISTINCT p AS id FROM statement) AS used JOIN name USING (id)"


def classes(engine: TableEngine) -> str:
    return f"""SELECT id, text FROM (
                 SELECT DISTINCT o AS id FROM statement WHERE p = {engine.id_of(TYPE)} AND o & 3 = 0) AS used
               JOIN name USING (id)"""


SAME_PAIRS: Final = f"SELECT s, o FROM fact WHERE verdict = {code(Verdict.SAME)}"
DECLARED: Final = "SELECT word, text FROM declared JOIN name USING (id)"
DECLARED_COUNTS: Final = "SELECT word, count(*) FROM declared GROUP BY word"
ACCOUNT: Final = """SELECT verdict, count(*) FROM (
      SELECT coalesce(revised.verdict, f.verdict) AS verdict
      FROM (SELECT s, p, o, verdict FROM fact ANTI JOIN context USING (s, p, o)) AS f
      LEFT JOIN revised ON f.s = revised.s AND f.p = revised.p AND f.o = revised.o) AS final
    GROUP BY verdict ORDER BY verdict"""


# Of axioms


def node_parts(engine: TableEngine) -> str:
    """What is said of blank nodes that may be a part of an axiom."""
    types = f"p = {engine.id_of(TYPE)} AND o IN ({engine.ids_of(AXIOM_TYPES | NODE_TYPES)})"
    return _axiom_parts(f"s & 3 = 2 AND (p IN ({engine.ids_of(NODE_PREDICATES)}) OR {types})")


def axiom_heads(engine: TableEngine) -> str:
    """What may say an axiom."""
    return _axiom_parts(
        f"""(p IN ({engine.ids_of(AXIOM_PREDICATES)}) AND NOT (s & 3 = 2 AND p IN ({engine.ids_of(NODE_PREDICATES)})))
            OR (p = {engine.id_of(TYPE)} AND (o & 3 = 2 OR o IN ({engine.ids_of(AXIOM_TYPES)})))"""
    )


def _axiom_parts(which: str) -> str:
    """Ids and texts of statements that are no fact of the tables, and whether they are left out so far."""
    return f"""SELECT f.s, f.p, f.o, verdict <> {code(Verdict.DECLARATION)} AS is_left_out,
                 a.text AS subject, b.text AS predicate, c.text AS object
               FROM (SELECT s, p, o, verdict FROM fact ANTI JOIN reified USING (s)
                     WHERE verdict IN ({codes((*_AXIOM_PARTS, Verdict.DECLARATION))}) AND ({which})) AS f
               JOIN name AS a ON f.s = a.id JOIN name AS b ON f.p = b.id JOIN name AS c ON f.o = c.id"""


def data_ranges(engine: TableEngine) -> str:
    """The properties whose range is a datatype."""
    return f"""SELECT a.text FROM fact JOIN name AS a ON s = a.id JOIN name AS b ON o = b.id
               WHERE p = {engine.id_of(RDFS + "range")}
               AND (b.text LIKE '{XML_SCHEMA}%' OR b.text = '{RDFS}Literal')"""


# Of what annotation relations need


def annotation_candidates() -> str:
    """Relations with their labels, and whether a source declares them annotation relations."""
    return f"""SELECT text, label, a.id IS NOT NULL AS is_declared FROM relation JOIN name ON relation.id = name.id
               LEFT JOIN chosen ON relation.id = chosen.id LEFT JOIN (
                 SELECT id FROM declared WHERE word = '{Declaration.ANNOTATION_RELATION.value}') AS a
               ON relation.id = a.id ORDER BY text"""


def some_links(engine: TableEngine) -> str:
    """The axioms `A subClassOf r some B`, by ids."""
    parts = [f"regexp_extract(text, {engine.quote(_SOME_LINK)}, {n})" for n in (1, 2, 3)]
    s, p, o = (engine.term_id(part) for part in parts)
    return f"""SELECT DISTINCT {s} AS s, {p} AS p, {o} AS o FROM axiom
               WHERE text LIKE 'SubClassOf(<%> ObjectSomeValuesFrom(<%' AND {parts[0]} <> ''"""


SUBSUMED: Final = f"SELECT s, o FROM fact WHERE verdict = {code(Verdict.SUBSUMPTION)}"


# Of the tables of the store, in their order


def name_rows(role: Role) -> str:
    return f"SELECT id, text AS iri, label FROM {role.value} JOIN name USING (id) LEFT JOIN chosen USING (id)"


def names_in_order(role: Role) -> str:
    return f"SELECT iri, label FROM {role.value}_row ORDER BY row"


def synonyms_in_order() -> str:
    """Everything else that a name is called; merged entities by their IRI."""
    roles = " UNION ".join(
        f"""SELECT '{role.value}' AS role, r.row AS id, value AS text FROM said
            JOIN {role.value}_row AS r ON said.id = r.id WHERE value IS DISTINCT FROM r.label"""
        for role in Role
    )
    return f"""SELECT role, id, text FROM ({roles} UNION
                 SELECT 'entity', r.row, name.text FROM merged JOIN entity_row AS r ON kept = r.id
                 JOIN name ON merged.id = name.id) AS synonym ORDER BY role, id, text"""


ASSERTIONS: Final = f"""SELECT h.row AS head, r.row AS relation, t.row AS tail, split
    FROM fact JOIN entity_row AS h ON s = h.id JOIN relation_row AS r ON p = r.id
    JOIN entity_row AS t ON o = t.id WHERE verdict = {code(Verdict.ASSERTION)}"""
_TYPINGS: Final = f"""SELECT e.row AS entity, c.row AS concept
    FROM fact JOIN entity_row AS e ON s = e.id JOIN concept_row AS c ON o = c.id
    WHERE verdict = {code(Verdict.TYPING)}"""
ENCODED: Final[Steps] = {"assertion": ASSERTIONS, "typing": _TYPINGS}
"""The facts, for what follows from them there."""
INFERRED_IN_ORDER: Final[Mapping[str, str]] = {
    "inferred_assertions": "SELECT head, relation, tail FROM inferred_assertion ORDER BY head, relation, tail",
    "inferred_typings": "SELECT entity, concept FROM inferred_typing ORDER BY entity, concept",
}
FACT_TABLES: Final[Mapping[str, str]] = {
    "assertions": f"{ASSERTIONS} ORDER BY head, relation, tail",
    "typings": f"{_TYPINGS} ORDER BY entity, concept",
    "subsumptions": f"""SELECT a.row AS sub, b.row AS super FROM (
          SELECT s, o FROM fact WHERE verdict IN ({HIERARCHY}) UNION
          SELECT o, s FROM fact WHERE verdict = {code(Verdict.EQUIVALENCE)}) AS pair
        JOIN concept_row AS a ON s = a.id JOIN concept_row AS b ON o = b.id ORDER BY sub, super""",
}
AXIOMS_IN_ORDER: Final = "SELECT text FROM axiom ORDER BY text"
ATTRIBUTES_IN_ORDER: Final = """SELECT DISTINCT f.row AS fact, name, value FROM attribute
    LEFT JOIN merged AS a ON s = a.id LEFT JOIN merged AS b ON o = b.id
    JOIN entity_row AS h ON coalesce(a.kept, s) = h.id JOIN relation_row AS r ON p = r.id
    JOIN entity_row AS t ON coalesce(b.kept, o) = t.id
    JOIN assertion_row AS f ON head = h.row AND f.relation = r.row AND tail = t.row ORDER BY fact, name, value"""


def declared_in_order() -> str:
    """The names of `stated`, by their rows in the tables of names put one after the other."""
    before, roles = "0", []
    for role in Role:
        roles.append(
            f"SELECT r.row + {before} AS name FROM {role.value}_row AS r JOIN stated ON r.id = stated.id "
            f"WHERE role = '{role.value}'"
        )
        before += f" + (SELECT count(*) FROM {role.value}_row)"
    return f"SELECT name FROM ({' UNION '.join(roles)}) AS noted ORDER BY name"


# Of what a change of a store means beyond what it says

_KNOWN: Final = "s IN (SELECT s FROM context)"
KNOWN_OBSOLETE: Final = f"SELECT count(*) FROM (SELECT id AS s FROM obsolete) AS marked WHERE {_KNOWN}"


def properties_declared(engine: TableEngine, in_axioms: bool) -> str:
    """How many statements declare a kind of property, of one that is there or, if `in_axioms`, of any."""
    annotation = Declaration.ANNOTATION_RELATION.value
    words = ", ".join(f"'{w.value}'" for w in (Declaration.DATA_PROPERTY, Declaration.ANNOTATION_PROPERTY))
    return f"""SELECT count(*) FROM (
                 SELECT s, word FROM (SELECT s, p, o FROM fact ANTI JOIN context USING (s, p, o)) AS new
                 JOIN class ON o = class.id WHERE p = {engine.id_of(TYPE)}) AS declaring
               WHERE word = '{annotation}' OR (word IN ({words}) AND ({in_axioms} OR {_KNOWN}))"""


def new_in_both_roles(engine: TableEngine) -> str:
    """How many names are entity and concept that were not both before."""
    terms = " AND ".join(
        f"id IN (SELECT s FROM context WHERE o = {engine.id_of(OWL + type)})" for type in ("Class", "NamedIndividual")
    )
    return f"SELECT count(*) FROM ({BOTH_ROLES}) AS both_roles WHERE NOT ({terms})"
