"""What follows from facts and axioms, found by an engine on tables that stay there (ADR 60).

Classes are classified here: axioms and subsumptions fit. The rules over individuals are joins
(`tarbox.kb.preparation.rule_queries`) of what is new with what is known, until nothing is new; what comes back are the
finished tables, equalities and contradictions. `tarbox.kb.reasoning.inference` has the same in memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, final

import numpy as np
import pyarrow as pa

from tarbox.kb.arrays import Places
from tarbox.kb.axioms import Axiom
from tarbox.kb.closure import Hierarchy
from tarbox.kb.facts import Facts
from tarbox.kb.preparation import rule_queries
from tarbox.kb.preparation.engine import Steps, TableEngine
from tarbox.kb.preparation.tables import PREPARED_TABLES
from tarbox.kb.reasoning import fixpoint
from tarbox.kb.reasoning.compiled_rules import Clashes, CompiledRules
from tarbox.kb.reasoning.inference import (
    InferenceMode,
    InferenceReport,
    compile_rules,
    infer_subsumptions,
    report_inference,
)
from tarbox.kb.reasoning.rules import EVERYBODY, RuleForm

_MOST: Final = 10
"""So many times the facts given may be known in the end, where that is more than what may be in memory."""
_KNOWN: Final[Mapping[str, str]] = {"edge": "role, x, y", "membership": "x, concept"}


def infer_on_engine(
    engine: TableEngine, schema: Facts, axioms: tuple[Axiom, ...], mode: InferenceMode, seconds: float | None
) -> tuple[Facts, Hierarchy, InferenceReport | None]:
    """Make the tables `inferred_assertion` and `inferred_typing` of what follows from `assertion`, `typing`, the axioms
    and the subsumptions of `schema` (`Facts.schema`), which it returns with those inferred, and closed."""
    if mode is InferenceMode.NONE or not axioms:
        engine.create("inferred_assertion")
        engine.create("inferred_typing")
        return schema, _load_hierarchy(engine, schema), None
    schema, taxonomy = infer_subsumptions(schema, axioms, mode, seconds)
    schema, compiled = compile_rules(schema, axioms, mode, taxonomy.unsatisfiable)
    hierarchy = _load_hierarchy(engine, schema)
    evaluation = RuleEvaluation(engine, compiled)
    evaluation.run()
    engine.run(inferred(compiled, evaluation.same))
    clashes, same = evaluation.contradictions(), len(evaluation.same)
    return schema, hierarchy, report_inference(compiled.rules, clashes, same, taxonomy)


def _load_hierarchy(engine: TableEngine, schema: Facts) -> Hierarchy:
    hierarchy = Hierarchy.of(schema.subs, schema.supers, len(schema.vocabulary.concepts))
    lower, upper = hierarchy.ancestors.coordinates()
    _load(engine, "concept_above", [lower, upper, hierarchy.group[lower] != hierarchy.group[upper]])
    moved = np.flatnonzero(hierarchy.group != np.arange(len(hierarchy)))
    _load(engine, "concept_group", [moved, hierarchy.group[moved]])
    return hierarchy


def _load(engine: TableEngine, table: str, columns: Sequence[object]) -> None:
    engine.load(table, pa.table(list(columns), names=list(PREPARED_TABLES[table].columns)))


@final
class RuleEvaluation:
    """The rules on an engine, from its tables `assertion`, `typing` and `entity_row` to `edge` and `membership`.

    `same` are the individuals that are another one too, and who stands for them.
    """

    def __init__(self, engine: TableEngine, compiled: CompiledRules) -> None:
        self._engine, self._compiled = engine, compiled
        self.same: dict[int, int] = {}
        self._clashes: Clashes = set()
        everybody = compiled.rules.concepts.more.get(EVERYBODY)
        self._everybody = -1 if everybody is None else everybody
        self._load_rules()

    def _load_rules(self) -> None:
        compiled = self._compiled
        rows = [
            (form.name, *row[:-1], *(0,) * (4 - len(row)), row[-1])
            for form, table in compiled.table.items()
            if form not in rule_queries.INCLUSIONS
            for row in table.tolist()
        ]
        if self._everybody >= 0:
            more = (n for n in compiled.rules.entities.more.values() if not compiled.is_literal(n))
            rows += [(RuleForm.MEMBER.name, number, self._everybody, 0, 0) for number in more]
        _load(self._engine, "rule", list(zip(*rows, strict=True)) or [()] * 5)
        relations = compiled.used_relations()
        roles = np.concatenate([2 * relations, 2 * relations + 1])
        origin, above = compiled.above.gather(roles)
        is_back = np.repeat([False, True], len(above))
        both = [np.tile(roles[origin], 2), np.append(above, above ^ 1), is_back]
        _load(self._engine, "role_above", both)
        for table, concepts in (("asked", compiled.asked), ("told", compiled.told)):
            _load(self._engine, table, concepts.coordinates())

    def run(self) -> None:
        """To the fixpoint."""
        engine = self._engine
        engine.create("same_as")
        engine.run(given(self._everybody, self._compiled.literals))
        engine.run({"edge": "SELECT role, x, y FROM new_edge", "membership": "SELECT x, concept FROM new_membership"})
        self._grow()
        while self._merge():
            self._grow()

    def _grow(self) -> None:
        """Join what is new with what is known until nothing is new."""
        engine, new, following = self._engine, "new_", "next_"
        sizes = [engine.count(f"{new}{table}") for table in _KNOWN]
        known = sum(engine.count(table) for table in _KNOWN)
        most = max(_MOST * known, fixpoint.MOST_FACTS)
        while any(sizes):
            for table, sql in self._steps(new).items():
                engine.define(f"{following}{table}", sql) if sql else engine.create(f"{following}{table}")
            new, following = following, new
            sizes = [engine.count(f"{new}{table}") for table in _KNOWN]
            for (table, columns), size in zip(_KNOWN.items(), sizes, strict=True):
                if size:
                    engine.extend(table, f"SELECT {columns} FROM {new}{table}")
            known += sum(sizes)
            fixpoint.refuse_more(known, most)

    def _steps(self, new: str) -> dict[str, str]:
        """SQL for what follows anew; none where no rule could find anything."""
        found = {table: rule_queries.concluded(self._compiled, table, new) for table in _KNOWN}
        wide = {"edge": rule_queries.next_edges, "membership": rule_queries.next_memberships}
        return {
            table: f"{wide[table](found[table])} EXCEPT SELECT {columns} FROM {table}" if found[table] else ""
            for table, columns in _KNOWN.items()
        }

    def _merge(self) -> bool:
        """Make one of individuals that are the same; what is known of those is then new. Whether there were any."""
        rules = self._compiled.table
        queries = {RuleForm.SAME: rule_queries.SAME, RuleForm.SINGLE: rule_queries.SINGLE}
        found = [row for form, sql in queries.items() if len(rules[form]) for row in self._engine.rows(sql)]
        equal = ((whose, x, self.same.get(y, y), axiom) for whose, x, y, axiom in found)
        first = self._compiled.unite(equal, self._clashes, {})
        if not first:
            return False
        self.same = {x: first.get(root, root) for x, root in self.same.items()} | first
        alike = self.same | {root: root for root in self.same.values()}
        _load(self._engine, "same_as", [list(alike), list(alike.values())])
        self._engine.run(RENAMED)
        return True

    def contradictions(self) -> Clashes:
        """All that cannot be, once `run` is over."""
        found, compiled = set(self._clashes), self._compiled
        nobody = compiled.contradicting()
        if nobody:
            among = ", ".join(map(str, nobody))
            members = self._engine.rows(f"SELECT x, concept FROM membership WHERE concept IN ({among})")
            found |= {(x, nobody[concept]) for x, concept in members}
        if len(compiled.table[RuleForm.DISJOINT]):
            body = rule_queries.atoms_of(RuleForm.DISJOINT.value[1])
            source, bound = rule_queries.join_atoms(RuleForm.DISJOINT, body, 0, "")
            found |= set(self._engine.rows(f"SELECT DISTINCT {bound['x']} AS x, axiom FROM {source}"))
        found.update(compiled.different_but_same(self.same))
        return found


RENAMED: Final[Steps] = {
    "edge": """SELECT DISTINCT role, coalesce(a.root, edge.x) AS x, coalesce(b.root, edge.y) AS y
        FROM edge LEFT JOIN same_as AS a ON edge.x = a.x LEFT JOIN same_as AS b ON edge.y = b.x""",
    "membership": """SELECT DISTINCT coalesce(root, membership.x) AS x, concept
        FROM membership LEFT JOIN same_as ON membership.x = same_as.x""",
    "new_edge": """SELECT role, edge.x, y FROM edge SEMI JOIN same_as ON edge.x = root UNION
        SELECT role, edge.x, y FROM edge SEMI JOIN same_as ON y = root""",
    "new_membership": "SELECT membership.x, concept FROM membership SEMI JOIN same_as ON membership.x = root",
}


def given(everybody: int, literals: int) -> Steps:
    """What rules begin with: facts, and what they say of individuals without a condition."""
    member = rule_queries.rule_rows(RuleForm.MEMBER)
    return {
        "new_edge": f"""SELECT DISTINCT role, x, y FROM ({
            rule_queries.next_edges(["SELECT 2 * relation AS role, head AS x, tail AS y FROM assertion"])
        }) AS given""",
        "new_membership": f"""SELECT entity AS x, above AS concept
            FROM typing JOIN asked ON typing.concept = asked.concept UNION
            SELECT a, above FROM {member} AS rule JOIN told ON c = told.concept UNION
            SELECT row, above FROM entity_row JOIN told ON told.concept = {everybody} WHERE row >= {literals}""",
    }


def inferred(compiled: CompiledRules, same: Mapping[int, int]) -> Steps:
    """Of what is known, what the store has names for, no source says and nothing else inferred implies."""
    rules = compiled.rules
    entities, concepts, relations = (len(names.names) for names in (rules.entities, rules.concepts, rules.relations))
    assertions = f"""SELECT x AS head, CAST(role / 2 AS INT) AS relation, y AS tail FROM edge
        WHERE role & 1 = 0 AND role < {2 * relations} AND x >= {compiled.literals} AND x < {entities} AND y < {entities}
    """
    typings = f"""SELECT x AS entity, concept FROM membership
        WHERE concept < {concepts} AND x >= {compiled.literals} AND x < {entities}"""
    if same:  # what holds of an individual holds of all that are the same, be it asserted or inferred
        alike = f"(SELECT x, root FROM same_as WHERE x < {entities})"
        assertions = f"""SELECT coalesce(a.x, head) AS head, relation, coalesce(b.x, tail) AS tail
            FROM ({assertions} UNION SELECT coalesce(a.root, head), relation, coalesce(b.root, tail) FROM assertion
            LEFT JOIN same_as AS a ON head = a.x LEFT JOIN same_as AS b ON tail = b.x
            WHERE a.root IS NOT NULL OR b.root IS NOT NULL) AS stands
            LEFT JOIN {alike} AS a ON head = a.root LEFT JOIN {alike} AS b ON tail = b.root"""
        typings = f"""SELECT coalesce(x, entity) AS entity, concept FROM ({typings} UNION
            SELECT root, concept FROM typing JOIN same_as ON entity = x) AS stands
            LEFT JOIN {alike} AS alike ON entity = root"""
    return {
        "inferred_assertion": f"SELECT head, relation, tail FROM ({assertions}) AS known EXCEPT "
        "SELECT head, relation, tail FROM assertion",
        "known_typing": f"SELECT DISTINCT entity, concept FROM ({typings}) AS known",
        "fresh_typing": """SELECT DISTINCT entity, coalesce(root, fresh.concept) AS concept FROM (
              SELECT entity, concept FROM known_typing EXCEPT
              SELECT entity, above
              FROM (SELECT entity, concept FROM typing SEMI JOIN known_typing USING (entity)) AS own
              JOIN concept_above ON own.concept = concept_above.concept) AS fresh
            LEFT JOIN concept_group ON fresh.concept = concept_group.concept""",
        "inferred_typing": """SELECT entity, concept FROM fresh_typing EXCEPT
            SELECT entity, above FROM fresh_typing JOIN concept_above ON fresh_typing.concept = concept_above.concept
            WHERE is_strict""",
    }


def described(annotations: Sequence[int]) -> Steps:
    """What describes an entity, before closure, as `Facts.descriptions`."""
    typings = "SELECT entity, concept FROM typing UNION ALL SELECT entity, concept FROM inferred_typing"
    if not annotations:
        return {"description": typings}
    columns, among = "head, relation, tail", ", ".join(map(str, annotations))
    return {
        "description": f"""{typings} UNION ALL SELECT head, concept FROM (
              SELECT {columns} FROM assertion UNION ALL SELECT {columns} FROM inferred_assertion) AS led
            JOIN ({typings}) AS typed ON tail = entity WHERE relation IN ({among})"""
    }


def count_described(engine: TableEngine, facts: Facts) -> tuple[Places, int]:
    """[C] how many entities each concept describes, under closure, and how many are described by any."""
    engine.run(described(facts.annotations))
    sizes = np.zeros(len(facts.vocabulary.concepts), np.int64)
    for concept, size in engine.rows(
        """SELECT above, count(DISTINCT entity) FROM description
           JOIN concept_above ON description.concept = concept_above.concept GROUP BY above"""
    ):
        sizes[concept] = size
    return sizes, engine.number("SELECT count(DISTINCT entity) FROM description")
