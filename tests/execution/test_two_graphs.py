"""The machine's bytes: one walk gives the answers on both graphs and the missing links."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from oracle import Costs, Oracle
from tarbox.execution.graph import Index
from tarbox.execution.interpreter import evaluate
from tarbox.execution.kernels import make_space, run
from tarbox.execution.literals import link_program
from tarbox.execution.rows import encode
from tarbox.execution.type_kernels import project_types
from tarbox.query.algebra import Concept, Entity
from tarbox.query.names import ANYTHING


def walk_both(query, index):
    """({node: cost} on the larger graph, nodes on the smaller) for entities, then for concepts."""
    shape, ids = encode(query, index.facts.vocabulary)
    program = link_program(shape, index)
    space = make_space(program.depth, index.entities + index.concepts)
    row = run(index.graph, program, ids, space)
    project_types(index.graph, space, row, space.rows[1])
    for number, nodes in ((row, range(index.entities)), (space.rows[1], range(index.entities, index.entities + 5))):
        bytes_ = {node - nodes[0]: int(space.states[number, node]) ^ int(space.defaults[number]) for node in nodes}
        yield {n: 127 - (b & 127) for n, b in bytes_.items() if b & 127}, {n for n, b in bytes_.items() if b & 128}


@pytest.mark.parametrize("seed", range(30))
def test_one_walk_finds_both_graphs_answers_and_the_missing_links(make_maker, seed):
    maker = make_maker(seed)
    larger = maker.facts(assertions=40, typings=12)
    keep = [maker.random.random() < 0.8 for _ in range(len(larger.heads) + len(larger.typed))]
    smaller = larger.with_assertions(keep[: len(larger.heads)]).with_typings(keep[len(larger.heads) :])
    index = Index.of(larger, smaller)
    costs = Costs(Oracle.of(larger), Oracle.of(smaller))
    for _ in range(60):
        query = maker.query()
        expected = evaluate(query, costs)
        (entities, before), (concepts, concepts_before) = walk_both(query, index)
        assert entities == expected
        assert before == costs.smaller.entities(query)
        assert concepts == costs.concepts(expected)
        assert concepts_before == set(costs.smaller.concepts(query))


def test_with_many_concepts_the_groups_are_walked(make_maker):
    maker = make_maker(1)
    larger = maker.facts(assertions=40, typings=12)
    index = Index.of(larger, larger.with_typings(larger.typed % 3 > 0))
    wide = replace(index, graph=index.graph._replace(kind_bits=np.zeros((0, 0), np.uint64)))
    for _ in range(100):
        query = maker.query()
        assert list(walk_both(query, index)) == list(walk_both(query, wide))


def test_everything_costs_nothing(maker):
    facts = maker.facts()
    (entities, _), _ = walk_both(Concept(ANYTHING), Index.of(facts, facts.with_assertions(facts.heads < 0)))
    assert entities == dict.fromkeys(range(12), 0)
    (single, _), _ = walk_both(Entity("urn:e03"), Index.of(facts))
    assert single == {3: 0}
