"""Which models are compared, and with which settings.

A word on the command line is ``MODEL``, ``MODEL-no-sub`` or ``MODEL-no-ins`` (the paper's ablations), or any of these
under a name of one's own: ``wide=tar``. Later sources of settings replace earlier ones: the defaults, a recipe (the
model's own, where none is named for it), `--config`, `--set`. Each may be addressed, ``gqe:optimizer.rate=1e-3``; what
is addressed to a model also holds for its ablations, which must differ from it in nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final, TypeAlias, final

from tarbox.core.config import Table, flatten
from tarbox.core.errors import ConfigError
from tarbox.models.base import Task
from tarbox.models.registry import MODELS, find_model
from tarbox.training.settings import (
    RESUMABLE,
    Settings,
    default_tables,
    read_assignments,
    read_file,
    read_recipe,
    resolve,
)

ABLATIONS: Final[Mapping[str, tuple[Task, str]]] = MappingProxyType(
    {"-no-sub": (Task.SUBSUMPTION, "w/o Sub"), "-no-ins": (Task.INSTANTIATION, "w/o Ins")}
)
"""What each suffix leaves out, and what the paper calls that."""

FREE: Final = ("hardware.device", "hardware.graphs", "checkpoints.minutes", "seed")
"""Settings that may differ between runs of one row: they say where and how a run is made, not what it learns."""

_LABEL: Final = re.compile(r"[\w.:+-]+")


@final
@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A row of the tables to be: `settings` is None for a model that needs no training, which has one run."""

    label: str
    model: str
    settings: Settings | None
    ablation_of: str | None = None
    name: str = ""
    seeds: int = 1

    @property
    def folder(self) -> str:
        """The name of its folder."""
        return self.label.replace(":", ".")

    def record(self) -> dict[str, Any]:
        """What comparison.json keeps of it; `from_record` is the inverse."""
        own = {field.name: getattr(self, field.name) for field in fields(self)}
        return {**own, "settings": None if self.settings is None else self.settings.table()}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> ModelSpec:
        return cls(**{**record, "settings": None if record["settings"] is None else resolve([record["settings"]])})


@final
@dataclass(frozen=True)
class Word:
    """What one word of `--models` says."""

    label: str
    model: str
    ablation: str | None = None

    @classmethod
    def parse(cls, text: str) -> Word:
        """
        >>> Word.parse("wide=tar-no-sub")
        Word(label='wide', model='tar', ablation='-no-sub')
        """
        label, equals, word = text.strip().rpartition("=")
        model, ablation = word, None
        for suffix in ABLATIONS:
            if word.endswith(suffix) and word not in MODELS:
                model, ablation = word.removesuffix(suffix), suffix
        found = cls(label if equals else word, model, ablation)
        if not _LABEL.fullmatch(found.label):
            raise ConfigError(f"{text!r} is no model to compare: write MODEL or NAME=MODEL, such as tar or wide=tar")
        return found

    @cached_property
    def kind(self) -> Any:
        """The class to train; None for a model that needs no training."""
        found = find_model(self.model)
        kind = found if found.trained else None
        if self.ablation is not None:
            task, _ = ABLATIONS[self.ablation]
            if kind is None or task not in kind.tasks:
                raise ConfigError(f"{self.label}: {self.model} does not learn {task.value}, so nothing can be left out")
        return kind

    @property
    def is_plain_ablation(self) -> bool:
        """Whether it is an ablation under its own name: then it shares the settings of its model, and says so."""
        return self.ablation is not None and self.label == f"{self.model}{self.ablation}"

    @property
    def addresses(self) -> tuple[str, ...]:
        """The names under which settings reach it, from the general to the special."""
        return (self.model, self.label) if self.is_plain_ablation else (self.label,)

    @property
    def name(self) -> str:
        """What tables show."""
        return f"{self.model} {ABLATIONS[self.ablation or ''][1]}" if self.is_plain_ablation else self.label


@final
@dataclass(frozen=True, slots=True)
class Overrides:
    """The settings that the command line gives, each as it was written."""

    recipes: tuple[str, ...] = ()
    configs: tuple[str, ...] = ()
    assignments: tuple[str, ...] = ()
    device: str | None = None


def choose_models(texts: Sequence[str], overrides: Overrides) -> list[ModelSpec]:
    """The models that these words name, each with its settings; counting is not added here."""
    words = [Word.parse(text) for text in texts]
    labels = [word.label for word in words]
    for word in words:
        if labels.count(word.label) > 1:
            raise ConfigError(f"{word.label!r} is named twice; another name is written NAME={word.model}")
    options = _Options.read(overrides, words)
    return [
        ModelSpec(word.label, word.model, options.settings(word), word.model if word.ablation else None, word.name)
        for word in words
    ]


