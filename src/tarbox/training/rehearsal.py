"""How Credo learns what to believe: by a rehearsal.

A share of the known facts is hidden and a link predictor trained on the rest. What it proposes is compared with what was
hidden: that fits the calibrators, and queries with their answers before and after hiding fit the ranking of concepts.
The predictor that is kept is trained on all facts; the calibrators and the ranking carry over.
"""

# ruff: noqa: N803 (shape suffixes, see STYLE.md)

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from tarbox.benchmark.options import EVALUATION_ONLY, BenchmarkOptions
from tarbox.benchmark.sampling import Ground, Task, sample_task
from tarbox.execution.exact import answer_rows
from tarbox.execution.graph import Index
from tarbox.kb.closure import Instances
from tarbox.kb.facts import Facts, Ids
from tarbox.models.beliefs import LEAST, Beliefs
from tarbox.models.calibration import Calibrator, Fit, fit_calibrator, fit_network
from tarbox.models.complex import Complex
from tarbox.models.credo import Credo, CredoConfig
from tarbox.models.describing import Describer
from tarbox.models.evidence import WIDEST, Evidence, fit_linear
from tarbox.models.proposals import link_features, propose_links, propose_typings
from tarbox.query.algebra import Query
from tarbox.query.templates import TEMPLATES

Floats = NDArray[np.float32]
Keys = NDArray[np.int64]

SHAPES: Final[Mapping[str, Query]] = {
    name: template.shape for name, template in TEMPLATES.items() if name not in EVALUATION_ONLY
}
"""What the ranking is rehearsed with: the templates that models are trained on."""
GROUPS: Final = 50_000
SHORTLIST: Final = 320
"""Concepts of a rehearsed query that the ranking learns from: the strongest, and some at random."""


@final
@dataclass(frozen=True, slots=True)
class Rehearsed:
    """What a rehearsal teaches."""

    links: Calibrator
    typings: Calibrator
    ranking: Calibrator | None


def believe(links: Complex, evidence: Evidence, rehearsed: Rehearsed) -> Beliefs:
    """The facts, and what the predictor proposes with the degrees of the calibrators."""
    triples, sums = propose_links(links, evidence)
    degrees = rehearsed.links.degrees(link_features(links, evidence, triples, sums))
    typings, features = propose_typings(links, evidence)
    strengths = rehearsed.typings.degrees(features)
    held, kept = degrees >= LEAST, strengths >= LEAST
    return Beliefs.of(evidence.facts, evidence.sizes, (triples[held], degrees[held]), (typings[kept], strengths[kept]))


def rehearse(links: Complex, rest: Facts, whole: Facts, config: CredoConfig, seed: int) -> Rehearsed:
    """Fit everything to what was hidden: `links` knows the `rest` of the `whole`."""
    evidence = Evidence.of(rest)
    device = str(links.nodes.device)
    triples, sums = propose_links(links, evidence)
    features = link_features(links, evidence, triples, sums)
    truths = _triples(whole)
    calibrate_links = fit_calibrator(features, np.isin(triples, truths), seed, device)
    typings, about = propose_typings(links, evidence)
    calibrate_typings = fit_calibrator(about, np.isin(typings, _typings(whole)), seed, device)
    degrees, strengths = calibrate_links.degrees(features), calibrate_typings.degrees(about)
    held, kept = degrees >= LEAST, strengths >= LEAST
    beliefs = Beliefs.of(rest, evidence.sizes, (triples[held], degrees[held]), (typings[kept], strengths[kept]))
    reasoner = assemble(rest, beliefs, None, config, seed)
    ranking = fit_ranking(reasoner, whole, config, seed, device) if evidence.sizes.concepts else None
    return Rehearsed(calibrate_links, calibrate_typings, ranking)


def assemble(facts: Facts, beliefs: Beliefs, ranking: Calibrator | None, config: CredoConfig, seed: int) -> Credo:
    index = Index.of(facts)
    return Credo.of(index, beliefs, Describer.of(index, set_weights(index, seed)), ranking, config.ways)


def set_weights(index: Index, seed: int) -> Floats:
    """[2R + C, C] how the concepts of what a relation leads to go together, and with the relation: a linear model over
    the sets that each relation leads to from each entity."""
    graph, concepts, typing = index.graph, index.concepts, index.graph.typing
    last = graph.relation_groups[typing]
    groups = np.arange(last)
    if last > GROUPS:
        groups = np.sort(np.random.default_rng(seed).choice(last, GROUPS, replace=False))
    relations = np.searchsorted(graph.relation_groups, groups, side="right") - 1
    room = max(0, WIDEST - typing)
    kept = np.sort(np.argsort(-index.instances.entities_of.sizes(), kind="stable")[:room])
    column = np.full(concepts, -1, np.int64)
    column[kept] = typing + np.arange(len(kept))
    rows = np.zeros((len(groups), typing + len(kept)), np.uint8)
    rows[np.arange(len(groups)), relations] = 1
    sizes = graph.starts[groups + 1] - graph.starts[groups]
    origin = np.repeat(np.arange(len(groups)), sizes)
    places = np.arange(len(origin)) + np.repeat(graph.starts[groups] - (np.cumsum(sizes) - sizes), sizes)
    member, found = index.instances.concepts_of.gather(graph.members[places])
    inside = column[found] >= 0
    rows[origin[member[inside]], column[found[inside]]] = 1
    fitted = fit_linear(torch.from_numpy(rows)).numpy()
    weights = np.zeros((typing + concepts, concepts), np.float32)
    weights[:typing, kept] = fitted[:typing, typing:]
    weights[typing + kept[:, None], kept] = fitted[typing:, typing:]
    return weights


