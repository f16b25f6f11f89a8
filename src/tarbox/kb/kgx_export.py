"""A knowledge base as KGX: nodes and edges, as TSV or JSON lines (`tarbox.kb.readers.kgx` says what they mean)."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping

from tarbox.core.ids import Role
from tarbox.kb.attributes import FactAttributes
from tarbox.kb.facts import Facts
from tarbox.kb.readers.kgx import (
    KGX_ATTRIBUTES,
    KGX_SUBCLASS,
    NAMED_THING,
    ONTOLOGY_CLASS,
    RELATIONSHIP_TYPE,
    contract_iri,
)
from tarbox.kb.terms import is_literal

Record = dict[str, str | list[str]]


def kgx_lines(facts: Facts, attributes: FactAttributes | None, tabs: bool) -> dict[str, Iterator[bytes]]:
    """The lines of both files; literals are in neither. In TSV a bar or tab within a text becomes a space."""
    names = {ours: theirs for theirs, ours in KGX_ATTRIBUTES.items()}
    said: dict[int, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    if attributes is not None:
        columns = attributes.facts.tolist(), attributes.names.to_pylist(), attributes.values.to_pylist()
        for fact, name, value in zip(*columns, strict=True):
            said[fact][names.get(name, name)].append(value)
    more = sorted({name for each in said.values() for name in each})
    nodes, edges = ["id", "category", "name", "synonym"], ["id", "subject", "predicate", "object", *more]
    return {
        "nodes": _written(_nodes(facts), nodes if tabs else None),
        "edges": _written(_edges(facts, said), edges if tabs else None),
    }


def _written(records: Iterator[Record], header: list[str] | None) -> Iterator[bytes]:
    if header is not None:
        yield "\t".join(header).encode() + b"\n"
    for record in records:
        if header is None:
            yield json.dumps(record, ensure_ascii=False).encode() + b"\n"
        else:
            cells = (record.get(name, "") for name in header)
            yield "\t".join(_cell(cell) for cell in cells).encode() + b"\n"


def _cell(value: str | list[str]) -> str:
    values = [value] if isinstance(value, str) else value
    return "|".join(re.sub(r"[\t\r\n|]+", " ", each) for each in values)


def _nodes(facts: Facts) -> Iterator[Record]:
    """Entities, concepts and relations, sorted; what is several is one node."""
    vocabulary = facts.vocabulary
    synonyms: dict[tuple[str, int], list[str]] = defaultdict(list)
    for row in vocabulary.synonyms.to_pylist():
        synonyms[row["role"], row["id"]].append(row["text"])
    concepts = [contract_iri(iri) for iri in vocabulary.concepts]
    types: dict[int, list[str]] = defaultdict(list)
    for entity, concept in zip(facts.typed.tolist(), facts.types.tolist(), strict=True):
        types[entity].append(concepts[concept])
    found: dict[str, Record] = {}
    defaults = {Role.ENTITY: NAMED_THING, Role.CONCEPT: ONTOLOGY_CLASS, Role.RELATION: RELATIONSHIP_TYPE}
    for role, default in defaults.items():
        for row, iri in enumerate(vocabulary.names(role)):
            if not is_literal(iri):
                node = found.setdefault(iri, {"id": contract_iri(iri), "category": []})
                label, own = vocabulary.names(role).label(row), synonyms[role.value, row]
                own_types = types[row] if role is Role.ENTITY else []
                node["category"] = [*node["category"], *(own_types or [contract_iri(default)])]
                node |= ({"name": label} if label else {}) | ({"synonym": own} if own else {})
    return iter(sorted(found.values(), key=lambda node: node["id"]))


def _edges(facts: Facts, said: Mapping[int, Mapping[str, list[str]]]) -> Iterator[Record]:
    names = facts.vocabulary
    entities, concepts, relations = (list(map(contract_iri, names.names(role))) for role in Role)
    subclasses = (
        (concepts[sub], contract_iri(KGX_SUBCLASS), concepts[above])
        for sub, above in zip(facts.subs, facts.supers, strict=True)
    )
    rows = zip(facts.heads.tolist(), facts.relations.tolist(), facts.tails.tolist(), strict=True)
    for fact, (head, relation, tail) in enumerate(rows):
        if not is_literal(entities[tail]):
            ends = (entities[head], relations[relation], entities[tail])
            yield _edge(fact, ends) | dict(said.get(fact, {}))
    for number, ends in enumerate(subclasses, len(facts.heads)):
        yield _edge(number, ends)


def _edge(number: int, ends: tuple[str, str, str]) -> Record:
    return {"id": f"tarbox:{number}", **dict(zip(("subject", "predicate", "object"), ends, strict=True))}
