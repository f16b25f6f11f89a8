"""A benchmark as a folder that others read: KGReasoning's pickles, or JSON lines beside N-Triples.

`tarbox bench import` reads both again: the same facts, queries and answers.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from tarbox.benchmark.exchange import write_queries
from tarbox.benchmark.folder import Benchmark
from tarbox.benchmark.importing import ABOUT
from tarbox.benchmark.tables import OUTSIDE, Batch
from tarbox.core.errors import BenchmarkError, QueryError
from tarbox.core.ids import Level
from tarbox.kb.arrays import Ids
from tarbox.kb.export import export
from tarbox.kb.facts import SPLITS
from tarbox.kb.terms import to_cell
from tarbox.query.algebra import slots
from tarbox.query.betae import Grounding, Structure, fill, from_query


def export_benchmark(benchmark: Benchmark, folder: Path, format: str) -> tuple[str, ...]:
    """Write a benchmark to a new or empty folder in a format of `EXPORTS`; sentences on what has no form there."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise BenchmarkError(f"{folder} is there already. Name a new folder, or empty it.")
    folder.mkdir(parents=True, exist_ok=True)
    return EXPORTS[format](benchmark, folder)


def _export_lines(benchmark: Benchmark, folder: Path) -> tuple[str, ...]:
    store = benchmark.store
    export(store.facts.asserted(), folder / "kb.nt.gz", store.axioms())
    for split in benchmark.splits:
        write_queries(folder / f"{split}.jsonl.gz", benchmark.table(split), store.facts.vocabulary)
    mode = "none" if store.facts.inferred is None else store.facts.inferred.mode
    told = {"protocol": benchmark.protocol, "excluded": benchmark.manifest["excluded"], "infer": mode}
    (folder / ABOUT).write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return ()


def _export_betae(benchmark: Benchmark, folder: Path) -> tuple[str, ...]:
    """Ids are those of the store; relation 2k is its relation k from head to tail, 2k + 1 the other way."""
    facts = benchmark.store.facts
    entities = dict(enumerate(map(to_cell, facts.vocabulary.entities)))
    signed = (sign + to_cell(name) for name in facts.vocabulary.relations for sign in "+-")
    relations = dict(enumerate(signed))
    for kind, names in (("ent", entities), ("rel", relations)):
        _write(folder / f"id2{kind}.pkl", names)
        _write(folder / f"{kind}2id.pkl", {name: number for number, name in names.items()})
    (folder / "stats.txt").write_text(f"numentity: {len(entities)}\nnumrelations: {len(relations)}\n", encoding="utf-8")
    _write_triples(folder / "train.txt", np.stack([facts.heads, facts.relations, facts.tails], axis=1))
    for split in SPLITS[1:]:
        if (added := benchmark.held_out_facts(split)) is not None:
            _write_triples(folder / f"{split}.txt", added)
    lacking = [note for split in benchmark.splits for note in _export_split(benchmark, split, folder)]
    if benchmark.held_out_facts("test") is None:
        lacking.append("there is no valid.txt and no test.txt: this benchmark does not hold the facts held out")
    return tuple(lacking)


def _export_split(benchmark: Benchmark, split: str, folder: Path) -> list[str]:
    queries: dict[Structure, set[Grounding]] = {}
    easy: dict[Grounding, set[int]] = {}
    hard: dict[Grounding, set[int]] = {}
    left_out = 0
    for batch in benchmark.table(split).batches():
        filled = _groundings(batch) if batch.level is Level.ENTITY else None
        if filled is None:
            left_out += len(batch)
            continue
        structure, rows = filled
        queries.setdefault(structure, set()).update(rows)
        for row, grounding in enumerate(rows):
            hard.setdefault(grounding, set()).update(set(batch.targets[row].tolist()) - {OUTSIDE})
            easy.setdefault(grounding, set()).update(batch.known[row].tolist())
    easy = {grounding: answers - hard[grounding] for grounding, answers in easy.items()}
    _write(folder / f"{split}-queries.pkl", queries)
    if split == "train":
        _write(folder / "train-answers.pkl", {key: hard[key] | easy[key] for key in hard})
    else:
        _write(folder / f"{split}-easy-answers.pkl", easy)
        _write(folder / f"{split}-hard-answers.pkl", hard)
    return [f"{split}: {left_out:,} queries with or about concepts have no form there"] if left_out else []


def _groundings(batch: Batch) -> tuple[Structure, list[Grounding]] | None:
    """The structure of a batch's shape and the grounding of each query; None where there is no such structure."""
    try:
        structure, names = from_query(batch.shape)
    except QueryError:
        return None
    taken = [slot.name for slot in slots(batch.shape)]
    places = [taken.index(name) for name in names]
    numbers = batch.ids[:, places] ^ np.array([name.startswith("?r") for name in names])
    return structure, [fill(structure, iter(row)) for row in numbers.tolist()]


def _write_triples(path: Path, triples: Ids) -> None:
    """Every fact in both directions, as KGReasoning has them."""
    lines = [f"{h}\t{2 * r}\t{t}\n{t}\t{2 * r + 1}\t{h}\n" for h, r, t in triples.tolist()]
    path.write_text("".join(lines), encoding="ascii")


def _write(path: Path, content: Mapping[Any, Any]) -> None:
    path.write_bytes(pickle.dumps(dict(content)))


EXPORTS: Final[Mapping[str, Callable[[Benchmark, Path], tuple[str, ...]]]] = MappingProxyType(
    {"betae": _export_betae, "jsonl": _export_lines}
)
