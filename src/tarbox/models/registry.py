"""Every model by name: one line each."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from types import MappingProxyType
from typing import Final

from tarbox.core.errors import ConfigError
from tarbox.models.counting import Counting
from tarbox.models.scorer import Untrained

MODELS: Final[Mapping[str, Untrained]] = MappingProxyType({"counting": Counting})


def find_model(name: str) -> Untrained:
    """The registered model called `name`.

    >>> find_model("counting").__name__
    'Counting'
    """
    if name in MODELS:
        return MODELS[name]
    near = get_close_matches(name, MODELS, 1)
    advice = f"Did you mean {near[0]!r}?" if near else f"There are: {', '.join(sorted(MODELS))}."
    raise ConfigError(f"no model {name!r}. {advice}")