Option: TypeAlias = tuple[str | None, Any]
"""What an option says, behind the name of the model that it is addressed to: None is all."""


@final
@dataclass(frozen=True, slots=True)
class _Options:
    """The options of the command line, read once for all words: tables of recipes and of files, and assignments."""

    recipes: tuple[Option, ...]
    configs: tuple[Option, ...]
    assignments: tuple[Option, ...]
    device: str | None

    @classmethod
    def read(cls, overrides: Overrides, words: Sequence[Word]) -> _Options:
        known = sorted({address for word in words for address in word.addresses}, key=len, reverse=True)

        def addressed(texts: Sequence[str], read: Callable[[str], Any]) -> tuple[Option, ...]:
            named = [(next((name for name in known if text.startswith(f"{name}:")), None), text) for text in texts]
            return tuple((to, read(text if to is None else text.removeprefix(f"{to}:"))) for to, text in named)

        recipes, configs = addressed(overrides.recipes, read_recipe), addressed(overrides.configs, read_file)
        assignments = addressed(overrides.assignments, str)
        for option in assignments:
            _check(option, words)
        return cls(recipes, configs, assignments, overrides.device)

    def settings(self, word: Word) -> Settings | None:
        """Those of its own recipe, unless one is named for it, of the tables that reach it, and what is assigned."""
        if word.kind is None:
            return None
        named = any(_reaches(to, word) and (to or _model_of(table) == word.model) for to, table in self.recipes)
        tables: list[Table] = [] if named else default_tables(word.model)
        tables += [_for(word, *option) for option in (*self.recipes, *self.configs) if _reaches(option[0], word)]
        for address in (None, *word.addresses):
            texts = [text for to, text in self.assignments if to == address and _has(word, text)]
            tables.append(read_assignments(texts, word.model))
        if self.device is not None:
            tables.append({"hardware": {"device": self.device}})
        return _without(resolve([*tables, {"model": {"name": word.model}}], word.model), word)


def _reaches(to: str | None, word: Word) -> bool:
    return to is None or to in word.addresses


def _model_of(table: Table) -> str | None:
    """The model that settings were made for."""
    name: str | None = table.get("model", {}).get("name")
    return name


def _for(word: Word, to: str | None, table: Table) -> Table:
    """What a table says to a word. Made for another model it gives the budget only, unless it is addressed."""
    if _model_of(table) in (None, word.model):
        return table
    return {key: value for key, value in table.items() if (key in RESUMABLE if to is None else key != "model")}


def _check(option: Option, words: Sequence[Word]) -> None:
    """A setting that nobody has is a mistake, and so is one that is addressed to nobody."""
    to, text = option
    key = text.partition("=")[0]
    if ":" in key:
        names = ", ".join(dict.fromkeys(address for word in words for address in word.addresses))
        raise ConfigError(f"--set {text}: {key.rpartition(':')[0]!r} is not compared here; there are {names}")
    if key.strip() == "seed":
        raise ConfigError("--set seed: a comparison trains with seeds 0, 1, 2, ...; say how many with --seeds")
    trained = [word for word in words if _reaches(to, word) and word.kind is not None]
    if not trained:
        raise ConfigError(f"--set {text}: nothing that is trained has settings here")
    if not any(_has(word, text) for word in trained):
        resolve([read_assignments([text], trained[0].model)], trained[0].model)  # raises, and says why
        raise ConfigError(f"--set {text}: no model of this comparison has such a setting")


def _has(word: Word, assignment: str) -> bool:
    """Whether the model has the setting: a general one reaches those that have it."""
    key = assignment.partition("=")[0].strip()
    first, _, rest = key.partition(".")
    own = {field.name for field in fields(word.kind.Config)}
    if rest:
        return first != "model" or rest.partition(".")[0] in own
    known = {name.rpartition(".")[2] for name, _ in flatten(resolve([], word.model).table())}
    return key in known | own


def _without(settings: Settings, word: Word) -> Settings:
    """The settings of an ablation: those of the whole model, less a task."""
    if word.ablation is None:
        return settings
    without = dict.fromkeys([*settings.objective.without, ABLATIONS[word.ablation][0]])
    return replace(settings, objective=replace(settings.objective, without=tuple(without)))


def differences(first: Settings, second: Settings) -> list[tuple[str, Any, Any]]:
    """(key, value, other value) of what decides a run and differs."""
    one, two = (dict(flatten(settings.table())) for settings in (first, second))
    keys = [key for key in dict.fromkeys([*one, *two]) if key not in FREE]
    return [(key, one.get(key), two.get(key)) for key in keys if one.get(key) != two.get(key)]
