"""How Credo learns what to believe: by a rehearsal.

A share of the known facts is hidden and a link predictor trained on the rest. What it proposes is compared with what
was hidden: that fits the calibrators, and queries with their answers before and after hiding fit the ranking of
concepts and what makes degrees probabilities. The predictor that is kept is trained on all facts; what was fitted
carries over.
"""

# ruff: noqa: N803, N806 (shape suffixes, see STYLE.md)

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Final, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from tarbox.benchmark.calibration import MOST_HARD_ANSWERS as MOST_ANSWERS
from tarbox.benchmark.options import EVALUATION_ONLY, BenchmarkOptions
from tarbox.benchmark.sampling import SamplingGraph as Ground
from tarbox.benchmark.sampling import SamplingTask as Task
from tarbox.benchmark.sampling import sample_task
from tarbox.benchmark.tables import QueryTable, render_shape
from tarbox.core.ids import Level
from tarbox.execution.exact import answer_rows
from tarbox.execution.graph import Index
from tarbox.kb.closure import Instances
from tarbox.kb.facts import Facts, Ids
from tarbox.models.calibration import ENOUGH, Calibrator, Fit, fit_calibrator, fit_network, logit
from tarbox.models.complex import Complex
from tarbox.models.credo import Credo, CredoConfig
from tarbox.models.describing import Describer
from tarbox.models.evidence import WIDEST, Evidence, fit_linear
from tarbox.models.probabilities import LEAST, FactProbabilities
from tarbox.models.proposals import link_features, propose_links, propose_typings
from tarbox.models.tempering import Temper
from tarbox.query.algebra import Query
from tarbox.query.templates import TEMPLATES
from tarbox.training.abduction import Told
from tarbox.training.tempering import Sample, fit_temper, sample_strongest

Floats = NDArray[np.float32]
Keys = NDArray[np.int64]

SHAPES: Final[Mapping[str, Query]] = {
    name: template.shape for name, template in TEMPLATES.items() if name not in EVALUATION_ONLY
}
"""What the ranking is rehearsed with: the templates that models are trained on."""
ONE_HOP: Final = TEMPLATES["1p"].shape
GROUPS: Final = 50_000
BLOCK: Final = 256
DRAWN: Final = 12
"""Training queries looked at for each that is rehearsed: few lose a concept when facts are hidden."""
HIDDEN: Final = 16
"""The units of a layer of the ranking: larger ones fit the rehearsed queries, and do worse for others (ADR 43)."""
LISTWISE: Final = 0.1
"""The weight of putting true candidates first, beside that of calibrated degrees."""
SHORTLIST: Final = 320
"""Concepts of a rehearsed query that the ranking learns from: the strongest, and some at random."""


@final
@dataclass(frozen=True, slots=True)
class Rehearsal:
    """All facts, the rest of them when some are hidden, and the training queries of a benchmark, if there are any."""

    whole: Facts
    rest: Facts
    train: QueryTable | None = None


@final
@dataclass(frozen=True, slots=True)
class Rehearsed:
    """What a rehearsal teaches."""

    links: Calibrator
    typings: Calibrator
    weighing: Temper | None
    ranking: Calibrator | None
    tempers: Mapping[Level, Temper]


def predict(links: Complex, evidence: Evidence, rehearsed: Rehearsed, told: Told | None = None) -> FactProbabilities:
    """The facts, and what the predictor proposes with the degrees of the calibrators. Where the evidence has what
    training queries tell as well, `told` says what of it is known."""
    triples, sums = propose_links(links, evidence)
    degrees = rehearsed.links.degrees(link_features(links, evidence, triples, sums))
    typings, features = propose_typings(links, evidence)
    strengths = rehearsed.typings.degrees(features)
    held, kept = degrees >= LEAST, strengths >= LEAST
    facts, predicted = evidence.facts, (triples[held], degrees[held])
    if told is not None:
        facts, added = told.facts, told.degrees
        predicted = np.concatenate([predicted[0], told.keys]), np.concatenate([predicted[1], added])
    return FactProbabilities.of(facts, evidence.sizes, predicted, (typings[kept], strengths[kept]))


def rehearse(
    links: Complex, lessons: Rehearsal, config: CredoConfig, seed: int, ready: Callable[[], None] = lambda: None
) -> Rehearsed:
    """Fit everything to what was hidden: `links` knows the rest of the whole. `ready` is called before queries are."""
    rest, whole = lessons.rest, lessons.whole
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
    probabilities = FactProbabilities.of(
        rest, evidence.sizes, (triples[held], degrees[held]), (typings[kept], strengths[kept])
    )
    reasoner = assemble(rest, probabilities, None, config, seed)
    later = Index.of(whole, rest)
    ready()
    usual = [(shape, draw_usual(later, shape, config.rehearsed, seed)) for shape in rehearsed_shapes(lessons.train)]
    entities = list(sample_answers(reasoner, later, usual, Level.ENTITY))
    # Of what the rest lacks so much is in the whole, if the whole lacks as great a share as was hidden from it.
    seen = (1 - config.hidden) / (2 - config.hidden)
    tempers: dict[Level, Temper] = {}
    if (temper := fit_temper(entities, seen, seed, device)) is not None:
        reasoner = replace(reasoner, weighing=replace(temper, labelled=seen))
        tempers[Level.ENTITY] = replace(temper, seen=seen)
    if evidence.sizes.concepts:
        lists = list(rehearse_queries(reasoner, lessons, later, usual, config.rehearsed, seed))
        reasoner = replace(reasoner, ranking=fit_lists(lists, seed, device))
        concepts = list(sample_answers(reasoner, later, usual, Level.CONCEPT))
        if (temper := fit_temper(concepts, 1.0, seed, device)) is not None:
            tempers[Level.CONCEPT] = temper
    return Rehearsed(calibrate_links, calibrate_typings, reasoner.weighing, reasoner.ranking, tempers)


