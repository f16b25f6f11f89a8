"""The closure against a naive one."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tarbox.kb.closure import Hierarchy, Instances
from tarbox.kb.facts import Facts
from tarbox.kb.rows import Rows
from tarbox.kb.vocabulary import Vocabulary

SIZE = 7
pairs = st.lists(st.tuples(st.integers(0, SIZE - 1), st.integers(0, SIZE - 1)), max_size=14)


def naive_ancestors(edges: list[tuple[int, int]]) -> list[set[int]]:
    above = [{c} for c in range(SIZE)]
    for _ in range(SIZE):
        for sub, sup in edges:
            above[sub] |= above[sup]
    return above


def columns(edges: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    table = np.array(edges, np.int32).reshape(-1, 2)
    return table[:, 0], table[:, 1]


@settings(max_examples=300)
@given(pairs)
def test_ancestors_descendants_groups_and_depth(edges: list[tuple[int, int]]) -> None:
    tree, above = Hierarchy.of(*columns(edges), SIZE), naive_ancestors(edges)
    assert [set(tree.ancestors[c].tolist()) for c in range(SIZE)] == above
    assert [set(tree.descendants[c].tolist()) for c in range(SIZE)] == [
        {d for d in range(SIZE) if c in above[d]} for c in range(SIZE)
    ]
    equal = [min(d for d in above[c] if c in above[d]) for c in range(SIZE)]
    assert tree.group.tolist() == equal
    assert all(tree.equivalents(c).tolist() == [d for d in range(SIZE) if equal[d] == equal[c]] for c in range(SIZE))

    def depth(group: int) -> int:
        parents = {equal[p] for s, p in edges if equal[s] == group} - {group}
        return 1 + max((depth(p) for p in parents), default=-1)

    assert tree.depth.tolist() == [depth(equal[c]) for c in range(SIZE)]


@settings(max_examples=300)
@given(pairs, pairs)
def test_closed_and_most_specific_typings(edges: list[tuple[int, int]], typings: list[tuple[int, int]]) -> None:
    typings = sorted(set(typings))
    above = naive_ancestors(edges)
    tree = Hierarchy.of(*columns(edges), SIZE)
    typed, types = columns(typings)
    closed = tree.close(typed, types, SIZE)
    assert [set(closed[e].tolist()) for e in range(SIZE)] == [
        {a for t, c in typings if t == e for a in above[c]} for e in range(SIZE)
    ]
    kept = [not any(o == e and c in above[d] and d not in above[c] for o, d in typings) for e, c in typings]
    assert tree.most_specific(typed, types).tolist() == kept
    again = tree.close(typed[kept], types[kept], SIZE) if typings else closed
    assert [again[e].tolist() for e in range(SIZE)] == [closed[e].tolist() for e in range(SIZE)]


def test_top_concepts_and_information() -> None:
    vocabulary = Vocabulary.of([f"e:{i}" for i in range(8)], ["c:all", "c:half", "c:none", "c:one"], [])
    typings = [(e, 1) for e in range(4)] + [(e, 0) for e in range(4, 7)] + [(7, 3)]
    facts = Facts.of(vocabulary, (), typings, [(1, 0), (3, 0)])
    instances = Instances.of(facts)
    assert instances.typed_entities() == 8
    assert instances.top_concepts().tolist() == [0]
    assert instances.information().tolist() == [0.0, 1.0, 3.0, 3.0]
    assert instances.specificity().tolist() == [0.0, 1 / 3, 1.0, 1.0]


def test_a_deep_chain_needs_no_recursion() -> None:
    size = 1500
    chain = np.arange(size - 1, dtype=np.int32)
    tree = Hierarchy.of(chain, chain + 1, size)
    assert tree.depth.tolist() == list(range(size - 1, -1, -1))


def test_a_matrix_with_more_columns_than_sixteen_bits_is_transposed() -> None:
    random, width = np.random.default_rng(0), 200_000
    keys = np.unique(random.integers(0, 40 * width, 3_000))
    rows = Rows.of_keys(keys, 40, width, random.random(len(keys)))
    turned = rows.transpose(width)
    order = np.lexsort((keys // width, keys % width))
    assert np.array_equal(turned.coordinates(), ((keys % width)[order], (keys // width)[order]))
    assert np.array_equal(turned.values, rows.values[order])


@given(pairs)
def test_rows_transpose_and_gather(edges: list[tuple[int, int]]) -> None:
    rows = Rows.of(*columns(edges), SIZE, SIZE)
    assert set(zip(*(c.tolist() for c in rows.coordinates()), strict=True)) == set(edges)
    assert set(zip(*(c.tolist() for c in rows.transpose(SIZE).coordinates()), strict=True)) == {
        (b, a) for a, b in edges
    }
    wanted = np.array([3, 0, 3], np.int32)
    origin, found = rows.gather(wanted)
    assert [found[origin == i].tolist() for i in range(3)] == [rows[r].tolist() for r in wanted]
    taken = rows.take(wanted)
    assert [taken[i].tolist() for i in range(3)] == [rows[r].tolist() for r in wanted]
    assert len(taken) == 3
