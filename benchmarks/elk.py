"""ELK's own conformance suite: classifications, property hierarchies, realisations, class queries, entailments.

    python benchmarks/elk.py FOLDER              the folder with `classification`, `query` and `realization`

An answer counts as right only where it is exactly the expected one. A failure is explained in the last column: what is
missing (a consequence that was not found) and what is too much (a consequence that does not follow).
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from tarbox.kb.axioms import Axiom, read_axioms, write_axiom
from tarbox.kb.reasoning.classification import Taxonomy, reached
from tarbox.kb.reasoning.desugaring import BOTTOM_ROLES, NOTHING, THING, TOP_ROLES, Term
from tarbox.kb.reasoning.entailment import entails, query_expression, realize
from tarbox.kb.reasoning.relations import classify_relations

_NAME = re.compile(r'"(?:[^"\\]|\\.)*"|<[^>]*>|([\w-]*:)([\w.-]+)')
Pairs = set[tuple[str, str]]


def load(path: Path) -> tuple[Axiom, ...]:
    """The axioms of a file in functional syntax with prefixes."""
    text = re.sub(r"^\s*#.*$", "", path.read_text(), flags=re.M)
    prefixes = dict(re.findall(r"Prefix\(\s*([\w-]*:)\s*=\s*<([^>]*)>\s*\)", text))
    start = text.index("Ontology(")

    def expand(found: re.Match[str]) -> str:
        return found[0] if found[1] is None else f"<{prefixes[found[1]]}{found[2]}>"

    (document,) = read_axioms(_NAME.sub(expand, text[start:]))
    return tuple(part for part in document[1:] if isinstance(part, tuple) and part[0] != "Annotation")


def pairs_of(groups: Iterable[tuple[str, ...]], below: Iterable[tuple[str, str]]) -> Pairs:
    """All (lower, upper) by closure, of equivalent groups and inclusions."""
    direct = [*below]
    for group in groups:
        direct += zip(group, group[1:] + group[:1], strict=True)
    names = {name for pair in direct for name in pair}
    return {(name, upper) for name in names for upper in reached(name, direct)}


def expected_pairs(axioms: Iterable[Axiom], equivalent: str, included: str) -> Pairs:
    groups = [tuple(map(str, axiom[1:])) for axiom in axioms if axiom[0] == equivalent]
    below = [(str(axiom[1]), str(axiom[2])) for axiom in axioms if axiom[0] == included]
    return pairs_of(groups, below)


def our_pairs(taxonomy: Taxonomy, top: str, bottom: str) -> Pairs:
    if taxonomy.inconsistent:
        return pairs_of([(top, bottom, *taxonomy.classes)], ())
    return pairs_of([(top, *taxonomy.top), (bottom, *taxonomy.unsatisfiable)], taxonomy.direct)


def plain(pairs: Pairs, top: str, bottom: str) -> Pairs:
    """Without what holds of owl:Thing and owl:Nothing by definition, and with what they are equivalent to."""
    empty = {name for name, upper in pairs if upper == bottom}
    full = {upper for name, upper in pairs if name == top}
    kept = {(a, b) for a, b in pairs if a not in empty and b not in full and a != bottom and b != top}
    return kept | {(name, bottom) for name in empty} | {(top, name) for name in full}


def difference(ours: set[object], theirs: set[object]) -> str:
    parts = []
    for what, found in (("missing", theirs - ours), ("too much", ours - theirs)):
        if found:
            shown = ", ".join(sorted(map(_short, found))[:4])
            parts.append(f"{what} {len(found)}: {shown}")
    return "; ".join(parts)


def _short(term: object) -> str:
    if isinstance(term, tuple):
        return "(" + " ".join(map(_short, term)) + ")"
    return re.split(r"[#/]", str(term))[-1]


def classification(path: Path) -> str:
    theirs = plain(expected_pairs(load(path), "EquivalentClasses", "SubClassOf"), THING, NOTHING)
    taxonomy = realize(load(path.with_suffix(".owl"))).taxonomy
    return difference({*plain(our_pairs(taxonomy, THING, NOTHING), THING, NOTHING)}, {*theirs})


def properties(path: Path) -> str:
    top, bottom = TOP_ROLES[0], BOTTOM_ROLES[0]
    theirs = plain(expected_pairs(load(path), "EquivalentObjectProperties", "SubObjectPropertyOf"), top, bottom)
    taxonomy = classify_relations(load(path.with_suffix(".owl")))
    return difference({*plain(our_pairs(taxonomy, top, bottom), top, bottom)}, {*theirs})


def realization(path: Path) -> str:
    expected = load(path)
    found = realize(load(path.with_suffix(".owl")))
    inconsistent = any({THING, NOTHING} <= set(axiom[1:]) for axiom in expected if axiom[0] == "EquivalentClasses")
    if inconsistent or found.taxonomy.inconsistent:
        return "" if inconsistent == found.taxonomy.inconsistent else "one says that it is inconsistent, one does not"
    theirs = {(str(a[2]), str(a[1])) for a in expected if a[0] == "ClassAssertion"}
    direct = found.taxonomy.direct
    ours = {
        (x, concept)
        for x, types in found.types.items()
        for concept in types
        if not any(concept in reached(other, direct) for other in types - {concept}) and concept not in found.taxonomy.top
    }
    return difference({*ours}, {*theirs})


def class_queries(path: Path) -> str:
    """Every expression of the file: its equivalents, direct neighbours and direct instances."""
    expected, axioms = load(path), load(path.with_suffix(".owl"))
    asked: dict[Term, set[object]] = {}
    inconsistent = False
    empty: set[object] = set()
    for word, *parts in expected:
        if word == "EquivalentClasses":
            inconsistent |= {THING, NOTHING} <= set(parts)
            empty |= set(parts) if NOTHING in parts else set()
        for place, part in enumerate(parts):
            if isinstance(part, tuple):
                others = [(word, place, other) for other in parts if other is not part]
                asked.setdefault(part, set()).update(others)
    if not any(isinstance(part, tuple) for _, *parts in expected for part in parts):
        raise SystemExit(f"{path}: no expression is asked")
    wrong = []
    for expression, theirs in asked.items():
        found = query_expression(axioms, expression)
        if inconsistent or found.inconsistent:
            wrong += [] if inconsistent == found.inconsistent else ["inconsistency"]
            continue
        names = {NOTHING, THING}
        ours = {("equal", name) for name in found.equivalent} | {("above", name) for name in found.direct_supers}
        ours |= {("below", name) for name in found.direct_subs} | {("member", name) for name in found.direct_instances}
        kinds = {"EquivalentClasses": ("equal", "equal"), "SubClassOf": ("above", "below"), "ClassAssertion": ("member",)}
        want = {(kinds[word][min(place, 1)], other) for word, place, other in theirs}  # type: ignore[misc]
        if found.satisfiable and ("equal", NOTHING) in want or not found.satisfiable and ("equal", NOTHING) not in want:
            wrong.append("satisfiability")
        want = {(kind, name) for kind, name in want if name not in names and not (kind == "below" and name in empty)}
        wrong += [difference({*ours}, {*want})] if ours != want else []
    return "; ".join(wrong)


def entailments(path: Path) -> str:
    axioms, wanted = load(path.with_suffix(".owl")), path.suffix == ".entailed"
    failed = [goal for goal in load(path) if entails(axioms, goal) is not wanted]
    word = "not found" if wanted else "wrongly found"
    return f"{word}: {', '.join(map(_short, failed))}" if failed else ""


PARTS: dict[str, tuple[str, str, Callable[[Path], str], int]] = {
    "classification": ("classification", "*.taxonomy", classification, 63),
    "class queries": ("query/class", "*.classquery", class_queries, 24),
    "realisation": ("realization", "*.instancetaxonomy", realization, 5),
    "property hierarchies": ("classification/object_property", "*.propertytaxonomy", properties, 9),
    "entailments": ("query/entailment", "*entailed", entailments, 26),
}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("folder", type=Path)
    folder = arguments.parse_args().folder
    short = 0
    for part, (where, pattern, check, least) in PARTS.items():
        results = {path.name: check(path) for path in sorted((folder / where).glob(pattern))}
        right = sum(not why for why in results.values())
        short += right < least
        print(f"{part:22} {right:3} of {len(results):3} right (at least {least})", flush=True)
        for name, why in results.items():
            if why:
                print(f"    {name:45} {why}", flush=True)
    sys.exit(bool(short))


if __name__ == "__main__":
    main()
