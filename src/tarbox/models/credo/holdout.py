"""Hold-out fitting: what makes scores probabilities is fitted on facts that were held out.

Of the facts a share is held out; a link predictor knows the kept ones alone. What it makes of them is compared with the
held-out facts: that fits the calibration of candidate links and typings, and the scores of concepts. All carry over to
the predictor of all facts.
"""

# ruff: noqa: N803, N806 (shape suffixes)

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from tarbox.benchmark.tables import OUTSIDE, QueryTable
from tarbox.core.ids import Level
from tarbox.execution.exact import answer_rows
from tarbox.execution.graph import Index
from tarbox.kb.arrays import Flags, Floats, Ids, Keys
from tarbox.kb.closure import Instances
from tarbox.kb.facts import Facts
from tarbox.kb.rows import TripleKeys, contains, pair_keys, unordered_keys
from tarbox.models.complex import Complex
from tarbox.models.credo.candidates import Candidates, Scope, Totals, candidate_links, candidate_typings
from tarbox.models.credo.concepts import CONCEPT_FEATURES
from tarbox.models.credo.evidence import Evidence, KeyCounts
from tarbox.models.credo.features import LINK_FEATURES, TYPING_FEATURES
from tarbox.models.credo.model import Credo
from tarbox.models.credo.network import Fitting, Network, complete, fit_effects, fit_network, fit_probabilities
from tarbox.models.credo.probabilities import LEAST_KEPT, FactProbabilities
from tarbox.models.credo.queries import QueryGraph, draw_queries
from tarbox.models.learning.progress import TellShare, unheard, watched, within
from tarbox.query.algebra import Query
from tarbox.query.templates import TEMPLATES

SHAPES: Final[Mapping[str, Query]] = {name: TEMPLATES[name].shape for name in ("1p", "2p", "3p", "2i", "3i")}
"""What concept scores are fitted on."""
_SAMPLES: Final = 4_000_000
"""Candidates that calibration is fitted to, about, and that are held in memory."""
_CONCEPTS: Final = 4_000_000
"""The queries of a shape times the concepts, about, but not with fewer than `_FEWEST` queries."""
_FEWEST: Final = 60
_TOLD_BY: Final = 20
"""Of the links asked for, so many would join entities that are joined already, if facts were missing one by one: fewer
do not tell what is missing."""
_BLOCK: Final = 64
_LINKS, _LISTS = 0.8, 0.7
"""Of the time for calibration or predictions, that for links; of that for the ranking, that for its lists, about."""
_ALL_KEYS: Final = 1 << 62
RANKING_UNITS: Final = 16
"""Of a hidden layer of the ranking of concepts: larger ones fit the queries they see, and do worse for others."""
LISTWISE: Final = 0.1
"""The weight of putting true concepts first, beside that of calibrated probabilities."""
_SHORTLIST: Final = 320
"""Concepts of a query that the ranking learns from: the strongest, and some at random."""


@final
@dataclass(frozen=True, slots=True)
class Predicted:
    """(keys, probabilities) of links and of typings that are not known, and the totals of the questions asked."""

    links: tuple[Keys, Floats]
    typings: tuple[Keys, Floats]
    totals: Totals


@final
@dataclass(frozen=True, slots=True)
class FactCalibration:
    """From candidates to probabilities."""

    links: Network
    typings: Network

    def predict(
        self, predictor: Complex, evidence: Evidence, scope: Scope | None = None, tell: TellShare = unheard
    ) -> Predicted:
        """What the predictor makes of the facts, or of what has changed."""
        totals: list[Floats] = []
        found, span = candidate_links(predictor, evidence, scope=scope, totals=totals), evidence.sizes.entities**2
        links = _apply(self.links, watched(found, _links_done(evidence), within(tell, 0.0, _LINKS)), complete, span)
        typed = candidate_typings(predictor, evidence, scope=scope)
        typings = _apply(self.typings, watched(typed, _typings_done(evidence), within(tell, _LINKS, 1.0)), complete)
        return Predicted(links, typings, Totals.of(totals))


