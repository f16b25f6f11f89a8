"""A reasoner that believes a few facts beyond those of the small academia."""

from __future__ import annotations

import numpy as np

from tarbox.core.ids import Role
from tarbox.execution.graph import Index
from tarbox.kb.facts import Facts
from tarbox.models.calibration import Calibrator
from tarbox.models.credo import Credo
from tarbox.models.describing import Describer
from tarbox.models.probabilities import FactProbabilities
from tarbox.models.saved import sizes_of

LINKS = {
    ("YannLeCun", "worksAt", "MIT"): 0.6,
    ("YannLeCun", "worksAt", "Toronto"): 0.3,
    ("MIT", "locatedIn", "Canada"): 0.25,
    ("Google", "interestedIn", "Search"): 0.5,
    ("GeoffreyHinton", "investigates", "Search"): 0.4,
    ("Canada", "uses", "Search"): 0.0005,
}
TYPINGS = {("Google", "University"): 0.2, ("Canada", "Organisation"): 0.7}


def predict(facts: Facts, ranking: Calibrator | None = None, ways: str = "strongest") -> Credo:
    names, sizes = facts.vocabulary, sizes_of(facts)
    number = {
        role: {names.names(role).show(i).replace(" ", ""): i for i in range(len(names.names(role)))} for role in Role
    }
    entity, concept, relation = number[Role.ENTITY], number[Role.CONCEPT], number[Role.RELATION]
    links = {
        (relation[r] * sizes.entities + entity[h]) * sizes.entities + entity[t]: d for (h, r, t), d in LINKS.items()
    }
    typings = {entity[e] * sizes.concepts + concept[c]: d for (e, c), d in TYPINGS.items()}
    keys = [(np.array(list(part), np.int64), np.array(list(part.values()), np.float32)) for part in (links, typings)]
    index = Index.of(facts)
    weights = np.zeros((sizes.directed + sizes.concepts, sizes.concepts), np.float32)
    return Credo.of(
        index, FactProbabilities.of(facts, sizes, keys[0], keys[1]), Describer.of(index, weights), ranking, ways
    )
