"""What follows from the facts and axioms of a knowledge base: the one entrance for building and for splitting."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from importlib.util import find_spec
from typing import Any, Final, final

import numpy as np

from tarbox.core.errors import ConfigError
from tarbox.kb.arrays import Keys
from tarbox.kb.axioms import Axiom, write_axiom
from tarbox.kb.closure import Hierarchy
from tarbox.kb.facts import Facts, join_facts
from tarbox.kb.reasoning.classification import Taxonomy, classify
from tarbox.kb.reasoning.compiled_rules import Clashes, CompiledRules
from tarbox.kb.reasoning.desugaring import BOTTOM, is_rdfs, sub
from tarbox.kb.reasoning.fixpoint import Saturation
from tarbox.kb.reasoning.rules import RuleSet
from tarbox.kb.rows import Rows, TripleKeys, contains, distinct, pair_keys

_NAMED: Final = 10_000
"""How many contradictions, and axioms without a rule, the manifest names; the rest is counted."""


class InferenceMode(Enum):
    """How much is inferred: nothing, what RDFS says (sub-relations, domains, ranges), or what OWL says."""

    NONE = "none"
    RDFS = "rdfs"
    OWL = "owl"


def choose_mode(name: str | None, seconds: float | None = None) -> InferenceMode:
    """The mode of `--infer`; where none is given OWL, or RDFS if rustdl is not installed. `seconds` of `--complete`."""
    modes = [mode.value for mode in InferenceMode]
    if name is not None and name not in modes:
        raise ConfigError(f"--infer {name}: no such mode. There are: {', '.join(modes)}.")
    mode = InferenceMode(name or ("owl" if find_spec("rustdl") else "rdfs"))
    if seconds is not None and mode is not InferenceMode.OWL:
        raise ConfigError("--complete is the time to classify classes in: give it with --infer owl.")
    return mode


@final
@dataclass(frozen=True, slots=True)
class InferenceReport:
    """What inference found beside the facts.

    `inconsistent` are (entity, axiom) that cannot both be; `outside` (axiom, why) are axioms, or parts of them, that
    no rule applies to individuals, or that rustdl cannot read; `same` is the number of entities that are another one
    too. Classes that are not `consistent` are not classified.
    """

    unsatisfiable: tuple[str, ...] = ()
    inconsistent: tuple[tuple[str, Axiom], ...] = ()
    outside: tuple[tuple[Axiom, str], ...] = ()
    same: int = 0
    complete: bool = True
    consistent: bool = True


def infer(
    facts: Facts, axioms: tuple[Axiom, ...], mode: InferenceMode, seconds: float | None = None
) -> tuple[Facts, InferenceReport]:
    """The asserted facts with all that follows from them and the axioms. `seconds` as of `classify`."""
    if mode is InferenceMode.NONE or not axioms:
        return facts, InferenceReport()
    known, taxonomy = infer_subsumptions(facts, axioms, mode, seconds)
    every, saturation = infer_individuals(known, axioms, mode, taxonomy.unsatisfiable)
    return every, report_inference(saturation.rules, saturation.contradictions(), len(saturation.merged()), taxonomy)


def infer_subsumptions(
    facts: Facts, axioms: tuple[Axiom, ...], mode: InferenceMode, seconds: float | None = None
) -> tuple[Facts, Taxonomy]:
    """The facts with the subsumptions that rustdl finds, in the mode that asks for them."""
    if mode is not InferenceMode.OWL:
        return facts, Taxonomy()
    taxonomy = classify((*axioms, *_named_subsumptions(facts)), seconds)
    return _with_subsumptions(facts, taxonomy.direct, mode, axioms), taxonomy


def infer_again(part: Facts) -> Facts:
    """A part of the asserted facts (`Facts.about_individuals`) with what follows from it, and from nothing else.

    The subsumptions are those of the whole: no fact about an individual adds to them.
    """
    if part.inferred is None:
        return part
    return infer_individuals(part, part.inferred.axioms(), InferenceMode(part.inferred.mode))[0]


def saturate(facts: Facts, axioms: Sequence[Axiom], mode: InferenceMode, whole: bool = False) -> Saturation:
    """The rules of the axioms, over these facts and not yet applied to them; `whole` as of `CompiledRules`."""
    return Saturation(_compile(facts, axioms, mode, whole))


def _compile(facts: Facts, axioms: Sequence[Axiom], mode: InferenceMode, whole: bool = False) -> CompiledRules:
    used = list(filter(is_rdfs, axioms)) if mode is InferenceMode.RDFS else axioms
    return CompiledRules(RuleSet(facts.vocabulary, used), facts, whole)


def compile_rules(
    facts: Facts, axioms: tuple[Axiom, ...], mode: InferenceMode, empty: Sequence[str] = ()
) -> tuple[Facts, CompiledRules]:
    """The rules of the axioms, in which members of `empty` concepts are contradictions; and the facts with the
    subsumptions that the axioms state in other words."""
    compiled = _compile(facts, (*axioms, *(sub(concept, BOTTOM) for concept in empty)), mode)
    return _join_subsumptions(facts, _by_rules(facts, compiled.hierarchy), mode, axioms), compiled


def _named_subsumptions(facts: Facts) -> Iterable[Axiom]:
    names = facts.vocabulary.concepts.iris.to_pylist()
    for lower, upper in zip(facts.subs.tolist(), facts.supers.tolist(), strict=True):
        yield sub(names[lower], names[upper])


def _with_subsumptions(
    facts: Facts, pairs: Iterable[tuple[str, str]], mode: InferenceMode, axioms: tuple[Axiom, ...]
) -> Facts:
    """The facts with those of the subsumptions that do not follow from the given ones."""
    number = {iri: place for place, iri in enumerate(facts.vocabulary.concepts.iris.to_pylist())}
    rows = [(number[lower], number[upper]) for lower, upper in pairs if lower in number and upper in number]
    lower, upper = np.array(rows, np.int64).reshape(-1, 2).T
    return _join_subsumptions(facts, pair_keys(lower, upper, len(number)), mode, axioms)


def _join_subsumptions(facts: Facts, keys: Keys, mode: InferenceMode, axioms: tuple[Axiom, ...]) -> Facts:
    size = len(facts.vocabulary.concepts)
    given = Hierarchy.of(facts.subs, facts.supers, size).ancestors
    new = distinct(keys)
    lower, upper = np.divmod(new[~contains(pair_keys(*given.coordinates(), size), new)], max(size, 1))
    more = Facts.of(facts.vocabulary, subsumptions=zip(lower.tolist(), upper.tolist(), strict=True))
    return join_facts(facts, more, mode.value, partial(tuple, axioms))


def _by_rules(facts: Facts, hierarchy: Hierarchy) -> Keys:
    """Subsumptions between names by way of the rules' hierarchy, which has expressions in it too."""
    lower, upper = hierarchy.ancestors.coordinates()
    size = len(facts.vocabulary.concepts)
    named = (lower < size) & (upper < size) & (lower != upper)
    lower, upper = lower[named], upper[named]
    within = hierarchy.group[lower] == hierarchy.group[upper]
    outer = ~within
    outer[outer] = hierarchy.most_specific(lower[outer], upper[outer])
    return pair_keys(lower[within | outer], upper[within | outer], size)