def assemble(
    facts: Facts, probabilities: FactProbabilities, rehearsed: Rehearsed | None, config: CredoConfig, seed: int
) -> Credo:
    """The reasoner of these probabilities, with what was rehearsed, if it was."""
    index = Index.of(facts)
    describer = Describer.of(index, set_weights(index, seed))
    if rehearsed is None:
        return Credo.of(index, probabilities, describer, None, config.ways)
    found = Credo.of(index, probabilities, describer, rehearsed.ranking, config.ways)
    return replace(found, weighing=rehearsed.weighing, tempers=rehearsed.tempers)


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
    """Candidates of queries: features [Q, K, F], which are true and which take part at all [Q, K].

    `weights` [Q, K] is how many candidates each stands for: 0 where it is there because it is true, which says nothing
    about how often such a candidate is. `usual` [Q] are queries as they come; the others were chosen because something
    that they ask for was hidden.
    """

    features: Floats
    true: NDArray[np.bool_]
    valid: NDArray[np.bool_]
    weights: Floats
    usual: NDArray[np.bool_]


Made = tuple[Floats, NDArray[np.bool_], NDArray[np.bool_], Floats]
List = Callable[[Query, Ids, Index], Made]
"""What makes the features, truth, use and weights of the concepts of queries; the index has all facts."""
Drawn = Sequence[tuple[Query, Ids]]
"""Queries by shape."""


def fit_lists(parts: Sequence[Lists], seed: int, device: str) -> Calibrator | None:
    """A network whose logits are calibrated over the usual queries, and put true candidates first in all."""
    if not any(part.true.any() for part in parts):
        return None
    names = [part.name for part in fields(Lists)]
    lists = Lists(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))
    counted = lists.weights * lists.valid * lists.usual[:, None]
    true, valid, weights = (torch.from_numpy(array).to(device) for array in (lists.true, lists.valid, counted))

    def loss(logits_BK: torch.Tensor, rows_B: torch.Tensor) -> torch.Tensor:
        return ranking_loss(logits_BK, true[rows_B], valid[rows_B], weights[rows_B])

    start = (logit(float(lists.true.sum() / max(lists.valid.sum(), 1))),)
    hidden = HIDDEN if lists.true.sum() >= ENOUGH else 0
    return fit_network(lists.features, loss, Fit(1000, min(96, len(lists.true)), hidden, start, seed, device))


def ranking_loss(
    logits_BK: torch.Tensor, true_BK: torch.Tensor, used_BK: torch.Tensor, weights_BK: torch.Tensor
) -> torch.Tensor:
    """Cross entropy of each candidate by its weight, and of the true ones of each list in the softmax over it."""
    each = functional.binary_cross_entropy_with_logits(logits_BK, true_BK.float(), reduction="none")
    pointwise = (each * weights_BK).sum() / weights_BK.sum().clamp(min=1)
    share_BK = logits_BK.masked_fill(~used_BK, -1e9).log_softmax(1).masked_fill(~true_BK, 0.0)
    asked_B = true_BK.any(1)
    listwise = -(asked_B * share_BK.sum(1) / true_BK.sum(1).clamp(min=1)).sum() / asked_B.sum().clamp(min=1)
    return pointwise + LISTWISE * listwise


def sample_answers(reasoner: Credo, later: Index, drawn: Drawn, level: Level) -> Iterator[Sample]:
    """The strongest candidates of queries, and which of them are answers in a later graph."""
    for shape, ids in drawn:
        for start in range(0, len(ids), BLOCK):
            block = ids[start : start + BLOCK]
            surveys, open_ = reasoner.consider(shape, block, level)
            true = np.zeros(open_.shape, np.bool_)
            entities, concepts, _ = answer_rows(shape, block, later)
            true[(entities if level is Level.ENTITY else concepts).coordinates()] = True
            yield sample_strongest(surveys, open_, true)


