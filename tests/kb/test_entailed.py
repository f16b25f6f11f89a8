"""What follows on an engine is what follows in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tarbox.core.errors import TarboxError
from tarbox.kb.arrays import Flags, Ids
from tarbox.kb.axioms import Axiom
from tarbox.kb.closure import Instances
from tarbox.kb.facts import Facts
from tarbox.kb.namespaces import TOP
from tarbox.kb.preparation.duckdb_engine import DuckDBEngine
from tarbox.kb.preparation.engine import TableEngine
from tarbox.kb.preparation.entailed import count_described, infer_on_engine
from tarbox.kb.preparation.rule_queries import letters_of
from tarbox.kb.reasoning import fixpoint
from tarbox.kb.reasoning.inference import InferenceMode, infer
from tarbox.kb.reasoning.rules import RuleForm
from tarbox.kb.vocabulary import Vocabulary

from .test_reasoning_rules import C, E, R, concepts, conditions, entities, relations, roles, some_axioms, some_typings

LITERALS = ['"1"', '"2"']
NAMES = [*LITERALS, *E[:4]]  # the fifth is known to axioms alone
some_facts = st.sets(st.tuples(st.sampled_from(E[:4]), relations, st.sampled_from(NAMES)), max_size=10)
clashing = (
    st.tuples(st.just("DisjointClasses"), concepts, concepts)
    | st.tuples(st.just("DisjointObjectProperties"), relations, relations)
    | st.tuples(st.just("DifferentIndividuals"), entities, entities)
    | st.tuples(st.sampled_from(["AsymmetricObjectProperty", "IrreflexiveObjectProperty"]), relations)
    | st.tuples(st.just("SubClassOf"), conditions, st.tuples(st.just("ObjectMaxCardinality"), st.just("0"), roles))
)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TableEngine]:
    opened = DuckDBEngine(tmp_path_factory.mktemp("engine"))
    yield opened
    opened.close()


def load(engine: TableEngine, facts: Facts) -> None:
    engine.load("assertion", pa.table([facts.heads, facts.relations, facts.tails], names=["head", "relation", "tail"]))
    engine.load("typing", pa.table([facts.typed, facts.types], names=["entity", "concept"]))
    names = facts.vocabulary.entities.iris
    numbers = np.arange(len(names))
    engine.load("entity_row", pa.table([numbers, names, names, numbers], names=["id", "iri", "label", "row"]))


def marked(flags: Flags, *columns: Ids) -> list[tuple[int, ...]]:
    return list(zip(*(column[flags].tolist() for column in columns), strict=True))


def make(assertions: Iterable[tuple[str, str, str]], typings: Iterable[tuple[str, str]]) -> Facts:
    return Facts.of(
        Vocabulary.of(NAMES, C, R),
        [(NAMES.index(x), R.index(p), NAMES.index(y)) for x, p, y in assertions],
        [(NAMES.index(x), C.index(c)) for x, c in typings if x in NAMES],
    )


def infer_both(engine: TableEngine, facts: Facts, axioms: list[Axiom], mode: InferenceMode) -> Facts:
    """All facts, by memory, once what the engine finds is the same."""
    every, report = infer(facts, tuple(axioms), mode)
    load(engine, facts)
    schema, hierarchy, found = infer_on_engine(engine, facts.schema(), tuple(axioms), mode, None)
    assert (schema.subs.tolist(), schema.supers.tolist()) == (every.subs.tolist(), every.supers.tolist())
    there = (
        engine.rows("SELECT head, relation, tail FROM inferred_assertion ORDER BY ALL"),
        engine.rows("SELECT entity, concept FROM inferred_typing ORDER BY ALL"),
    )
    if every.inferred is None:
        assert (found, there) == (None, ([], []))
    else:
        assert found == report
        assert there[0] == marked(every.inferred.assertions, every.heads, every.relations, every.tails)
        assert there[1] == marked(every.inferred.typings, every.typed, every.types)
    instances = Instances.of(every, hierarchy)
    sizes, typed = count_described(engine, facts)
    assert (sizes.tolist(), typed) == (instances.entities_of.sizes().tolist(), instances.typed_entities())
    return every


@settings(max_examples=150, deadline=None)
@given(some_facts, some_typings, st.lists(some_axioms | clashing, max_size=12), st.sampled_from(InferenceMode))
def test_an_engine_infers_what_memory_does(
    engine: TableEngine,
    assertions: set[tuple[str, str, str]],
    typings: set[tuple[str, str]],
    axioms: list[Axiom],
    mode: InferenceMode,
) -> None:
    infer_both(engine, make(assertions, typings), axioms, mode)


e, c, r = E, C, R
ONE = ("ObjectMaxCardinality", "1", r[0])
CASES: dict[str, tuple[list[Axiom], list[tuple[str, str, str]], list[tuple[str, str]], tuple[int, int]]] = {
    # axioms, assertions, typings; how many assertions and typings follow
    "a chain over two names of one": (
        [("SameIndividual", e[0], e[1]), ("SubObjectPropertyOf", ("ObjectPropertyChain", r[0], r[1]), r[2])],
        [(e[2], r[0], e[0]), (e[1], r[1], e[3])],
        [],
        (3, 0),  # r0(e2, e1), r1(e0, e3), r2(e2, e3)
    ),
    "at most one of a kind": (
        [("SubClassOf", TOP, (*ONE, c[0])), ("SubClassOf", c[1], ONE)],
        [*((e[0], r[0], y) for y in e[1:4]), (e[1], r[0], e[2]), (e[1], r[0], e[3])],
        [(e[1], c[0]), (e[2], c[0]), (e[3], c[2])],
        (4, 0),  # e1 is e2, of which all is said; e3 is neither
    ),
    "at most one for a kind": (
        [("SubClassOf", c[1], ONE)],
        [(e[0], r[0], e[2]), (e[0], r[0], e[3]), (e[1], r[0], e[0]), (e[1], r[0], e[2])],
        [(e[0], c[1])],
        (1, 0),  # e2 is e3
    ),
    "one of equivalent concepts": (
        [("EquivalentClasses", c[0], c[1]), ("ObjectPropertyDomain", r[0], c[1])],
        [(e[0], r[0], e[1])],
        [],
        (0, 1),
    ),
    "the most specific concept": (
        [("ObjectPropertyDomain", r[0], c[0]), ("ObjectPropertyDomain", r[0], c[1]), ("SubClassOf", c[1], c[0])],
        [(e[0], r[0], e[1]), (e[1], r[0], e[1])],
        [(e[1], c[1])],
        (0, 1),
    ),
    "a value that is another": (
        [("SameIndividual", e[0], e[1]), ("SubClassOf", c[0], ("ObjectHasValue", r[0], e[1]))],
        [],
        [(e[2], c[0])],
        (2, 0),
    ),
    "conditions of all sorts": (
        [
            ("SubClassOf", ("ObjectIntersectionOf", c[0], ("ObjectSomeValuesFrom", r[0], c[1])), c[2]),
            ("SubClassOf", c[2], ("ObjectHasSelf", r[1])),
            ("SubClassOf", ("ObjectHasSelf", r[1]), c[3]),
            ("SubClassOf", ("ObjectHasValue", r[1], e[0]), c[4]),
            ("InverseObjectProperties", r[2], r[3]),
            ("ObjectPropertyRange", r[3], c[1]),
        ],
        [(e[0], r[0], e[1]), (e[1], r[2], e[2])],
        [(e[0], c[0])],
        (2, 4),  # r1(e0, e0), r3(e2, e1); C1(e1), C2(e0), C3(e0), C4(e0)
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_follows_in_each_way(engine: TableEngine, case: str) -> None:
    axioms, assertions, typings, expected = CASES[case]
    every = infer_both(engine, make(assertions, typings), axioms, InferenceMode.OWL)
    assert (len(every.heads) - len(assertions), len(every.typed) - len(typings)) == expected


def test_too_much_is_refused_there_too(engine: TableEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fixpoint, "MOST_FACTS", 1000)
    chain = Facts.of(
        Vocabulary.of([f"urn:{n:03}" for n in range(100)], [], ["urn:p"]), [(n, 0, n + 1) for n in range(99)]
    )
    load(engine, chain)
    with pytest.raises(TarboxError, match="more than 1,980 facts would follow"):  # ten times those given, both ways
        infer_on_engine(engine, chain.schema(), (("TransitiveObjectProperty", "urn:p"),), InferenceMode.OWL, None)


def test_every_form_names_its_columns() -> None:
    for form in RuleForm:
        assert len(letters_of(form)) == len(form.value[0]), form
