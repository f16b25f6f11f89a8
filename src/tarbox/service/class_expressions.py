"""Where a class expression stands among the named classes, as Protégé's DL Query tab shows it.

With rustdl everything that follows from the axioms counts. Without it, or without axioms, what follows from the
hierarchy and from the links between classes (`tarbox.kb.class_view`): sound, and complete for names alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from typing import Any, Final, assert_never, final

import numpy as np

from tarbox.core.ids import Role
from tarbox.execution.exact import answer_query
from tarbox.execution.graph import Index
from tarbox.execution.rows import EVERYTHING, name_id
from tarbox.kb.arrays import Ids
from tarbox.kb.axioms import Axiom
from tarbox.kb.class_view import class_view
from tarbox.kb.closure import Hierarchy
from tarbox.kb.terms import from_ntriples
from tarbox.query import algebra
from tarbox.query.algebra import Direction, Query, disjunction, fold, walk
from tarbox.query.names import ANYTHING, OWL_THING, XSD
from tarbox.service.answers import KNOWN, PREDICTED, EntityAnswer
from tarbox.service.collections import Thing
from tarbox.service.degrees import MIN_DEGREE, check_degree
from tarbox.service.knowledge_base import KnowledgeBase

CLASS_LISTS: Final = ("equivalent", "direct_superclasses", "superclasses", "direct_subclasses", "subclasses")
_FACETS: Final = {">=": "minInclusive", ">": "minExclusive", "<=": "maxInclusive", "<": "maxExclusive"}
_MINIMUM: Final = {
    False: ("ObjectMinCardinality", "ObjectSomeValuesFrom"),
    True: ("DataMinCardinality", "DataSomeValuesFrom"),
}


@final
@dataclass(frozen=True, slots=True)
class PlacedItem:
    """A class around an expression, or an instance of it; `name` is what a query can say."""

    iri: str
    label: str
    name: str
    degree: float = 1.0
    status: str = KNOWN


@final
@dataclass(frozen=True, slots=True)
class ClassDescription:
    """The named classes around an expression, itself left out, and its instances by the facts.

    `superclasses` and `subclasses` are all of them, the direct ones among them; `reasoned` says whether a reasoner
    for OWL found them, `satisfiable` whether anything can be in the expression at all. Of a run, `predicted` are the
    classes that are probably missing among the direct ones, the most probable first. `class_counts` are of all classes
    of each list, also where a part is listed.
    """

    expression: str
    equivalent: tuple[PlacedItem, ...]
    direct_superclasses: tuple[PlacedItem, ...]
    superclasses: tuple[PlacedItem, ...]
    direct_subclasses: tuple[PlacedItem, ...]
    subclasses: tuple[PlacedItem, ...]
    instances: tuple[PlacedItem, ...]
    instance_count: int
    reasoned: bool
    satisfiable: bool = True
    predicted_superclasses: tuple[PlacedItem, ...] = ()
    predicted_subclasses: tuple[PlacedItem, ...] = ()
    class_counts: dict[str, int] = field(default_factory=dict)

    def part(self, limit: int, offset: int) -> ClassDescription:
        """The same with so many of each list of classes, those after the first `offset`."""
        return replace(self, **{name: getattr(self, name)[offset : offset + limit] for name in CLASS_LISTS})


@final
@dataclass(frozen=True, slots=True)
class Place:
    """Concepts equivalent to an expression, and some above and below it, from which all others can be reached."""

    equal: set[int]
    above: set[int]
    below: set[int]
    reasoned: bool
    satisfiable: bool = True


def find_place(kb: KnowledgeBase, query: Query, seconds: float | None = None) -> Place:
    """The place of an expression: by rustdl where there are axioms, in the time that the store was classified in.

    With `seconds` it is asked in a process of its own, which has so long, and by saturation alone.
    """
    axioms = kb.axioms()
    if axioms and find_spec("rustdl") is not None:
        return _by_reasoner(kb, query, axioms, seconds)
    return _by_structure(kb, query, axioms)


def describe_expression(
    kb: KnowledgeBase,
    text: str,
    k: int | None = None,
    min_degree: float = MIN_DEGREE,
    find: Callable[[KnowledgeBase, Query], Place] = find_place,
) -> ClassDescription:
    """The place of an expression, in Manchester syntax, among the classes.

    At most `k` instances are listed, and of each kind `k` predicted classes of `min_degree` or more.
    """
    check_degree(min_degree)
    query = kb.parse(text)
    hierarchy = kb.index.instances.hierarchy
    place = find(kb, query)
    itself = {name_id(Role.CONCEPT, query.name, kb.facts.vocabulary)} if isinstance(query, algebra.Concept) else set()
    all_above = _closed(place.above, hierarchy, up=True) - place.equal - itself
    all_below = _closed(place.below, hierarchy, up=False) - place.equal - itself
    nearest = _nearest(all_below, hierarchy, up=False)
    answers = kb.answer(_with_members(kb, query, place.equal | nearest), 0 if kb.of_classes else k)
    known, own = all_above | all_below, itself | place.equal
    predicted = {up: _predicted(kb, own, known, up, min_degree)[:k] for up in (True, False)}
    found = ClassDescription(
        kb.render(query),
        _things(kb, place.equal - itself),
        _things(kb, _nearest(all_above, hierarchy, up=True)),
        _things(kb, all_above),
        _things(kb, nearest),
        _things(kb, all_below),
        tuple(_placed(kb, Role.ENTITY, each) for each in answers.entities),
        0 if kb.of_classes else answers.entity_count,
        place.reasoned,
        place.satisfiable,
        predicted[True],
        predicted[False],
    )
    return replace(found, class_counts={name: len(getattr(found, name)) for name in CLASS_LISTS})


def _with_members(kb: KnowledgeBase, query: Query, within: set[int]) -> Query:
    """An expression, and what is in a class that is found to be within it: its members need not have the facts."""
    sizes, names = kb.index.instances.entities_of.sizes(), kb.facts.vocabulary.concepts
    if isinstance(query, algebra.Concept):  # the typings are closed
        return query
    return disjunction([query, *(algebra.Concept(names.iri(one)) for one in sorted(within) if sizes[one])])


def _predicted(
    kb: KnowledgeBase, own: set[int], known: set[int], up: bool, min_degree: float
) -> tuple[PlacedItem, ...]:
    """What is predicted to be directly above the classes that are the expression, or below them."""
    rows = kb.predicted_subsumptions
    if rows is None:
        return ()
    lower, upper = rows.coordinates()
    near, far = (lower, upper) if up else (upper, lower)
    places = np.flatnonzero(np.isin(near, list(own)) & (rows.values >= min_degree))
    likely = {int(far[place]): float(rows.values[place]) for place in places[np.argsort(rows.values[places])]}
    return tuple(
        _placed(kb, Role.CONCEPT, kb.concepts.at(row), degree, PREDICTED)
        for row, degree in sorted(likely.items(), key=lambda item: (-item[1], item[0]))
        if row not in known | own
    )


def _things(kb: KnowledgeBase, ids: Iterable[int]) -> tuple[PlacedItem, ...]:
    found = sorted(map(kb.concepts.at, ids), key=lambda each: each.label.lower())
    return tuple(_placed(kb, Role.CONCEPT, each) for each in found)


def _placed(kb: KnowledgeBase, role: Role, each: Thing | EntityAnswer, *predicted: Any) -> PlacedItem:
    return PlacedItem(each.iri, each.label, kb.naming.write(role, from_ntriples(each.iri)), *predicted)


def _by_reasoner(kb: KnowledgeBase, query: Query, axioms: tuple[Axiom, ...], seconds: float | None) -> Place:
    from tarbox.kb.reasoning.apart import query_apart
    from tarbox.kb.reasoning.entailment import query_expression

    names = kb.facts.vocabulary.concepts
    pairs = zip(kb.facts.subs.tolist(), kb.facts.supers.tolist(), strict=True)
    told = [("SubClassOf", names.iri(lower), names.iri(upper)) for lower, upper in pairs]
    said: list[Axiom] = [*axioms, *told, *(("Declaration", ("Class", name)) for name in names)]
    expression = to_expression(query)
    if seconds:
        place = query_apart(said, expression, seconds)
    else:
        place = query_expression(said, expression, kb.seconds_per_pair, individuals=False)
    equal, above, below = (
        {row for name in part if (row := names.find(name)) is not None}
        for part in (place.equivalent, place.direct_supers, place.direct_subs)
    )
    return Place(equal, above, below, reasoned=True, satisfiable=place.satisfiable)


def _by_structure(kb: KnowledgeBase, query: Query, axioms: tuple[Axiom, ...]) -> Place:
    """Superclasses by conjunctions and unions of names; subclasses by the class view, where what it says of links is
    true of all members: of `some`, and not against the direction of a relation."""
    hierarchy = kb.index.instances.hierarchy
    everyone, nobody = frozenset(range(len(hierarchy))), frozenset[int]()

    def above(node: Query, parts: list[frozenset[int]]) -> frozenset[int]:
        match node:
            case algebra.Concept(name):
                concept = name_id(Role.CONCEPT, name, kb.facts.vocabulary)
                return nobody if concept == EVERYTHING else frozenset(hierarchy.ancestors[concept].tolist())
            case algebra.And():
                return nobody.union(*parts)
            case algebra.Or():
                return everyone.intersection(*parts)
            case _:
                return nobody

    highest: frozenset[int] = fold(query, above)
    upper = set(highest)
    lower: set[int] = set()
    forward = all(node.direction is Direction.FORWARD for node in walk(query) if isinstance(node, algebra.Exists))
    positive = algebra.Concept | algebra.Exists | algebra.And | algebra.Or
    if forward and all(isinstance(node, positive) for node in walk(query)):
        lower = set(answer_query(query, Index.of(class_view(kb.facts, axioms))).entities.tolist())
    equal = upper & lower
    return Place(equal, upper - equal, lower - equal, reasoned=False)


def _closed(ids: set[int], hierarchy: Hierarchy, up: bool) -> set[int]:
    rows = hierarchy.ancestors if up else hierarchy.descendants
    return set(rows.gather(np.array(sorted(ids), np.int64))[1].tolist())


def _nearest(ids: set[int], hierarchy: Hierarchy, up: bool) -> set[int]:
    """Those that no other lies between: the lowest of the superclasses, the highest of the subclasses."""
    between = hierarchy.descendants if up else hierarchy.ancestors
    return {row for row in ids if not _others(row, between[row], ids, hierarchy)}


def _others(row: int, near: Ids, ids: set[int], hierarchy: Hierarchy) -> bool:
    return any(other in ids and hierarchy.group[other] != hierarchy.group[row] for other in near.tolist())


def is_beyond_el(query: Query) -> bool:
    """Whether a reasoner for OWL EL may miss some of the classes around the expression."""
    roles = (node for node in walk(query) if isinstance(node, algebra.Exists))
    inverse = any(node.direction is not Direction.FORWARD for node in roles)
    return inverse or any(isinstance(node, algebra.Not | algebra.Or | algebra.AtLeast) for node in walk(query))


def to_expression(query: Query) -> Any:
    """The query as an expression in the words of OWL's functional syntax (`tarbox.kb.axioms`)."""

    def said(node: Query, parts: list[Any]) -> Any:  # noqa: PLR0911
        match node:
            case algebra.Entity(name):
                return ("ObjectOneOf", name)
            case algebra.Concept(name):
                return OWL_THING if name == ANYTHING else name
            case algebra.DataRange(datatype, facets):
                bounds = [part for sign, value in facets for part in (XSD + _FACETS[sign], value)]
                return ("DatatypeRestriction", datatype, *bounds) if bounds else datatype
            case algebra.HasSelf(relation):
                return ("ObjectHasSelf", relation)
            case algebra.Exists(relation, direction, operand):
                return (_word(operand, 1), _role(relation, direction), parts[0])
            case algebra.AtLeast(count, relation, direction, operand):
                return (_word(operand, 0), str(count), _role(relation, direction), parts[0])
            case algebra.Not():
                return ("ObjectComplementOf", parts[0])
            case algebra.And():
                return ("ObjectIntersectionOf", *parts)
            case algebra.Or():
                return ("ObjectUnionOf", *parts)
            case _:
                assert_never(node)

    return fold(query, said)


def _word(operand: Query, place: int) -> str:
    return _MINIMUM[isinstance(operand, algebra.DataRange)][place]


def _role(relation: str, direction: Direction) -> Any:
    return relation if direction is Direction.FORWARD else ("ObjectInverseOf", relation)
