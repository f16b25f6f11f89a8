"""A run folder, opened for use: the model that `tarbox train` wrote, and the facts it was trained on.

::

    RUN/
      run.json            model, vocabulary hash, content hash of the store, and the source: a store or a benchmark
      config.toml         every setting, resolved; `tarbox train --config` reads it
      provenance.json     commit, versions, seed, hardware
      metrics.jsonl       one line per epoch and per validation
      model.safetensors   the arrays of the model: its best weights
      last.safetensors    the last checkpoint: weights, optimizer, random state, place in the epoch; of several
                          processes a file for each shard of the nodes beside it
      predictor.safetensors  what `tarbox update` needs and answering never reads: embeddings, calibration
      parts/              what training has finished so far; gone when the run is complete
      store/              the training store (hard links where the disk allows): a run answers questions by itself
      curves.png          the learning curves
      content-N/          store, model and predictor after update N, which run.json names; those above are gone then

A run holds its store, so it can be moved and asked anywhere; its source it only names, by a path relative to the run
and an absolute one. A run on a store has learnt all of its facts; one on a benchmark those of its training split. A run
is complete when model.safetensors is there and parts/ is not. Nothing here is a pickle.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, final

from tarbox.benchmark.folder import STORE, Benchmark, is_benchmark, open_benchmark
from tarbox.core.config import read_config
from tarbox.core.errors import BenchmarkError, StoreDamaged, StoreError, StoreMissing, StoreVersion
from tarbox.kb.facts import Facts
from tarbox.kb.store import MANIFEST, Store, open_store
from tarbox.models.mapped import map_arrays
from tarbox.models.registry import find_model
from tarbox.models.scorer import Scorer

if TYPE_CHECKING:
    from tarbox.models.base import Model, Sizes, Trainable

FORMAT: Final = "tarbox-run"
VERSION: Final = 2
RUN: Final = "run.json"
CONFIG: Final = "config.toml"
WEIGHTS: Final = "model.safetensors"
PREDICTOR: Final = "predictor.safetensors"
CONTENT: Final = "content-"
"""How the folders begin that an updated run has its store, its model and its predictor in."""
BENCHMARK: Final = "benchmark"
"""A kind of source, beside `tarbox.benchmark.folder.STORE`."""
MOST_FOLDED: Final = 0.25
"""The share of entities folded in beyond which a run should be trained again."""
LEAST_MRR: Final = 0.7
"""And the least MRR of added facts, as a share of that of facts held out of training."""
FEWEST_MEASURED: Final = 50
"""That is not judged by fewer facts."""
LEARNT: Final = ("train", "valid")
"""The tables of a benchmark that training reads."""
_ONE_EACH: Final = {"entity": 1.0, "concept": 1.0, "subsumption": 1.0, "instantiation": 1.0}
RETIRED: Final[Mapping[str, Mapping[str, Any]]] = {
    "model": {"project": "push", "projection": "translation", "union": "dnf"},
    "hardware": {"compile": False},
    "batches": {"one_hop": True, "positives": "all"},
    "objective": {"average": "template", "scales": _ONE_EACH},
}
"""Settings that there were once, with the value that is all there is now: older runs have written them down."""
_DESCRIBED: Final = ("version", "model", "vocabulary_hash", "content_hash", "source")


@final
@dataclass(frozen=True, slots=True)
class SavedRun:
    """An opened run; `description` is run.json and `settings` are the tables of config.toml."""

    path: Path
    description: Mapping[str, Any]
    settings: Mapping[str, Any]
    store: Store

    @property
    def model_name(self) -> str:
        return str(self.description["model"])

    @property
    def facts(self) -> Facts:
        return self.store.facts

    @property
    def content(self) -> Path:
        """Where the store and the model are: in a folder of their own once the run was updated."""
        return self.path / str(self.description.get("content", ""))

    @property
    def on_store(self) -> bool:
        """Whether the run has learnt all facts of a store: nothing was held out then."""
        return bool(self.description["source"]["kind"] == STORE)

    def train_again(self) -> str | None:
        """Why updates are no longer good enough, by what they measured (docs/updating.md); None while they are."""
        updates = self.description.get("updates", [])
        if not updates:
            return None
        own, folded = self.description.get("held_out_mrr"), float(updates[-1]["folded_in"])
        measured = sum(each["measured"] for each in updates)
        mrr = sum(each["measured"] * (each["mrr"] or 0.0) for each in updates) / max(measured, 1)
        if folded > MOST_FOLDED:
            return f"train again: {folded:.0%} of the entities were folded in, more than {MOST_FOLDED:.0%}"
        if own and measured >= FEWEST_MEASURED and mrr < LEAST_MRR * own:
            return f"train again: the MRR of added facts is {mrr / own:.0%} of that of held-out ones"
        return None

    def benchmark(self) -> Path:
        """Where the benchmark is that the run was trained on, by its relative path first; no other is accepted."""
        named = self.description["source"]
        if self.on_store:
            raise BenchmarkError(
                f"{self.path} has learnt all facts of {named['absolute']}: nothing was held out that it could be "
                "evaluated on. Build a benchmark (`tarbox bench build KB -o BENCH`) and train on that, or name queries "
                "with --queries FILE, or a benchmark of the same training facts with --bench BENCH."
            )
        places = [self.path / str(named["relative"]), Path(str(named["absolute"]))]
        for place in places:
            if is_benchmark(place):
                self.check_benchmark(open_benchmark(place))
                return Path(os.path.normpath(place))
        tried = " nor ".join(dict.fromkeys(os.path.normpath(place) for place in places))
        raise StoreMissing(
            f"the benchmark of {self.path} is not at {tried}. "
            f"Name its new place: `tarbox eval {self.path} --bench BENCH`, "
            f"or `tarbox train BENCH --resume -o {self.path}` to train on."
        )

    def check_queries(self, benchmark: Benchmark) -> None:
        """Refuse to train on with other queries than those that the run began with, where it says which."""
        if self.description.get("queries", checksums(benchmark)) != checksums(benchmark):
            raise StoreError(
                f"{self.path} was trained with other queries than {benchmark.path} has. "
                "Resume it with its own benchmark, or train anew."
            )

    def check_benchmark(self, benchmark: Benchmark) -> None:
        """Refuse a benchmark whose training facts are not the run's: it may ask for what the run has learnt."""
        check_vocabulary(self.path, self.description["vocabulary_hash"], benchmark.store)
        self.check_facts(benchmark.store, benchmark.path)

    def check_facts(self, store: Store, named: Path) -> None:
        """Refuse a store with other facts than the run has learnt; `named` is where a user knows it to be."""
        if self.description["content_hash"] != store.manifest["content_hash"]:
            raise StoreError(
                f"{self.path} was trained on other facts than {named} has. Use what it was trained on, or train again."
            )

    def scorer(self, device: str = "cpu") -> Scorer:
        """The trained model, ready to score."""
        import safetensors

        kind, file = find_model(self.model_name), self.content / WEIGHTS
        if not file.exists():
            raise StoreMissing(
                f"{self.path} has no {WEIGHTS} yet: its training has not come so far. To go on with it: "
                f"`tarbox train --resume -o {self.path}`."
            )
        config = read_config(kind.Config, own_settings(self.settings.get("model", {})), "model")
        try:
            return kind.of_arrays(self.facts, map_arrays(file), config, device)
        except (safetensors.SafetensorError, KeyError, StoreDamaged) as error:
            raise StoreDamaged(f"{file} does not hold this model: {error}") from None
        except StoreVersion as error:
            raise StoreVersion(f"{self.path}: {error}") from None