def infer_individuals(
    facts: Facts, axioms: tuple[Axiom, ...], mode: InferenceMode = InferenceMode.OWL, empty: Sequence[str] = ()
) -> tuple[Facts, Saturation]:
    """The facts with the assertions and typings that follow by rules; members of `empty` concepts are contradictions.

    No class is classified here; of the subsumptions only those that the axioms state in other words are added.
    """
    facts, compiled = compile_rules(facts, axioms, mode, empty)
    saturation = Saturation(compiled)
    saturation.run(facts)
    fact_keys, typing_keys = _known(facts, saturation)
    if np.any(saturation.same != np.arange(saturation.width)):
        fact_keys, typing_keys = _expand(fact_keys, typing_keys, saturation, facts)
    triples = TripleKeys(len(facts.vocabulary.entities))
    new = fact_keys[~contains(np.sort(triples.encode(facts.relations, facts.heads, facts.tails)), fact_keys)]
    relations, heads, tails = triples.decode(new)
    typed, types = _needed(typing_keys, facts)
    none = np.empty(0, np.int64)
    columns = (heads, relations, tails, typed, types, none, none)
    more = Facts.of_columns(facts.vocabulary, [column.astype(np.int32) for column in columns])
    return join_facts(facts, more, mode.value, partial(tuple, axioms)), saturation