def rehearse_queries(
    reasoner: Credo, lessons: Rehearsal, later: Index, usual: Drawn, count: int, seed: int
) -> Iterator[Lists]:
    """The concepts of queries as they come, and of at most `count` of each shape that a hidden fact takes an answer
    from."""
    make = list_concepts(reasoner, np.random.default_rng(seed))
    lacking = []
    for shape, ids in draw_lacking(later, lessons.train, count, seed):
        before, after = (answer_rows(shape, ids, index) for index in (reasoner.index, later))
        chosen = (after[1].sizes() > before[1].sizes()) | (after[0].sizes() > before[0].sizes())
        lacking.append((shape, ids[chosen][:count]))
    for drawn, are_usual in ((usual, True), (lacking, False)):
        for shape, ids in drawn:
            for start in range(0, len(ids), BLOCK):
                block = ids[start : start + BLOCK]
                yield Lists(*make(shape, block, later), np.full(len(block), are_usual))


def rehearsed_shapes(train: QueryTable | None) -> list[Query]:
    """Those of the training queries, and one hop; without training queries all templates that models are trained on."""
    shapes = dict.fromkeys(batch.shape for batch in train.batches()) if train is not None else {}
    return list(dict.fromkeys([*shapes, ONE_HOP])) if shapes else list(SHAPES.values())


def draw_usual(later: Index, shape: Query, count: int, seed: int) -> Ids:
    """Queries as a person might ask them: nothing is required of one but that it has an answer in the whole graph."""
    options = BenchmarkOptions(seed=seed, counts=(count, count, count), shapes=SHAPES, max_answers=MOST_ANSWERS)
    ground = Ground(later, hard=True, never=np.zeros(later.concepts, np.bool_), every=True)
    return sample_task(Task(render_shape(shape), shape, "calibration", count), ground, options).ids[:count]


def draw_lacking(later: Index, train: QueryTable | None, count: int, seed: int) -> Iterator[tuple[Query, Ids]]:
    """(shape, ids) of queries of which some lack an answer: many times `count` training queries of a benchmark, and
    one-hop queries, which it need not have; where there are none, of all templates that models are trained on."""
    shapes: dict[Query, list[Ids]] = {}
    for batch in train.batches() if train is not None else ():
        shapes.setdefault(batch.shape, []).append(batch.ids)
    missing = SHAPES if not shapes else {"1p": ONE_HOP} if ONE_HOP not in shapes else {}
    options = BenchmarkOptions(seed=seed, counts=(count, count, count), shapes=missing or SHAPES)
    nothing = np.zeros(later.concepts, np.bool_)
    for name, shape in missing.items():
        drawn = sample_task(Task(name, shape, "valid", count), Ground(later, True, nothing), options)
        shapes.setdefault(shape, []).append(drawn.ids)
    for shape, parts in shapes.items():
        ids = np.unique(np.concatenate(parts), axis=0)
        yield shape, np.random.default_rng([seed, len(ids)]).permutation(ids)[: DRAWN * count]


def list_concepts(reasoner: Credo, random: np.random.Generator) -> List:
    """The concepts not known of each query that are most likely, some of the others at random, and all true ones."""

    def make(shape: Query, ids: Ids, later: Index) -> Made:
        asked = reasoner.weigh(reasoner.ask(shape, ids))
        features, _ = reasoner.describer.describe(asked, reasoner.probabilities)
        size, concepts = features.shape[:2]
        true = np.zeros((size, concepts), np.bool_)
        true[answer_rows(shape, ids, later)[1].coordinates()] = True
        open_ = np.ones(true.shape, np.bool_)
        open_[asked.concepts.coordinates()] = False
        strength = features[:, :, 3] + 0.5 * features[:, :, 6] + features[:, :, 7]
        chosen, weights = choose(np.where(open_, strength, -np.inf), true & open_, random)
        rows = np.arange(size)[:, None]
        return features[rows, chosen], (true & open_)[rows, chosen], open_[rows, chosen], weights

    return make


def choose(strength: Floats, true: NDArray[np.bool_], random: np.random.Generator) -> tuple[NDArray[np.int64], Floats]:
    """(candidates [Q, K], how many each stands for): half the strongest, others at random, then what is true."""
    size, count = strength.shape
    width = min(SHORTLIST, count)
    strongest = np.zeros(strength.shape, np.bool_)
    half = np.argpartition(-strength, width // 2, axis=1)[:, : max(1, width // 2)]
    strongest[np.arange(size)[:, None], half] = True
    share = min(1.0, width / (4 * count)) if count > width else 1.0
    drawn = ~strongest & (random.random(strength.shape) < share)
    order = np.select([strongest, drawn, true], [3.0, 2.0, 1.0], 0.0) + 0.5 * random.random(strength.shape)
    chosen = np.argpartition(-order, width - 1, axis=1)[:, :width]
    weights = np.where(strongest, 1.0, np.where(drawn, 1.0 / share, 0.0)).astype(np.float32)
    return chosen, np.take_along_axis(weights, chosen, 1)


def _triples(facts: Facts) -> Keys:
    width = np.int64(len(facts.vocabulary.entities))
    return (facts.relations.astype(np.int64) * width + facts.heads) * width + facts.tails


def _typings(facts: Facts) -> Keys:
    typed, types = Instances.of(facts).concepts_of.coordinates()
    return typed.astype(np.int64) * len(facts.vocabulary.concepts) + types
