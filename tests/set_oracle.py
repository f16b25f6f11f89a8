"""Enrichment as g:Profiler does it, slowly and plainly, as the judge of `tarbox.service.set_descriptions`; and lists of
genes that both are asked to describe.

The hypergeometric test over the annotated genes: terms are closed by walking the hierarchy, counted in dictionaries of
sets, and nothing is pruned. Shares no code with the package but the facts themselves.
"""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import replace
from math import exp, lgamma
from typing import NamedTuple

import numpy as np

from tarbox.service.knowledge_base import KnowledgeBase

LEAST, MOST = 10, 200
"""The sizes of lists."""


class PlainTest(NamedTuple):
    """A term with k of n and K of N genes, its p-value and its Benjamini-Hochberg q-value."""

    term: str
    k: int
    n: int
    size: int
    population: int
    p: float
    q: float


class SetOracle:
    """The terms of every annotated gene, by IRI; `population` are those that a list is drawn from."""

    def __init__(self, kb: KnowledgeBase, kind: str = "Gene") -> None:
        self.terms_of = annotations(kb)
        wanted = {thing.iri for thing in kb.members(kind)}
        self.population = sorted(wanted & self.terms_of.keys())

    def test(self, members: list[str], within: list[str] | None = None) -> list[PlainTest]:
        """Every term of the annotated population, the least p-value first."""
        population = [one for one in (within or self.population) if one in self.terms_of]
        drawn = set(members) & set(population)
        sizes: dict[str, int] = defaultdict(int)
        inside: dict[str, int] = defaultdict(int)
        for gene in population:
            for term in self.terms_of[gene]:
                sizes[term] += 1
                inside[term] += gene in drawn
        n, total = len(drawn), len(population)
        tested = sorted((tail(inside[term], sizes[term], n, total), term) for term in sizes)
        found: list[PlainTest] = []
        least = 1.0
        for rank in range(len(tested), 0, -1):
            p, term = tested[rank - 1]
            least = min(least, p * len(tested) / rank)
            found.append(PlainTest(term, inside[term], n, sizes[term], total, p, least))
        return found[::-1]


def annotations(kb: KnowledgeBase) -> dict[str, set[str]]:
    """The terms of every annotated entity with all terms above them, by walking up from each."""
    facts = kb.facts
    entities, concepts = list(facts.vocabulary.entities), list(facts.vocabulary.concepts)
    above: dict[str, list[str]] = defaultdict(list)
    for sub, over in zip(facts.subs.tolist(), facts.supers.tolist(), strict=True):
        above[concepts[sub]].append(concepts[over])
    typed: dict[str, list[str]] = defaultdict(list)
    for entity, concept in zip(facts.typed.tolist(), facts.types.tolist(), strict=True):
        typed[entities[entity]].append(concepts[concept])
    closed: dict[str, set[str]] = {}

    def walk(concept: str) -> set[str]:
        if concept not in closed:
            seen, waiting = {concept}, [concept]
            while waiting:
                new = [over for over in above[waiting.pop()] if over not in seen]
                seen.update(new)
                waiting += new
            closed[concept] = seen
        return closed[concept]

    found: dict[str, set[str]] = defaultdict(set)
    for head, relation, tail_ in zip(facts.heads.tolist(), facts.relations.tolist(), facts.tails.tolist(), strict=True):
        if relation in facts.annotations:
            for concept in typed[entities[tail_]]:
                found[f"<{entities[head]}>"] |= {f"<{over}>" for over in walk(concept)}
    return dict(found)


def tail(k: int, size: int, n: int, population: int) -> float:
    """P(X >= k), term by term."""
    if k <= 0:
        return 1.0

    def choose(a: int, b: int) -> float:
        return lgamma(a + 1) - lgamma(b + 1) - lgamma(a - b + 1)

    whole = choose(population, n)
    terms = range(k, min(size, n) + 1)
    return min(1.0, sum(exp(choose(size, i) + choose(population - size, n - i) - whole) for i in terms))


