"""Our rules for individuals beside `reasonable`, and alone on many facts.

    python benchmarks/inference.py                               beside `reasonable`, with 100,000 facts
    python benchmarks/inference.py --facts 10000000 --alone      ours alone
    python benchmarks/inference.py --store KB                    a tenth of its subsumptions hidden

Facts and axioms are generated. Both must find the same, and the times are those of one run. Of hidden subsumptions it
is counted how many follow from the axioms.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from pathlib import Path

import numpy as np

from tarbox.kb.axioms import Axiom
from tarbox.kb.closure import Hierarchy, Instances
from tarbox.kb.facts import Facts
from tarbox.kb.namespaces import TYPE
from tarbox.kb.reasoning.inference import InferenceMode, infer
from tarbox.kb.rows import contains, pair_keys
from tarbox.kb.store import open_store
from tarbox.kb.vocabulary import Vocabulary

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from owl_triples import axiom_triples, fact_triples

PREFIX = "urn:x:"
CONCEPTS, DEFINED, RELATIONS = 60, 12, 14


def make_axioms(random: np.random.Generator) -> tuple[Axiom, ...]:
    """A small ontology of all kinds of axioms that both reasoners know."""
    r = [f"{PREFIX}r{number:02}" for number in range(RELATIONS)]
    c = [f"{PREFIX}C{number:02}" for number in range(CONCEPTS)]
    d = [f"{PREFIX}D{number:02}" for number in range(DEFINED)]
    axioms: list[Axiom] = [
        ("SubObjectPropertyOf", r[0], r[1]),
        ("SubObjectPropertyOf", r[1], r[2]),
        ("InverseObjectProperties", r[3], r[4]),
        ("SymmetricObjectProperty", r[5]),
        ("TransitiveObjectProperty", r[6]),
        ("SubObjectPropertyOf", ("ObjectPropertyChain", r[0], r[8]), r[7]),
        ("ObjectPropertyDomain", r[8], c[1]),
        ("ObjectPropertyRange", r[9], c[2]),
        ("EquivalentObjectProperties", r[10], r[11]),
        ("SubClassOf", c[5], ("ObjectHasValue", r[12], f"{PREFIX}e0")),
        ("EquivalentClasses", d[0], ("ObjectHasValue", r[12], f"{PREFIX}e0")),
        ("SubClassOf", c[7], ("ObjectAllValuesFrom", r[3], c[9])),
        ("EquivalentClasses", d[1], ("ObjectUnionOf", c[3], c[4])),
    ]
    for concept in d[2:]:
        one, other = random.choice(c, 2, replace=False)
        role = r[int(random.integers(12))]
        definition = ("ObjectIntersectionOf", str(one), ("ObjectSomeValuesFrom", role, str(other)))
        axioms.append(("EquivalentClasses", concept, definition))
    return tuple(axioms)


def make_facts(random: np.random.Generator, facts: int) -> Facts:
    """Seven tenths assertions, three tenths typings; the transitive relation joins neighbours in small groups."""
    entities = max(facts // 5, 10)
    vocabulary = Vocabulary.of(
        [f"{PREFIX}e{number}" for number in range(entities)],
        [f"{PREFIX}C{n:02}" for n in range(CONCEPTS)] + [f"{PREFIX}D{n:02}" for n in range(DEFINED)],
        [f"{PREFIX}r{n:02}" for n in range(RELATIONS)],
    )
    rows = facts * 7 // 10
    heads, tails = random.integers(entities, size=(2, rows))
    relations = random.integers(RELATIONS - 1, size=rows)
    near = np.minimum(heads // 8 * 8 + (heads + random.integers(1, 3, rows)) % 8, entities - 1)
    tails = np.where(relations == 6, near, tails)
    table = np.unique(np.stack([heads, relations, tails], axis=1), axis=0).astype(np.int32)
    typings = np.unique(
        np.stack([random.integers(entities, size=facts - rows), random.integers(CONCEPTS, size=facts - rows)], axis=1),
        axis=0,
    ).astype(np.int32)
    subs = np.arange(1, CONCEPTS, dtype=np.int32)
    columns = [np.ascontiguousarray(column) for column in (*table.T, *typings.T)]
    return Facts.of_columns(vocabulary, [*columns, subs, (subs - 1) // 3])


def without_chains(axioms: tuple[Axiom, ...]) -> tuple[Axiom, ...]:
    """`reasonable` 0.4.4 has no rule for property chains."""
    return tuple(axiom for axiom in axioms if not any(part[0] == "ObjectPropertyChain" for part in axiom[1:]))


def ours(facts: Facts, axioms: tuple[Axiom, ...]) -> tuple[Facts, float]:
    start = time.perf_counter()
    every, _ = infer(facts, axioms, InferenceMode.OWL)
    return every, time.perf_counter() - start


def theirs(facts: Facts, axioms: tuple[Axiom, ...]) -> tuple[set[tuple[str, str, str]], float]:
    """What `reasonable` derives over the names of the store, and the time of the reasoning alone."""
    import reasonable

    reasoner = reasonable.PyReasoner()
    reasoner.from_graph([*axiom_triples(axioms), *fact_triples(facts)])
    start = time.perf_counter()
    found = reasoner.reason()
    seconds = time.perf_counter() - start
    return {(str(s), str(p), str(o)) for s, p, o in found}, seconds


def as_triples(every: Facts) -> set[tuple[str, str, str]]:
    """Assertions, and typings under closure."""
    entities, concepts, relations = (
        names.iris.to_pylist()
        for names in (every.vocabulary.entities, every.vocabulary.concepts, every.vocabulary.relations)
    )
    rows = zip(every.heads.tolist(), every.relations.tolist(), every.tails.tolist(), strict=True)
    found = {(entities[h], relations[r], entities[t]) for h, r, t in rows}
    typed, types = Instances.of(every).concepts_of.coordinates()
    found |= {(entities[e], TYPE, concepts[c]) for e, c in zip(typed.tolist(), types.tolist(), strict=True)}
    return found


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--facts", type=int, default=100_000)
    arguments.add_argument("--seeds", type=int, default=3)
    arguments.add_argument("--alone", action="store_true", help="without reasonable")
    arguments.add_argument("--store", type=Path)
    given = arguments.parse_args()
    if given.store is not None:
        hide_subsumptions(given.store)
        return
    ours(make_facts(np.random.default_rng(0), 1000), make_axioms(np.random.default_rng(0)))  # imports
    for seed in range(given.seeds):
        random = np.random.default_rng(seed)
        axioms, facts = make_axioms(random), make_facts(random, given.facts)
        if not given.alone:
            axioms = without_chains(axioms)
        every, seconds = ours(facts, axioms)
        print(
            f"seed {seed}: {len(facts.heads) + len(facts.typed):,} facts; {len(every.heads) - len(facts.heads):,} "
            f"assertions and {len(every.typed) - len(facts.typed):,} typings inferred in {seconds:.2f} s"
        )
        if not given.alone:
            print(f"  {compare(facts, axioms, every, seconds)}")
        print(f"  peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.1f} GB", flush=True)


def hide_subsumptions(path: Path) -> None:
    """Which of the hidden subsumptions follow from what is left and the axioms."""
    store = open_store(path)
    facts, axioms = store.facts.asserted(), store.axioms()
    kept = facts.with_subsumptions(np.random.default_rng(0).random(len(facts.subs)) >= 0.1)
    plain = Hierarchy.of(kept.subs, kept.supers, len(facts.vocabulary.concepts))
    start = time.perf_counter()
    every, _ = infer(kept, axioms, InferenceMode.OWL)
    seconds = time.perf_counter() - start
    closed = Hierarchy.of(every.subs, every.supers, len(facts.vocabulary.concepts))
    size = len(closed)
    hidden = pair_keys(facts.subs, facts.supers, size)
    before, after = (contains(pair_keys(*tree.ancestors.coordinates(), size), hidden).sum() for tree in (plain, closed))
    print(
        f"{len(facts.subs):,} subsumptions, {len(kept.subs):,} kept; with their closure {before:,} of all, with the "
        f"{len(axioms):,} axioms {after:,}, in {seconds:.1f} s"
    )


def compare(facts: Facts, axioms: tuple[Axiom, ...], every: Facts, seconds: float) -> str:
    """How long `reasonable` takes, and whether it finds the same over the names of the store."""
    found, needed = theirs(facts, axioms)
    names, concepts = set(every.vocabulary.entities), set(every.vocabulary.concepts)
    relations = {*every.vocabulary.relations, TYPE}
    here = {(s, p, o) for s, p, o in found if s in names and p in relations and o in (concepts if p == TYPE else names)}
    mine = as_triples(every)
    line = f"reasonable {needed:.2f} s, {needed / seconds:.1f} times as long; {len(mine):,} triples, "
    if mine == here:
        return line + "all the same"
    return line + f"{len(mine - here):,} only ours, {len(here - mine):,} only theirs: {sorted(mine ^ here)[:3]}"


if __name__ == "__main__":
    main()
