"""Why an answer: the members of every part of a query, and the facts that carry one answer.

`explain` shows a query from above: every part with its members. `explain_answer` walks down from one answer
(`tarbox.service.witnesses`): the facts on the way prove it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, assert_never, final

import numpy as np

from tarbox.core.errors import QueryError
from tarbox.core.ids import Role
from tarbox.execution.rows import encode
from tarbox.kb.attributes import say_attributes
from tarbox.models.scorer import Prediction, Predictor
from tarbox.query.algebra import Query
from tarbox.query.english import say_each, say_member
from tarbox.query.phrases import RelationPhrase
from tarbox.query.rewrites import plain
from tarbox.service.answers import KNOWN, PREDICTED
from tarbox.service.degrees import COUNTED
from tarbox.service.knowledge_base import KnowledgeBase
from tarbox.service.notebook_views import support_view
from tarbox.service.proofs import FactLookup, Traced, contains, trace
from tarbox.service.witnesses import AbsenceStep, AssertionStep, Step, SubsumptionStep, TypingStep, Walk

SHOWN: Final = 5


@final
@dataclass(frozen=True, slots=True)
class Explanation:
    """A part of a query: its text and English, how many entities it holds, the first of them, and its own parts."""

    query: str
    english: str
    count: int
    members: tuple[str, ...]
    parts: tuple[Explanation, ...]


@final
@dataclass(frozen=True, slots=True)
class SupportNode:
    """A thing on the way: `kind` is `answer`, `entity` (the query names it), `variable` (a witness) or `concept`."""

    id: str
    kind: Literal["entity", "variable", "concept", "answer"]
    label: str
    iri: str


@final
@dataclass(frozen=True, slots=True)
class SupportEdge:
    """A fact between two nodes, by their ids.

    `status` says whether it is known or predicted, `step` which of the support's steps says it, from zero. `degree`
    is 1 for a known fact, for a predicted one its probability; None where the model has no probabilities.
    """

    source: str
    target: str
    label: str
    status: Literal["known", "predicted"]
    step: int
    degree: float | None = 1.0


@final
@dataclass(frozen=True, slots=True)
class Support:
    """What carries one answer: a sentence, the facts as a graph, and one line of English for each step.

    The probability in the sentence is the answer's own, its `degree` among the answers. Where not every step is known,
    each ends in `(known)` or `(predicted)`, there with the degree of its fact; then, in brackets, come the evidence,
    the references and whatever else the knowledge base has about the fact (ADR 40).
    """

    sentence: str
    nodes: tuple[SupportNode, ...]
    edges: tuple[SupportEdge, ...]
    steps: tuple[str, ...]

    def __str__(self) -> str:
        return self.sentence

    def _repr_html_(self) -> str:
        return support_view(self)


def explain(query: Query, kb: KnowledgeBase) -> Explanation:
    """The query with the members of each of its parts."""
    return _shown(trace(query, kb.index), kb)


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
    With a `predictor`, predicted facts are the likeliest, with their probabilities, and what it gives less than
    `COUNTED` is no answer. A model that only scores lists every candidate, so any may be explained.
    """
    query, things = plain(query), kb.concepts if role is Role.CONCEPT else kb.entities  # as it is answered
    row = things.id(answer)
    root = trace(query, kb.index, predictor)
    proved = _described(root, kb, row) if role is Role.CONCEPT else [row] if root.has(row) else []
    prediction = degree = None
    if predictor is not None and not proved:
        shape, ids = encode(query, kb.facts.vocabulary)
        prediction = predictor.predict(shape, ids[None])
        degree = prediction.concept(0, row) if role is Role.CONCEPT else float(prediction.entities[0, row])
    if not proved:
        _check_prediction(things.at(row).label, role, predicted, degree)
    walk = Walk(kb.index, FactLookup(predictor.probabilities) if predictor is not None else None)
    if role is Role.ENTITY:
        walk.visit(root, row)
        return _Teller(kb).tell(walk, (role, row), (), degree)
    return _Teller(kb).tell(walk, (role, row), (_describe(root, kb, row, walk, proved, prediction),))


