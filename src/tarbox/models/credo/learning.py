"""How the reasoner is learnt: a link predictor of the kept facts, what hold-out fitting says of it, then all facts."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple, final

import numpy as np
import torch
from torch import Tensor

from tarbox.execution.graph import Index
from tarbox.kb.facts import Facts
from tarbox.kb.rows import Rows
from tarbox.kb.splits import hold_out
from tarbox.models.credo.concepts import SetModel
from tarbox.models.credo.evidence import Evidence
from tarbox.models.credo.holdout import FittingQueries, HeldOut, fit_calibration, fit_ranking
from tarbox.models.credo.memory import MemoryNeeded, TrainingSize, rivals_of
from tarbox.models.credo.model import Credo, CredoConfig
from tarbox.models.credo.plan import epochs_of, plan
from tarbox.models.credo.predictor import (
    MEASURED,
    FittedPredictor,
    build_predictor,
    draw,
    mean_reciprocal_rank,
)
from tarbox.models.credo.probabilities import FactProbabilities
from tarbox.models.credo.subsumptions import predict_subsumptions
from tarbox.models.learning.batches import SampleSource
from tarbox.models.learning.progress import TellShare, unheard
from tarbox.models.learning.seam import RunContext, Stage, TrainingData
from tarbox.models.links import link_sources
from tarbox.models.saved import PREDICTOR, sizes_of


@final
class Counted(NamedTuple):
    """What needs facts alone, to be asked for: the evidence of the kept facts, that of all, predicted subsumptions."""

    kept: Callable[[], Evidence]
    every: Callable[[], Evidence]
    subsumptions: Callable[[], Rows | None]


def learn(config: CredoConfig, data: TrainingData, context: RunContext) -> Mapping[str, Tensor]:
    """The arrays of the model.

    The link predictor goes on in two ways that differ in nothing but the held-out facts: what is fitted to the one
    holds for the other.
    """
    size = TrainingSize.of(data.facts)
    home = _home(config, size, context)
    parts = plan(config, size, context.batches, context.epochs, context.device.type)
    context.plan(parts)
    facts = HeldOut(data.facts, hold_out(data.facts, context.seed, config.held_out, config.missing == "pairs"))
    tell = context.progress if context.device.type == "cpu" else unheard  # what is done ahead is no part under way
    with counted_ahead(context.device) as ahead:
        kept = ahead(lambda: Evidence.of(facts.kept))
        subsumptions = ahead(lambda: _subsumptions(data, config, context.seed, tell))
        counted = Counted(kept, ahead(lambda: Evidence.of(data.facts)), subsumptions)
        found = _learn(config, facts, context, home, counted, iter(parts))
    return {name: torch.from_numpy(array) for name, array in found.arrays().items()}


@contextmanager
def counted_ahead(device: torch.device) -> Iterator[Callable[[Callable[[], Any]], Callable[[], Any]]]:
    """Makes of work something to ask for once. While a GPU trains, a processor works ahead; without one, work is done
    when it is asked for."""
    if device.type == "cpu":
        yield lambda work: work
        return
    pool = ThreadPoolExecutor(1)
    try:
        yield lambda work: pool.submit(work).result
    finally:  # whoever stops does not wait for what nobody asks for
        pool.shutdown(wait=False, cancel_futures=True)


def _learn(
    config: CredoConfig,
    facts: HeldOut,
    context: RunContext,
    home: torch.device,
    counted: Counted,
    parts: Iterator[str],
) -> Credo:
    first, further = epochs_of(config, context.epochs)
    kept, everything = (_sources(part, config, context) for part in (facts.kept, facts.whole))
    with home:  # its first values are drawn there
        predictor = build_predictor(config, sizes_of(facts.whole))
    context.begin(next(parts))
    turn = first / (first + further)
    context.fit(predictor, kept(), Stage("kept", first, span=(0.0, turn)))
    context.begin(next(parts))
    blind = copy.deepcopy(predictor)
    context.fit(blind, kept(), Stage("blind", further, predictor, (turn, 1.0)))
    context.begin(next(parts))
    calibration, probabilities = fit_calibration(blind.eval(), counted.kept(), facts, context.seed, context.progress)
    mrr = mean_reciprocal_rank(blind, facts.whole, draw(facts.lost(), MEASURED, context.seed))
    del blind
    context.begin(next(parts))
    index = Index.of(facts.kept)
    reasoner = Credo.of(index, probabilities, SetModel.of(index, context.seed))
    queries = FittingQueries.of(reasoner, facts, config.queries, context.seed)
    ranking = fit_ranking(reasoner, queries, context.seed, context.device, context.progress)
    context.begin(next(parts))
    context.fit(predictor, everything(), Stage("all", further, span=(turn, 1.0)))
    context.begin(next(parts))
    evidence = counted.every()
    predicted = calibration.predict(predictor.eval(), evidence, tell=context.progress)
    told = mrr, np.zeros(evidence.sizes.entities, np.bool_)
    context.save(PREDICTOR, FittedPredictor.of(predictor, calibration, evidence, predicted.totals, told).arrays)
    probabilities = FactProbabilities.of(facts.whole, evidence.sizes, predicted.links, predicted.typings)
    index = Index.of(facts.whole)
    found = Credo.of(index, probabilities, SetModel.of(index, context.seed), ranking)
    context.begin(next(parts))
    return replace(found, subsumptions=counted.subsumptions())


def _subsumptions(data: TrainingData, config: CredoConfig, seed: int, tell: TellShare) -> Rows | None:
    """By a processor: what a GPU records does not bear another's work beside it."""
    if not len(data.facts.vocabulary.concepts):
        return None
    return predict_subsumptions(data.facts, data.axioms(), config.held_out, seed, torch.device("cpu"), tell)


def _home(config: CredoConfig, size: TrainingSize, context: RunContext) -> torch.device:
    """Where the link predictor is held; what cannot fit is refused."""
    needed, gpu = MemoryNeeded.of(config, size, context.batches), context.device.type == "cuda"
    host, device = needed.split(gpu)
    home = context.home_of_tables(device, 2 * needed.tables, needed.beside_shards)
    if gpu and home.type == "cpu":
        host, device = needed.split(gpu=False)[0], needed.beside_shards
    context.require_memory(host, device, needed.advice(config, context.batches))
    return home


def _sources(facts: Facts, config: CredoConfig, context: RunContext) -> Callable[[], Sequence[SampleSource]]:
    """What makes the links of these facts, on the device while they are used."""
    rivals = rivals_of(config, TrainingSize.of(facts), context.batches)
    return lambda: link_sources(facts, rivals, context.device)