def random_lists(oracle: SetOracle, count: int, seed: int = 0) -> list[list[str]]:
    """Lists without a meaning, of `LEAST` to `MOST` genes."""
    draw = random.Random(seed)
    return [draw.sample(oracle.population, draw.randint(LEAST, MOST)) for _ in range(count)]


def share_with_a_finding(kb: KnowledgeBase, lists: list[list[str]], level: float = 0.05) -> float:
    """Of the lists: how many have a concept with a q-value below the level."""
    firsts = [min((concept.q_value or 0.0) for concept in kb.describe_set(each).concepts) for each in lists]
    return sum(q < level for q in firsts) / len(lists)


class HiddenTerms(NamedTuple):
    """The genes of a disease, and the terms that the disease itself is annotated with, which nothing tells."""

    disease: str
    genes: list[str]
    terms: set[str]


def disease_lists(kb: KnowledgeBase, oracle: SetOracle, relation: str, count: int) -> list[HiddenTerms]:
    """The `count` diseases with the most annotated genes, `LEAST` to `MOST` of them, with their own terms."""
    facts, links = kb.facts, kb.facts.relations == kb.relations.id(relation)
    known, genes = set(oracle.population), defaultdict(set)
    for head, other in zip(facts.heads[links].tolist(), facts.tails[links].tolist(), strict=True):
        if kb.entities.at(head).iri in known:
            genes[kb.entities.at(other).iri].add(kb.entities.at(head).iri)
    ordered = sorted(genes, key=lambda disease: (-len(genes[disease]), disease))
    fitting = [each for each in ordered if LEAST <= len(genes[each]) <= MOST and each in oracle.terms_of]
    return [HiddenTerms(each, sorted(genes[each]), direct_terms(kb, each)) for each in fitting[:count]]


def direct_terms(kb: KnowledgeBase, entity: str) -> set[str]:
    """The terms that an entity is annotated with, without those above them."""
    own = (each for each in kb.assertions(entity) if each[0].iri == entity)
    return {term.iri for _, relation, term in own if relation.id in kb.facts.annotations}


def hide_records(kb: KnowledgeBase, lists: list[HiddenTerms]) -> KnowledgeBase:
    """The same without what the diseases' own records say of their genes: annotations that no other disease has."""
    facts, attributes = kb.facts, kb.attributes
    assert attributes is not None
    hidden, keep = {each.disease for each in lists}, np.ones(len(facts.heads), np.bool_)
    genes = {kb.entities.id(gene) for each in lists for gene in each.genes}
    for row in np.flatnonzero(np.isin(facts.heads, list(genes)) & np.isin(facts.relations, facts.annotations)).tolist():
        fact = int(facts.heads[row]), int(facts.relations[row]), int(facts.tails[row])
        sources = attributes.of(*fact).get("disease", ())
        keep[row] = not sources or any(kb.entities[name].iri not in hidden for name in sources if name in kb.entities)
    columns = {name: getattr(facts, name)[keep] for name in ("heads", "relations", "tails", "splits")}
    return KnowledgeBase(replace(facts, **columns, inferred=None), kb.title)


def add_noise(lists: list[HiddenTerms], oracle: SetOracle) -> list[HiddenTerms]:
    """As many random genes in each list as it has."""
    draw = random.Random(1)
    return [each._replace(genes=each.genes + draw.sample(oracle.population, len(each.genes))) for each in lists]


def first_hidden(ordered: list[str], hidden: set[str]) -> int:
    """The rank of the first hidden term; 0 where none is listed."""
    return next((rank for rank, term in enumerate(ordered, start=1) if term in hidden), 0)


def rank_hidden(kb: KnowledgeBase, oracle: SetOracle, lists: list[HiddenTerms]) -> list[tuple[int, int]]:
    """For each list the rank of its first hidden term by us and by the oracle."""
    return [
        (
            first_hidden([concept.iri for concept in kb.describe_set(each.genes).concepts], each.terms),
            first_hidden([test.term for test in oracle.test(each.genes)], each.terms),
        )
        for each in lists
    ]
