"""Link predictors that the field knows, beside the one that credo has: how well they rank facts that were hidden.

    PYTHONPATH=src python3 benchmarks/predictors.py scratch/yago4 --minutes 20

A tenth of the facts is hidden as in credo's rehearsal, each predictor is trained on the rest, and `--hidden` of the
hidden assertions are asked in both directions: MRR and Hit@10 x 100 of the missing end among all entities, everything
else that is true filtered. Predictors: `complex` (as adopted: N3, relation prediction), `smoothed` (label smoothing),
`ranged` (64 more rivals from what the link's own relation leads to, in a softmax of their own), `paths` (messages along
the links from the one entity that is asked about, in the way of NBFNet: Zhu et al. 2021; it trains for `--minutes`),
and `credo` (the degrees of the calibrator, fitted to proposals of other heads). The last rows join two of them by the
sum of logarithms, with the weight that is best on the other half.
"""

# ruff: noqa: N803 (shape suffixes, see STYLE.md)

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numba
import numpy as np
import torch
from numpy.typing import NDArray
from tarbox.models.calibration import fit_calibrator
from tarbox.models.evidence import Evidence
from tarbox.models.proposals import link_features, propose_links
from torch import Tensor, nn
from torch.nn import functional

from tarbox.benchmark.folder import open_benchmark
from tarbox.kb.facts import Facts
from tarbox.kb.splits import hide
from tarbox.models.complex import Complex, ComplexConfig
from tarbox.models.links import links_of
from tarbox.models.saved import sizes_of

Rows = NDArray[np.int64]
Floats = NDArray[np.float32]
Score = Callable[[Rows, Rows], Floats]
"""(directed relations [B], entities [B]) to [B, E]: how likely each entity is reached, as a logarithm."""
STEP = 2048
BEGAN = time.monotonic()


def say(*words: object) -> None:
    print(f"{time.monotonic() - BEGAN:5.0f} s", *words, flush=True)


# What is asked


class Known:
    """Where links lead to, by way and start."""

    def __init__(self, links: Rows) -> None:
        self.width = np.int64(links[:, 1:].max() + 1)
        keys = links[:, 0] * self.width + links[:, 1]
        order = np.argsort(keys, kind="stable")
        self.keys, self.ends = keys[order], links[order, 2]

    def of(self, links: Rows) -> list[Rows]:
        keys = links[:, 0] * self.width + links[:, 1]
        low, high = np.searchsorted(self.keys, keys), np.searchsorted(self.keys, keys, side="right")
        return [self.ends[a:z] for a, z in zip(low, high, strict=True)]


@dataclass(frozen=True)
class Asked:
    """Hidden assertions in both directions: the directed relation, the entity asked about, the one that is missing;
    `second` are those of the half that nothing is fitted to."""

    relations: Rows
    near: Rows
    far: Rows
    second: NDArray[np.bool_]
    others: list[Rows]

    @classmethod
    def of(cls, whole: Facts, rest: Facts, count: int) -> Asked:
        width = np.int64(len(whole.vocabulary.entities))
        hidden = np.setdiff1d(keys_of(whole), keys_of(rest))
        chosen = np.random.default_rng(0).permutation(hidden)[:count]
        relation, head, tail = chosen // (width * width), chosen // width % width, chosen % width
        links = (np.concatenate([2 * relation + 1, 2 * relation]), np.r_[head, tail], np.r_[tail, head])
        others = Known(links_of(whole).astype(np.int64)).of(np.stack(links, axis=1))
        second = np.tile(np.random.default_rng(1).random(len(chosen)) < 0.5, 2)
        return cls(*links, second, others)

    def rank(self, scores_QE: Floats) -> NDArray[np.float64]:
        """[Q] ranks; ties count half."""
        ranks = np.empty(len(self.far))
        for row, (own, far, others) in enumerate(zip(scores_QE, self.far, self.others, strict=True)):
            mine = own[far]
            ranks[row] = 1 + (own > mine).sum() + 0.5 * ((own == mine).sum() - 1)
            rivals = own[others[others != far]]
            ranks[row] -= (rivals > mine).sum() + 0.5 * (rivals == mine).sum()
        return ranks


def keys_of(facts: Facts) -> Rows:
    width = np.int64(len(facts.vocabulary.entities))
    found: Rows = (facts.relations.astype(np.int64) * width + facts.heads) * width + facts.tails
    return found


# ComplEx and its variants


