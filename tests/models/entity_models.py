"""Small models of entities alone, and queries for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from tarbox.models.base import EntityModel, Sizes
from tarbox.models.registry import find_model
from tarbox.query.algebra import Query, slots
from tarbox.query.templates import TEMPLATES, template

SIZES = Sizes(entities=12, concepts=0, relations=3)
SMALL: Mapping[str, Mapping[str, Any]] = {
    "gqe": {"dimension": 5},
    "q2b": {"dimension": 5},
    "beta": {"dimension": 5, "hidden": 6},
    "fuzzqe": {"dimension": 5, "bases": 2},
    "cone": {"dimension": 5, "hidden": 6},
    "hype": {"dimension": 5},
    "logice": {"dimension": 5, "hidden": 6},
    "gnnqe": {"dimension": 4, "layers": 2, "dropout": 0.0},  # what training leaves out at random has tests of its own
    "ultraquery": {"dimension": 4, "layers": 2, "relation_layers": 2, "dropout": 0.0},
}
VARIANTS: Mapping[str, tuple[str, Mapping[str, Any]]] = {name: (name, given) for name, given in SMALL.items()} | {
    "beta of one layer": ("beta", {"dimension": 5, "hidden": 6, "layers": 1}),
    "cone near the identity": ("cone", {"dimension": 5, "hidden": 60, "start": "identity"}),
    "logice godel": ("logice", {"dimension": 5, "hidden": 60, "start": "identity", "t_norm": "godel"}),
    "fuzzqe sigmoid": ("fuzzqe", {"dimension": 5, "bases": 2, "regulator": "sigmoid"}),
    "fuzzqe godel": ("fuzzqe", {"dimension": 5, "bases": 2, "t_norm": "godel", "regulator": "steep", "norm": 1}),
}
FACTS = torch.from_numpy(np.random.default_rng(6).integers(0, [6, 2, 6], (20, 3)))
"""Facts of the first entities and relations: (head, relation, tail)."""
SHAPES = {name: given.shape for name, given in TEMPLATES.items()} | {
    "ui": template("ui", "(?r1 value ?e1) and ((?r2 value ?e2) or (?r3 some (?r4 value ?e3)))").shape,
    "nu": template("nu", "(?r1 value ?e1) and not ((?r2 value ?e2) or (?r3 value ?e3))").shape,
    "ippi": template("ippi", "?r1 some (?r2 some ((?r3 value ?e1) and (?r4 some (?r5 value ?e2))))").shape,
}


def model_of(variant: str, sizes: Sizes = SIZES, **settings: Any) -> Any:
    """In double precision, as the laws are exact."""
    torch.manual_seed(4)
    name, given = VARIANTS[variant]
    kind = find_model(name)
    model: EntityModel = kind(kind.Config(**{**given, **settings}), sizes)
    model.observe(FACTS)
    return model.double()


def rows_of(shape: Query, size: int = 6, sizes: Sizes = SIZES) -> torch.Tensor:
    limits = [{"entity": sizes.entities, "relation": sizes.directed}[slot.role.value] for slot in slots(shape)]
    return torch.from_numpy(np.random.default_rng(3).integers(0, limits, (size, len(limits))))
