"""Candidates: the most likely facts of one relation that a knowledge base does not have, with what speaks for each.

A model with probabilities has a list of them. Any other is asked, for each subject, for all objects; then a degree is
the place of a score between the least (0) and the best (1) of those found, an order and no probability.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, final

import numpy as np

from tarbox.core.errors import QueryError
from tarbox.core.ids import Level
from tarbox.execution.exact import answer_query
from tarbox.kb.arrays import Doubles, Flags, Ids, Keys
from tarbox.kb.rows import Rows, contains, distinct, pair_keys
from tarbox.kb.terms import from_ntriples
from tarbox.models.scorer import Predictor, Scorer
from tarbox.query.algebra import Concept, Query
from tarbox.query.templates import TEMPLATES
from tarbox.service.candidate_evidence import EvidenceTeller
from tarbox.service.degrees import COUNTED
from tarbox.service.knowledge_base import KnowledgeBase

TYPINGS: Final = ("type", "a", "rdf:type", "http://www.w3.org/1999/02/22-rdf-syntax-ns#type")
"""What names the relation of an entity to its concepts, where candidates are typings."""
STEPS: Final = (10, 100, 1_000, 10_000)
"""The sizes of lists whose expected precision is told."""
_SYMMETRIC: Final = 0.9
"""A relation of whose links so many go both ways has one candidate for both."""
_SINGLE: Final = ("FunctionalObjectProperty", "InverseFunctionalObjectProperty")
"""Axioms by which a subject, or an object, that has one fact has no other."""
_CELLS: Final = 1 << 23


@final
@dataclass(frozen=True, slots=True)
class NamedEnd:
    """An end of a fact: its term in N-Triples form, and what a person reads."""

    iri: str
    label: str


@final
@dataclass(frozen=True, slots=True)
class Candidate:
    """A fact that is not known, and known facts that speak for it, in English.

    `expected_precision` is the mean probability of this one and all before it; None where degrees are no probabilities.
    """

    subject: NamedEnd
    object: NamedEnd
    degree: float
    expected_precision: float | None
    evidence: tuple[str, ...]


@final
@dataclass(frozen=True, slots=True)
class CandidateList:
    """The best candidates, best first; `count` is how many were found.

    `expected_precision` has by the length of a list the share that is expected to be true; it is empty where degrees
    are no probabilities.
    """

    relation: str
    count: int
    expected_precision: dict[str, float]
    candidates: tuple[Candidate, ...]


@final
@dataclass(frozen=True, slots=True)
class _Wanted:
    """What is looked for: the relation (None for typings) and its direction, the known pairs [subject, object], and
    which subjects and objects may take part."""

    relation: int | None
    inverse: bool
    known: Rows
    subjects: Flags
    objects: Flags
    symmetric: bool = False


_Columns = tuple[Ids, Ids, Doubles]
"""Subjects, objects, degrees."""


@final
class CandidateFinder:
    """Finds candidates over one knowledge base and model."""

    def __init__(self, kb: KnowledgeBase, scorer: Scorer) -> None:
        self._kb, self._scorer = kb, scorer
        self._evidence = EvidenceTeller(kb)

    def find(self, relation: str, within: Query | None, concept: str | None, k: int, first: int) -> CandidateList:
        """See `tarbox.service.reasoner.Reasoner.candidates`."""
        if k < 1:
            raise QueryError(f"k = {k}: it must be 1 or more")
        wanted, (subjects, objects, degrees) = self.rank(relation, within, concept, first + k)
        things = self._kb.concepts if wanted.relation is None else self._kb.entities
        means = np.cumsum(degrees) / np.arange(1, len(degrees) + 1) if isinstance(self._scorer, Predictor) else None

        def candidate(row: int) -> Candidate:
            pair = int(subjects[row]), int(objects[row])
            if wanted.relation is None:
                evidence = self._evidence.of_typing(*pair)
            else:
                evidence = self._evidence.of_link(wanted.relation, *(pair[::-1] if wanted.inverse else pair))
            subject, object_ = self._kb.entities.at(pair[0]), things.at(pair[1])
            ends = NamedEnd(subject.iri, subject.label), NamedEnd(object_.iri, object_.label)
            return Candidate(*ends, float(degrees[row]), None if means is None else float(means[row]), evidence)

        last = min(first + k, len(degrees))
        sizes = [*(step for step in STEPS if step < last), last] if last and means is not None else []
        expected = {str(size): float(degrees[:size].mean()) for size in sizes}
        return CandidateList(relation, len(degrees), expected, tuple(map(candidate, range(first, last))))

    def rank(
        self, relation: str, within: Query | None = None, concept: str | None = None, k: int = 1, least: float = COUNTED
    ) -> tuple[_Wanted, _Columns]:
        """All that is found and has at least this degree, best first; of a model that only scores, `k` or somewhat
        more."""
        wanted = self._typings(concept) if from_ntriples(relation) in TYPINGS else self._links(relation, concept)
        scorer = self._scorer
        if within is not None:
            inside = np.isin(np.arange(len(wanted.subjects)), answer_query(within, self._kb.index).entities)
            wanted = replace(wanted, subjects=wanted.subjects & inside)
        elif not isinstance(scorer, Predictor):  # a score says nothing of whether there is an object at all
            wanted = replace(wanted, subjects=wanted.subjects & (wanted.known.sizes() > 0))
        table = self._predicted(scorer, wanted, least) if isinstance(scorer, Predictor) else self._scored(wanted, k)
        subjects, objects, degrees = _each_pair_once(*table) if wanted.symmetric else table
        order = np.argsort(-degrees, kind="stable")
        return wanted, (subjects[order], objects[order], degrees[order])

    def _links(self, said: str, concept: str | None) -> _Wanted:
        if concept is not None:
            raise QueryError(f"a concept is for typings, and {said!r} is a relation: ask for 'type', or for no concept")
        name = said.strip().removeprefix("inverse ").strip()
        inverse = name != said.strip()
        relation = self._kb.relations.id(name)
        facts, size = self._kb.facts, len(self._kb.entities)
        own = facts.relations == relation
        ends = facts.heads[own], facts.tails[own]
        if relation in facts.annotations:
            ends = self._with_wider_terms(*ends)
        subjects, objects = ends[::-1] if inverse else ends
        keys, back = distinct(pair_keys(subjects, objects, size)), pair_keys(objects, subjects, size)
        symmetric = bool(len(keys)) and float(contains(keys, back).mean()) >= _SYMMETRIC
        known = Rows.of_keys(distinct(np.append(keys, back)) if symmetric else keys, size, size)
        iri = from_ntriples(self._kb.relations.at(relation).iri)
        free = np.ones((2, size), np.bool_)
        for word, end, own_free in zip(_SINGLE, ends, free, strict=True):
            own_free[end] = (word, iri) not in self._functional
        return _Wanted(relation, inverse, known, free[int(inverse)], free[int(not inverse)], symmetric)

    def _with_wider_terms(self, heads: Ids, tails: Ids) -> tuple[Ids, Ids]:
        """Links to terms, with those to all that is above each, which follow."""
        facts = self._kb.facts
        terms, term_of = facts.term_typings(), np.full(len(self._kb.concepts), -1, np.int32)
        term_of[facts.types[terms]] = facts.typed[terms]
        origin, concepts = self._kb.index.instances.concepts_of.gather(tails)
        wider = term_of[concepts]
        return np.append(heads, heads[origin][wider >= 0]), np.append(tails, wider[wider >= 0])

    def _typings(self, concept: str | None) -> _Wanted:
        instances = self._kb.index.instances
        objects = instances.entities_of.sizes() > 0
        if concept is not None:
            objects = np.arange(len(objects)) == self._kb.concepts.id(concept)
        return _Wanted(None, False, instances.concepts_of, np.ones(len(self._kb.entities), np.bool_), objects)

    @cached_property
    def _functional(self) -> frozenset[Any]:
        return frozenset(axiom for axiom in self._kb.axioms() if axiom[0] in _SINGLE)

    def _predicted(self, predictor: Predictor, wanted: _Wanted, least: float) -> _Columns:
        held = predictor.probabilities
        if wanted.relation is None:
            (subjects, objects), degrees = held.concepts.coordinates(), held.concepts.values
        else:
            way = 2 * wanted.relation + (not wanted.inverse)
            own = slice(held.starts[way], held.starts[way + 1])
            subjects, objects, degrees = held.near[own], held.far[own], held.degrees[own]
        if wanted.symmetric:
            subjects, objects = np.append(subjects, objects), np.append(objects, subjects)
            degrees = np.append(degrees, degrees)
        kept = (degrees >= least) & (degrees < 1) & wanted.subjects[subjects] & wanted.objects[objects]
        subjects, objects, degrees = subjects[kept], objects[kept], degrees[kept].astype(np.float64)
        keys = pair_keys(subjects, objects, len(wanted.objects))
        if wanted.relation is None:
            kept = self._tell_most(keys, objects, degrees)
        else:  # of a symmetric relation what is known the other way round is known
            kept = ~contains(pair_keys(*wanted.known.coordinates(), len(wanted.objects)), keys)
        return subjects[kept], objects[kept], degrees[kept]

    def _tell_most(self, keys: Keys, concepts: Ids, degrees: Doubles) -> Flags:
        """Which typings, by increasing keys, do not follow from one of a narrower concept that is as likely."""
        tree = self._kb.index.instances.hierarchy
        origin, above = tree.parents.gather(concepts)
        over = keys[origin] - concepts[origin] + above
        place = np.minimum(np.searchsorted(keys, over), max(len(keys) - 1, 0))
        narrower = tree.group[above] != tree.group[concepts[origin]]
        follows = (keys[place] == over) & (degrees[place] <= degrees[origin]) & narrower
        kept = np.ones(len(keys), np.bool_)
        kept[place[follows]] = False
        return kept

    def _scored(self, wanted: _Wanted, k: int) -> _Columns:
        """The best of all pairs of a subject and an object that any fact has there: of typings each concept is asked
        for its members, of links each subject for its objects. Twice as many as wanted: some are pairs turned round."""
        reached = wanted.objects & (np.bincount(wanted.known.columns, minlength=len(wanted.objects)) > 0)
        asked, others, known = np.flatnonzero(wanted.subjects), np.flatnonzero(reached), wanted.known
        shape: Query
        if wanted.relation is None:
            asked, others, known = others, asked, known.transpose(len(reached))
            shape, ids = Concept("?c1"), asked[:, None]
        else:
            way = np.full(len(asked), 2 * wanted.relation + (not wanted.inverse))
            shape, ids = TEMPLATES["1p"].shape, np.stack([way, asked], axis=1)
        parts = [(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))]
        step = max(1, _CELLS // max(len(self._kb.entities), 1))
        for rows in (slice(start, start + step) for start in range(0, len(asked), step)):
            found: Any = self._scorer.score(shape, ids[rows].astype(np.int32), Level.ENTITY)
            scores = np.array(found if isinstance(found, np.ndarray) else found.float().cpu().numpy(), np.float64)
            scores[known.gather(asked[rows])] = -np.inf
            scores = scores[:, others]
            row, column = np.unravel_index(np.argsort(-scores, axis=None, kind="stable")[: 2 * k], scores.shape)
            parts.append((asked[rows][row], others[column], scores[row, column]))
        near, far, values = (np.concatenate(column) for column in zip(*parts, strict=True))
        best = np.argsort(-values, kind="stable")[: 2 * k]
        best = best[np.isfinite(values[best])]
        low, high = values[best].min(initial=np.inf), values[best].max(initial=-np.inf)
        degrees = 1 - (high - values[best]) / max(high - low, 1e-12)
        ends = near[best].astype(np.int32), far[best].astype(np.int32)
        return (*(ends[::-1] if wanted.relation is None else ends), degrees)


def _each_pair_once(subjects: Ids, objects: Ids, degrees: Doubles) -> _Columns:
    """Of pairs that are each other turned round the likelier."""
    order = np.argsort(-degrees, kind="stable")
    low, high = np.minimum(subjects, objects)[order], np.maximum(subjects, objects)[order]
    _, first = np.unique(np.stack([low, high], axis=1), axis=0, return_index=True)
    kept = np.sort(order[first])
    return subjects[kept], objects[kept], degrees[kept]