def train_complex(facts: Facts, options: argparse.Namespace, smoothing: float = 0.0, ranged: bool = False) -> Complex:
    torch.manual_seed(0)
    links = Complex(ComplexConfig(rank=options.rank), sizes_of(facts))
    optimizer = torch.optim.Adagrad(links.parameters(), lr=0.1)
    table = torch.from_numpy(links_of(facts)).long()
    to_concept = table[:, 0] >= links.places.concepts_of
    parts = [(table[~to_concept], links.places.entities), (table[to_concept], links.places.concepts)]
    reached = [torch.unique(table[table[:, 0] == way, 2]) for way in range(links.places.directed)]
    for _ in range(options.epochs):
        orders = [torch.randperm(len(part)) for part, _ in parts]
        steps = len(table) // STEP
        for step in range(steps):
            loss = torch.zeros(())
            for (part, kind), order in zip(parts, orders, strict=True):
                size = len(part)
                batch = part[order[size * step // steps : size * (step + 1) // steps]]
                if len(batch):
                    loss = loss + variant_loss(links, batch, kind, options.rivals, smoothing, reached if ranged else [])
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    return links.eval()


def variant_loss(
    links: Complex, batch: Tensor, kind: slice, count: int, smoothing: float, reached: list[Tensor]
) -> Tensor:
    """The model's own loss, and what the variant changes of the cross entropy."""
    width = kind.stop - kind.start
    rivals = None if width <= count else torch.randint(kind.start, kind.stop, (count,))
    loss = links.loss(batch, kind, rivals)
    if not smoothing and not reached:
        return loss
    question = links.questions(batch[:, 0], batch[:, 1])
    if smoothing:  # a share of each target is spread over all candidates
        scores = links.scores(question, kind if rivals is None else rivals)
        own = (question * links.nodes[batch[:, 2]]).sum(1)
        return loss + smoothing * (own.mean() - scores.mean())
    # rivals that are plausible: what the same relation leads to elsewhere
    drawn = torch.stack([ends[torch.randint(len(ends), (64,))] for ends in (reached[way] for way in batch[:, 0])])
    near = torch.einsum("bd,bkd->bk", question, links.nodes[drawn])
    near = near.masked_fill(drawn == batch[:, 2:], -1e9)
    own = (question * links.nodes[batch[:, 2]]).sum(1, keepdim=True)
    return loss + functional.cross_entropy(torch.cat([own, near], 1), torch.zeros(len(batch), dtype=torch.long))


def score_complex(links: Complex) -> Score:
    def score(relations: Rows, near: Rows) -> Floats:
        with torch.no_grad():
            question = links.questions(torch.from_numpy(relations), torch.from_numpy(near))
            found: Floats = links.scores(question, links.places.entities).log_softmax(1).numpy()
        return found

    return score


# Messages along links


@numba.njit(parallel=True, fastmath=True)
def gather(links, left, right, out):  # type: ignore[no-untyped-def]
    """out[group] = the sum over the links of a group of left[a] * right[b]; `links` are the starts of groups, a, b and
    which are used."""
    starts, lefts, rights, used = links
    for group in numba.prange(len(starts) - 1):
        for place in range(starts[group], starts[group + 1]):
            if used[place]:
                a, b = lefts[place], rights[place]
                for k in range(left.shape[1]):
                    out[group, k] += left[a, k] * right[b, k]


class Graph:
    """Links (way, from, to) in three orders: by `to`, by `from` and by way; `remove` leaves some out."""

    def __init__(self, links: Rows, nodes: int, ways: int) -> None:
        self.nodes, self.ways = nodes, ways
        self.orders = [np.argsort(links[:, column], kind="stable") for column in (2, 1, 0)]
        self.links = [np.ascontiguousarray(links[order].T.astype(np.int32)) for order in self.orders]
        sizes = ((2, nodes), (1, nodes), (0, ways))
        self.starts = [
            np.searchsorted(table[column], np.arange(size + 1)).astype(np.int64)
            for table, (column, size) in zip(self.links, sizes, strict=True)
        ]
        self.keys = (links[:, 0].astype(np.int64) * nodes + links[:, 1]) * nodes + links[:, 2]
        self.sorted = np.argsort(self.keys)
        self.shares = torch.from_numpy(np.bincount(links[:, 2], minlength=nodes) + 1.0).float().rsqrt()[:, None]
        self.used = [np.ones(len(links), np.bool_) for _ in range(3)]

    def remove(self, links: Rows) -> None:
        keys = (links[:, 0].astype(np.int64) * self.nodes + links[:, 1]) * self.nodes + links[:, 2]
        places = self.sorted[np.minimum(np.searchsorted(self.keys[self.sorted], keys), len(self.keys) - 1)]
        gone = np.zeros(len(self.keys), np.bool_)
        gone[places[self.keys[places] == keys]] = True
        self.used = [~gone[order] for order in self.orders]


class Messages(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, weights: Tensor, graph: Graph) -> Tensor:
        ctx.graph, ctx.used = graph, graph.used
        ctx.save_for_backward(values, weights)
        out = np.zeros((graph.nodes, values.shape[1]), np.float32)
        (ways, near, _), starts = graph.links[0], graph.starts[0]
        gather((starts, near, ways, graph.used[0]), values.detach().numpy(), weights.detach().numpy(), out)
        return torch.from_numpy(out)

    @staticmethod
    def backward(ctx: Any, grads: Tensor) -> tuple[Tensor, Tensor, None]:
        values, weights = (tensor.numpy() for tensor in ctx.saved_tensors)
        graph, grad = ctx.graph, np.ascontiguousarray(grads.numpy())
        to_values, to_weights = np.zeros_like(values), np.zeros_like(weights)
        ways, _, far = graph.links[1]
        gather((graph.starts[1], far, ways, ctx.used[1]), grad, weights, to_values)
        _, near, far = graph.links[2]
        gather((graph.starts[2], near, far, ctx.used[2]), values, grad, to_weights)
        return torch.from_numpy(to_values), torch.from_numpy(to_weights), None


class Paths(nn.Module):
    """Three rounds of messages from the entity asked about; what a link passes on depends on the relation asked for."""

    def __init__(self, ways: int, width: int, rounds: int = 3) -> None:
        super().__init__()
        self.ways, self.width = ways, width
        self.asked = nn.Embedding(ways, width)
        self.passing = nn.ModuleList(nn.Linear(width, ways * width) for _ in range(rounds))
        self.mixing = nn.ModuleList(nn.Linear(width, width) for _ in range(rounds))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(rounds))
        self.there, self.wanted = nn.Linear(width, 2 * width), nn.Linear(width, 2 * width)
        self.head = nn.Linear(2 * width, 1)

    def forward(self, graph: Graph, relations_B: Tensor, near_B: Tensor) -> Tensor:
        """[B, nodes] scores."""
        size, width = len(near_B), self.width
        asked = self.asked(relations_B)
        start = torch.zeros(graph.nodes, size, width)
        start[near_B, torch.arange(size)] = asked
        state = start
        for passing, mixing, norm in zip(self.passing, self.mixing, self.norms, strict=True):
            weights = passing(asked).reshape(size, self.ways, width).transpose(0, 1).reshape(self.ways, -1)
            flat = state.reshape(graph.nodes, -1)
            got: Tensor = Messages.apply(flat, weights.contiguous(), graph) * graph.shares  # type: ignore[no-untyped-call]
            state = state + functional.relu(norm(mixing(got.reshape(graph.nodes, size, width) + start)))
        scores: Tensor = self.head(functional.relu(self.there(state) + self.wanted(asked)))[:, :, 0].T
        return scores


def train_paths(facts: Facts, options: argparse.Namespace) -> Score:
    sizes = sizes_of(facts)
    links = links_of(facts).astype(np.int64)
    places = Complex(ComplexConfig(rank=1), sizes).places
    typed = links[links[:, 0] == places.concepts_of]
    graph = Graph(np.concatenate([links, np.stack([typed[:, 0] * 0 + places.directed, typed[:, 2], typed[:, 1]], 1)]),
                  places.nodes, places.directed + 1)  # fmt: skip
    lessons = links[links[:, 0] < places.concepts_of]
    answers = Known(lessons)
    torch.manual_seed(0)
    model = Paths(places.directed + 1, options.width)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3, fused=True)
    random, began, step = np.random.default_rng(0), time.monotonic(), 0
    while (passed := (time.monotonic() - began) / (60 * options.minutes)) < 1:
        batch = lessons[random.integers(len(lessons), size=options.batch)]
        graph.remove(np.concatenate([batch, np.stack([batch[:, 0] ^ 1, batch[:, 2], batch[:, 1]], 1)]))
        relations, near, far = (torch.from_numpy(column.copy()) for column in batch.T)
        scores = model(graph, relations, near)[:, : sizes.entities]
        for row, others in enumerate(answers.of(batch)):
            scores[row, torch.from_numpy(others[others != batch[row, 2]])] = -1e9
        loss = functional.cross_entropy(scores, far)
        optimizer.param_groups[0]["lr"] = 5e-3 * max(1 - passed, 0.02)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        step += 1
        if step % 200 == 0:
            say(f"paths: {step:,} steps of {options.batch}, loss {loss.item():.2f}")
    graph.remove(np.empty((0, 3), np.int64))

    def score(relations: Rows, near: Rows) -> Floats:
        with torch.no_grad():
            found = model(graph, torch.from_numpy(relations), torch.from_numpy(near))[:, : sizes.entities]
        rows: Floats = found.log_softmax(1).numpy()
        return rows

    return score


