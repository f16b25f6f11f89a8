"""Concept ranking (Eq. 12-13) by every engine: terms per second as ratios to eager torch, growth, and peak memory.

    python benchmarks/concept_ranking.py                 everything, on the GPU if there is one
    python benchmarks/concept_ranking.py --device cpu --threads 1 --no-compile
    python benchmarks/concept_ranking.py --tune          time every tile of the Triton kernel (CUDA)

A term is one (query, concept, entity). Needs torch and numpy; numba on a CPU, Triton on a GPU.
"""

# ruff: noqa: N806 (shape suffixes)
from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parent.parent / "src"))

import torch
from torch import Tensor

from tarbox.core.ids import Level
from tarbox.models.base import Sizes
from tarbox.models.divergence import EAGER, CrossTerms, Halves, choose_engines, cross_eager, pair_similarity
from tarbox.models.tar import Tar, TarConfig
from tarbox.query.templates import TEMPLATES

YAGO4: Final = Sizes(entities=26_971, concepts=553, relations=72)
LARGE: Final = Sizes(entities=100_000, concepts=10_000, relations=100)
GROWTH: Final = (12_500, 25_000, 50_000, 100_000)
LIMIT: Final = 8 << 30


@dataclass(frozen=True, slots=True)
class Line:
    """A row of the table: a figure in its unit, and its ratio to the first row of its section."""

    section: str
    name: str
    figure: float
    unit: str
    ratio: float | None = None
    memory: int | None = None


class Meter:
    """Times a call on one device: the best of several rounds, with everything on the device finished.

    On a CPU it is processor time per thread, which others on the machine change little.
    """

    def __init__(self, device: torch.device, seconds: float) -> None:
        self.device, self.seconds = device, seconds

    def synchronize(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def time(self, call: Callable[[], object]) -> float:
        call()
        self.synchronize()
        best, began = float("inf"), time.perf_counter()
        while time.perf_counter() - began < self.seconds:
            start = self.clock()
            call()
            self.synchronize()
            best = min(best, self.clock() - start)
        return best

    def clock(self) -> float:
        if self.device.type == "cuda":
            return time.perf_counter()
        return time.process_time() / torch.get_num_threads()

    def memory(self, call: Callable[[], object]) -> int:
        """Bytes above what was held before: the device's allocator on CUDA, else the growth of the process's peak."""
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
            call()
            self.synchronize()
            return torch.cuda.max_memory_allocated() - before
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        call()
        return 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)

    def peak(self) -> int:
        """Bytes that the device (or the process) ever held."""
        if self.device.type == "cuda":
            return torch.cuda.max_memory_allocated()
        return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def fuzzy_sets(rows: int, entities: int, device: torch.device) -> Halves:
    return Halves.of(torch.sigmoid(2 * torch.randn(rows, entities, device=device) - 3), 1, 1e-12)


def fused(concepts: Tensor, queries: Tensor) -> Tensor:
    """What `torch.compile` makes one kernel of."""
    z = queries[:, None] + concepts[None]
    return (z * z.log2()).sum(2)


def engines(device: torch.device, *, compiled: bool) -> dict[str, CrossTerms]:
    found: dict[str, CrossTerms] = {"eager torch": cross_eager}
    if compiled:
        found["torch.compile"] = torch.compile(fused, dynamic=True)
    best = choose_engines(torch.empty(0, device=device)).cross_terms
    if best is not cross_eager:
        found["Triton" if device.type == "cuda" else "numba"] = best
    return found


def rank_all(meter: Meter, batch: int, *, compiled: bool) -> list[Line]:
    """All concepts for a batch of queries at YAGO4's size."""
    concepts, queries = (fuzzy_sets(n, YAGO4.entities, meter.device) for n in (YAGO4.concepts, batch))
    terms = batch * YAGO4.concepts * YAGO4.entities
    lines: list[Line] = []
    calls: dict[str, Callable[[], Tensor]] = {
        name: partial(engine, concepts.values, queries.values)
        for name, engine in engines(meter.device, compiled=compiled).items()
    }
    for name, call in calls.items():
        rate = terms / meter.time(call)
        ratio = rate / lines[0].figure if lines else 1.0
        lines.append(Line("all pairs", name, rate, "terms/s", ratio, meter.memory(call)))
    return lines


