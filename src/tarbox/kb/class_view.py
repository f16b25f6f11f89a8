"""The class view of a knowledge base: its classes as what answers are made of.

Every class is an entity of itself, and an instance of itself and of all above it. `A p B` stands where every A has a p
in B: `SubClassOf(A ObjectSomeValuesFrom(p B))`, also within conjunctions and definitions, for A and all below it. What
sub-relations, transitive relations and chains of two add is there, too: these hold between classes as between
individuals; inverse and symmetric relations do not (that every A has a part B says nothing of every B).

So `p some C` has the classes all of whose members have a p in C, exactly by the engine for individuals.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from tarbox.core.ids import Role
from tarbox.kb.arrays import Keys
from tarbox.kb.axioms import Axiom
from tarbox.kb.closure import Hierarchy
from tarbox.kb.facts import NO_SPLIT, Facts
from tarbox.kb.reasoning.desugaring import desugar
from tarbox.kb.rows import Rows, TripleKeys, distinct
from tarbox.kb.vocabulary import Names, Vocabulary

_COUNTS = ("ObjectMinCardinality", "ObjectExactCardinality")


def class_view(facts: Facts, axioms: Iterable[Axiom]) -> Facts:
    """The facts of the class view, over the same concepts and relations."""
    names, size = facts.vocabulary, len(facts.vocabulary.concepts)
    given = list(axioms)
    codec = TripleKeys(max(size, 1))
    numbers = [{iri: row for row, iri in enumerate(n.iris.to_pylist())} for n in (names.concepts, names.relations)]
    told = [link for axiom in given for link in _links(axiom)]
    rows = [
        (numbers[1][relation], numbers[0][lower], numbers[0][filler])
        for lower, relation, filler in told
        if relation in numbers[1] and lower in numbers[0] and filler in numbers[0]
    ]
    relations, lowers, fillers = np.array(rows, np.int64).reshape(-1, 3).T
    origin, below = Hierarchy.of(facts.subs, facts.supers, size).descendants.gather(lowers)
    links = distinct(codec.encode(relations[origin], below.astype(np.int64), fillers[origin]))
    relation, head, tail = codec.decode(_compose(links, _rules(given, numbers[1]), codec))
    order = np.lexsort((tail, relation, head))
    by_head = [column[order].astype(np.int32) for column in (head, relation, tail)]
    every = np.arange(size, dtype=np.int32)
    splits = np.full(len(order), NO_SPLIT, np.int8)
    return Facts(_vocabulary(names), by_head[0], by_head[1], by_head[2], every, every, facts.subs, facts.supers, splits)


def _links(axiom: Axiom) -> Iterator[tuple[str, str, str]]:
    """(class, relation, filler) that an axiom says of all members of a class."""
    for part in desugar(axiom) or () if axiom[0] in ("SubClassOf", "EquivalentClasses") else ():
        match part:
            case ("SubClassOf", str(lower), upper):
                for relation, filler in _fillers(upper):
                    yield lower, relation, filler


def _fillers(expression: object) -> Iterator[tuple[str, str]]:
    match expression:
        case ("ObjectIntersectionOf", *parts):
            for part in parts:
                yield from _fillers(part)
        case ("ObjectSomeValuesFrom", str(relation), filler):
            yield from ((relation, name) for name in _conjuncts(filler))
        case (str(word), str(count), str(relation), filler) if word in _COUNTS and count != "0":
            yield from ((relation, name) for name in _conjuncts(filler))


def _conjuncts(expression: object) -> Iterator[str]:
    match expression:
        case str():
            yield expression
        case ("ObjectIntersectionOf", *parts):
            for part in parts:
                yield from _conjuncts(part)


def _rules(axioms: Iterable[Axiom], numbers: dict[str, int]) -> list[tuple[int, int | None, int]]:
    """(first, second, result): a link by the first, and one by the second where there is one, make one."""
    found: set[tuple[int, int | None, int]] = set()
    for axiom in axioms:
        for part in desugar(axiom) or () if "Propert" in str(axiom[0]) else ():
            match part:
                case ("SubObjectPropertyOf", str(lower), str(upper)) if lower in numbers and upper in numbers:
                    found.add((numbers[lower], None, numbers[upper]))
                case ("SubObjectPropertyOf", ("ObjectPropertyChain", str(one), str(other)), str(upper)) if (
                    one in numbers and other in numbers and upper in numbers
                ):
                    found.add((numbers[one], numbers[other], numbers[upper]))
    return sorted(found, key=str)


def _compose(links: Keys, rules: list[tuple[int, int | None, int]], codec: TripleKeys) -> Keys:
    """The links with all that the rules add, to a fixpoint."""
    while True:
        relation, head, tail = codec.decode(links)
        added = [links]
        for first, second, result in rules:
            heads, middles = head[relation == first], tail[relation == first]
            if second is not None:
                own = relation == second
                after = Rows.of(head[own], tail[own], codec.width, codec.width)
                origin, columns = after.gather(middles)
                heads, middles = heads[origin], columns.astype(np.int64)
            added.append(codec.encode(np.full(len(heads), result, np.int64), heads, middles))
        more = distinct(np.concatenate(added))
        if len(more) == len(links):
            return links
        links = more


def _vocabulary(names: Vocabulary) -> Vocabulary:
    """With the concepts as entities, which go by the same synonyms."""
    roles = names.synonyms["role"].to_pylist()
    own = names.synonyms.filter(pa.array([role == Role.CONCEPT.value for role in roles], pa.bool_()))
    as_entities = own.set_column(0, "role", pa.array([Role.ENTITY.value] * len(own), pa.string()))
    kept = names.synonyms.filter(pa.array([role != Role.ENTITY.value for role in roles], pa.bool_()))
    entities = Names(Role.ENTITY, names.concepts.iris, names.concepts.labels)
    return Vocabulary(entities, names.concepts, names.relations, pa.concat_tables([kept, as_entities]))
