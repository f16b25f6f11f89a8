"""Instances of class expressions where facts are missing: how near are the answers to those on the complete ontology?

    python benchmarks/retrieval.py FOLDER                 three seeds, a tenth, a quarter and a half removed
    python benchmarks/retrieval.py FOLDER --bare          the instances of defined classes are not asserted
    python benchmarks/retrieval.py FOLDER --seeds 1 --shares 0.5 --worst 3

A family of 343 persons is generated, written as OWL in functional syntax, and built by `tarbox kb build`. Facts are
stated several times over: mothers, fathers and children, siblings and marriages from both sides, instances of defined
classes. Of these facts a share is removed; what is left is asked without inference, with it, and after `tarbox train`.
The table has the Jaccard similarity of the answers to those of the complete ontology with inference: means over the
expressions of a kind, and the mean and deviation of these over seeds. FOLDER should be new.

Below it stands how many memberships in named classes are missing, how many each run finds likely and how many of these
are true, and how many more are missing where the same share is removed once more, as a told run does to fit itself.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import compress
from pathlib import Path

import numpy as np

from tarbox import KnowledgeBase, Reasoner

PREFIX = "http://family.example/"
CONCEPTS = [
    "Person",
    "Male",
    "Female",
    "Parent",
    "Mother",
    "Father",
    "Grandparent",
    "Grandmother",
    "Grandfather",
    "Child",
    "Son",
    "Daughter",
    "Brother",
    "Sister",
    "Aunt",
    "Uncle",
]
RELATIONS = ["hasParent", "hasMother", "hasFather", "hasChild", "hasSibling", "married"]
AXIOMS = """
SubClassOf(:Male :Person) SubClassOf(:Female :Person) DisjointClasses(:Male :Female)
InverseObjectProperties(:hasParent :hasChild)
SymmetricObjectProperty(:hasSibling) SymmetricObjectProperty(:married)
SubObjectPropertyOf(:hasMother :hasParent) SubObjectPropertyOf(:hasFather :hasParent)
ObjectPropertyRange(:hasMother :Female) ObjectPropertyRange(:hasFather :Male)
ObjectPropertyDomain(:hasParent :Person) ObjectPropertyRange(:hasParent :Person)
ObjectPropertyDomain(:hasSibling :Person) ObjectPropertyDomain(:married :Person)
EquivalentClasses(:Parent ObjectSomeValuesFrom(:hasChild :Person))
EquivalentClasses(:Mother ObjectIntersectionOf(:Female :Parent))
EquivalentClasses(:Father ObjectIntersectionOf(:Male :Parent))
EquivalentClasses(:Grandparent ObjectSomeValuesFrom(:hasChild ObjectSomeValuesFrom(:hasChild :Person)))
EquivalentClasses(:Grandmother ObjectIntersectionOf(:Female :Grandparent))
EquivalentClasses(:Grandfather ObjectIntersectionOf(:Male :Grandparent))
EquivalentClasses(:Child ObjectSomeValuesFrom(:hasParent :Person))
EquivalentClasses(:Son ObjectIntersectionOf(:Male :Child))
EquivalentClasses(:Daughter ObjectIntersectionOf(:Female :Child))
EquivalentClasses(:Brother ObjectIntersectionOf(:Male ObjectSomeValuesFrom(:hasSibling :Person)))
EquivalentClasses(:Sister ObjectIntersectionOf(:Female ObjectSomeValuesFrom(:hasSibling :Person)))
EquivalentClasses(:Aunt ObjectIntersectionOf(:Female ObjectSomeValuesFrom(:hasSibling :Parent)))
EquivalentClasses(:Uncle ObjectIntersectionOf(:Male ObjectSomeValuesFrom(:hasSibling :Parent)))
"""
KINDS = ("name", "some", "only", "min", "max", "not", "and", "or")
MANY = 30
"""Expressions of each kind, but for names, which are sixteen."""
AT_LEAST = 0.5
"""The probability from which on a prediction counts as an answer."""


def make_family(random: np.random.Generator, couples: int = 20, generations: int = 5) -> tuple[list[str], list[str]]:
    """Persons, and what is asserted of them: both directions of every relation, and the sex of each.

    A generation marries within itself, siblings excepted; a couple has up to four children, who are siblings.
    """
    persons: list[str] = []
    facts: list[str] = []

    def say(relation: str, one: str, other: str) -> None:
        facts.append(f"ObjectPropertyAssertion(:{relation} :{one} :{other})")

    def born(male: bool) -> str:
        persons.append(f"{'m' if male else 'f'}{len(persons):03}")
        facts.append(f"ClassAssertion(:{'Male' if male else 'Female'} :{persons[-1]})")
        return persons[-1]

    families = [[born(male=False)] for _ in range(couples)] + [[born(male=True)] for _ in range(couples)]
    for _ in range(generations):
        families = list(_couples(random, families, say, born))
    return persons, facts


def _couples(
    random: np.random.Generator,
    families: list[list[str]],
    say: Callable[[str, str, str], None],
    born: Callable[[bool], str],
) -> Iterator[list[str]]:
    """The children of each couple of a generation, who are siblings."""
    of = {person: number for number, family in enumerate(families) for person in family}
    men = [str(each) for each in random.permutation([person for person in of if person[0] == "m"])]
    for woman in [person for person in of if person[0] == "f"]:
        man = next((each for each in men if of[each] != of[woman]), None)
        if man is None or random.random() < 0.1:
            continue
        men.remove(man)
        say("married", woman, man)
        say("married", man, woman)
        children = [born(bool(random.random() < 0.5)) for _ in range(int(random.integers(1, 5)))]
        for child in children:
            for parent, relation in ((woman, "hasMother"), (man, "hasFather")):
                say(relation, child, parent)
                say("hasChild", parent, child)
            for other in children:
                if other != child:
                    say("hasSibling", child, other)
        yield children


def write_ontology(path: Path, persons: Iterable[str], facts: Iterable[str]) -> Path:
    """Everybody stays declared, whatever is said of them."""
    kinds = {"Class": CONCEPTS, "ObjectProperty": RELATIONS, "NamedIndividual": persons}
    declared = "\n".join(f"Declaration({kind}(:{name}))" for kind, names in kinds.items() for name in names)
    path.write_text(f"Prefix(:=<{PREFIX}>)\nOntology(<{PREFIX}>\n{declared}{AXIOMS}" + "\n".join(facts) + "\n)\n")
    return path


def expressions(random: np.random.Generator, complete: KnowledgeBase) -> dict[str, list[str]]:
    """Of each kind `MANY` that have answers on the complete store, and not everybody."""
    everybody = complete.answer("owl:Thing", k=0).entity_count
    found: dict[str, list[str]] = {"name": CONCEPTS[1:]}
    for kind in KINDS[1:]:
        chosen: dict[str, None] = {}
        while len(chosen) < MANY:
            text = _expression(kind, random)
            if 0 < complete.answer(text, k=0).entity_count < everybody:
                chosen[text] = None
        found[kind] = list(chosen)
    return found


def _expression(kind: str, random: np.random.Generator) -> str:
    concept, other, relation, second = (
        str(random.choice(names)) for names in (CONCEPTS, CONCEPTS, RELATIONS, RELATIONS)
    )
    number, deeper = int(random.integers(2, 4)), bool(random.random() < 0.5)
    some = f"({relation} some {concept})"
    return {
        "some": f"{second} some {some if deeper else other}",
        "only": f"{relation} only {concept}",
        "min": f"{relation} min {number} {concept}",
        "max": f"{relation} max {number - 1} {concept}",
        "not": f"not {some if deeper else concept}",
        "and": f"{other} and {some if deeper else concept}",
        "or": f"{other} or {some if deeper else concept}",
    }[kind]


def tarbox(*arguments: str | Path) -> None:
    """A command, as in a shell; its report is shown where it fails."""
    command = [sys.executable, "-m", "tarbox", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"tarbox {' '.join(map(str, arguments))}\n{done.stdout}{done.stderr}")


Way = Callable[[list[str]], list[set[str]]]


def ways(folder: Path, persons: list[str], facts: list[str], share: float, seed: int) -> dict[str, Way]:
    """Who can be asked about what these facts say. `told` is a run that is told which share of the facts is missing."""
    source = write_ontology(folder / "family.ofn", persons, facts)
    for mode in ("none", "owl"):
        tarbox("kb", "build", source, "--infer", mode, "-o", folder / mode)
    train = ("train", folder / "owl", "--recipe", "credo-small", "--seed", str(seed))
    for name, setting in (("run", ()), ("told", ("--set", f"model.held_out={share}"))):
        tarbox(*train, "-o", folder / name, *setting)

    def exact(mode: str) -> Way:
        kb = KnowledgeBase.load(folder / mode)
        return lambda texts: [{each.iri for each in answers.entities} for answers in kb.answer_many(texts)]

    def predicted(name: str, known: bool) -> Way:
        run = Reasoner.load(folder / name)
        return lambda texts: [
            {each.iri for each in answers.entities if each.degree >= AT_LEAST or (known and each.status == "known")}
            for answers in run.answer_many(texts, k=None, min_degree=AT_LEAST)
        ]

    return {
        "what is left": exact("none"),
        "inferred": exact("owl"),
        "run, known or likely": predicted("run", known=True),
        "run, likely": predicted("run", known=False),
        "told run, likely": predicted("told", known=False),
    }


def jaccard(one: set[str], other: set[str]) -> float:
    return len(one & other) / max(len(one | other), 1)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("--seeds", type=int, default=3)
    arguments.add_argument("--shares", type=float, nargs="+", default=[0.1, 0.25, 0.5])
    arguments.add_argument("--bare", action="store_true", help="assert no instances of defined classes")
    arguments.add_argument("--worst", type=int, default=0, help="show so many where the run is worst beside the facts")
    given = arguments.parse_args()
    persons, facts = make_family(np.random.default_rng(0))
    given.folder.mkdir(parents=True, exist_ok=True)
    tarbox("kb", "build", write_ontology(given.folder / "family.ofn", persons, facts), "-o", given.folder / "complete")
    complete = KnowledgeBase.load(given.folder / "complete")
    if not given.bare:
        facts += [f"ClassAssertion(:{c} {x.iri})" for c in CONCEPTS[3:] for x in complete.members(c)]
    asked = expressions(np.random.default_rng(0), complete)
    right = {text: {each.iri for each in complete.answer(text).entities} for texts in asked.values() for text in texts}
    print(f"{len(persons)} persons, {len(facts):,} asserted facts; {len(right)} expressions", flush=True)
    for share in given.shares:
        figures: dict[tuple[str, str], list[float]] = defaultdict(list)
        counts: list[list[int]] = []
        for seed in range(given.seeds):
            keep = np.random.default_rng(seed).random(len(facts)) >= share
            folder = given.folder / f"{share:g}-{seed}"
            folder.mkdir(exist_ok=True)
            kept = list(compress(facts, keep))
            asks = ways(folder, persons, kept, share, seed)
            fewer = list(compress(kept, np.random.default_rng([seed, 1]).random(len(kept)) >= share))
            tarbox("kb", "build", write_ontology(folder / "fewer.ofn", persons, fewer), "-o", folder / "fewer")
            counts.append(memberships(asked["name"], asks, right, KnowledgeBase.load(folder / "fewer")))
            for kind, texts in asked.items():
                scores = {
                    way: [jaccard(found, right[text]) for text, found in zip(texts, ask(texts), strict=True)]
                    for way, ask in asks.items()
                }
                for way, values in scores.items():
                    figures[kind, way].append(float(np.mean(values)))
                show_worst(texts, scores["inferred"], scores["run, likely"], given.worst)
        print_table(share, figures, list(asks), list(asked))
        missing, run, good, told, better, more = np.mean(counts, axis=0)
        print(
            f"memberships, means: {missing:.0f} missing; likely by the run {run:.0f}, {good:.0f} true; by the told run "
            f"{told:.0f}, {better:.0f} true; {more:.0f} more missing where the share is removed once more",
            flush=True,
        )


def memberships(names: list[str], asks: dict[str, Way], right: dict[str, set[str]], fewer: KnowledgeBase) -> list[int]:
    """What `main` prints of them for one seed."""
    true, known = ({(c, x) for c, found in zip(names, each, strict=True) for x in found}
                   for each in ([right[c] for c in names], asks["inferred"](names)))  # fmt: skip
    counts = [len(true - known)]
    for way in ("run, likely", "told run, likely"):
        likely = {(c, x) for c, found in zip(names, asks[way](names), strict=True) for x in found} - known
        counts += [len(likely), len(likely & true)]
    return [*counts, len(known) - sum(len(fewer.members(c)) for c in names)]


def show_worst(texts: list[str], exact: list[float], run: list[float], count: int) -> None:
    for one, other, text in sorted(zip(exact, run, texts, strict=True), key=lambda row: row[1] - row[0])[:count]:
        print(f"    {text}: inferred {one:.2f}, run {other:.2f}")


def print_table(share: float, figures: dict[tuple[str, str], list[float]], asks: list[str], kinds: list[str]) -> None:
    print(f"\n{share:.0%} removed | {' | '.join(kinds)} | all")
    for way in asks:
        rows = [figures[kind, way] for kind in kinds]
        rows.append([float(np.mean(values)) for values in zip(*rows, strict=True)])
        print(f"{way} | " + " | ".join(f"{np.mean(row):.3f} ± {np.std(row):.3f}" for row in rows), flush=True)


if __name__ == "__main__":
    main()