def _described(root: Traced, kb: KnowledgeBase, concept: int) -> list[int]:
    """The known answers that a concept describes."""
    described = kb.index.descriptions.entities_of[concept]
    return [row for row in root.members.tolist() if contains(described, row)]


def _annotating(kb: KnowledgeBase, concept: int, proved: Sequence[int]) -> str:
    """The relations through which a concept describes some of these entities, as a list; empty where none does."""
    facts = kb.facts
    own = np.isin(facts.relations, facts.annotations) & np.isin(facts.heads, proved)
    through = facts.relations[own][np.isin(facts.tails[own], kb.index.instances.entities_of[concept])]
    labels = [kb.relations.at(relation).label for relation in np.unique(through).tolist()]
    return _list(labels) if labels else ""


def _check_prediction(label: str, role: Role, predicted: bool, degree: float | None) -> None:
    """Raises `QueryError` for what does not follow from the facts, unless it is predicted."""
    reason = "it describes none" if role is Role.CONCEPT else "no facts carry it"
    if not predicted:
        raise QueryError(f"{label} is no answer to this query: {reason}")
    if degree is not None and degree < COUNTED:
        raise QueryError(f"{label} is no answer to this query: {reason}, and its probability is below {COUNTED}")


def _describe(
    root: Traced, kb: KnowledgeBase, concept: int, walk: Walk, proved: Sequence[int], prediction: Prediction | None
) -> str:
    """Which answers the concept describes; the walk shows why it describes the first of them, or the likeliest."""
    label, member = kb.concepts.at(concept).label, proved[0] if proved else None
    if proved:
        listed = _list([kb.entities.at(row).label for row in proved[:SHOWN]], len(proved))
        count = len(root.members)
        through = _annotating(kb, concept, proved)
        how = f"are described by {label} through {through}" if through else f"are instances of {label}"
        lead = f"{len(proved):,} of {count:,} answers {how}: {listed}"
    else:
        how = "described by" if kb.facts.annotations else "an instance of"
        lead = f"no known answer is {how} {label}; the model predicts one"
        if walk.lookup is not None and prediction is not None:
            member = walk.lookup.member(concept, prediction.entities[0])
            lead += "" if member is None else f", most likely {kb.entities.at(member).label}"
    if member is not None:
        walk.describe(member, concept)
        walk.visit(root, member)
    return lead


_Key = tuple[Role, int]


