"""Sets of entities: who is meant, which entities they are compared with, and what they are rich in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, final

import numpy as np

from tarbox.core.errors import AmbiguousName, NameLookupError, QueryError, UnknownName
from tarbox.core.ids import Role
from tarbox.execution.graph import Index
from tarbox.kb.arrays import Ids
from tarbox.kb.rows import Rows
from tarbox.service.answers import KNOWN, PREDICTED, AnswerCounts, Answers, ConceptAnswer
from tarbox.service.collections import name_of
from tarbox.service.enrichment import SIGNIFICANT, SetTests

if TYPE_CHECKING:
    from tarbox.service.knowledge_base import KnowledgeBase

OWN_SHARE: Final = 0.1
"""The share of a set that makes a kind of entities one of the set's own; rarer ones are strays."""
_SUGGESTED: Final = 20
"""So many unknown names get suggestions, which take time."""


@final
@dataclass(frozen=True, slots=True)
class NamedSet:
    """The entities that names mean, each once (increasing ids), and what was wrong with the others, by position."""

    members: Ids
    problems: Sequence[tuple[int, NameLookupError]]


@final
@dataclass(frozen=True, slots=True)
class Background:
    """The entities that a set is compared with (increasing ids), all of them described; `kinds` are the concepts whose
    instances they are, none for all that is described; None where they were listed."""

    entities: Ids
    kinds: tuple[int, ...] | None = None


def read_names(kb: KnowledgeBase, names: Iterable[str]) -> NamedSet:
    """The entities of names of any kind: IRI, CURIE, local name, label, synonym. A name of several entities means the
    one that is of the same kind as the rest of the set, where it is one."""
    found: list[int] = []
    problems: list[tuple[int, NameLookupError]] = []
    unclear: list[tuple[int, AmbiguousName]] = []
    for position, name in enumerate(names):
        try:
            if len(problems) >= _SUGGESTED and not kb.resolver.matches(Role.ENTITY, name_of(name)):
                raise UnknownName(f"no entity '{name}' in {kb.title}")
            found.append(kb.entities.id(name))
        except AmbiguousName as error:
            unclear.append((position, error))
        except NameLookupError as error:
            problems.append((position, error))
    alike = own_background(kb.index, np.unique(np.array(found, np.int32))).entities if unclear else found
    for position, ambiguous in unclear:
        meant = np.intersect1d([kb.entities.id(iri) for iri in ambiguous.candidates], alike)
        if len(meant) == 1:
            found.append(int(meant[0]))
        else:
            problems.append((position, ambiguous))
    return NamedSet(np.unique(np.array(found, np.int32)), sorted(problems, key=lambda problem: problem[0]))


def own_background(index: Index, members: Ids) -> Background:
    """All described entities of the set's own kinds: instances of the most general concepts (those without a
    super-concept) that at least `OWN_SHARE` of the members are instances of; without a type, if as many have none.

    Where types are all that describes entities, they are what is tested, and the background is all that has a type.
    """
    instances = index.instances
    if index.descriptions is instances:
        return Background(_described(index, np.arange(index.entities)), ())
    typed = instances.concepts_of.sizes() > 0
    _, concepts = instances.concepts_of.gather(members)
    counts = np.bincount(concepts[instances.hierarchy.depth[concepts] == 0], minlength=index.concepts)
    least = max(1.0, OWN_SHARE * len(members))
    kinds = np.flatnonzero(counts >= least)
    alike = ~typed if np.count_nonzero(~typed[members]) >= least else np.zeros(index.entities, np.bool_)
    alike[instances.entities_of.gather(kinds)[1]] = True
    return Background(_described(index, np.flatnonzero(alike)), tuple(kinds.tolist()))


def listed_background(index: Index, entities: Ids) -> Background:
    """Those of a list that are described."""
    return Background(_described(index, entities))


