"""ELK's own conformance suite: classifications, property hierarchies, realisations, class queries, entailments.

    python benchmarks/elk.py FOLDER              the folder with `classification`, `query` and `realization`

An answer counts as right only where it is exactly the expected one. A failure is explained in the last column: what is
missing (a consequence that was not found) and what is too much (a consequence that does not follow).
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from tarbox.kb.axioms import Axiom, read_axioms
from tarbox.kb.namespaces import TOP
from tarbox.kb.reasoning.classification import Taxonomy, reached
from tarbox.kb.reasoning.desugaring import BOTTOM, BOTTOM_ROLES, TOP_ROLES, Term
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
    theirs = plain(expected_pairs(load(path), "EquivalentClasses", "SubClassOf"), TOP, BOTTOM)
    taxonomy = realize(load(path.with_suffix(".owl"))).taxonomy
    return difference({*plain(our_pairs(taxonomy, TOP, BOTTOM), TOP, BOTTOM)}, {*theirs})


def properties(path: Path) -> str:
    top, bottom = TOP_ROLES[0], BOTTOM_ROLES[0]
    theirs = plain(expected_pairs(load(path), "EquivalentObjectProperties", "SubObjectPropertyOf"), top, bottom)
    taxonomy = classify_relations(load(path.with_suffix(".owl")))
    return difference({*plain(our_pairs(taxonomy, top, bottom), top, bottom)}, {*theirs})


def realization(path: Path) -> str:
    expected = load(path)
    found = realize(load(path.with_suffix(".owl")))
    inconsistent = any({TOP, BOTTOM} <= set(axiom[1:]) for axiom in expected if axiom[0] == "EquivalentClasses")
    if inconsistent or found.taxonomy.inconsistent:
        return "" if inconsistent == found.taxonomy.inconsistent else "one says that it is inconsistent, one does not"
    theirs = {(str(a[2]), str(a[1])) for a in expected if a[0] == "ClassAssertion"}
    direct = found.taxonomy.direct
    ours = {
        (x, concept)
        for x, types in found.types.items()
        for concept in types
        if not any(concept in reached(other, direct) for other in types - {concept})
        and concept not in found.taxonomy.top
    }
    return difference({*ours}, {*theirs})


def class_queries(path: Path) -> str:
    """Every expression of the file: its equivalents, direct neighbours and direct instances."""
    expected, axioms = load(path), load(path.with_suffix(".owl"))
    groups = [set(axiom[1:]) for axiom in expected if axiom[0] == "EquivalentClasses"]
    inconsistent = any({TOP, BOTTOM} <= group for group in groups)
    empty = {name for group in groups if BOTTOM in group for name in group}
    wrong = []
    for expression in dict.fromkeys(part for axiom in expected for part in axiom[1:] if isinstance(part, tuple)):
        found = query_expression(axioms, expression)
        if inconsistent or found.inconsistent:
            wrong += [] if inconsistent == found.inconsistent else ["one says that it is inconsistent, one does not"]
            continue
        theirs = expected_place(expected, expression)
        if found.satisfiable == (("equal", BOTTOM) in theirs):
            wrong.append(f"satisfiable: {found.satisfiable}")
        theirs = {
            (kind, name)
            for kind, name in theirs
            if name not in (TOP, BOTTOM) and not (kind == "below" and name in empty)  # those are owl:Nothing
        }
        ours = {
            (kind, name)
            for kind, names in (
                ("equal", found.equivalent),
                ("above", found.direct_supers),
                ("below", found.direct_subs),
                ("member", found.direct_instances),
            )
            for name in names
        }
        if ours != theirs:
            wrong.append(difference({*ours}, {*theirs}))
    return "; ".join(wrong)


def expected_place(expected: Iterable[Axiom], expression: Term) -> set[tuple[str, str]]:
    """(relation to the expression, name) as the file has it."""
    found: set[tuple[str, str]] = set()
    for axiom in expected:
        match axiom:
            case ("EquivalentClasses", *parts) if expression in parts:
                found |= {("equal", str(part)) for part in parts if part != expression}
            case ("SubClassOf", lower, upper) if lower == expression:
                found.add(("above", str(upper)))
            case ("SubClassOf", lower, upper) if upper == expression:
                found.add(("below", str(lower)))
            case ("ClassAssertion", concept, individual) if concept == expression:
                found.add(("member", str(individual)))
    return found


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


WHY = {
    "TopObjectProperty.taxonomy": "neither rustdl nor the rules know that the top property holds between all",
    "UnsupportedQueryIndexing.classquery": "it follows; ELK does not know `only`, and expects what it finds without",
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
                print(f"    {name:38} {why}" + (f" ({WHY[name]})" if name in WHY else ""), flush=True)
    sys.exit(bool(short))


if __name__ == "__main__":
    main()
