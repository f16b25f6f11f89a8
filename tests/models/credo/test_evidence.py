"""What a knowledge base says of facts that it does not have, each part against a slow, plain count."""

from __future__ import annotations

import math
from collections import Counter
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from uncertain import Maker, World

from tarbox.kb.facts import Facts
from tarbox.kb.vocabulary import Vocabulary
from tarbox.models.credo.evidence import SHRINKAGE, Evidence, KeyCounts, frequent_columns
from tarbox.models.credo.rules import SMOOTHING, RuleConfidences

seeds = st.integers(0, 1 << 32)
some = settings(max_examples=8, deadline=None, derandomize=True)

Graph = list[tuple[int, int, int]]
"""(directed relation, entity, other) with relation(entity, other) for even ones, relation(other, entity) for odd."""


def known(seed: int, **sizes: int) -> tuple[World, Evidence]:
    """A knowledge base without predictions."""
    world = Maker(seed, **sizes).world(uncertain=False)
    return world, Evidence.of(world.facts)


def triples(facts: Facts) -> list[tuple[int, int, int]]:
    return list(zip(facts.relations.tolist(), facts.heads.tolist(), facts.tails.tolist(), strict=True))


def graph_of(facts: Facts) -> Graph:
    found = [(2 * relation, head, tail) for relation, head, tail in triples(facts)]
    return found + [(2 * relation + 1, tail, head) for relation, head, tail in triples(facts)]