def _apply(
    network: Network, found: Iterable[Candidates], change: Callable[[Floats], Floats], span: int = _ALL_KEYS
) -> tuple[Keys, Floats]:
    """(keys, probabilities) of the candidates that are kept, where so many keys are of one relation."""
    keys, degrees = [np.empty(0, np.int64)], [np.empty(0, np.float32)]
    for own, features in found:
        likely = change(network.apply(features, own // span))
        kept = likely >= LEAST_KEPT
        keys.append(own[kept])
        degrees.append(likely[kept])
    return np.concatenate(keys), np.concatenate(degrees)


@final
@dataclass(frozen=True, slots=True)
class HeldOut:
    """All facts, and the kept ones: the others are held out."""

    whole: Facts
    kept: Facts

    def true_links(self) -> Keys:
        facts = self.whole
        codec = TripleKeys(max(len(facts.vocabulary.entities), 1))
        return np.sort(codec.encode(facts.relations, facts.heads, facts.tails))

    def lost(self) -> Flags:
        """[A] which of all assertions are held out."""
        codec = TripleKeys(max(len(self.whole.vocabulary.entities), 1))
        whole, kept = (codec.encode(part.relations, part.heads, part.tails) for part in (self.whole, self.kept))
        return ~contains(np.sort(kept), whole)

    def true_typings(self) -> Keys:
        typed, types = Instances.of(self.whole).concepts_of.coordinates()
        return pair_keys(typed, types, len(self.whole.vocabulary.concepts))


def asks_for_unjoined(facts: Facts, valid: QueryTable) -> bool:
    """Whether the questions of one hop ask for links between entities that no fact joins, as if all facts between two
    entities were missing together: they are joined far more rarely than those of a fact are by another one (ADR 63)."""
    width, keys = len(facts.vocabulary.entities), [np.empty(0, np.int64)]
    for batch in valid.batches():
        if batch.level is Level.ENTITY and batch.shape == SHAPES["1p"]:
            known = batch.targets.values != OUTSIDE
            asked, targets = batch.ids[batch.targets.owners(), 1], batch.targets.values
            keys.append(unordered_keys(asked[known], targets[known], width))
    joined = KeyCounts.of(unordered_keys(facts.heads, facts.tails, width))
    found = joined[np.concatenate(keys)] > 0
    usual = len(found) * joined.counts[joined.counts > 1].sum() / max(len(facts.heads), 1)
    return bool(usual >= _TOLD_BY and found.sum() < usual / 4)


def sampled_share(true: int) -> float:
    """The share of the candidates that calibration is fitted to, where so many facts are true."""
    return min(1.0, _SAMPLES / (16.0 * max(true, 1)))


def _links_done(evidence: Evidence) -> Callable[[int], float]:
    """Which share of the candidate links is made when that of a key is: each relation's share of the assertions."""
    facts, span = evidence.facts, max(evidence.sizes.entities, 1) ** 2
    upto = np.cumsum(np.bincount(facts.relations, minlength=evidence.sizes.relations)) / max(len(facts.relations), 1)
    return lambda key: float(upto[key // span])


def _typings_done(evidence: Evidence) -> Callable[[int], float]:
    """The same of typings: the share of the entities."""
    return lambda key: (1 + key // evidence.sizes.concepts) / evidence.sizes.entities


@final
class _FactKind(NamedTuple):
    """Links, or typings: what finds their candidates, the true ones, the number of features; groups with effects of
    their own, and how many keys each has."""

    find: Callable[..., Iterator[Candidates]]
    true: Keys
    width: int
    groups: int
    span: int
    done: Callable[[int], float]

    def fit(
        self, predictor: Complex, evidence: Evidence, seed: int, tell: TellShare
    ) -> tuple[Network, tuple[Keys, Floats]]:
        """(the calibration, the probabilities of all candidates)"""
        share = sampled_share(len(self.true))
        found = watched(self.find(predictor, evidence, share), self.done, within(tell, 0.0, 0.5))
        sample = [(np.empty(0, np.int64), np.empty((0, self.width), np.float32)), *found]
        keys, features = (np.concatenate([part[place] for part in sample]) for place in (0, 1))
        del sample
        labels = contains(self.true, keys)
        network = fit_probabilities(features, labels, seed, predictor.nodes.device, within(tell, 0.5, 0.7))
        if self.groups:
            effects = fit_effects(network.logits(features), labels, keys // self.span, self.groups)
            network = replace(network, effects=effects)
        again: Iterable[Candidates] = [(keys, features)]
        if share < 1:
            again = watched(self.find(predictor, evidence), self.done, within(tell, 0.7, 1.0))
        return network, _apply(network, again, lambda degrees: degrees, self.span)


def fit_calibration(
    predictor: Complex, evidence: Evidence, facts: HeldOut, seed: int, tell: TellShare = unheard
) -> tuple[FactCalibration, FactProbabilities]:
    """(the calibration, the probabilities on the kept facts) of a predictor that knows the kept facts."""
    relations, span = evidence.sizes.relations, evidence.sizes.entities**2
    links, typings = (
        _FactKind(candidate_links, facts.true_links(), len(LINK_FEATURES), relations, span, _links_done(evidence)),
        _FactKind(candidate_typings, facts.true_typings(), len(TYPING_FEATURES), 0, _ALL_KEYS, _typings_done(evidence)),
    )
    of_links, found = links.fit(predictor, evidence, seed, within(tell, 0.0, _LINKS))
    of_typings, typed = typings.fit(predictor, evidence, seed, within(tell, _LINKS, 1.0))
    probabilities = FactProbabilities.of(evidence.facts, evidence.sizes, found, typed)
    return FactCalibration(of_links, of_typings), probabilities


@final
@dataclass(frozen=True, slots=True)
class FittingQueries:
    """By shape: queries as they come, and queries that lost an answer with the facts held out."""

    usual: Sequence[tuple[Query, Ids]]
    lacking: Sequence[tuple[Query, Ids]]
    later: Index

    @classmethod
    def of(cls, reasoner: Credo, facts: HeldOut, count: int, seed: int) -> FittingQueries:
        """At most `count` of each shape: fewer where there are so many concepts that their work would grow."""
        count = min(count, max(_FEWEST, _CONCEPTS // max(reasoner.index.concepts, 1)))
        later = Index.of(facts.whole, facts.kept)
        random = np.random.default_rng([seed, 3])
        graph = QueryGraph.of(later.graph)
        ends = _held_out_ends(facts)
        usual, lacking = [], []
        for shape in SHAPES.values():
            usual.append((shape, draw_queries(shape, graph, count, random)))
            drawn = draw_queries(shape, graph, 2 * count, random, ends)
            before, after = (answer_rows(shape, drawn, index) for index in (reasoner.index, later))
            lost = (after[1].sizes() > before[1].sizes()) | (after[0].sizes() > before[0].sizes())
            lacking.append((shape, drawn[lost][:count]))
        return cls(usual, lacking, later)


def _held_out_ends(facts: HeldOut) -> tuple[Ids, Ids, Ids]:
    """(entity, directed relation, other) of the held-out links, seen from both ends."""
    lost = facts.lost()
    relation, head, tail = (column[lost] for column in (facts.whole.relations, facts.whole.heads, facts.whole.tails))
    both = (
        np.concatenate([head, tail]),
        np.concatenate([2 * relation, 2 * relation + 1]),
        np.concatenate([tail, head]),
    )
    return both[0].astype(np.int32), both[1].astype(np.int32), both[2].astype(np.int32)


@final
@dataclass(frozen=True, slots=True)
class ConceptLists:
    """Concepts of queries: features [Q, K, F], which are true and which take part at all [Q, K].

    `weights` [Q, K] is how many concepts each stands for: 0 where it is there because it is true, which says nothing
    about how often such a concept is, and 0 in queries that were chosen because they lack an answer.
    """

    features: Floats
    true: Flags
    used: Flags
    weights: Floats


def fit_ranking(
    reasoner: Credo, queries: FittingQueries, seed: int, device: torch.device, tell: TellShare = unheard
) -> Network | None:
    """A network whose probabilities are calibrated over queries as they come, and put true concepts first in all."""
    random = np.random.default_rng(seed)
    blocks = [
        (shape, ids[start : start + _BLOCK], usual)
        for drawn, usual in ((queries.usual, True), (queries.lacking, False))
        for shape, ids in drawn
        for start in range(0, len(ids), _BLOCK)
    ]
    parts = []
    for done, (shape, ids, usual) in enumerate(blocks):
        parts.append(_lists(reasoner, queries.later, shape, ids, (usual, random)))
        tell(_LISTS * done / len(blocks))
    if not any(part.true.any() for part in parts):
        return None
    width = max(int(part.used.sum(1).max(initial=1)) for part in parts)  # what none of the lists fills is left out
    features, true_, used_, weights_ = (
        np.concatenate([getattr(part, name)[:, :width] for part in parts])
        for name in ("features", "true", "used", "weights")
    )
    true, used, weights = (torch.from_numpy(array).to(device) for array in (true_, used_, weights_))

    def loss(logits_BK: torch.Tensor, rows_B: torch.Tensor) -> torch.Tensor:
        return ranking_loss(logits_BK, true[rows_B], used[rows_B], weights[rows_B])

    batch, heard = min(96, len(features)), within(tell, _LISTS, 1.0)
    return fit_network(features, true_, loss, Fitting(1000, batch, RANKING_UNITS, seed, device, heard))


def ranking_loss(
    logits_BK: torch.Tensor, true_BK: torch.Tensor, used_BK: torch.Tensor, weights_BK: torch.Tensor
) -> torch.Tensor:
    """Cross entropy of each concept by its weight, and of the true ones of each list in the softmax over it."""
    each = functional.binary_cross_entropy_with_logits(logits_BK, true_BK.float(), reduction="none")
    pointwise = (each * weights_BK).sum() / weights_BK.sum().clamp(min=1)
    share_BK = logits_BK.masked_fill(~used_BK, -1e9).log_softmax(1).masked_fill(~true_BK, 0.0)
    asked_B = true_BK.any(1)
    listwise = -(asked_B * share_BK.sum(1) / true_BK.sum(1).clamp(min=1)).sum() / asked_B.sum().clamp(min=1)
    return pointwise + LISTWISE * listwise


def _lists(
    reasoner: Credo, later: Index, shape: Query, ids: Ids, drawn: tuple[bool, np.random.Generator]
) -> ConceptLists:
    """For each query the concepts not known that are strongest, some of the others at random, and all true ones."""
    usual, random = drawn
    evidence = reasoner.features.describe(reasoner.ask(shape, ids), reasoner.probabilities)
    truth = answer_rows(shape, ids, later)[1]
    names = list(CONCEPT_FEATURES)
    terms = [
        weight * evidence.features[:, names.index(name)]
        for name, weight in (("noisy-or of all proofs", 1.0), ("prior", 0.5), ("linear model of sets", 1.0))
    ]
    strength: Floats = np.sum(terms, axis=0)
    size = len(ids)
    found = ConceptLists(
        np.zeros((size, _SHORTLIST, len(names)), np.float32),
        np.zeros((size, _SHORTLIST), np.bool_),
        np.zeros((size, _SHORTLIST), np.bool_),
        np.zeros((size, _SHORTLIST), np.float32),
    )
    for row in range(size):
        own = np.arange(evidence.concepts.offsets[row], evidence.concepts.offsets[row + 1])
        own = own[~evidence.known[own]]
        true = np.isin(evidence.concepts.columns[own], truth[row], assume_unique=True)
        chosen, weights = _choose(strength[own], true, random)
        count = len(chosen)
        found.features[row, :count] = evidence.features[own[chosen]]
        found.true[row, :count] = true[chosen]
        found.used[row, :count] = True
        found.weights[row, :count] = weights * usual
    return found


def _choose(strength: Floats, true: Flags, random: np.random.Generator) -> tuple[NDArray[np.int64], Floats]:
    """(places of concepts, how many each stands for): half the strongest, others at random, then what is true."""
    count = len(strength)
    if count <= _SHORTLIST:
        return np.arange(count), np.ones(count, np.float32)
    half = _SHORTLIST // 2
    strongest = np.zeros(count, np.bool_)
    strongest[np.argpartition(-strength, half)[:half]] = True
    share = _SHORTLIST / (4 * count)
    drawn = ~strongest & (random.random(count) < share)
    order = np.select([strongest, drawn, true], [3.0, 2.0, 1.0], 0.0) + 0.5 * random.random(count)
    chosen = np.argpartition(-order, _SHORTLIST - 1)[:_SHORTLIST]
    weights = np.where(strongest, 1.0, np.where(drawn, 1.0 / share, 0.0)).astype(np.float32)
    return chosen, weights[chosen]
