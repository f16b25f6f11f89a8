"""Predicted subsumptions: which direct super-concepts of a concept are probably missing, and how probably.

Concepts are compared by what is known of them: what lies above and below, links to other concepts by axioms, instances,
and the words of their labels. Those that share much are neighbours; a candidate is a neighbour or a super-concept of
one. The features of a candidate need no link predictor, so hold-out fitting costs no training: a share of the direct
subsumptions is held out, and a network from features to probabilities is fitted to them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np
import torch

from tarbox.execution.compilation import compiled
from tarbox.kb.arrays import Flags, Floats, Ids, Keys, Places
from tarbox.kb.axioms import Axiom, class_links
from tarbox.kb.closure import Hierarchy
from tarbox.kb.facts import Facts
from tarbox.kb.rows import Rows, contains, distinct, pair_keys
from tarbox.models.credo.kernels import share_out
from tarbox.models.credo.neighbours import Adjacency, Neighbours, SharedLinks
from tarbox.models.credo.network import complete, fit_probabilities
from tarbox.models.credo.probabilities import LEAST_KEPT
from tarbox.models.learning.progress import TellShare, unheard, watched, within

_BY: Final = 32
"""Neighbours of a kind that are candidates, and whose super-concepts are."""
_COMPARED: Final = 256
"""Attributes of a concept that are looked for among those of another."""
_AT_ONCE: Final = 1 << 14
"""Concepts whose candidates are described at a time."""
_FITTED: Final = 1 << 16
"""Concepts whose candidates calibration is fitted to, about; they are drawn evenly where there are more."""


@final
@dataclass(frozen=True, slots=True)
class Attributes:
    """What concepts have, as a matrix [C, A] of ones; an attribute that n of C concepts have weighs log(C / n)."""

    having: Rows
    weights: Floats
    totals: Floats

    @classmethod
    def of(cls, concepts: Ids | Places, keys: Keys, size: int) -> Attributes:
        """From pairs of a concept and any number that stands for an attribute."""
        names, columns = np.unique(keys, return_inverse=True)
        having = Rows.of(concepts.astype(np.int32), columns.astype(np.int32), size, len(names))
        counts = np.bincount(having.columns, minlength=len(names))
        weights = np.log(max(size, 1) / counts).astype(np.float32)
        rows, own = having.coordinates()
        return cls(having, weights, np.bincount(rows, weights[own], size).astype(np.float32))

    def neighbours(self, tree: Hierarchy) -> Neighbours:
        """The concepts that share most, with what is directly above each and with all that is."""
        rows, columns = self.having.coordinates()
        direct, every = (
            Adjacency.of(lower.astype(np.int64), upper)
            for lower, upper in (tree.parents.coordinates(), tree.ancestors.coordinates())
        )
        width = max(len(tree), 1)
        shared = SharedLinks.of(Adjacency.of(columns.astype(np.int64), rows), width)
        return Neighbours(shared.nearest(np.arange(width, dtype=np.int32)), direct, every, width)


@final
@dataclass(frozen=True, slots=True)
class ConceptGraph:
    """What is known of the concepts of a knowledge base.

    `links` of a concept are those that axioms say of all its members, each to its filler and to all above that.
    `by_place` are neighbours by what lies above and below, links and instances, `by_words` those by words.
    """

    tree: Hierarchy
    children: Rows
    instances: Rows
    above: Attributes
    links: Attributes
    words: Attributes
    by_place: Neighbours
    by_words: Neighbours

    @classmethod
    def of(cls, facts: Facts, axioms: Iterable[Axiom]) -> ConceptGraph:
        size = len(facts.vocabulary.concepts)
        tree = Hierarchy.of(facts.subs, facts.supers, size)
        lower, upper = tree.ancestors.coordinates()
        strict = tree.group[lower] != tree.group[upper]
        lower, upper = lower[strict], upper[strict]
        heads, relations, fillers = find_links(facts, axioms)
        origin, reached = tree.ancestors.gather(fillers)
        linked, links = heads[origin], pair_keys(relations[origin], reached, size)
        below, over = tree.parents.coordinates()
        back = pair_keys(relations, heads, size)
        entities, described = facts.descriptions()
        others = np.ones(len(entities), np.bool_)
        others[: len(facts.typed)] = ~facts.term_typings()
        places = _join(
            (lower, upper), (over, below), (linked, links), (fillers, back), (described[others], entities[others])
        )
        words = words_of(facts)
        return cls(
            tree,
            tree.parents.transpose(size),
            tree.close(entities, described, len(facts.vocabulary.entities)).transpose(size),
            Attributes.of(lower, upper.astype(np.int64), size),
            Attributes.of(linked, links, size),
            words,
            Attributes.of(*places, size).neighbours(tree),
            words.neighbours(tree),
        )

    def candidates(self, own: Places) -> tuple[Places, Places]:
        """(concepts, what may be directly above them): not known to be above, nor to be below, which would make them
        equivalent."""
        size, found = len(self.tree), [np.empty(0, np.int64)]
        for neighbours in (self.by_place, self.by_words):
            origin, others = _strongest(neighbours.similar, own)
            through, parents = self.tree.parents.gather(others)
            found += [pair_keys(own[origin], others, size), pair_keys(own[origin[through]], parents, size)]
        keys = distinct(np.concatenate(found))
        for known in (self.tree.ancestors, self.tree.descendants):
            origin, columns = known.gather(own)
            keys = keys[~contains(pair_keys(own[origin], columns, size), keys)]
        lower, upper = np.divmod(keys, max(size, 1))
        return lower, upper


def find_links(facts: Facts, axioms: Iterable[Axiom]) -> tuple[Ids, Ids, Ids]:
    """(concepts, relations, fillers)"""
    names = facts.vocabulary.concepts, facts.vocabulary.relations, facts.vocabulary.concepts
    numbers = [{iri: row for row, iri in enumerate(each)} for each in names]
    found = [[own.get(name, -1) for own, name in zip(numbers, link, strict=True)] for link in class_links(axioms)]
    table = np.array(found, np.int32).reshape(-1, 3)
    heads, relations, fillers = table[(table >= 0).all(1)].T
    return heads, relations, fillers


def _join(*parts: tuple[Ids, Ids | Keys]) -> tuple[Ids, Keys]:
    """Pairs of concepts and attributes of several kinds, numbered apart."""
    shifts = np.cumsum([0, *(int(keys.max(initial=-1)) + 1 for _, keys in parts)])
    shifted = [keys.astype(np.int64) + shift for (_, keys), shift in zip(parts, shifts[:-1], strict=True)]
    return np.concatenate([concepts for concepts, _ in parts]), np.concatenate(shifted)


def words_of(facts: Facts) -> Attributes:
    """The words of the labels of concepts, or of their names."""
    names, numbers = facts.vocabulary.concepts, dict[str, int]()
    found = [
        (row, numbers.setdefault(word, len(numbers)))
        for row in range(len(names))
        for word in sorted(set(names.words(row)))
    ]
    rows, columns = np.array(found, np.int64).reshape(-1, 2).T
    return Attributes.of(rows, columns, len(names))


def _strongest(similar: Rows, rows: Places) -> tuple[Places, Ids]:
    """(places in `rows`, the most similar of each)"""
    origin, places = similar.places(rows)
    order = np.lexsort((-similar.values[places], origin))
    sizes = similar.sizes()[rows]
    chosen = order[np.arange(len(origin)) - np.repeat(np.cumsum(sizes) - sizes, sizes) < _BY]
    return origin[chosen], similar.columns[places[chosen]]


@final
@dataclass(frozen=True, slots=True)
class SubsumptionView:
    """Candidate subsumptions, [N] each: `upper` may be directly above `lower`."""

    graph: ConceptGraph
    lower: Places
    upper: Places

    def voted(self, neighbours: Neighbours) -> Floats:
        """[N, 3] the similarity of the neighbours of the lower one that are directly below the upper one, its share of
        all, and the share of those that are anywhere below it."""
        direct = neighbours.of_links(np.zeros(len(self.lower), np.int64), self.lower, self.upper)
        every = neighbours.of_typings(self.lower, self.upper)
        return np.concatenate([direct, every[:, 1:]], axis=1)

    def covered(self, attributes: Attributes) -> Floats:
        """[N, 2] the shares of what the lower one has, and of what the upper one has, that both have."""
        shared = _sum_shared(attributes.having, attributes.weights, self.lower, self.upper)
        found = [shared / (attributes.totals[own] + np.float32(0.1)) for own in (self.lower, self.upper)]
        return np.stack(found, axis=1)

    def instances(self) -> Floats:
        """[N] the share of the instances of the lower one that the upper one has, as if it had one more."""
        rows = self.graph.instances
        found = _sum_shared(rows, np.ones(int(rows.columns.max(initial=0)) + 1, np.float32), self.lower, self.upper)
        found /= rows.sizes()[self.lower] + 1
        return found

    def sizes(self) -> Floats:
        """[N, 7] how much lies above and below each of them, and how deep they lie."""
        tree, children, depth = self.graph.tree, self.graph.children.sizes(), self.graph.tree.depth
        parents = tree.parents.sizes()[self.lower]
        found = (
            np.log1p(children[self.upper]),
            np.log1p(tree.descendants.sizes()[self.upper]),
            np.log1p(children[self.lower]),
            np.minimum(parents, 4),
            parents == 0,
            depth[self.upper],
            depth[self.upper] - depth[self.lower],
        )
        return np.stack(found, axis=1).astype(np.float32)


SUBSUMPTION_FEATURES: Final[Mapping[str, Callable[[SubsumptionView], Any]]] = {
    "neighbours by place": lambda view: view.voted(view.graph.by_place),
    "neighbours by words": lambda view: view.voted(view.graph.by_words),
    "what is above both": lambda view: view.covered(view.graph.above),
    "links of both": lambda view: view.covered(view.graph.links),
    "words of both": lambda view: view.covered(view.graph.words),
    "instances of both": lambda view: view.instances()[:, None],
    "sizes": lambda view: view.sizes(),
}


def _sum_shared(having: Rows, weights: Floats, lower: Places, upper: Places) -> Floats:
    """[N] the weight of what both of two concepts have."""
    out = np.zeros(len(lower), np.float32)
    table = having.offsets, having.columns
    share_out(lambda rows: sum_shared(table, weights, (lower[rows], upper[rows]), out[rows]), len(out), 1 << 16)
    return out


@compiled
def sum_shared(having: Any, weights: Any, pairs: Any, out: Any) -> None:
    """[N] the weight of the columns that rows i and j share, for pairs (i, j); of a row i of many columns some, drawn
    evenly, stand for all."""
    starts, columns = having
    for number in range(len(out)):
        first, end = starts[pairs[0][number]], starts[pairs[0][number] + 1]
        others = columns[starts[pairs[1][number]] : starts[pairs[1][number] + 1]]
        step = 1 + (end - first) // _COMPARED
        for place in range(first, end, step):
            found = np.searchsorted(others, columns[place])
            if found < len(others) and others[found] == columns[place]:
                out[number] += step * weights[columns[place]]


def predict_subsumptions(
    facts: Facts, axioms: Iterable[Axiom], share: float, seed: int, device: torch.device, tell: TellShare = unheard
) -> Rows:
    """[C, C] the probabilities that a direct subsumption is missing; `share` of those known fit them."""
    size, stated = len(facts.vocabulary.concepts), list(axioms)
    kept = keep_subsumptions(facts, seed, share)
    held_out = np.sort(pair_keys(facts.subs[~kept], facts.supers[~kept], size))
    if not len(held_out):
        return Rows.of_keys(np.empty(0, np.int64), size, size, np.empty(0, np.float32))
    some = _candidates(ConceptGraph.of(facts.with_subsumptions(kept), stated), 1 + size // _FITTED)
    found = list(watched(some, lambda key: key // size / size, within(tell, 0.0, 0.4)))
    keys, features = (np.concatenate(part) for part in zip(*found, strict=True))
    network = fit_probabilities(features, contains(held_out, keys), seed, device, within(tell, 0.4, 0.6))
    again = _candidates(ConceptGraph.of(facts, stated))
    every = watched(again, lambda key: key // size / size, within(tell, 0.6, 1.0))
    likely = [(keys, complete(network.apply(features))) for keys, features in every]
    keys, degrees = (np.concatenate(part) for part in zip(*likely, strict=True))
    chosen = degrees >= LEAST_KEPT
    return Rows.of_keys(keys[chosen], size, size, degrees[chosen])


def _candidates(graph: ConceptGraph, step: int = 1) -> Iterator[tuple[Keys, Floats]]:
    """(keys, features) of the candidates of every concept, or of one in so many; some concepts at a time."""
    size = len(graph.tree)
    for start in range(0, size, step * _AT_ONCE):
        view = SubsumptionView(graph, *graph.candidates(np.arange(start, min(start + step * _AT_ONCE, size), step)))
        features = np.concatenate([function(view) for function in SUBSUMPTION_FEATURES.values()], axis=1)
        yield pair_keys(view.lower, view.upper, size), features.astype(np.float32)


def keep_subsumptions(facts: Facts, seed: int, share: float) -> Flags:
    """[S] false for about this share of the subsumptions that a source states and that do not follow from others."""
    tree = Hierarchy.of(facts.subs, facts.supers, len(facts.vocabulary.concepts))
    kept = np.random.default_rng([seed, 4]).random(len(facts.subs)) >= share
    below, above = tree.group[facts.subs].astype(np.int64), tree.group[facts.supers].astype(np.int64)
    _, pair, told = np.unique(pair_keys(below, above, len(tree)), return_inverse=True, return_counts=True)
    kept |= ~tree.most_specific(facts.subs, facts.supers) | (below == above) | (told[pair] > 1)
    return kept if facts.inferred is None else kept | facts.inferred.subsumptions