def checksums(benchmark: Benchmark) -> dict[str, str]:
    """Of the tables that a run learns from."""
    files = benchmark.manifest["files"]
    return {split: files[split]["checksum"] for split in LEARNT if split in files}


def is_run(path: str | os.PathLike[str]) -> bool:
    """Whether there is a run at `path`; it may be damaged, which `open_run` says."""
    try:
        return bool(json.loads((Path(path) / RUN).read_bytes()).get("format") == FORMAT)
    except OSError:
        return False
    except (ValueError, AttributeError):
        return True


def what_is_at(path: str | os.PathLike[str]) -> str:
    """The beginning of a message about a path that does not hold what was wanted.

    >>> what_is_at("nowhere")
    'there is nothing at nowhere'
    """
    place = Path(path)
    if not place.exists():
        return f"there is nothing at {place}"
    if not place.is_dir():
        return f"{place} is a file"
    if is_run(place):
        return f"{place} is a run"
    if is_benchmark(place):
        return f"{place} is a benchmark"
    return f"{place} is a store" if (place / MANIFEST).exists() else f"{place} holds no run, benchmark or store"


def open_run(path: str | os.PathLike[str]) -> SavedRun:
    """Open the run at `path`; a run whose vocabulary is not its store's is refused."""
    folder = Path(path)
    if not is_run(folder):
        raise StoreMissing(f"no run at {folder}: {what_is_at(folder)}. Train one with `tarbox train KB|BENCH -o RUN`.")
    description = _read_description(folder / RUN)
    settings = _read_settings(folder / CONFIG)
    store = open_store(folder / str(description.get("content", "")) / STORE)
    check_vocabulary(folder, description["vocabulary_hash"], store)
    return SavedRun(folder, description, settings, store)


