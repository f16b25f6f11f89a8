"""How the reasoner is learnt: a link predictor of the kept facts, what hold-out fitting says of it, then all facts."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import torch
from torch import Tensor

from tarbox.execution.graph import Index
from tarbox.kb.facts import Facts
from tarbox.kb.splits import hold_out
from tarbox.models.credo.concepts import SetModel
from tarbox.models.credo.evidence import Evidence
from tarbox.models.credo.holdout import FittingQueries, HeldOut, fit_calibration, fit_ranking
from tarbox.models.credo.memory import MemoryNeeded, TrainingSize, rivals_of
from tarbox.models.credo.model import Credo, CredoConfig
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
from tarbox.models.learning.seam import RunContext, Stage, TrainingData
from tarbox.models.links import link_sources
from tarbox.models.saved import PREDICTOR, sizes_of

PLAN: Final = {
    "training the link predictor on kept facts": 0.35,
    "continuing it on kept facts": 0.15,
    "fitting calibration on held-out facts": 0.15,
    "fitting concept scores": 0.1,
    "continuing the link predictor on all facts": 0.15,
    "predicting facts": 0.05,
    "predicting subsumptions": 0.05,
}
"""The parts of training, with the share of the time that each takes."""


def learn(config: CredoConfig, data: TrainingData, context: RunContext) -> Mapping[str, Tensor]:
    """The arrays of the model.

    The link predictor goes on in two ways that differ in nothing but the held-out facts: what is fitted to the one
    holds for the other.
    """
    home = _home(config, data.facts, context)
    context.plan(PLAN)
    parts = iter(PLAN)
    facts = HeldOut(data.facts, hold_out(data.facts, context.seed, config.held_out))
    further = max(1, round(config.continued * context.epochs))
    kept, everything = (_sources(part, config, context) for part in (facts.kept, data.facts))
    with home:  # its first values are drawn there
        predictor = build_predictor(config, sizes_of(data.facts))
    context.begin(next(parts))
    first = max(1, context.epochs - further)
    turn = first / (first + further)
    context.fit(predictor, kept(), Stage("kept", first, span=(0.0, turn)))
    context.begin(next(parts))
    blind = copy.deepcopy(predictor)
    context.fit(blind, kept(), Stage("blind", further, predictor, (turn, 1.0)))
    context.begin(next(parts))
    calibration, probabilities = fit_calibration(blind.eval(), Evidence.of(facts.kept), facts, context.seed)
    mrr = mean_reciprocal_rank(blind, data.facts, draw(facts.lost(), MEASURED, context.seed))
    del blind
    context.begin(next(parts))
    index = Index.of(facts.kept)
    reasoner = Credo.of(index, probabilities, SetModel.of(index, context.seed))
    queries = FittingQueries.of(reasoner, facts, config.queries, context.seed)
    ranking = fit_ranking(reasoner, queries, context.seed, context.device)
    context.begin(next(parts))
    context.fit(predictor, everything(), Stage("all", further, span=(turn, 1.0)))
    context.begin(next(parts))
    evidence = Evidence.of(data.facts)
    predicted = calibration.predict(predictor.eval(), evidence)
    told = mrr, np.zeros(evidence.sizes.entities, np.bool_)
    context.save(PREDICTOR, FittedPredictor.of(predictor, calibration, evidence, predicted.totals, told).arrays)
    probabilities = FactProbabilities.of(data.facts, evidence.sizes, predicted.links, predicted.typings)
    index = Index.of(data.facts)
    found = Credo.of(index, probabilities, SetModel.of(index, context.seed), ranking)
    context.begin(next(parts))
    if found.index.concepts:
        given = data.facts, data.axioms()
        found = replace(found, subsumptions=predict_subsumptions(*given, config.held_out, context.seed, context.device))
    return {name: torch.from_numpy(array) for name, array in found.arrays().items()}


def _home(config: CredoConfig, facts: Facts, context: RunContext) -> torch.device:
    """Where the link predictor is held; what cannot fit is refused."""
    needed, gpu = MemoryNeeded.of(config, TrainingSize.of(facts), context.batches), context.device.type == "cuda"
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
