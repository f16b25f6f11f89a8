"""All settings of a training run: a TOML file, one table per component.

::

    seed = 0

    [model]                      # name, and the settings of that model
    name = "tar"
    dimension = 256

    [optimizer]
    rate = 1e-3

Later sources replace earlier ones: the defaults (the paper's), a recipe, `--config FILE`, `--set key=value`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast, final

from tarbox.core.config import Table, flatten, merge, read_config, to_table, to_toml, unknown_key
from tarbox.core.errors import ConfigError
from tarbox.models.base import Task
from tarbox.models.learning.batches import BatchConfig
from tarbox.models.learning.negatives import NegativesConfig
from tarbox.models.learning.objective import ObjectiveConfig
from tarbox.models.registry import find_model
from tarbox.models.saved import own_settings, without_retired
from tarbox.training.hardware import HardwareConfig
from tarbox.training.step import OptimizerConfig
from tarbox.training.validation import ValidationConfig

if TYPE_CHECKING:
    import torch

    from tarbox.models.learning.seam import TrainingData

RECIPES: Final = "tarbox.training.recipes"
RESUMABLE: Final = ("stopping", "checkpoints", "hardware", "validation")
"""The components whose settings may change when a run is resumed."""


@final
@dataclass(frozen=True, slots=True)
class StoppingConfig:
    """Training ends after `epochs`, or after `minutes` of training (0: no limit), or by validation.

    A model that is trained in parts gives each part its planned share of the minutes.
    """

    epochs: int = 1000
    minutes: float = 0.0

    def __post_init__(self) -> None:
        if self.epochs < 1 or self.minutes < 0:
            raise ConfigError(f"stopping.epochs is {self.epochs} and stopping.minutes {self.minutes}: too small")


@final
@dataclass(frozen=True, slots=True)
class CheckpointConfig:
    """A checkpoint is written every `minutes`, on interrupt and at the end."""

    minutes: float = 5.0


@final
@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that decides a run, but for the data. `model` is the table of the model, its name in it."""

    model: Mapping[str, Any]
    seed: int = 0
    batches: BatchConfig = field(default_factory=BatchConfig)
    negatives: NegativesConfig = field(default_factory=NegativesConfig)
    objective: ObjectiveConfig = field(default_factory=ObjectiveConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    stopping: StoppingConfig = field(default_factory=StoppingConfig)
    validation: ValidationConfig = field(default_factory=ValidationConfig)
    checkpoints: CheckpointConfig = field(default_factory=CheckpointConfig)
    hardware: HardwareConfig = field(default_factory=HardwareConfig)

    @property
    def model_name(self) -> str:
        return str(self.model["name"])

    def model_config(self) -> Any:
        """The settings of the model, as its class has them."""
        return read_config(find_model(self.model_name).Config, own_settings(self.model), "model")

    def resolved(self, data: TrainingData, device: torch.device) -> Settings:
        """With what the model leaves to the data and the hardware decided."""
        config = find_model(self.model_name).resolve(self.model_config(), data, device)
        return replace(self, model={"name": self.model_name, **to_table(config)})

    def table(self) -> dict[str, Any]:
        """All settings as plain values."""
        components = {name: to_table(getattr(self, name)) for name in COMPONENTS}
        return {"seed": self.seed, "model": dict(self.model), **components}

    def toml(self) -> str:
        return to_toml(self.table())


COMPONENTS: Final[Mapping[str, type[Any]]] = {
    one.name: cast(type[Any], one.default_factory) for one in fields(Settings) if one.default_factory is not MISSING
}


def resolve(tables: Sequence[Table], model: str = "tar") -> Settings:
    """The settings of all tables, the last one first; `model` is the name where none of them gives one."""
    table: Table = {"model": {"name": model}}
    for given in tables:
        table = merge(table, without_retired(given))
    for key in table:
        if key not in (*COMPONENTS, "seed", "model"):
            raise unknown_key(key, ["seed", "model", *COMPONENTS])
    for key in ("model", *COMPONENTS):
        if not isinstance(table.get(key, {}), Mapping):
            raise ConfigError(f"{key} is a table of settings, not {table[key]!r}")
    seed = table.get("seed", 0)
    if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed < 1 << 63:
        raise ConfigError(f"seed is {seed!r}; it must be a whole number, 0 or more and below 2**63")
    components = {name: read_config(kind, table.get(name, {}), name) for name, kind in COMPONENTS.items()}
    return Settings(_model_table(table["model"]), seed, **components)


def check_ablations(settings: Settings) -> None:
    """Refuse to leave out nothing but what the model does not learn: it would be the same model under another name."""
    able = find_model(settings.model_name).tasks
    without = settings.objective.without
    if without and not any(task in able for task in without):
        named, learnt = (", ".join(own.value for own in Task if own in tasks) for tasks in (without, able))
        raise ConfigError(
            f"{settings.model_name} does not learn {named} as a task, so it cannot be left out; "
            + (f"it learns {learnt}" if learnt else "tar does")
        )


def read_file(path: str | Path) -> Table:
    """The tables of a TOML file."""
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not TOML: {error}") from None


def read_recipe(name: str) -> Table:
    """The tables of a recipe that tarbox ships."""
    folder = resources.files(RECIPES)
    known = sorted(file.name.removesuffix(".toml") for file in folder.iterdir() if file.name.endswith(".toml"))
    if name not in known:
        raise ConfigError(f"no recipe {name!r}; there are {', '.join(known)}")
    return tomllib.loads((folder / f"{name}.toml").read_text(encoding="utf-8"))


def default_tables(model: str) -> list[Table]:
    """What a model is trained with where neither a recipe nor a file is named: its own recipe, if it has one."""
    recipe = find_model(model).recipe
    return [] if recipe is None else [read_recipe(recipe)]


def read_assignments(texts: Sequence[str], model: str) -> Table:
    """The tables that `--set key=value` options write; a key may be short where only one component has it."""
    table: dict[str, Any] = {}
    known = [key for key, _ in flatten(resolve([], model).table())]
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals:
            raise ConfigError(f"--set needs key=value, such as optimizer.rate=1e-3, not {text!r}")
        nested: Any = _value(value.strip())
        for part in reversed(_full_key(key.strip(), known).split(".")):
            nested = {part: nested}
        table = merge(table, nested)
    return table


def _full_key(key: str, known: Sequence[str]) -> str:
    if key in known or "." in key or key == "seed":
        return key
    found = [name for name in known if name.rpartition(".")[2] == key]
    if len(found) > 1:
        raise ConfigError(f"--set {key}: which one? {', '.join(found)}")
    if not found:
        raise unknown_key(key, sorted({name.rpartition(".")[2] for name in known}))
    return found[0]


def _value(text: str) -> Any:
    """A TOML value; a word by itself is a text."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _model_table(table: Table) -> dict[str, Any]:
    """The settings of the model, complete and checked."""
    name = table.get("name")
    if not isinstance(name, str):
        raise ConfigError(f"model.name is {name!r}; it must be a text")
    return {"name": name, **to_table(read_config(find_model(name).Config, own_settings(table), "model"))}