# What credo makes of the predictor


def score_credo(links: Complex, whole: Facts, rest: Facts, asked: Asked) -> Floats:
    """[Q, E] logarithms of the calibrator's degrees; what is not proposed comes after, by the predictor's score."""
    evidence = Evidence.of(rest)
    triples, sums = propose_links(links, evidence)
    features = link_features(links, evidence, triples, sums)
    width = np.int64(evidence.sizes.entities)
    heads, tails = triples // width % width, triples % width
    first = np.random.default_rng(2).random(width) < 0.5  # by head: what it is fitted to is not what it is asked
    true = np.isin(triples, keys_of(whole))
    found: Floats = score_complex(links)(asked.relations, asked.near) - np.float32(30)
    for fitted, used in ((first, ~first), (~first, first)):
        inside = fitted[heads]
        degrees = fit_calibrator(features[inside], true[inside], 0, "cpu").degrees(features)
        logs = np.log(np.maximum(degrees, 1e-9))
        for direction, (near, far) in enumerate(((tails, heads), (heads, tails))):
            keys = (2 * (triples // (width * width)) + direction) * width + near
            order = np.argsort(keys, kind="stable")
            ways = asked.relations * width + asked.near
            low, high = np.searchsorted(keys[order], ways), np.searchsorted(keys[order], ways, side="right")
            for row in np.flatnonzero(asked.relations % 2 == direction):
                places = order[low[row] : high[row]]
                mine = places[used[heads[places]]]
                found[row, far[mine]] = logs[mine]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("benchmark", type=Path)
    parser.add_argument("--only", default="complex,smoothed,ranged,paths,credo")
    parser.add_argument("--hidden", type=int, default=1000)
    parser.add_argument("--rank", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--rivals", type=int, default=2048)
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--width", type=int, default=16)
    parser.add_argument("--batch", type=int, default=8)
    options = parser.parse_args()
    torch.set_flush_denormal(True)  # smoothing drives many values there, where a processor takes many times as long
    whole = open_benchmark(options.benchmark).store.facts
    rest = hide(whole, 0, 0.1)
    asked = Asked.of(whole, rest, options.hidden)
    say(f"{len(whole.heads):,} assertions, {len(rest.heads):,} of them are shown; {len(asked.far):,} questions")
    wanted, tables = options.only.split(","), {}
    variants: dict[str, dict[str, Any]] = {"complex": {}, "smoothed": {"smoothing": 0.1}, "ranged": {"ranged": True}}
    links = None
    for name, change in variants.items():
        if name in wanted:
            trained = train_complex(rest, options, **change)
            links = trained if name == "complex" else links
            tables[name] = report(name, asked, blocks(score_complex(trained), asked))
    if "credo" in wanted and links is not None:
        tables["credo"] = report("credo", asked, score_credo(links, whole, rest, asked))
    if "paths" in wanted:
        tables["paths"] = report("paths", asked, blocks(train_paths(rest, options), asked, options.batch))
        for name in ("complex", "credo"):
            if name in tables:
                join(name, asked, tables[name], tables["paths"])


def blocks(score: Score, asked: Asked, size: int = 500) -> Floats:
    parts = [slice(start, start + size) for start in range(0, len(asked.far), size)]
    return np.concatenate([score(asked.relations[part], asked.near[part]) for part in parts])


def report(name: str, asked: Asked, scores_QE: Floats, chosen: NDArray[np.bool_] | None = None) -> Floats:
    ranks = asked.rank(scores_QE)[slice(None) if chosen is None else chosen]
    say(f"{name:24} MRR {100 * (1 / ranks).mean():5.1f}  Hit@10 {100 * (ranks <= 10).mean():5.1f}  of {len(ranks):,}")
    return scores_QE


def join(name: str, asked: Asked, first: Floats, second: Floats) -> None:
    """The sum of both, with the weight that is best on one half, on the other half; and both alone there."""
    half = asked.second
    by_weight = {w: (1 / asked.rank(first + np.float32(w) * second))[~half].mean() for w in (0.25, 0.5, 1.0, 2.0, 4.0)}
    best = max(by_weight, key=lambda weight: by_weight[weight])
    report(f"{name}, second half", asked, first, half)
    report("paths, second half", asked, second, half)
    report(f"{name} + {best:g} paths", asked, first + np.float32(best) * second, half)


if __name__ == "__main__":
    main()
