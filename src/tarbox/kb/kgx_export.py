"""A knowledge base as KGX: nodes and edges, as TSV or JSON lines (`tarbox.kb.readers.kgx` says what they mean)."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from tarbox.core.ids import Role
from tarbox.kb.attributes import FactAttributes
from tarbox.kb.facts import Facts
from tarbox.kb.readers import kgx
from tarbox.kb.terms import is_literal

Record = dict[str, str | list[str]]


def kgx_lines(facts: Facts, attributes: FactAttributes | None, tabs: bool) -> dict[str, Iterator[bytes]]:
    """The lines of both files; literals are in neither. In TSV a bar or tab within a text becomes a space."""
    more = [] if attributes is None else sorted(map(_property, attributes.names.unique().to_pylist()))
    nodes, edges = ["id", "category", "name", "synonym"], ["id", "subject", "predicate", "object", *more]
    return {
        "nodes": _written(_nodes(facts), nodes if tabs else None),
        "edges": _written(_edges(facts, attributes), edges if tabs else None),
    }


def _property(attribute: str) -> str:
    """What KGX calls an attribute."""
    return next((theirs for theirs, ours in kgx.KGX_ATTRIBUTES.items() if ours == attribute), attribute)


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
    concepts = [kgx.contract_iri(iri) for iri in vocabulary.concepts]
    types: dict[int, list[str]] = defaultdict(list)
    for entity, concept in zip(facts.typed.tolist(), facts.types.tolist(), strict=True):
        types[entity].append(concepts[concept])
    found: dict[str, Record] = {}
    defaults = {Role.ENTITY: kgx.NAMED_THING, Role.CONCEPT: kgx.ONTOLOGY_CLASS, Role.RELATION: kgx.RELATIONSHIP_TYPE}
    for role, default in defaults.items():
        for row, iri in enumerate(vocabulary.names(role)):
            if not is_literal(iri):
                node = found.setdefault(iri, {"id": kgx.contract_iri(iri), "category": []})
                label, own = vocabulary.names(role).label(row), synonyms[role.value, row]
                own_types = types[row] if role is Role.ENTITY else []
                node["category"] = [*node["category"], *(own_types or [kgx.contract_iri(default)])]
                node |= ({"name": label} if label else {}) | ({"synonym": own} if own else {})
    return iter(sorted(found.values(), key=lambda node: node["id"]))


def _edges(facts: Facts, attributes: FactAttributes | None) -> Iterator[Record]:
    entities, concepts, relations = (list(map(kgx.contract_iri, facts.vocabulary.names(role))) for role in Role)
    said = np.zeros(0, np.int32) if attributes is None else attributes.facts
    places = np.searchsorted(said, np.arange(len(facts.heads) + 1, dtype=said.dtype)).tolist()
    rows = zip(facts.heads.tolist(), facts.relations.tolist(), facts.tails.tolist(), strict=True)
    for fact, (head, relation, tail) in enumerate(rows):
        if is_literal(entities[tail]):
            continue
        edge = _edge(fact, entities[head], relations[relation], entities[tail])
        for place in range(places[fact], places[fact + 1]):
            assert attributes is not None
            name = _property(attributes.names[place].as_py())
            edge[name] = [*edge.get(name, []), attributes.values[place].as_py()]
        yield edge
    for number, (sub, above) in enumerate(zip(facts.subs, facts.supers, strict=True), len(facts.heads)):
        yield _edge(number, concepts[sub], kgx.contract_iri(kgx.KGX_SUBCLASS), concepts[above])


def _edge(number: int, subject: str, predicate: str, object: str) -> Record:
    return {"id": f"tarbox:{number}", "subject": subject, "predicate": predicate, "object": object}