def _read_description(file: Path) -> Mapping[str, Any]:
    try:
        found = json.loads(file.read_bytes())
    except ValueError as error:
        raise StoreDamaged(f"{file} is damaged: {error}. Train the run again, or take the file from a copy.") from None
    if isinstance(found, dict) and found.get("version", VERSION) != VERSION:
        raise StoreVersion(
            f"{file.parent} has run format {found['version']}, this tarbox reads {VERSION}. Train it again."
        )
    missing = [key for key in _DESCRIBED if not isinstance(found, dict) or key not in found]
    if missing:
        raise StoreDamaged(f"{file} is damaged: it has no {missing[0]!r}. Train the run again.")
    description: Mapping[str, Any] = found
    return description


def _read_settings(file: Path) -> Mapping[str, Any]:
    try:
        settings = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise StoreDamaged(f"{file} is missing: the run is not complete. Train it again.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise StoreDamaged(f"{file} is damaged: {error}. Mend it, or train the run again.") from None
    if not isinstance(settings.get("model", {}), dict):
        raise StoreDamaged(f"{file} is damaged: [model] is no table. Mend it, or train the run again.")
    return without_retired(settings)


def check_vocabulary(run: Path, vocabulary_hash: str, store: Store) -> None:
    """Refuse a store whose ids are not those that the run was trained with."""
    if store.vocabulary_hash != vocabulary_hash:
        raise StoreError(
            f"{run} was trained with another vocabulary than {store.path} has "
            f"({vocabulary_hash[:8]}, not {store.vocabulary_hash[:8]}): its ids mean other things. "
            "Use the benchmark it was trained on, or train again."
        )


def build_model(kind: type[Trainable], table: Mapping[str, Any], sizes: Sizes) -> Model:
    """A new model from the table `[model]` of the settings; one of entities alone answers by one more hop."""
    return kind.build(read_config(kind.Config, own_settings(table), "model"), sizes)


def without_retired(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Tables of settings without those of `RETIRED`, where they say what holds anyway.

    >>> without_retired({"hardware": {"compile": False, "graphs": True}, "seed": 1})
    {'hardware': {'graphs': True}, 'seed': 1}
    """
    kept = dict(settings)
    for part in RETIRED.keys() & {name for name, table in kept.items() if isinstance(table, Mapping)}:
        kept[part] = {key: value for key, value in kept[part].items() if RETIRED[part].get(key, ...) != value}
    return kept


def own_settings(table: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a model without its name."""
    return {key: value for key, value in table.items() if key != "name"}


def sizes_of(facts: Facts) -> Sizes:
    from tarbox.models.base import Sizes

    vocabulary = facts.vocabulary
    return Sizes(len(vocabulary.entities), len(vocabulary.concepts), len(vocabulary.relations))
