"""Sets of entities: who is meant, which entities they are compared with, and what they are rich in."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from tarbox.core.errors import AmbiguousName, NameLookupError, QueryError, UnknownName
from tarbox.core.ids import Role
from tarbox.execution.graph import Index
from tarbox.kb.arrays import Ids, Places
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
NameProblems: TypeAlias = list[tuple[int, NameLookupError]]


def read_names(kb: KnowledgeBase, names: Iterable[str]) -> tuple[Ids, NameProblems]:
    """The entities of names of any kind, each once, and what is wrong with the other names, by position. A name of
    several entities means the one that is of the same kind as the rest of the set, where it is one."""
    if isinstance(names, str):
        raise QueryError(f"a set is a list of names, and this is a text: write [{names!r}]")
    found: list[int] = []
    problems: NameProblems = []
    for position, name in enumerate(names):
        try:
            if len(problems) >= _SUGGESTED and not kb.resolver.matches(Role.ENTITY, name_of(name)):
                raise UnknownName(f"no entity '{name}' in {kb.title}")
            found.append(kb.entities.id(name))
        except NameLookupError as error:
            problems.append((position, error))
    unclear = {position: error.candidates for position, error in problems if isinstance(error, AmbiguousName)}
    if unclear:
        alike, _ = own_background(kb.index, np.unique(np.array(found, np.int32)))
        meant = {at: np.intersect1d([kb.entities.id(iri) for iri in iris], alike) for at, iris in unclear.items()}
        found += [int(ids[0]) for ids in meant.values() if len(ids) == 1]
        problems = [(at, error) for at, error in problems if len(meant.get(at, ())) != 1]
    return np.unique(np.array(found, np.int32)), problems


def own_background(index: Index, members: Ids) -> tuple[Ids, list[int]]:
    """All described entities of the set's own kinds, and these: the most general concepts (those without a
    super-concept) that at least `OWN_SHARE` of the members are instances of; or no type, if as many have none.

    Where types are all that describes entities, they are what is tested, and the background is all that has a type.
    """
    instances = index.instances
    typed = instances.concepts_of.sizes() > 0
    if index.descriptions is instances:
        return described(index, np.flatnonzero(typed), members), []
    _, concepts = instances.concepts_of.gather(members)
    counts = np.bincount(concepts[instances.hierarchy.depth[concepts] == 0], minlength=index.concepts)
    least = max(1.0, OWN_SHARE * len(members))
    kinds = np.flatnonzero(counts >= least)
    alike = ~typed & (np.count_nonzero(~typed[members]) >= least)
    alike[instances.entities_of.gather(kinds)[1]] = True
    return described(index, np.flatnonzero(alike), members), kinds.tolist()


def described(index: Index, entities: Ids | Places, members: Ids) -> Ids:
    """Those that annotation relations say anything of; where they say nothing of the set, those with a type."""
    own, told = (instances.concepts_of.sizes() for instances in (index.instances, index.descriptions))
    kept = told > own if (told > own)[members].any() else told > 0
    return np.unique(entities[kept[entities]]).astype(np.int32)


def compare_sets(kb: KnowledgeBase, first: Ids, second: Ids, everything: bool) -> tuple[Answers, Answers]:
    """What each of two sets is rich in and the other is not: see `KnowledgeBase.compare_sets`."""
    apart = np.setxor1d(first, second)
    own = [np.intersect1d(apart, ids) for ids in (first, second)]
    if not all(map(len, own)):
        raise QueryError("one of the sets has no member that the other does not have: there is nothing to compare")
    return describe_set(kb, own[0], apart, everything), describe_set(kb, own[1], apart, everything)


def describe_set(
    kb: KnowledgeBase, members: Ids, background: Ids | None, everything: bool = False, probabilities: Rows | None = None
) -> Answers:
    """The concepts that a set is rich in, the most surprising first: see `KnowledgeBase.describe_set`.

    `probabilities` [E, C] are those of descriptions, known ones at 1; where they are given, the expected numbers are
    tested beside the known ones, and decide the order.
    """
    index, width = kb.index, kb.index.concepts
    whole, kinds = own_background(index, members) if background is None else (background, None)
    whole = described(index, whole, members)
    inside = np.intersect1d(members, whole)
    if not len(inside):
        raise QueryError(f"nothing describes the set: none of its {len(members):,} entities is in the background")
    known = SetTests.of(index.descriptions.concepts_of, inside, whole, width)
    expected = None if probabilities is None else SetTests.of(probabilities, inside, whole, width)
    leading = expected or known
    redundant = leading.redundant(index.descriptions.hierarchy)
    listed = np.flatnonzero((leading.inside > 0) & (everything | ~redundant))
    ordered = listed[np.lexsort((index.descriptions.entities_of.sizes()[listed], leading.p_values[listed]))]
    specificity = kb.specificity
    concepts = [
        ConceptAnswer(
            thing.iri,
            thing.label,
            1.0,
            KNOWN if known.inside[row] else PREDICTED,
            float(leading.inside[row] / leading.drawn),
            float(specificity[row]),
            **(known.row(row) | (expected.expected_row(row) if expected else {})),
        )
        for row in ordered.tolist()
        for thing in [kb.concepts.at(row)]
    ]
    extra = {
        "set_size": len(inside),
        "background_size": len(whole),
        "background": None if kinds is None else [kb.concepts.at(kind).iri for kind in kinds],
        "outside": [kb.entities.at(one).iri for one in np.setdiff1d(members, inside).tolist()],
        "tests": leading.tests,
        "correction": "Benjamini-Hochberg",
        "significant": int(np.count_nonzero(leading.q_values < SIGNIFICANT)),
        "redundant": int(np.count_nonzero(redundant)),
    }
    query = "{" + ", ".join(kb.entities.at(member).iri for member in members.tolist()) + "}"
    counts = AnswerCounts(len(members)), AnswerCounts(len(concepts))
    return Answers(query, kb.list_entities(members), concepts, *counts, extra, by=kb)
