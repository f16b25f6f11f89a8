"""Why a statement about a knowledge base holds, in its own names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any, Final

from tarbox.core.errors import QueryError
from tarbox.kb.attributes import say_attributes
from tarbox.kb.axioms import Axiom, write_axiom
from tarbox.kb.reasoning.derivations import Derivation, Deriver, justify
from tarbox.kb.reasoning.desugaring import sub
from tarbox.kb.reasoning.inference import InferenceMode
from tarbox.kb.store import Store
from tarbox.kb.terms import from_ntriples, is_literal, local_name
from tarbox.service.concept_paths import shortest_chain
from tarbox.service.knowledge_base import KnowledgeBase

_TERM: Final = re.compile(r"""<[^>]*>|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"\S*|\S+""")


def explain_statement(store: Store, text: str) -> Derivation:
    """The derivation of `X subClassOf Y`, `a type C` or `a p b`; raises `QueryError` where it does not follow."""
    kb = KnowledgeBase(store.facts, store.path.name)
    words = _TERM.findall(text)
    if len(words) != 3:
        raise QueryError(f"'{text}' is no statement. Write 'X subClassOf Y', 'a type C' or 'a relation b'.")
    first, verb, last = words
    if verb in ("subClassOf", "rdfs:subClassOf", "SubClassOf"):
        lower, upper = (from_ntriples(kb.concepts[_bare(name)].iri) for name in (first, last))
        if lower == upper:
            raise QueryError("every concept is below itself: there is nothing to explain.")
        found = _subsumption(store, lower, upper)
    elif _bare(first) in kb.concepts and _bare(first) not in kb.entities:
        raise QueryError(f"{first} is a concept in {kb.title}: what is explained of it is '{first} subClassOf Y'.")
    else:
        marks = store.facts.inferred
        deriver = Deriver(store.facts, marks.axioms() if marks else (), InferenceMode(marks.mode if marks else "none"))
        entity = kb.entities.id(_bare(first))
        if verb in ("type", "a", "rdf:type"):
            found = deriver.typing(entity, kb.concepts.id(_bare(last)))
        else:
            found = deriver.assertion(entity, kb.relations.id(_bare(verb)), kb.entities.id(_bare(last)))
    found = found and _grounded(store, found)
    if found is None:
        raise QueryError(f"'{text}' does not follow from {kb.title}: it is neither stated nor inferred (--infer owl).")
    return found


def _bare(name: str) -> str:
    return name[1:-1] if name.startswith("'") else name


def _grounded(store: Store, found: Derivation) -> Derivation:
    """With the reasons of subsumptions that are not stated below them."""
    match found:
        case Derivation(("SubClassOf", str(lower), str(upper)), None, ()):
            return _subsumption(store, lower, upper) or found
    return replace(found, premises=tuple(_grounded(store, premise) for premise in found.premises))


def _subsumption(store: Store, lower: str, upper: str) -> Derivation | None:
    facts, names = store.facts.asserted(), store.facts.vocabulary.concepts.iris.to_pylist()
    told: list[Axiom] = [
        sub(names[a], names[b]) for a, b in zip(facts.subs.tolist(), facts.supers.tolist(), strict=True)
    ]
    goal, axioms = sub(lower, upper), (*store.axioms(), *told)
    if goal in told:
        return Derivation(goal)
    found = _chain(told, lower, upper) or justify(axioms, lower, upper) or justify(axioms, lower, upper, seconds=1.0)
    return None if found is None else Derivation(goal, None, tuple(map(Derivation, found)))


def _chain(told: list[Axiom], lower: str, upper: str) -> tuple[Axiom, ...]:
    """The fewest stated subsumptions that lead from one to the other; none where they do not."""
    above: dict[Any, list[Any]] = {}
    for _, below, over in told:
        above.setdefault(below, []).append(over)
    return tuple(sub(*pair) for pair in pairwise(shortest_chain([lower], upper, lambda name: above.get(name, []))))


def derivation_lines(found: Derivation, store: Store, depth: int = 0) -> Iterator[str]:
    """The derivation as a person reads it: a statement, why, and below it the premises."""
    why = "asserted" if found.axiom is None and not found.premises else "because"
    by = f" of {_short(found.axiom)}" if found.axiom is not None else ""
    said = say_attributes(_attributes(found, store))
    yield f"{'  ' * depth}{_short(found.statement)}   {why}{by}" + (f" [{said}]" if said else "")
    for premise in found.premises:
        yield from derivation_lines(premise, store, depth + 1)


def _attributes(found: Derivation, store: Store) -> dict[str, tuple[str, ...]]:
    """What the store has beside a fact (ADR 40)."""
    match found.statement:
        case ("ObjectPropertyAssertion", str(relation), str(head), str(tail)):
            names = store.facts.vocabulary
            ids = names.entities.find(head), names.relations.find(relation), names.entities.find(tail)
            return store.attributes.of(*(-1 if id is None else id for id in ids))
    return {}


def derivation_json(found: Derivation, store: Store) -> dict[str, Any]:
    attributes = _attributes(found, store)
    return {
        "statement": write_axiom(found.statement),
        "asserted": found.axiom is None and not found.premises,
        "axiom": None if found.axiom is None else write_axiom(found.axiom),
        "premises": [derivation_json(premise, store) for premise in found.premises],
        **({"attributes": attributes} if attributes else {}),
    }


def _short(axiom: Axiom) -> str:
    """With local names; the three kinds of statements as they are asked for."""
    match axiom:
        case ("ClassAssertion", concept, entity):
            return f"{_term(entity)} type {_term(concept)}"
        case ("ObjectPropertyAssertion", relation, head, tail):
            return f"{_term(head)} {_term(relation)} {_term(tail)}"
        case ("SubClassOf", lower, upper):
            return f"{_term(lower)} subClassOf {_term(upper)}"
    return _term(axiom)


def _term(term: str | Axiom) -> str:
    if isinstance(term, tuple):
        return f"{term[0]}({' '.join(map(_term, term[1:]))})"
    return term if is_literal(term) or term.isdigit() else local_name(term)
