"""From files to answers in two calls: what `tarbox.build` and `tarbox.train` do, with the commands' progress."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from warnings import warn

from tarbox.core.config import unknown_key
from tarbox.core.errors import ConfigError

if TYPE_CHECKING:
    from tarbox.kb.build import BuildOptions
    from tarbox.kb.presets import Preset
    from tarbox.service.knowledge_base import KnowledgeBase
    from tarbox.service.reasoner import Reasoner


def build(
    sources: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] = (),
    to: str | os.PathLike[str] | None = None,
    *,
    preset: str | None = None,
    **options: Any,
) -> KnowledgeBase:
    """The knowledge base of files, globs or folders, or of a preset, as `tarbox kb build` makes it.

    Its store is the folder `to`, or a temporary one that is there as long as what is returned. `options` are `infer`
    ("none", "rdfs" or "owl"), `format`, and the fields of `tarbox.kb.interpretation.Interpretation`
    (`annotations=["has_phenotype"]`, `keep_literals=True`, ...) and `tarbox.kb.build.BuildOptions` (`base`,
    `strict`, ...). A warning tells of lines that cannot be read.
    """
    from tarbox.cli.kb import show_progress
    from tarbox.kb.build import build as build_store
    from tarbox.kb.sources import Rejection, find_sources
    from tarbox.service.knowledge_base import KnowledgeBase

    given = [sources] if isinstance(sources, str | os.PathLike) else list(sources)
    if bool(given) == bool(preset):
        raise ConfigError("give files to tarbox.build, or a preset; not both, not neither")
    chosen, format = find_preset(preset) if preset else None, options.pop("format", None)
    made = build_options(chosen, options)
    found = chosen.sources(None) if chosen else find_sources([os.fspath(each) for each in given], format)[0]
    path, tie = _place(to, preset or "kb")
    with show_progress(found) as progress:
        store = build_store(found, path, made, progress)
    if store.manifest["rejected"]:
        first = Rejection(**store.manifest["rejected"][0])
        warn(f"{store.manifest['report']['rejections']:,} lines cannot be read, the first {first}", stacklevel=2)
    kb = KnowledgeBase.load(path)
    tie(kb)
    return kb


def find_preset(name: str) -> Preset:
    from tarbox.kb.presets import PRESETS

    if name not in PRESETS:
        raise ConfigError(f"no preset '{name}'. There are: {', '.join(PRESETS)}.")
    return PRESETS[name]


def build_options(preset: Preset | None, given: Mapping[str, Any]) -> BuildOptions:
    """The options that are given, by their names, beside those of a preset; a list will do where a tuple is meant."""
    from tarbox.kb.build import BuildOptions
    from tarbox.kb.interpretation import Interpretation
    from tarbox.kb.reasoning.inference import choose_mode

    known = {field.name: kind for kind in (BuildOptions, Interpretation) for field in fields(kind)}
    del known["interpretation"]
    for key in given:
        if key not in known:
            raise unknown_key(key, sorted([*known, "format"]))
    values: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in given.items()}
    values["infer"] = choose_mode(values.get("infer", "none" if preset else None), values.get("seconds"))
    own = {key: value for key, value in values.items() if known[key] is Interpretation}
    others = {key: value for key, value in values.items() if known[key] is BuildOptions}
    return BuildOptions(replace(preset.interpretation if preset else Interpretation(), **own), **others)


def train(
    source: KnowledgeBase | str | os.PathLike[str],
    to: str | os.PathLike[str] | None = None,
    *,
    model: str | None = None,
    recipe: str | None = None,
    settings: Mapping[str, Any] | None = None,
    device: str | None = None,
) -> Reasoner:
    """The reasoner that `tarbox train` makes of all facts of a knowledge base, or of a benchmark's training split.

    The run is the folder `to`, or a temporary one that is there as long as what is returned. `settings` are those of
    `--set`: `{"epochs": 15, "model.rank": 64, "seed": 1}`.
    """
    from tarbox.cli.train import DEFAULT, setting_tables
    from tarbox.cli.training_progress import told
    from tarbox.service.knowledge_base import KnowledgeBase
    from tarbox.service.reasoner import Reasoner
    from tarbox.training.session import start
    from tarbox.training.settings import resolve

    chosen = DEFAULT if model is None and recipe is None else model
    assignments = [f"{key}={json.dumps(value)}" for key, value in (settings or {}).items()]
    tables = setting_tables(recipe, None, assignments, chosen)
    hardware = {} if device is None else {"hardware": {"device": device}}
    facts = source.path if isinstance(source, KnowledgeBase) else source
    path, tie = _place(to, "run")
    with told() as listeners:
        start(facts, path, resolve([*tables, hardware], chosen or DEFAULT), listeners)
    reasoner = Reasoner.load(path)
    tie(reasoner.kb)
    return reasoner


def _place(named: str | os.PathLike[str] | None, name: str) -> tuple[Path, Callable[[object], object]]:
    """The folder that is named, or a temporary one; and what ties that to an owner: it goes when the owner does, or
    when Python ends."""
    if named is not None:
        return Path(named), lambda _: None
    made = tempfile.mkdtemp(prefix="tarbox-")
    return Path(made) / name, lambda owner: weakref.finalize(owner, shutil.rmtree, made, ignore_errors=True)