@final
@dataclass(frozen=True, slots=True)
class Lists:
    """Shortlists of concepts for queries: features [Q, K, F], which are true and which take part at all [Q, K]."""

    features: Floats
    true: NDArray[np.bool_]
    valid: NDArray[np.bool_]


def fit_ranking(reasoner: Credo, whole: Facts, config: CredoConfig, seed: int, device: str) -> Calibrator | None:
    """A network whose logits are calibrated over all rehearsed queries, and put true concepts first in each."""
    parts = list(rehearse_queries(reasoner, whole, config.rehearsed, seed))
    if not parts or not any(part.true.any() for part in parts):
        return None
    lists = Lists(*(np.concatenate([getattr(part, name) for part in parts]) for name in ("features", "true", "valid")))
    true, valid = (torch.from_numpy(array).to(device) for array in (lists.true, lists.valid))

    def loss(logits_BK: torch.Tensor, rows_B: torch.Tensor) -> torch.Tensor:
        right, used = true[rows_B], valid[rows_B]
        each = functional.binary_cross_entropy_with_logits(logits_BK, right.float(), reduction="none")
        pointwise = (each * used).sum() / used.sum()
        share = logits_BK.masked_fill(~used, -torch.inf).log_softmax(1).masked_fill(~right, 0.0)
        asked = right.any(1)
        listwise = -(share.sum(1) / right.sum(1).clamp(min=1))[asked].sum() / asked.sum().clamp(min=1)
        return pointwise + 0.1 * listwise

    start = float(lists.true.sum() / max(lists.valid.sum(), 1))
    hidden = 64 if lists.true.sum() >= 200 else 0
    return fit_network(lists.features, loss, Fit(1500, min(128, len(lists.true)), hidden, start, seed, device))


def rehearse_queries(reasoner: Credo, whole: Facts, count: int, seed: int) -> Iterator[Lists]:
    """Queries of every template, half of them with a concept that was hidden, half as they come."""
    later = Index.of(whole, reasoner.index.facts)
    top = np.zeros(later.concepts, np.bool_)
    top[Instances.of(whole).top_concepts()] = True
    options = BenchmarkOptions(seed=seed, counts=(count, count, count), shapes=SHAPES)
    random = np.random.default_rng(seed)
    for name, shape in SHAPES.items():
        for part, hard in (("train", False), ("valid", True)):
            drawn = sample_task(Task(name, shape, part, count), Ground(later, hard, top), options)
            for start in range(0, len(drawn.ids), 256):
                ids = drawn.ids[start : start + 256][:, :]
                yield shortlist(reasoner, later, shape, ids, top, random)


def shortlist(
    reasoner: Credo, later: Index, shape: Query, ids: Ids, top: NDArray[np.bool_], random: np.random.Generator
) -> Lists:
    """The concepts not known of each query that are most likely, and as many again at random, with their truth."""
    asked = reasoner.ask(shape, ids)
    features, _ = reasoner.describer.describe(asked, reasoner.beliefs)
    size, concepts = features.shape[:2]
    true = np.zeros((size, concepts), np.bool_)
    true[answer_rows(shape, ids, later)[1].coordinates()] = True
    open_ = np.broadcast_to(~top, true.shape).copy()
    open_[asked.concepts.coordinates()] = False
    true &= open_
    width = min(SHORTLIST, concepts)
    strength = features[:, :, 3] + 0.5 * features[:, :, 6] + features[:, :, 7]
    strength = np.where(random.random(strength.shape) < 0.5 * width / concepts, 50.0, strength)
    strength = np.where(open_, np.where(true, 100.0, strength), -100.0)
    chosen = np.argpartition(-strength, width - 1, axis=1)[:, :width]
    rows = np.arange(size)[:, None]
    return Lists(features[rows, chosen], true[rows, chosen], open_[rows, chosen])


def _triples(facts: Facts) -> Keys:
    width = np.int64(len(facts.vocabulary.entities))
    return (facts.relations.astype(np.int64) * width + facts.heads) * width + facts.tails


def _typings(facts: Facts) -> Keys:
    typed, types = Instances.of(facts).concepts_of.coordinates()
    return typed.astype(np.int64) * len(facts.vocabulary.concepts) + types
