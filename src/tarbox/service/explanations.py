"""Why an answer: the members of every part of a query, and the facts that carry one answer.

`explain` shows a query from above: every part with its members. `explain_answer` walks down from one answer
(`tarbox.service.witnesses`): the facts on the way prove it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, assert_never, final

import numpy as np
from numpy.typing import NDArray

from tarbox.core.errors import QueryError
from tarbox.core.ids import Role
from tarbox.execution.arrays import ArrayAlgebra
from tarbox.execution.interpreter import evaluate
from tarbox.execution.rows import encode
from tarbox.models.scorer import Prediction, Predictor
from tarbox.query.algebra import And, Concept, Direction, Entity, Exists, Not, Or, Query
from tarbox.query.english import say_each, say_member
from tarbox.query.phrases import RelationPhrase
from tarbox.query.rewrites import plain
from tarbox.service.answers import KNOWN, PREDICTED
from tarbox.service.convictions import Convictions
from tarbox.service.judging import LEAST
from tarbox.service.knowledge_base import KnowledgeBase
from tarbox.service.witnesses import (
    AbsenceStep,
    AssertionStep,
    Step,
    SubsumptionStep,
    Traced,
    TypingStep,
    Walk,
    contains,
    degree_of,
    is_known,
)

SHOWN: Final = 5


@final
@dataclass(frozen=True, slots=True)
class Explanation:
    """A part of a query: its text and English, how many entities it holds, the first of them, and its own parts."""

    text: str
    english: str
    count: int
    members: tuple[str, ...]
    parts: tuple[Explanation, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "query": self.text,
            "english": self.english,
            "count": self.count,
            "members": list(self.members),
            "parts": [part.to_json() for part in self.parts],
        }


@final
@dataclass(frozen=True, slots=True)
class SupportNode:
    """A thing on the way: `kind` is `answer`, `entity` (the query names it), `variable` (a witness) or `concept`."""

    id: str
    kind: str
    label: str
    iri: str


@final
@dataclass(frozen=True, slots=True)
class SupportEdge:
    """A fact between two nodes, by their ids.

    `status` says whether it is known or predicted, `step` which of the support's steps says it, from zero. `degree`
    is 1 for a known fact; for a predicted one the probability that the model gives when it is asked for that fact
    alone, None where it has no probabilities.
    """

    source: str
    target: str
    label: str
    status: str
    step: int
    degree: float | None = 1.0


@final
@dataclass(frozen=True, slots=True)
class Support:
    """What carries one answer: a sentence, the facts as a graph, and one line of English for each step."""

    sentence: str
    nodes: tuple[SupportNode, ...]
    edges: tuple[SupportEdge, ...]
    steps: tuple[str, ...]


def explain(query: Query, kb: KnowledgeBase) -> Explanation:
    """The query with the members of each of its parts."""
    return _shown(trace(query, kb), kb)


def trace(query: Query, kb: KnowledgeBase, convictions: Convictions | None = None) -> Traced:
    """The query with the set of each of its parts, and their degrees where a model believes."""
    return evaluate(query, _Tracer(ArrayAlgebra(kb.index), convictions))


def explain_answer(
    query: Query,
    kb: KnowledgeBase,
    answer: str,
    role: Role,
    *,
    predicted: bool = False,
    predictor: Predictor | None = None,
) -> Support:
    """The facts that carry one answer, an entity or a concept, by name or IRI.

    Raises `QueryError` where it is no answer, unless it may be a `predicted` one; `UnknownName` where it is nothing.
    With a `predictor`, predicted facts are those that it believes most, with their degrees, and what it gives less than
    `LEAST` is no answer. A model that only scores lists every candidate, so any may be explained.
    """
    query = plain(query)  # as it is judged
    convictions = Convictions(predictor) if predictor is not None else None
    row = (kb.concepts if role is Role.CONCEPT else kb.entities).id(answer)
    root = trace(query, kb, convictions)
    walk = Walk(kb.index, convictions)
    if role is Role.CONCEPT:
        return _explain_concept(root, kb, row, walk, predicted)
    degree = None
    if not root.has(row):
        prediction = _predict(root.query, kb, convictions)
        degree = None if prediction is None else prediction.entities[0, row]
        _refuse(kb.entities.at(row).label, "no facts carry it", predicted, degree)
    walk.visit(root, row)
    return _Teller(kb).tell(walk, (Role.ENTITY, row), (), degree)


def _refuse(label: str, reason: str, predicted: bool, degree: float | None) -> None:
    """Raises `QueryError` for what does not follow from the facts, unless it is predicted."""
    if not predicted:
        raise QueryError(f"{label} is no answer to this query: {reason}")
    if degree is not None and degree < LEAST:
        raise QueryError(f"{label} is no answer to this query: {reason}, and its probability is below {LEAST}")


def _explain_concept(root: Traced, kb: KnowledgeBase, concept: int, walk: Walk, predicted: bool) -> Support:
    """Which answers are instances of the concept, then the facts that carry the first of them."""
    answers = root.value.materialise(len(kb.entities))
    instances = kb.index.instances.entities_of[concept]
    inside = [row for row in answers.tolist() if contains(instances, row)]
    label = kb.concepts.at(concept).label
    if not inside:
        prediction = _predict(root.query, kb, walk.convictions)
        degree = None if prediction is None else prediction.concept(0, concept)
        _refuse(label, "none of its instances is one", predicted, degree)
        return _explain_predicted(root, kb, concept, walk, prediction)
    walk.type(inside[0], concept)
    walk.visit(root, inside[0])
    listed = _list([kb.entities.at(row).label for row in inside[:SHOWN]], len(inside))
    lead = f"{len(inside):,} of {len(answers):,} answers are instances of {label}: {listed}"
    return _Teller(kb).tell(walk, (Role.CONCEPT, concept), (lead,))


def _explain_predicted(
    root: Traced, kb: KnowledgeBase, concept: int, walk: Walk, predicted: Prediction | None
) -> Support:
    """The member that the model believes in most: its typing, and what makes it an answer."""
    lead = f"no known answer is an instance of {kb.concepts.at(concept).label}; the model predicts one"
    if walk.convictions is not None and predicted is not None:
        member = walk.convictions.member(concept, predicted.entities[0])
        if member is not None:
            lead += f", most likely {kb.entities.at(member).label}"
            walk.type(member, concept)
            walk.visit(root, member)
    return _Teller(kb).tell(walk, (Role.CONCEPT, concept), (lead,))


def _predict(query: Query, kb: KnowledgeBase, convictions: Convictions | None) -> Prediction | None:
    """The probabilities of all answers; None where the model has none."""
    if convictions is None:
        return None
    shape, ids = encode(query, kb.facts.vocabulary)
    return convictions.predictor.predict(shape, ids[None])


@final
@dataclass(frozen=True, slots=True)
class _Tracer:
    """The exact algebra, keeping every set on the way; beside it fuzzy sets, where a model believes."""

    inner: ArrayAlgebra
    fuzzy: Convictions | None = None

    def entity(self, name: str) -> Traced:
        degrees = self.fuzzy and self.fuzzy.entity(name)
        return Traced(Entity(name), self.inner.entity(name), (), degrees)

    def concept(self, name: str) -> Traced:
        degrees = self.fuzzy and self.fuzzy.concept(name)
        return Traced(Concept(name), self.inner.concept(name), (), degrees)

    def exists(self, relation: str, direction: Direction, operand: Traced) -> Traced:
        value = self.inner.exists(relation, direction, operand.value)
        degrees = self.fuzzy and self.fuzzy.exists(relation, direction, *_degrees([operand]))
        return Traced(Exists(relation, direction, operand.query), value, (operand,), degrees)

    def intersection(self, operands: Sequence[Traced]) -> Traced:
        value = self.inner.intersection([operand.value for operand in operands])
        degrees = self.fuzzy and self.fuzzy.intersection(_degrees(operands))
        return Traced(And(tuple(operand.query for operand in operands)), value, tuple(operands), degrees)

    def union(self, operands: Sequence[Traced]) -> Traced:
        value = self.inner.union([operand.value for operand in operands])
        degrees = self.fuzzy and self.fuzzy.union(_degrees(operands))
        return Traced(Or(tuple(operand.query for operand in operands)), value, tuple(operands), degrees)

    def complement(self, operand: Traced) -> Traced:
        degrees = self.fuzzy and self.fuzzy.complement(*_degrees([operand]))
        return Traced(Not(operand.query), self.inner.complement(operand.value), (operand,), degrees)


def _degrees(operands: Sequence[Traced]) -> list[NDArray[np.float32]]:
    return [operand.degrees for operand in operands if operand.degrees is not None]


_Key = tuple[Role, int]


@final
@dataclass(slots=True)
class _Teller:
    """Makes a walk readable: nodes in the order in which they appear, the answer first."""

    kb: KnowledgeBase
    nodes: dict[_Key, SupportNode] = field(default_factory=dict)

    def tell(self, walk: Walk, answer: _Key, lead: tuple[str, ...], degree: np.float32 | None = None) -> Support:
        """`degree` is that of the answer, where it has one; steps are marked where not all of them are known."""
        self._node(answer, "answer")
        for entity in sorted(walk.named):
            self._node((Role.ENTITY, entity), "entity")
        edges = tuple(edge for number, step in enumerate(walk.steps, len(lead)) for edge in self._edges(step, number))
        mixed = not all(is_known(step) for step in walk.steps)
        said = {step: self._say(step) + (_mark(step) if mixed else "") for step in walk.steps}
        sentence = self._sentence(said, answer, lead, None if degree is None else float(degree))
        return Support(sentence, tuple(self.nodes.values()), edges, (*lead, *said.values()))

    def _sentence(self, steps: Mapping[Step, str], answer: _Key, lead: tuple[str, ...], degree: float | None) -> str:
        """The steps in one or two sentences; that sub-concepts are included goes without saying."""
        label = self.nodes[answer].label
        said = [text for step, text in steps.items() if not isinstance(step, SubsumptionStep)]
        if lead:
            example = f" For example: {_list(said)}." if said else ""
            verb = "describes" if said and all(is_known(step) for step in steps) else "may describe"
            return f"{label} {verb} the answers: {lead[0]}.{example}"
        if not said:
            return f"{label} is an answer because the query names it or asks for everything."
        if all(is_known(step) for step in steps):
            return f"{label} is an answer because {_list(said)}."
        chance = "" if degree is None else f" with probability {_number(degree)}"
        return f"{label} is predicted{chance}; it would be an answer if {_list(said)}."

    def _edges(self, step: Step, number: int) -> Iterable[SupportEdge]:
        match step:
            case AssertionStep(head, relation, tail, known):
                ends, label = ((Role.ENTITY, head), (Role.ENTITY, tail)), self.kb.relations.at(relation).label
            case TypingStep(entity, concept, known):
                ends, label = ((Role.ENTITY, entity), (Role.CONCEPT, concept)), "is a"
            case SubsumptionStep(sub, above):
                ends, label, known = ((Role.CONCEPT, sub), (Role.CONCEPT, above)), "is a kind of", True
            case AbsenceStep():
                return ()
            case _:
                assert_never(step)
        source, target = (self._node(end).id for end in ends)
        return (SupportEdge(source, target, label, KNOWN if known else PREDICTED, number, degree_of(step)),)

    def _node(self, key: _Key, kind: str | None = None) -> SupportNode:
        if key not in self.nodes:
            role, row = key
            thing = (self.kb.entities if role is Role.ENTITY else self.kb.concepts).at(row)
            usual = "variable" if role is Role.ENTITY else "concept"
            self.nodes[key] = SupportNode(f"n{len(self.nodes)}", kind or usual, thing.label, thing.iri)
        return self.nodes[key]

    def _say(self, step: Step) -> str:
        entities, concepts = self.kb.entities, self.kb.concepts
        match step:
            case AssertionStep(head, relation, tail, _, choices, _):
                phrase = RelationPhrase.of(self.kb.relations.at(relation).label)
                more = f" (or {choices:,} other{'s' if choices > 1 else ''})" if choices else ""
                return f"{entities.at(head).label} {phrase.say(entities.at(tail).label)}{more}"
            case TypingStep(entity, concept):
                return f"{entities.at(entity).label} is {say_member(concepts.at(concept).label)}"
            case SubsumptionStep(sub, above):
                return f"{say_each(concepts.at(sub).label)} is {say_member(concepts.at(above).label)}"
            case AbsenceStep(entity, part, known):
                label, said = entities.at(entity).label, self.kb.describe(part)
                return f"no fact puts {label} under “{said}”" if known else f"{label} is not under “{said}”"
            case _:
                assert_never(step)


def _mark(step: Step) -> str:
    """What tells a known step from a predicted one, with its probability."""
    degree = degree_of(step)
    return f" ({KNOWN})" if is_known(step) else f" ({PREDICTED}{'' if degree is None else f', {_number(degree)}'})"


def _number(degree: float) -> str:
    return f"{degree:.2f}" if degree >= 0.01 else f"{degree:.1g}"


def _list(texts: Sequence[str], count: int | None = None) -> str:
    """Texts joined as English does; `count` is how many there are in all."""
    if count is not None and count > len(texts):
        return f"{', '.join(texts)} and {count - len(texts):,} more"
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"


def _shown(traced: Traced, kb: KnowledgeBase) -> Explanation:
    members = traced.value.materialise(len(kb.entities))
    return Explanation(
        kb.render(traced.query),
        kb.describe(traced.query),
        len(members),
        tuple(kb.entities.at(row).label for row in members[:SHOWN].tolist()),
        tuple(_shown(part, kb) for part in traced.parts),
    )
