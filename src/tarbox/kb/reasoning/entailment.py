"""Questions to an ontology with its individuals: does this follow, what is above an expression, who is what.

They are for ontologies of moderate size: here individuals are part of what rustdl reads. Every answer is sound; what
neither rustdl nor the rules find is missing (docs/reasoning.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final, final

import numpy as np

from tarbox.kb.axioms import Axiom
from tarbox.kb.facts import Facts
from tarbox.kb.reasoning.classification import PROBE, Taxonomy, classify, reached
from tarbox.kb.reasoning.compiled_rules import CompiledRules
from tarbox.kb.reasoning.desugaring import BOTTOM, Term, desugar, sub
from tarbox.kb.reasoning.fixpoint import Saturation
from tarbox.kb.reasoning.relations import classify_relations
from tarbox.kb.reasoning.rules import RuleSet
from tarbox.kb.vocabulary import Vocabulary

SECONDS: Final = 1.0
"""For each pair of classes, unless more is given."""
_SIDES: Final = (f"{PROBE}/lower/", f"{PROBE}/upper/")


@final
@dataclass(frozen=True, slots=True)
class Realization:
    """A taxonomy, and the named classes that each individual is in, under closure."""

    taxonomy: Taxonomy
    types: Mapping[str, frozenset[str]]


@final
@dataclass(frozen=True, slots=True)
class ExpressionPlace:
    """Where an expression stands among the names: as the DL Query tab shows it.

    `instances` are all; `direct_instances` those that are in no proper subclass. Unsatisfiable expressions have the
    unsatisfiable classes as equivalents; of an inconsistent ontology nothing else is said.
    """

    equivalent: frozenset[str]
    direct_supers: frozenset[str]
    direct_subs: frozenset[str]
    instances: frozenset[str]
    direct_instances: frozenset[str]
    satisfiable: bool
    inconsistent: bool


def realize(axioms: Sequence[Axiom], seconds: float | None = SECONDS) -> Realization:
    """The taxonomy, and who is in what; a contradiction among individuals makes the ontology inconsistent."""
    taxonomy = classify(axioms, seconds)
    saturation = _saturate(axioms, taxonomy)
    if taxonomy.inconsistent or saturation.contradictions():
        return Realization(Taxonomy(taxonomy.classes, inconsistent=True), {})
    rules = saturation.rules
    names = {number: term for term, number in rules.concepts.more.items() if isinstance(term, str)}
    individuals = {number: term for term, number in rules.entities.more.items()}
    of: dict[int, set[str]] = {}
    entities, concepts = np.divmod(saturation.types, max(saturation.kinds, 1))
    for entity, concept in zip(entities.tolist(), concepts.tolist(), strict=True):
        if concept in names:
            of.setdefault(entity, set()).update({names[concept]}, reached(names[concept], taxonomy.direct))
    found = {x: of.get(int(saturation.same[number]), set()) | taxonomy.top for number, x in individuals.items()}
    return Realization(taxonomy, {x: frozenset(types) for x, types in found.items()})


def _saturate(axioms: Sequence[Axiom], taxonomy: Taxonomy) -> Saturation:
    told = [sub(lower, upper) for lower, upper in taxonomy.direct]
    told += [sub(name, BOTTOM) for name in taxonomy.unsatisfiable]
    facts = Facts.of(Vocabulary.of([]))
    saturation = Saturation(CompiledRules(RuleSet(facts.vocabulary, [*axioms, *told]), facts))
    saturation.run(facts)
    return saturation


def query_expression(
    axioms: Sequence[Axiom], expression: Term, seconds: float | None = SECONDS, individuals: bool = True
) -> ExpressionPlace:
    """Where the expression stands: it is given a name, and everything is classified with that.

    Without `individuals` there are no instances, and contradictions among individuals are not looked for.
    """
    name = f"{PROBE}/asked"
    given = [*axioms, ("EquivalentClasses", name, expression)]
    realization = realize(given, seconds) if individuals else Realization(classify(given, seconds), {})
    taxonomy = realization.taxonomy
    nobody: frozenset[str] = frozenset()
    if taxonomy.inconsistent:
        return ExpressionPlace(frozenset(taxonomy.classes) - {name}, nobody, nobody, nobody, nobody, False, True)
    if name in taxonomy.unsatisfiable:
        bottom = frozenset(taxonomy.unsatisfiable) - {name}
        return ExpressionPlace(bottom, leaves(taxonomy, name), nobody, nobody, nobody, False, False)
    below = [(upper, lower) for lower, upper in taxonomy.direct]
    above_it, below_it = reached(name, taxonomy.direct), reached(name, below)
    equal = (above_it & below_it) | (taxonomy.top if name in taxonomy.top else nobody)
    uppers = {upper for lower, upper in taxonomy.direct if lower in equal | {name}} - equal
    lowers = {lower for lower, upper in taxonomy.direct if upper in equal | {name}} - equal
    if name in taxonomy.top:
        lowers = {c for c in taxonomy.classes if not reached(c, taxonomy.direct) - {name}} - equal
        lowers -= {*taxonomy.unsatisfiable, *taxonomy.top}
    members = {x for x, types in realization.types.items() if name in types}
    inner = {x for x in members if realization.types[x] & (below_it - equal)}
    return ExpressionPlace(
        frozenset(equal - {name}), frozenset(uppers - {name}), frozenset(lowers - {name}), frozenset(members),
        frozenset(members - inner), True, False,
    )  # fmt: skip


def leaves(taxonomy: Taxonomy, without: str) -> frozenset[str]:
    """The classes directly above owl:Nothing: satisfiable, and with nothing below."""
    above = {upper for lower, upper in taxonomy.direct if (upper, lower) not in set(taxonomy.direct)}
    return frozenset(set(taxonomy.classes) - above - {*taxonomy.unsatisfiable, *taxonomy.top, without})


def entails(axioms: Sequence[Axiom], goal: Axiom, seconds: float | None = SECONDS) -> bool:
    """Whether the goal surely follows from the axioms. Inclusions of classes are asked all at once."""
    parts = desugar(goal)
    if goal[0] == "DifferentIndividuals":
        pairs = combinations([("ObjectOneOf", individual) for individual in goal[1:]], 2)
        parts = [sub(("ObjectIntersectionOf", *pair), BOTTOM) for pair in pairs]
    if parts is None:
        return goal in axioms
    inclusions = [part[1:] for part in parts if part[0] == "SubClassOf"]
    named = [
        ("EquivalentClasses", f"{side}{number}", term)
        for number, pair in enumerate(inclusions)
        for side, term in zip(_SIDES, pair, strict=True)
    ]
    taxonomy = classify([*axioms, *named], seconds)
    saturation = _saturate([*axioms, *named], taxonomy)
    if taxonomy.inconsistent or saturation.contradictions():
        return True
    return all(_included(number, pair[0], taxonomy, saturation) for number, pair in enumerate(inclusions)) and all(
        _relation_follows(axioms, part) for part in parts if part[0] != "SubClassOf"
    )


def _included(number: int, lower: Term, taxonomy: Taxonomy, saturation: Saturation) -> bool:
    below, above = (f"{side}{number}" for side in _SIDES)
    if below in taxonomy.unsatisfiable or above in taxonomy.top or above in reached(below, taxonomy.direct):
        return True
    match lower:
        case ("ObjectOneOf", *individuals):
            numbers = saturation.same[[saturation.rules.entities[individual] for individual in individuals]]
            return bool(saturation.in_concept(numbers, saturation.rules.concepts[above]).all())
    return False


def _relation_follows(axioms: Sequence[Axiom], part: Axiom) -> bool:
    match part:
        case ("SubObjectPropertyOf", str(lower), str(upper)):
            taxonomy = classify_relations(axioms)
            return lower in taxonomy.unsatisfiable or upper in taxonomy.top or upper in reached(lower, taxonomy.direct)
    return any(part in (desugar(axiom) or ()) for axiom in axioms)
