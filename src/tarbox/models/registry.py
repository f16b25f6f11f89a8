"""Every model by name: one line each. A model is loaded when it is asked for, so that counting needs no torch."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from dataclasses import is_dataclass
from difflib import get_close_matches
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from tarbox.core.errors import ConfigError

if TYPE_CHECKING:
    from tarbox.models.learning.seam import Learner

ModelClass: TypeAlias = "type[Learner]"

MODELS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "beta": "tarbox.models.beta:Beta",
        "box2el": "tarbox.models.ontology.box2el:Box2El",
        "cone": "tarbox.models.cone:Cone",
        "counting": "tarbox.models.counting:Counting",
        "cqd": "tarbox.models.cqd:Cqd",
        "credo": "tarbox.models.credo.model:Credo",
        "elem": "tarbox.models.ontology.elem:Elem",
        "emel": "tarbox.models.ontology.emel:Emel",
        "fuzzqe": "tarbox.models.fuzzqe:FuzzQe",
        "gnnqe": "tarbox.models.gnnqe:GnnQe",
        "gqe": "tarbox.models.gqe:Gqe",
        "hype": "tarbox.models.hype:HypE",
        "logice": "tarbox.models.logice:LogicE",
        "joie": "tarbox.models.ontology.joie:Joie",
        "opa2vec": "tarbox.models.ontology.opa2vec:Opa2Vec",
        "owl2vec": "tarbox.models.ontology.owl2vec:Owl2Vec",
        "q2b": "tarbox.models.q2b:Q2b",
        "qto": "tarbox.models.qto:Qto",
        "tar": "tarbox.models.tar:Tar",
        "ultraquery": "tarbox.models.ultraquery:UltraQuery",
    }
)
"""Where each registered model is: `package.module:Class`, the form that users name their own models by."""


def find_model(name: str) -> ModelClass:
    """The class of the model called `name`, registered or `package.module:Class`.

    >>> find_model("counting").__name__
    'Counting'
    >>> find_model("tarbox.models.counting:Counting") is find_model("counting")
    True
    """
    if ":" in name:
        return _check(name, _load(name))
    if name in MODELS:
        found: ModelClass = _load(MODELS[name])
        return found
    near = get_close_matches(name, MODELS, 1)
    advice = f"Did you mean {near[0]!r}?" if near else f"There are: {', '.join(sorted(MODELS))}."
    raise ConfigError(f"no model {name!r}. {advice}")


def _load(address: str) -> Any:
    module, _, attribute = address.partition(":")
    if not all(part.isidentifier() for part in module.split(".")):
        raise ConfigError(f"no model {address!r}. Write a registered name or package.module:Class.")
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        found = "a registered name or package.module:Class, installed or on PYTHONPATH"
        raise ConfigError(f"no model {address!r}: {error}. Write {found}.") from None


def name_of(kind: type[Any]) -> str:
    """What messages call a model class: its registered name, else its address.

    >>> name_of(find_model("counting"))
    'counting'
    """
    address = f"{kind.__module__}:{kind.__qualname__}"
    return next((name for name, place in MODELS.items() if place == address), address)


def _check(address: str, found: Any) -> ModelClass:
    """What a user names as a model, if it is one."""
    from tarbox.models.learning.seam import Learner

    if not isinstance(found, type) or not issubclass(found, Learner):
        raise ConfigError(
            f"{address!r} is no model: it extends neither tarbox.models.base.Model nor EntityModel, "
            "nor tarbox.models.learning.seam.Learner."
        )
    if inspect.isabstract(found) or not is_dataclass(getattr(found, "Config", None)):
        raise ConfigError(f"{address!r} is no complete model: it lacks a method of its base class, or a Config.")
    return found
