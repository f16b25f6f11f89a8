"""What `tarbox ask --set` finds in lists of genes: nothing in random ones, and what is hidden in real ones.

    PYTHONPATH=src python3 benchmarks/sets.py BIOMED_KB [--lists 200] [--diseases 10]

Prints the share of random lists with any concept of q < 0.05. Then it takes the diseases with the most genes, hides
what the diseases' own records say of these genes (annotations that come from no other disease), describes the genes,
and prints the rank of the first of the disease's own terms: by us, and by g:Profiler's method (hypergeometric over
annotated genes, `tests/set_oracle.py`); and again with as many random genes in each list.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from tarbox import KnowledgeBase

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from set_oracle import (
    SetOracle,
    add_noise,
    disease_lists,
    hide_records,
    random_lists,
    rank_hidden,
    share_with_a_finding,
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kb", type=Path)
    parser.add_argument("--lists", type=int, default=200)
    parser.add_argument("--diseases", type=int, default=10)
    parser.add_argument("--relation", default="gene_associated_with_condition")
    given = parser.parse_args()
    kb = KnowledgeBase.load(given.kb)
    oracle = SetOracle(kb)
    drawn = random_lists(oracle, given.lists)
    started = time.perf_counter()
    share = share_with_a_finding(kb, drawn)
    took = (time.perf_counter() - started) / len(drawn)
    print(
        f"{len(drawn)} random lists of {len(oracle.population):,} genes: {share:.1%} have q < 0.05 ({took:.2f} s each)"
    )
    diseases = disease_lists(kb, oracle, given.relation, given.diseases)
    rest = hide_records(kb, diseases)
    print(f"{len(kb.facts.heads) - len(rest.facts.heads):,} annotations of the diseases' genes are hidden")
    judge = SetOracle(rest)
    for title, lists in (("their genes", diseases), ("and as many random genes", add_noise(diseases, judge))):
        ranks = rank_hidden(rest, judge, lists)
        print(f"\nrank of the first of a disease's own terms: {title}\nours  oracle")
        for each, (ours, plain) in zip(lists, ranks, strict=True):
            print(f"{ours:4}  {plain:6}  {kb.entities[each.disease].label} ({len(each.genes)} genes)")
        firsts = [sum(pair[side] == 1 for pair in ranks) for side in (0, 1)]
        mean = [sum(1 / pair[side] for pair in ranks if pair[side]) / len(ranks) for side in (0, 1)]
        print(f"first in {firsts[0]} and {firsts[1]} of {len(ranks)}; reciprocal rank {mean[0]:.2f} and {mean[1]:.2f}")


if __name__ == "__main__":
    main()
