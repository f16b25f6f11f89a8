"""How the reasoner is learnt: a link predictor of the kept facts, what hold-out fitting says of it, then all facts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from tarbox.execution.graph import Index
from tarbox.kb.splits import hold_out
from tarbox.models.complex import Complex, ComplexConfig
from tarbox.models.credo.concepts import SetModel
from tarbox.models.credo.evidence import Evidence
from tarbox.models.credo.holdout import FittingQueries, HeldOut, fit_calibration, fit_dependence, fit_ranking
from tarbox.models.credo.model import Credo, CredoConfig
from tarbox.models.learning.seam import RunContext, Stage, TrainingData
from tarbox.models.links import link_sources
from tarbox.models.saved import sizes_of

PLAN = {
    "training the link predictor on kept facts": 0.5,
    "fitting calibration on held-out facts": 0.15,
    "fitting concept scores": 0.1,
    "continuing the link predictor on all facts": 0.15,
    "predicting facts": 0.1,
}
"""The parts of training, with the share of the time that each takes."""


def learn(config: CredoConfig, data: TrainingData, context: RunContext) -> Mapping[str, Tensor]:
    """The arrays of the model."""
    context.plan(PLAN)
    parts = iter(PLAN)
    facts = HeldOut(data.facts, hold_out(data.facts, context.seed, config.held_out))
    torch.manual_seed(context.seed)
    predictor = Complex(_predictor_config(config), sizes_of(data.facts)).to(context.device)
    context.begin(next(parts))
    context.fit(
        predictor, link_sources(facts.kept, predictor.config.candidates, context.device), Stage("kept", context.epochs)
    )
    predictor.eval()
    context.begin(next(parts))
    calibration, probabilities = fit_calibration(predictor, Evidence.of(facts.kept), facts, config, context.seed)
    context.begin(next(parts))
    reasoner = Credo.of(index := Index.of(facts.kept), probabilities, SetModel.of(index, context.seed))
    queries = FittingQueries.of(reasoner, facts, config.queries, context.seed)
    reasoner = replace(reasoner, dependence=fit_dependence(reasoner, queries))
    ranking = fit_ranking(reasoner, queries, context.seed, context.device)
    context.begin(next(parts))
    further = round(config.continued * context.epochs)
    if further:
        predictor.train()
        context.fit(
            predictor, link_sources(data.facts, predictor.config.candidates, context.device), Stage("all", further)
        )
        predictor.eval()
    context.begin(next(parts))
    index = Index.of(data.facts)
    probabilities = calibration.probabilities(predictor, Evidence.of(data.facts))
    found = Credo.of(index, probabilities, SetModel.of(index, context.seed), ranking, reasoner.dependence)
    return {name: torch.from_numpy(array) for name, array in found.arrays().items()}


def _predictor_config(config: CredoConfig) -> ComplexConfig:
    return ComplexConfig(config.rank, config.regularization, config.relation_weight, config.candidates, config.initial)
