"""Which models are compared, and with which settings.

A word on the command line is ``MODEL``, ``MODEL-no-sub`` or ``MODEL-no-ins`` (the paper's ablations), or any of these
under a name of one's own: ``wide=tar``. Later sources of settings replace earlier ones: the defaults, a recipe (the
model's own, where none is named for it), `--config`, `--set`. Each may be addressed, ``gqe:optimizer.rate=1e-3``; what
is addressed to a model also holds for its ablations, which must differ from it in nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, final

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
        table = None if self.settings is None else self.settings.table()
        return {
            "label": self.label,
            "model": self.model,
            "ablation_of": self.ablation_of,
            "name": self.name,
            "seeds": self.seeds,
            "settings": table,
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> ModelSpec:
        settings = None if record["settings"] is None else resolve([record["settings"]])
        return cls(record["label"], record["model"], settings, record["ablation_of"], record["name"], record["seeds"])


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
    def ablation_of(self) -> str | None:
        return None if self.ablation is None else self.model

    @property
    def addresses(self) -> tuple[str, ...]:
        """The names under which settings reach it, from the general to the special."""
        own = self.label == f"{self.model}{self.ablation}"
        return (self.model, self.label) if self.ablation is not None and own else (self.label,)

    @property
    def name(self) -> str:
        """What tables show."""
        own = self.label == f"{self.model}{self.ablation}"
        return f"{self.model} {ABLATIONS[self.ablation][1]}" if self.ablation is not None and own else self.label


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
    tables = _Tables([_Addressed.parse(text, words) for text in overrides.recipes], overrides, words)
    return [ModelSpec(word.label, word.model, tables.settings(word), word.ablation_of, word.name) for word in words]


@final
@dataclass(frozen=True, slots=True)
class _Addressed:
    """What an option says, and of which model: None is all."""

    to: str | None
    text: str

    @classmethod
    def parse(cls, text: str, words: Sequence[Word]) -> _Addressed:
        known = {address for word in words for address in word.addresses}
        to = next((name for name in sorted(known, key=len, reverse=True) if text.startswith(f"{name}:")), None)
        return cls(to, text if to is None else text.removeprefix(f"{to}:"))

    def reaches(self, word: Word) -> bool:
        return self.to is None or self.to in word.addresses


@final
class _Tables:
    """Reads the settings of every word from the same options."""

    def __init__(self, named: Sequence[_Addressed], overrides: Overrides, words: Sequence[Word]) -> None:
        self._words, self._device = words, overrides.device
        self._recipes = [(option, read_recipe(option.text)) for option in named]
        configs = [_Addressed.parse(text, words) for text in overrides.configs]
        self._configs = [(option, read_file(Path(option.text))) for option in configs]
        self._assignments = [_Addressed.parse(text, words) for text in overrides.assignments]
        for option in self._assignments:
            self._check(option)

    def settings(self, word: Word) -> Settings | None:
        if word.kind is None:
            return None
        tables: list[Table] = [*self._from_recipes(word), *(t for o, t in self._reaching(self._configs, word))]
        for address in (None, *word.addresses):
            texts = [option.text for option in self._assignments if option.to == address and _has(word, option.text)]
            tables.append(read_assignments(texts, word.model))
        if self._device is not None:
            tables.append({"hardware": {"device": self._device}})
        settings = resolve([*tables, {"model": {"name": word.model}}], word.model)
        return _without(settings, word)

    def _from_recipes(self, word: Word) -> Iterator[Table]:
        """The recipe that is named for the model, or else its own; then what others say about the budget."""
        found = list(self._reaching(self._recipes, word))
        if not any(self._is_for(option, table, word) for option, table in self._recipes):
            yield from default_tables(word.model)
        for _, table in found:
            yield table

    def _reaching(self, options: Sequence[tuple[_Addressed, Table]], word: Word) -> Iterator[tuple[_Addressed, Table]]:
        """What reaches the word. Settings made for another model give it the budget only, unless they are addressed."""
        for option, table in options:
            if option.reaches(word):
                made_for = table.get("model", {}).get("name", word.model)
                if made_for == word.model:
                    yield option, table
                elif option.to is not None:
                    yield option, {key: value for key, value in table.items() if key != "model"}
                else:
                    yield option, {key: value for key, value in table.items() if key in RESUMABLE}

    def _is_for(self, option: _Addressed, table: Table, word: Word) -> bool:
        return option.reaches(word) and (option.to is not None or table.get("model", {}).get("name") == word.model)

    def _check(self, option: _Addressed) -> None:
        """A setting that nobody has is a mistake, and so is one that is addressed to nobody."""
        key = option.text.partition("=")[0]
        if ":" in key:
            names = ", ".join(dict.fromkeys(address for word in self._words for address in word.addresses))
            raise ConfigError(
                f"--set {option.text}: {key.rpartition(':')[0]!r} is not compared here; there are {names}"
            )
        if key.strip() == "seed":
            raise ConfigError("--set seed: a comparison trains with seeds 0, 1, 2, ...; say how many with --seeds")
        trained = [word for word in self._words if option.reaches(word) and word.kind is not None]
        if not trained:
            raise ConfigError(f"--set {option.text}: nothing that is trained has settings here")
        if not any(_has(word, option.text) for word in trained):
            resolve([read_assignments([option.text], trained[0].model)], trained[0].model)  # raises, and says why
            raise ConfigError(f"--set {option.text}: no model of this comparison has such a setting")


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
    task, _ = ABLATIONS[word.ablation]
    left = [Task(name) for name in settings.table()["objective"]["without"]]
    without = [other.value for other in dict.fromkeys([*left, task])]
    table = settings.table()
    return resolve([{**table, "objective": {**table["objective"], "without": without}}])


def differences(first: Settings, second: Settings) -> list[tuple[str, Any, Any]]:
    """(key, value, other value) of what decides a run and differs."""
    one, two = (dict(flatten(settings.table())) for settings in (first, second))
    keys = [key for key in dict.fromkeys([*one, *two]) if key not in FREE]
    return [(key, one.get(key), two.get(key)) for key in keys if one.get(key) != two.get(key)]
