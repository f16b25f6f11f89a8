"""Small models of probabilities, made of facts and random guesses at what is missing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tarbox.core.ids import Level
from tarbox.execution.graph import Index
from tarbox.kb.closure import Instances
from tarbox.kb.facts import Facts
from tarbox.models.calibration import Calibrator
from tarbox.models.credo import Credo
from tarbox.models.describing import FEATURES, Describer
from tarbox.models.probabilities import LEAST, FactProbabilities
from tarbox.models.saved import sizes_of
from tarbox.models.tempering import BASIS, SURVEYED, Temper
from tarbox.training.rehearsal import set_weights

Keys = NDArray[np.int64]
Floats = NDArray[np.float32]
NONE: tuple[Keys, Floats] = (np.empty(0, np.int64), np.empty(0, np.float32))
"""Nothing is predicted beyond the facts."""


def triple_keys(facts: Facts) -> Keys:
    """`(relation * E + head) * E + tail` of the assertions."""
    width = len(facts.vocabulary.entities)
    return (facts.relations.astype(np.int64) * width + facts.heads) * width + facts.tails


def typing_keys(facts: Facts) -> Keys:
    """`entity * C + concept` of the typings under closure."""
    typed, types = Instances.of(facts).concepts_of.coordinates()
    return typed.astype(np.int64) * len(facts.vocabulary.concepts) + types


def random_beliefs(facts: Facts, seed: int = 3, count: int = 40) -> tuple[tuple[Keys, Floats], tuple[Keys, Floats]]:
    """(triples, typings) that are not among the facts, each once, with degrees from `LEAST` to below 1."""
    sizes, random = sizes_of(facts), np.random.default_rng(seed)
    spaces = (
        (sizes.relations * sizes.entities**2, triple_keys(facts)),
        (sizes.entities * sizes.concepts, typing_keys(facts)),
    )
    found = []
    for space, known in spaces:
        open_ = np.setdiff1d(np.arange(space), known)
        keys = np.sort(random.choice(open_, min(count, len(open_)), replace=False)).astype(np.int64)
        found.append((keys, random.uniform(LEAST, 0.99, len(keys)).astype(np.float32)))
    return found[0], found[1]


def random_ranking(seed: int = 4, width: int = FEATURES, hidden: int = 7, outputs: int = 1) -> Calibrator:
    """A network as training makes them, with random weights."""
    random = np.random.default_rng(seed)
    shapes = ((hidden, width), (hidden,), (outputs, hidden), (outputs,))
    layers = tuple((0.4 * random.normal(size=shape)).astype(np.float32) for shape in shapes)
    return Calibrator(np.zeros(width, np.float32), np.full(width, 3.0, np.float32), layers)


def random_temper(seed: int = 5, seen: float = 0.0) -> Temper:
    return Temper(random_ranking(seed, SURVEYED, outputs=BASIS + 1), seen)


def credo_of(facts: Facts, ways: str = "strongest", ranking: Calibrator | None = None, count: int = 40) -> Credo:
    """A reasoner that believes random facts beside the known ones; with a ranking its degrees are tempered, too."""
    index = Index.of(facts)
    probabilities = FactProbabilities.of(facts, sizes_of(facts), *random_beliefs(facts, count=count))
    found = Credo.of(index, probabilities, Describer.of(index, set_weights(index, 0)), ranking, ways)
    if ranking is None:
        return found
    tempers = {Level.ENTITY: random_temper(6, 0.4), Level.CONCEPT: random_temper(7)}
    return replace(found, weighing=random_temper(5), tempers=tempers)


def untrained_credo(facts: Facts) -> Credo:
    """With a random ranking of concepts."""
    return credo_of(facts, ranking=random_ranking())