def ends(facts: Facts, way: int) -> list[tuple[int, int]]:
    """(near, far) of what a directed relation leads to, as queries read it: `2 * r` leads from the tail to the head."""
    own = [(head, tail) for relation, head, tail in triples(facts) if relation == way // 2]
    return [(tail, head) if way % 2 == 0 else (head, tail) for head, tail in own]


# Counts


@given(st.lists(st.integers(0, 9)), st.lists(st.integers(0, 12)))
def test_counts_of_keys(keys: list[int], asked: list[int]) -> None:
    counts = KeyCounts.of(np.array(keys, np.int64))
    assert counts[np.array(asked, np.int64)].tolist() == [keys.count(key) for key in asked]


@some
@given(seeds)
def test_counts_of_what_entities_have(seed: int) -> None:
    world, evidence = known(seed)
    for way in range(6):
        pairs = ends(world.facts, way)
        keys = way * 7 + np.arange(7)
        assert evidence.having[keys].tolist() == [sum(near == y for near, _ in pairs) for y in range(7)]
        assert evidence.reached[keys].tolist() == [sum(far == x for _, far in pairs) for x in range(7)]
        near, far = evidence.known_links(way)
        assert sorted(zip(near.tolist(), far.tolist(), strict=True)) == sorted(pairs)
        assert near.tolist() == sorted(near.tolist())
    for relation in range(3):
        own = [(head, tail) for r, head, tail in triples(world.facts) if r == relation]
        wanted = [len(own), len({head for head, _ in own}), len({tail for _, tail in own})]
        assert evidence.relation_sizes[relation].tolist() == wanted


# RuleConfidences


def confidences(facts: Facts) -> tuple[dict[tuple[int, int], float], dict[tuple[int, int, int], float]]:
    """(body, head) and (first, second, head): how often the head holds where the body does, smoothed."""
    graph, known_ = graph_of(facts), triples(facts)
    single: dict[tuple[int, int], float] = {}
    for way, head in product(range(6), range(3)):
        own = [(y, x) for d, y, x in graph if d == way]
        hits = sum((head, y, x) in known_ for y, x in own) if way != 2 * head else 0
        single[way, head] = hits / (len(own) + SMOOTHING)
    double: dict[tuple[int, int, int], float] = {}
    for first, second in product(range(6), repeat=2):
        paths = Counter((y, x) for d, y, z in graph if d == first for e, w, x in graph if e == second and w == z)
        through = Counter((y, z, x) for d, y, z in graph if d == first for e, w, x in graph if e == second and w == z)
        for head in range(3):
            hits = sum(1 for y, z, x in through if (head, y, x) in known_ and z not in (y, x))
            double[first, second, head] = min(hits / (sum(paths.values()) + SMOOTHING), 0.99)
    return single, double


@some
@given(seeds)
def test_rule_confidences(seed: int) -> None:
    world, evidence = known(seed, entities=6)
    rules = evidence.rules
    single, double = confidences(world.facts)
    assert sorted(rules.column.tolist()) == list(range(6))
    for (way, head), wanted in single.items():
        assert rules.single[way, head] == pytest.approx(wanted), (way, head)
    for (first, second, head), wanted in double.items():
        found = rules.double[rules.column[first], rules.column[second], head]
        assert found == pytest.approx(wanted), (first, second, head)


@some
@given(seeds)
def test_features_of_rules(seed: int) -> None:
    """The best path of one step and of two, their noisy-or, and how many there are."""
    world, evidence = known(seed, entities=6)
    single, double = confidences(world.facts)
    graph = graph_of(world.facts)
    asked = np.array(list(product(range(3), range(6), range(6))), np.int64)
    found = evidence.rules.features(*asked.T)
    for (relation, head, tail), row in zip(asked.tolist(), found, strict=True):
        steps = [single[d, relation] for d, y, x in graph if (y, x) == (head, tail)]
        paths = [
            double[d, e, relation]
            for d, y, z in graph
            if y == head and z not in (head, tail)
            for e, w, x in graph
            if w == z and x == tail
        ]
        wanted = [
            max(steps, default=0.0),
            max(paths, default=0.0),
            -sum(math.log1p(-path) for path in paths),
            math.log1p(len(paths)),
        ]
        np.testing.assert_allclose(row, wanted, rtol=1e-4, atol=1e-6)


def test_a_rule_is_found_where_there_is_one() -> None:
    """Whoever works for a firm in a city lives in that city: two steps, believed by how often it was seen."""
    words = Vocabulary.of([f"e{n:03}" for n in range(120)], [], ["livesIn", "locatedIn", "worksFor"])
    firms, people = range(100, 110), range(100)
    works = [(person, 2, 100 + person % 10) for person in people]
    located = [(firm, 1, firm + 10) for firm in firms]
    lives = [(person, 0, 110 + person % 10) for person in people if person >= 20]
    rules = RuleConfidences.of(Facts.of(words, works + located + lives))
    true, false = (rules.features(*np.array([[0, 5, tail]]).T)[0] for tail in (115, 116))
    assert true[1] == pytest.approx(80 / 105)
    assert false[1] == 0


# Nearest neighbours


@some
@given(seeds)
def test_nearest_neighbours_by_cosine(seed: int) -> None:
    world, evidence = known(seed, entities=9)
    facts = world.facts
    links = {(way, near, far) for way in range(6) for near, far in ends(facts, way)}
    columns: dict[tuple[object, ...], set[int]] = {}
    for way, near, far in links:  # an entity has the link from `near`, by which it is reached
        columns.setdefault((way, near), set()).add(far)
    for entity, concept in zip(facts.typed.tolist(), facts.types.tolist(), strict=True):
        columns.setdefault(("is a", concept), set()).add(entity)
    weights = {column: math.log(9 / len(having)) for column, having in columns.items()}
    rows = [{column: weights[column] for column, having in columns.items() if e in having} for e in range(9)]
    lengths = [math.sqrt(sum(weight**2 for weight in row.values())) for row in rows]
    similar = evidence.neighbours.similar
    for one, other in product(range(9), repeat=2):
        shared = sum(weight**2 for column, weight in rows[one].items() if column in rows[other])
        wanted = shared / (lengths[one] * lengths[other]) if shared and one != other else 0.0
        assert similar.value(one, other) == pytest.approx(wanted, abs=1e-5)
    typed = world.all_typings()
    asked = np.array(list(product(range(6), range(9), range(9))), np.int64)
    for (way, near, far), row in zip(asked.tolist(), evidence.neighbours.of_links(*asked.T), strict=True):
        _check_share(row, {n: similar.value(near, n) for n in range(9)}, links, way, far)
    pairs = np.array(list(product(range(9), range(4))), np.int64)
    for (entity, concept), row in zip(pairs.tolist(), evidence.neighbours.of_typings(*pairs.T), strict=True):
        near_ = {n: similar.value(entity, n) for n in range(9)}
        have = sum(value for n, value in near_.items() if (n, concept) in typed)
        any_ = sum(value for n, value in near_.items() if any((n, c) in typed for c in range(4)))
        np.testing.assert_allclose(row, [math.log(have + 1e-3), have / (any_ + 0.1)], atol=1e-4)


def _check_share(
    row: np.ndarray,
    similar: dict[int, float],
    links: set[tuple[int, int, int]],
    way: int,
    far: int,
) -> None:
    """What the neighbours of an entity lead to by a directed relation."""
    have = sum(value for n, value in similar.items() if (way, n, far) in links)
    any_ = sum(value for n, value in similar.items() if any(w == way and y == n for w, y, _ in links))
    np.testing.assert_allclose(row, [math.log(have + 1e-3), have / (any_ + 0.1)], atol=1e-4)


def test_only_the_nearest_are_neighbours() -> None:
    """Of 200 entities with the same link, some of which share another one, each has 64, those that share both first."""
    words = Vocabulary.of([f"e{n:03}" for n in range(300)], [], ["p", "q"])
    links = [(n, 0, 250) for n in range(200)] + [(n, 1, 251) for n in range(30)]
    similar = Evidence.of(Facts.of(words, links)).neighbours.similar
    assert similar.sizes()[:200].tolist() == [64] * 200
    assert set(range(1, 30)) <= set(similar[0].tolist())
    assert similar[0].tolist() == sorted(similar[0].tolist())


# Signatures


@some
@given(seeds)
def test_signatures_are_the_closed_form_of_ease(seed: int) -> None:
    world, evidence = known(seed)
    typings = world.all_typings()
    signatures = evidence.signatures
    width = 6 + len(signatures.kept)
    table = np.zeros((7, width))
    for way in range(6):
        for near, _ in ends(world.facts, way):
            table[near, way] = 1
    for place, concept in enumerate(signatures.kept.tolist()):
        table[:, 6 + place] = [(entity, concept) in typings for entity in range(7)]
    inverse = np.linalg.inv(table.T @ table + SHRINKAGE * np.eye(width))
    weights = -inverse / np.diag(inverse)
    np.fill_diagonal(weights, 0.0)
    wanted = table @ weights
    for way in range(6):
        np.testing.assert_allclose(signatures.relation(way), wanted[:, way], atol=1e-5)
    np.testing.assert_allclose(signatures.concepts(np.arange(2, 7)), wanted[2:, 6:], atol=1e-5)
    likely = signatures.concepts(np.arange(7))
    rows, concepts = np.array(list(product(range(7), range(4))), np.int64).T
    found = signatures.of_concepts(likely, rows, concepts)
    places = {concept: place for place, concept in enumerate(signatures.kept.tolist())}
    for row, concept, value in zip(rows.tolist(), concepts.tolist(), found.tolist(), strict=True):
        assert value == (pytest.approx(wanted[row, 6 + places[concept]], abs=1e-5) if concept in places else 0.0)


def test_frequent_columns_are_those_with_most_instances() -> None:
    kept, column = frequent_columns(np.array([3, 0, 9, 9, 1]), 2045)  # room for three
    assert kept.tolist() == [0, 2, 3]
    assert column.tolist() == [2045, -1, 2046, 2047, -1]
    kept, column = frequent_columns(np.array([0, 2]), 6)
    assert (kept.tolist(), column.tolist()) == ([1], [-1, 6])


# Compatibility


def test_a_small_concept_excludes_what_is_above_a_candidate() -> None:
    """7 bands among 260 people, 30 of them singers: none of the bands is a person, so that none is a singer."""
    words = Vocabulary.of([f"e{n:03}" for n in range(267)], ["Band", "Person", "Singer"], ["likes"])
    band, person, singer = range(3)
    typings = (
        [(n, person) for n in range(260)] + [(n, singer) for n in range(30)] + [(n, band) for n in range(260, 267)]
    )
    facts = Facts.of(words, [(0, 0, 1)], typings, [(singer, person)])
    kinds = Evidence.of(facts).compatibility
    asked = np.array([[262, singer], [262, person], [100, singer], [100, band]]).T
    assert kinds.allow_typings(*asked).tolist() == [False, False, True, False]


def test_what_never_meets_a_large_concept_excludes_it() -> None:
    """100 people, 40 of them doctors, and 100 cities: no city is a doctor, and only cities are lived in."""
    words = Vocabulary.of([f"e{n:03}" for n in range(200)], ["City", "Doctor", "Person"], ["livesIn"])
    person, doctor, city = 2, 1, 0
    typings = (
        [(n, person) for n in range(100)] + [(n, doctor) for n in range(40)] + [(n, city) for n in range(100, 200)]
    )
    facts = Facts.of(words, [(n, 0, 100 + n) for n in range(60)], typings)
    kinds = Evidence.of(facts).compatibility
    one = np.ones(1, np.int64)

    def typing(entity: int, concept: int) -> bool:
        return bool(kinds.allow_typings(entity * one, concept * one)[0])

    def link(head: int, tail: int) -> bool:
        return bool(kinds.allow_links(0 * one, head * one, tail * one)[0])

    assert not typing(150, doctor)
    assert not typing(50, city)
    assert typing(70, doctor)  # a person who is not known to be one
    assert link(70, 150)
    assert not link(150, 170)
    assert not link(70, 80)


@some
@given(seeds)
def test_exclusions_against_a_plain_count(seed: int) -> None:
    world, evidence = known(seed, entities=60, concepts=5)
    kinds, typings = evidence.compatibility, world.all_typings()
    entities_of = {c: {e for e, other in typings if other == c} for c in range(5)}
    typed = {e for e, _ in typings}
    large = {c for c, members in entities_of.items() if members and 2 * len(members) <= len(typed)}
    above = evidence.instances.hierarchy.ancestors

    def excludes(members: list[int], c: int) -> bool:
        expected = len(members) * len(entities_of[c]) / len(typed)
        return not any(e in entities_of[c] for e in members) and expected >= 5

    concepts = np.array(list(product(range(60), range(5))), np.int64)
    for (entity, concept), found in zip(concepts.tolist(), kinds.allow_typings(*concepts.T).tolist(), strict=True):
        own = [c for c in range(5) if (entity, c) in typings]
        by_it = any(excludes(list(entities_of[concept]), c) for c in own)
        by_them = any(excludes(list(entities_of[c]), wider) for c in own for wider in above[concept].tolist())
        assert found == (not by_it and not by_them)
    for relation in range(3):
        asked = np.array(list(product([relation], range(0, 60, 7), range(0, 60, 5))), np.int64)
        for (_, head, tail), found in zip(asked.tolist(), kinds.allow_links(*asked.T).tolist(), strict=True):
            both = [
                (entity, [far for _, far in ends(world.facts, way) if far in typed])
                for entity, way in ((head, 2 * relation), (tail, 2 * relation + 1))
            ]
            wanted = not any(excludes(m, c) for entity, m in both for c in large if (entity, c) in typings)
            loops = any(near == far for near, far in ends(world.facts, 2 * relation))
            assert found == (wanted and (head != tail or loops))


@pytest.mark.parametrize("concepts", [0, 2])
def test_evidence_of_little_or_nothing(concepts: int) -> None:
    words = Vocabulary.of(["a", "b"], [f"c{n}" for n in range(concepts)], ["p"])
    for facts in (Facts.of(words), Facts.of(words, [(0, 0, 1)])):
        evidence = Evidence.of(facts)
        assert evidence.rules.features(*np.array([[0, 0, 1]]).T).shape == (1, 4)
        assert np.isfinite(evidence.neighbours.of_links(*np.array([[0, 0, 1]]).T)).all()
        assert evidence.signatures.relation(0).shape == (2,)