def train_pairs(meter: Meter, batch: int) -> list[Line]:
    """Forward and backward of Con for 5 concepts per query, from given sets; then with the sets from embeddings."""
    torch.manual_seed(0)
    rows_BK = torch.randint(YAGO4.concepts, (batch, 5), device=meter.device)
    logits = [torch.randn(n, YAGO4.entities, device=meter.device, requires_grad=True) for n in (YAGO4.concepts, batch)]

    def sets() -> list[Halves]:
        return [Halves.of(torch.sigmoid(part), 1, 1e-12) for part in logits]

    def naive() -> None:
        concepts, queries = (part.values for part in sets())
        picked_BKE = concepts[rows_BK]
        mean_BKE = picked_BKE + queries[:, None]
        own = (picked_BKE * (2 * picked_BKE).log()).sum(2) + (queries * (2 * queries).log()).sum(1)[:, None]
        torch.autograd.backward(((mean_BKE * mean_BKE.log()).sum(2) - own).sum())

    def recomputed() -> None:
        concepts, queries = sets()
        torch.autograd.backward(pair_similarity(concepts, queries, rows_BK).sum())

    def whole() -> None:
        torch.autograd.backward(model.score_candidates(shape, ids_BS, Level.CONCEPT, rows_BK).sum())

    model = Tar(TarConfig(), YAGO4).to(meter.device)
    shape = TEMPLATES["2i"].shape
    ids_BS = torch.stack([torch.randint(n, (batch,), device=meter.device) for n in (144, 26_971, 144, 26_971)], 1)
    calls = {"eager autograd": naive, "recomputed": recomputed, "2i, from embeddings": whole}
    lines: list[Line] = []
    for name, call in calls.items():
        rate = batch / meter.time(call)
        ratio = rate / lines[0].figure if lines else 1.0
        lines.append(Line("training", name, rate, "samples/s", ratio, meter.memory(call)))
    return lines


def grow(meter: Meter, batch: int) -> list[Line]:
    """The time for all concepts of YAGO4, by entities; a ratio of 1 is linear growth."""
    lines: list[Line] = []
    for entities in GROWTH:
        concepts, queries = (fuzzy_sets(n, entities, meter.device) for n in (YAGO4.concepts, batch))
        engine = choose_engines(queries.values).cross_terms
        seconds = meter.time(partial(engine, concepts.values, queries.values))
        per_entity = seconds / entities
        ratio = per_entity / lines[0].figure if lines else 1.0
        lines.append(Line("growth", f"{entities:,} entities", per_entity, "s/entity", ratio))
    return lines


def rank_large(meter: Meter, batch: int) -> list[Line]:
    """Concept ranking by the model itself, from embeddings, at 100k entities x 10k concepts."""
    torch.manual_seed(0)
    model = Tar(TarConfig(), LARGE).to(meter.device)
    shape = TEMPLATES["2i"].shape
    limits = (LARGE.directed, LARGE.entities, LARGE.directed, LARGE.entities)
    ids_BS = torch.stack([torch.randint(limit, (batch,), device=meter.device) for limit in limits], 1)
    model.score(shape, ids_BS[:1], Level.ENTITY)
    start = time.perf_counter()
    memory = meter.memory(lambda: model.score(shape, ids_BS, Level.CONCEPT))
    seconds = time.perf_counter() - start
    held = meter.peak()
    verdict = "fits 8 GB" if held < LIMIT else "does not fit 8 GB"
    name = f"100k x 10k, {batch} queries: {verdict}"
    return [Line("large", name, batch / seconds, "queries/s", held / LIMIT, max(memory, held))]


TILES: Final = (
    (8, 16, 32, 4),
    (16, 16, 32, 4),
    (16, 16, 32, 8),
    (8, 32, 32, 8),
    (16, 32, 32, 8),
    (8, 8, 64, 4),
    (8, 16, 64, 8),
)
"""Worth trying."""