def _known(facts: Facts, saturation: Saturation) -> tuple[Keys, Keys]:
    """The assertions and typings of the saturation that the store has names for, as sorted keys."""
    entities, kinds = len(facts.vocabulary.entities), len(facts.vocabulary.concepts)
    roles, heads, tails = saturation.triples.decode(saturation.edges)
    own = (roles % 2 == 0) & (roles // 2 < len(facts.vocabulary.relations)) & (heads < entities) & (tails < entities)
    own &= ~saturation.literal[heads]
    typed, types = np.divmod(saturation.types, max(saturation.kinds, 1))
    named = (types < kinds) & (typed < entities) & ~saturation.literal[typed]
    return (
        TripleKeys(entities).encode(roles[own] // 2, heads[own], tails[own]),
        pair_keys(typed[named], types[named], kinds),
    )


def _expand(fact_keys: Keys, typing_keys: Keys, saturation: Saturation, facts: Facts) -> tuple[Keys, Keys]:
    """What holds of an individual holds of all that are the same, be it asserted or inferred."""
    entities, kinds = len(facts.vocabulary.entities), len(facts.vocabulary.concepts)
    stands = saturation.same[:entities].astype(np.int32)
    members = Rows.of(stands, np.arange(entities, dtype=np.int32), saturation.width, entities)
    several = members.sizes() > 1
    triples = TripleKeys(entities)
    about = several[stands[facts.heads]] | several[stands[facts.tails]]
    told = triples.encode(facts.relations[about], stands[facts.heads[about]], stands[facts.tails[about]])
    relations, heads, tails = triples.decode(distinct(np.append(fact_keys, told)))
    origin, all_heads = members.gather(heads)
    again, all_tails = members.gather(tails[origin])
    fact_keys = distinct(triples.encode(relations[origin][again], all_heads[again], all_tails))
    about = several[stands[facts.typed]]
    told = pair_keys(stands[facts.typed[about]], facts.types[about], kinds)
    typed, types = np.divmod(distinct(np.append(typing_keys, told)), max(kinds, 1))
    origin, all_typed = members.gather(typed)
    return fact_keys, distinct(pair_keys(all_typed, types[origin], kinds))


def _needed(typing_keys: Keys, facts: Facts) -> tuple[Keys, Keys]:
    """The typings that neither an asserted one nor another of them implies."""
    kinds = len(facts.vocabulary.concepts)
    hierarchy = Hierarchy.of(facts.subs, facts.supers, kinds)
    typed, types = np.divmod(typing_keys, max(kinds, 1))
    about = np.isin(facts.typed, typed)
    origin, above = hierarchy.ancestors.gather(facts.types[about])
    given = distinct(pair_keys(facts.typed[about][origin], above, kinds))
    new = ~contains(given, typing_keys)
    typed, types = typed[new], hierarchy.group[types[new]]  # one of several equivalent concepts will do
    typed, types = np.divmod(distinct(pair_keys(typed, types, kinds)), max(kinds, 1))
    specific = hierarchy.most_specific(typed.astype(np.int32), types.astype(np.int32))
    return typed[specific], types[specific]


def report_inference(rules: RuleSet, clashes: Clashes, same: int, taxonomy: Taxonomy) -> InferenceReport:
    return InferenceReport(
        taxonomy.unsatisfiable,
        tuple((str(rules.entities.term(entity)), rules.axioms[axiom]) for entity, axiom in sorted(clashes)),
        (
            *((rules.axioms[place], why) for place, why in rules.outside.items()),
            *((axiom, "rustdl cannot read it") for axiom in taxonomy.refused),
        ),
        same,
        taxonomy.complete,
        not taxonomy.inconsistent,
    )


def describe_inference(mode: InferenceMode, report: InferenceReport | None) -> dict[str, Any]:
    """What the manifest says; there is no report where there was nothing to infer from."""
    told: dict[str, Any] = {"mode": mode.value}
    if report is None:
        return told
    return told | {
        "same_entities": report.same,
        "complete": report.complete,
        "consistent": report.consistent,
        "unsatisfiable": list(report.unsatisfiable),
        "inconsistent": [[entity, write_axiom(axiom)] for entity, axiom in report.inconsistent[:_NAMED]],
        "inconsistencies": len(report.inconsistent),
        "outside": [[write_axiom(axiom), why] for axiom, why in report.outside[:_NAMED]],
        "axioms_outside": len(report.outside),
    }