@final
@dataclass(slots=True)
class _Teller:
    """Makes a walk readable: nodes in the order in which they appear, the answer first."""

    kb: KnowledgeBase
    nodes: dict[_Key, SupportNode] = field(default_factory=dict)

    def tell(self, walk: Walk, answer: _Key, lead: tuple[str, ...], degree: float | None = None) -> Support:
        """`degree` is that of the answer, where it has one; steps are marked where not all of them are known."""
        self._node(answer, "answer")
        for entity in sorted(walk.named):
            self._node((Role.ENTITY, entity), "entity")
        edges = tuple(edge for number, step in enumerate(walk.steps, len(lead)) for edge in self._edges(step, number))
        mixed = not all(step.known for step in walk.steps)
        said = {step: self._say(step) + (_mark(step) if mixed or _is_doubtful(step) else "") for step in walk.steps}
        sentence = self._sentence(said, answer, lead, degree)
        steps = (text + self._source(step) for step, text in said.items())
        return Support(sentence, tuple(self.nodes.values()), edges, (*lead, *steps))

    def _source(self, step: Step) -> str:
        """What the knowledge base has beside a fact: its evidence, references and the like."""
        if not isinstance(step, AssertionStep) or self.kb.attributes is None:
            return ""
        said = say_attributes(self.kb.attributes.of(step.head, step.relation, step.tail))
        return f" [{said}]" if said else ""

    def _sentence(self, steps: Mapping[Step, str], answer: _Key, lead: tuple[str, ...], degree: float | None) -> str:
        """The steps in one or two sentences; that sub-concepts and terms are included goes without saying."""
        label = self.nodes[answer].label
        said = [t for step, t in steps.items() if not isinstance(step, SubsumptionStep) and not self._is_term(step)]
        if lead:
            example = f" For example: {_list(said)}." if said else ""
            verb = "describes" if said and all(step.known for step in steps) else "may describe"
            return f"{label} {verb} the answers: {lead[0]}.{example}"
        if not said:
            return f"{label} is an answer because the query names it or asks for everything."
        if all(step.known for step in steps):
            return f"{label} is an answer because {_list(said)}."
        chance = "" if degree is None else f" with probability {_number(degree)}"
        return f"{label} is predicted{chance}; it would be an answer if {_list(said)}."

    def _edges(self, step: Step, number: int) -> Iterable[SupportEdge]:
        match step:
            case AssertionStep(head, relation, tail):
                ends, label = ((Role.ENTITY, head), (Role.ENTITY, tail)), self.kb.relations.at(relation).label
            case TypingStep(entity, concept):
                ends, label = ((Role.ENTITY, entity), (Role.CONCEPT, concept)), "is a"
            case SubsumptionStep(sub, above):
                ends, label = ((Role.CONCEPT, sub), (Role.CONCEPT, above)), "is a kind of"
            case AbsenceStep():
                return ()
            case _:
                assert_never(step)
        source, target = (self._node(end).id for end in ends)
        return (SupportEdge(source, target, label, KNOWN if step.known else PREDICTED, number, step.degree),)

    def _node(self, key: _Key, kind: Literal["entity", "answer"] | None = None) -> SupportNode:
        if key not in self.nodes:
            role, row = key
            thing = (self.kb.entities if role is Role.ENTITY else self.kb.concepts).at(row)
            shown = kind or ("variable" if role is Role.ENTITY else "concept")
            self.nodes[key] = SupportNode(f"n{len(self.nodes)}", shown, thing.label, thing.iri)
        return self.nodes[key]

    def _is_term(self, step: Step) -> bool:
        """Whether a step leads from a term to the concept that it is (ADR 39)."""
        if not isinstance(step, TypingStep) or not self.kb.facts.annotations:
            return False
        return self.kb.entities.at(step.entity).iri == self.kb.concepts.at(step.concept).iri

    def _say(self, step: Step) -> str:
        entities, concepts = self.kb.entities, self.kb.concepts
        match step:
            case AssertionStep(head, relation, tail, _, choices, _):
                phrase = RelationPhrase.of(self.kb.relations.at(relation).label)
                more = f" (or {choices:,} other{'s' if choices > 1 else ''})" if choices else ""
                named, other = relation in self.kb.facts.annotations and phrase.names_noun, entities.at(tail).label
                said = f"{phrase.verb} the {phrase.noun} {other}" if named else phrase.say(other)
                return f"{entities.at(head).label} {said}{more}"
            case TypingStep(entity, concept) if self._is_term(step):
                return f"{entities.at(entity).label} is the term of the concept {concepts.at(concept).label}"
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
    """What tells a known step from a predicted one, with its probability; of a known one where a model doubts it."""
    told = "" if step.degree is None or (step.known and not _is_doubtful(step)) else f", {_number(step.degree)}"
    return f" ({KNOWN if step.known else PREDICTED}{told})"


def _is_doubtful(step: Step) -> bool:
    """Whether no fact says what a model takes for possible: that an entity is in a part it must not be in."""
    return isinstance(step, AbsenceStep) and step.degree is not None and step.degree < 1 - COUNTED


def _number(degree: float) -> str:
    return f"{degree:.2f}" if degree >= 0.01 else f"{degree:.1g}"


def _list(texts: Sequence[str], count: int | None = None) -> str:
    """Texts joined as English does; `count` is how many there are in all."""
    if count is not None and count > len(texts):
        return f"{', '.join(texts)} and {count - len(texts):,} more"
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"


def _shown(traced: Traced, kb: KnowledgeBase) -> Explanation:
    members = traced.members
    return Explanation(
        kb.render(traced.query),
        kb.describe(traced.query),
        len(members),
        tuple(kb.entities.at(row).label for row in members[:SHOWN].tolist()),
        tuple(_shown(part, kb) for part in traced.parts),
    )