def tune(meter: Meter, batch: int) -> list[Line]:
    """Every tile of the Triton kernel; the best belongs into `tarbox.models.kernels.TILE`."""
    from tarbox.models.kernels import Tile, cross_terms

    concepts, queries = (fuzzy_sets(n, YAGO4.entities, meter.device) for n in (YAGO4.concepts, batch))
    terms = batch * YAGO4.concepts * YAGO4.entities
    eager = terms / meter.time(partial(cross_eager, concepts.values, queries.values))
    lines = [Line("tiles", "eager torch", eager, "terms/s", 1.0)]
    for tile in (Tile(*numbers) for numbers in TILES):
        rate = terms / meter.time(partial(cross_terms, concepts.values, queries.values, tile))
        lines.append(Line("tiles", str(tile), rate, "terms/s", rate / eager))
    return lines


def check(device: torch.device) -> None:
    """The quick engine agrees with eager torch in double precision: a fast wrong answer is no figure."""
    concepts, queries = (fuzzy_sets(n, 3_001, device).values for n in (37, 19))
    wanted = cross_eager(concepts.double(), queries.double())
    torch.testing.assert_close(
        choose_engines(queries).cross_terms(concepts, queries).double(), wanted, rtol=1e-5, atol=1e-2
    )
    rows_BK, grad_BK = torch.randint(37, (19, 5), device=device), torch.randn(19, 5, device=device)
    single = [part.clone().requires_grad_() for part in (concepts, queries)]
    pairs = pair_similarity(Halves(single[0], 3_001.0), Halves(single[1], 3_001.0), rows_BK)
    found = torch.autograd.grad(pairs, single, grad_BK)
    exact = EAGER.pair_gradients(concepts.double(), queries.double(), rows_BK, grad_BK.double() / 3_001)
    torch.testing.assert_close([part.double() for part in found], list(exact), rtol=1e-3, atol=1e-6)


def show(lines: list[Line], device: torch.device) -> None:
    where = torch.cuda.get_device_name() if device.type == "cuda" else f"CPU, {torch.get_num_threads()} threads"
    print(f"\nconcept ranking on {where}, torch {torch.__version__}")
    print(f"{'':10}  {'':44} {'figure':>10}  {'':9} {'ratio':>7} {'memory':>10}")
    section = ""
    for line in lines:
        title = "" if line.section == section else line.section
        section = line.section
        ratio = "" if line.ratio is None else f"{line.ratio:.2f}"
        memory = "" if line.memory is None else f"{line.memory / 2**20:,.0f} MiB"
        print(f"{title:10}  {line.name:44} {line.figure:10.3g}  {line.unit:9} {ratio:>7} {memory:>10}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--batch", type=int, help="queries at a time (512 on a GPU, 16 on a CPU)")
    parser.add_argument("--threads", type=int, help="threads on a CPU (all cores, unless others use them: then 1)")
    parser.add_argument("--seconds", type=float, default=1.0, help="how long each figure is repeated")
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    parser.add_argument("--no-large", action="store_true", help="leave 100k x 10k out")
    parser.add_argument("--tune", action="store_true", help="time the tiles of the Triton kernel, nothing else")
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    options = parser.parse_args()
    device = torch.device(options.device)
    torch.set_num_threads(options.threads or torch.get_num_threads())
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    meter = Meter(device, options.seconds)
    batch = options.batch or (512 if device.type == "cuda" else 16)
    check(device)
    if options.tune:
        lines = tune(meter, batch)
    else:
        lines = rank_all(meter, batch, compiled=not options.no_compile)
        lines += grow(meter, batch)
        lines += train_pairs(meter, 2048 if device.type == "cuda" else 128)
        lines += [] if options.no_large else rank_large(meter, batch=64 if device.type == "cuda" else 4)
    if options.json:
        options.json.write_text(json.dumps([_plain(line) for line in lines], indent=2))
    show(lines, device)


def _plain(line: Line) -> dict[str, Any]:
    return {name: getattr(line, name) for name in Line.__slots__}


if __name__ == "__main__":
    main()