def describe_members(
    kb: KnowledgeBase,
    members: Ids,
    background: Background | None = None,
    everything: bool = False,
    probabilities: Rows | None = None,
) -> Answers:
    """The concepts that describe a set, the most surprising first: see `KnowledgeBase.describe_set`.

    `probabilities` [E, C] are those of descriptions, known ones at 1; where they are given, the expected numbers are
    tested beside the known ones, and decide the order.
    """
    index = kb.index
    chosen = own_background(index, members) if background is None else background
    inside = np.intersect1d(members, chosen.entities)
    if not len(inside):
        raise QueryError(f"nothing describes the set: none of its {len(members):,} entities is in the background")
    known = SetTests.of(index.descriptions.concepts_of, inside, chosen.entities, index.concepts)
    expected = SetTests.of(probabilities, inside, chosen.entities, index.concepts) if probabilities else None
    leading = expected or known
    redundant = leading.redundant(index.descriptions.hierarchy)
    listed = np.flatnonzero((leading.inside > 0) & (everything | ~redundant))
    ordered = listed[np.lexsort((index.descriptions.entities_of.sizes()[listed], leading.p_values[listed]))]
    outside = np.setdiff1d(members, inside)
    extra = {
        "set_size": len(inside),
        "background_size": len(chosen.entities),
        "background": None if chosen.kinds is None else [kb.concepts.at(kind).iri for kind in chosen.kinds],
        "outside": [kb.entities.at(one).iri for one in outside.tolist()],
        "tests": leading.tests,
        "correction": "Benjamini-Hochberg",
        "significant": int(np.count_nonzero(leading.q_values < SIGNIFICANT)),
        "redundant": int(np.count_nonzero(redundant)),
    }
    query = "{" + ", ".join(kb.entities.at(member).iri for member in members.tolist()) + "}"
    concepts = _concept_answers(kb, ordered, known, expected)
    counts = AnswerCounts(len(members)), AnswerCounts(len(concepts))
    return Answers(query, kb.list_entities(members), concepts, *counts, extra)


def compare_members(
    kb: KnowledgeBase, first: Ids, second: Ids, background: Background | None = None, everything: bool = False
) -> tuple[Answers, Answers]:
    """What each of two sets is rich in and the other is not: see `KnowledgeBase.compare_sets`."""
    apart = np.setxor1d(first, second).astype(np.int32)
    if background is None:
        kinds = [own_background(kb.index, members) for members in (first, second)]
        background = Background(np.union1d(*(each.entities for each in kinds)).astype(np.int32))
    both = Background(np.intersect1d(apart, background.entities).astype(np.int32))
    common = {"in_both_sets": len(np.intersect1d(first, second))}
    told = [describe_members(kb, np.intersect1d(apart, members), both, everything) for members in (first, second)]
    return replace(told[0], extra=told[0].extra | common), replace(told[1], extra=told[1].extra | common)


def _described(index: Index, entities: Any) -> Ids:
    found: Ids = entities[index.descriptions.concepts_of.sizes()[entities] > 0].astype(np.int32)
    return found


def _concept_answers(
    kb: KnowledgeBase, concepts: Any, known: SetTests, expected: SetTests | None
) -> list[ConceptAnswer]:
    leading, folds, specificity = expected or known, known.folds(), kb.index.descriptions.specificity()
    expected_folds = None if expected is None else expected.folds()
    found = []
    for concept in concepts.tolist():
        thing = kb.concepts.at(concept)
        more: dict[str, float] = {}
        if expected is not None and expected_folds is not None:
            more = {
                "expected_count": float(expected.inside[concept]),
                "expected_fold": float(expected_folds[concept]),
                "expected_p_value": float(expected.p_values[concept]),
                "expected_q_value": float(expected.q_values[concept]),
            }
        found.append(
            ConceptAnswer(
                thing.iri,
                thing.label,
                1.0,
                KNOWN if known.inside[concept] else PREDICTED,
                float(leading.inside[concept] / leading.drawn),
                float(specificity[concept]),
                int(known.inside[concept]),
                known.drawn,
                int(known.sizes[concept]),
                known.population,
                float(folds[concept]),
                float(known.p_values[concept]),
                float(known.q_values[concept]),
                **more,
            )
        )
    return found
