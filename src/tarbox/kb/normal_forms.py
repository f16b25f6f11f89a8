"""Facts and axioms in the normal forms of EL, which geometric embeddings of ontologies learn from (ADR 59).

A *node* is an entity (as the class of it alone), a concept or, after these, an expression inside an axiom that the
normal forms need a name for. `normalise` makes rows of nodes and relations, one table for each form. Axioms outside of
EL (`only`, `not`, cardinalities, inverses, ranges, chains of more than two) and those with a name that the vocabulary
does not have are left out: what is left follows from the ontology.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from itertools import combinations, pairwise
from typing import Any, Final, TypeAlias, final

import numpy as np

from tarbox.core.ids import Role
from tarbox.kb.arrays import Places
from tarbox.kb.axioms import Axiom
from tarbox.kb.facts import Facts
from tarbox.kb.namespaces import OWL


class NormalForm(Enum):
    """The forms: small letters r, s, t are relations, all others nodes. Rows have the relations first."""

    TYPING = "{a} ⊑ C"
    """An entity and a concept that describes it (ADR 39)."""
    SUBSUMPTION = "C ⊑ D"
    ASSERTION = "{a} ⊑ ∃r.{b}"
    LINK = "C ⊑ ∃r.D"
    FILLER = "∃r.C ⊑ D"
    CONJUNCTION = "C ⊓ D ⊑ E"
    DISJOINT = "C ⊓ D ⊑ ⊥"
    INCLUSION = "r ⊑ s"
    CHAIN = "r ∘ s ⊑ t"

    @property
    def relations(self) -> int:
        """How many relations a row begins with."""
        return sum(letter in "rst" for letter in self.value)

    @property
    def width(self) -> int:
        """How many columns a row has."""
        return sum(map(str.isalpha, self.value))


ROLE_FORMS: Final = {form.width: form for form in (NormalForm.INCLUSION, NormalForm.CHAIN)}
_THING: Final = f"{OWL}Thing"
_NOTHING: Final = f"{OWL}Nothing"

ElExpression: TypeAlias = "int | str | tuple[Any, ...]"
"""A node; `_THING` or `_NOTHING`; ("and", x, y), ("or", x, ...) or ("some", relation, x)."""


@final
@dataclass(frozen=True, slots=True)
class Normalised:
    """The rows [n, width] of every form; `fresh` are the expressions that the nodes after the concepts stand for."""

    rows: dict[NormalForm, Places]
    fresh: tuple[ElExpression, ...]


def normalise(facts: Facts, axioms: Iterable[Axiom]) -> Normalised:
    """The facts as they are stated, and the axioms."""
    given = Normaliser(facts)
    for axiom in axioms:
        given.read(axiom)
    first = len(facts.vocabulary.entities)
    typed, types = facts.descriptions()
    stated = {
        NormalForm.TYPING: (typed, types + first),
        NormalForm.SUBSUMPTION: (facts.subs + first, facts.supers + first),
        NormalForm.ASSERTION: (facts.relations, facts.heads, facts.tails),
    }
    rows = {form: np.array(sorted(given.rows[form]), np.int64).reshape(-1, form.width) for form in NormalForm}
    for form, columns in stated.items():
        rows[form] = np.unique(np.concatenate([rows[form], np.stack(columns, 1)]), axis=0)
    return Normalised(rows, tuple(given.fresh))


@final
class Normaliser:
    """Reads axioms one by one; expressions get a name of their own where a form has room for a name alone."""

    def __init__(self, facts: Facts) -> None:
        words = facts.vocabulary
        starts = {Role.ENTITY: 0, Role.CONCEPT: len(words.entities), Role.RELATION: 0}
        self._numbers = {role: {iri: row + starts[role] for row, iri in enumerate(words.names(role))} for role in Role}
        self._first = len(words.entities) + len(words.concepts)
        self._names: dict[tuple[ElExpression, bool], int] = {}
        self.rows: dict[NormalForm, set[tuple[int, ...]]] = {form: set() for form in NormalForm}
        self.fresh: list[ElExpression] = []

    def read(self, axiom: Axiom) -> None:
        """Add what the axiom says, if it is within the forms."""
        for below, above in self._inclusions(axiom):
            if below is not None and above is not None:
                self._include(below, above)
        for names in _role_inclusions(axiom):
            relations = [self._numbers[Role.RELATION].get(str(name), -1) for name in names]
            if min(relations) >= 0 and len(relations) in ROLE_FORMS:
                self._add(ROLE_FORMS[len(relations)], *relations)

    def _inclusions(self, axiom: Axiom) -> Iterator[tuple[ElExpression | None, ElExpression | None]]:
        """What an axiom says is below what; None for an expression that is not of EL."""
        word, *parts = axiom
        match word:
            case "SubClassOf":
                yield self._below(parts[0]), self._above(parts[1])
            case "EquivalentClasses":
                yield from ((self._below(one), self._above(other)) for one, other in pairwise([*parts, parts[0]]))
            case "DisjointClasses":
                yield from ((self._below(("ObjectIntersectionOf", *two)), _NOTHING) for two in combinations(parts, 2))
            case "ObjectPropertyDomain":
                yield self._below(("ObjectSomeValuesFrom", parts[0], _THING)), self._above(parts[1])
            case "ClassAssertion":
                yield self._numbers[Role.ENTITY].get(str(parts[1])), self._above(parts[0])

    def _below(self, part: str | Axiom) -> ElExpression | None:
        """An expression on the left of an inclusion, where a union is as good as several inclusions."""
        match part:
            case ("ObjectUnionOf", *members):
                found = [self._below(member) for member in members]
                return None if None in found else ("or", *found)
            case _:
                return self._expression(part, self._below)

    def _above(self, part: str | Axiom) -> ElExpression | None:
        return self._expression(part, self._above)

    def _expression(self, part: str | Axiom, inner: Any) -> ElExpression | None:
        match part:
            case str():
                return part if part in (_THING, _NOTHING) else self._numbers[Role.CONCEPT].get(part)
            case ("ObjectOneOf", str(name)):
                return self._numbers[Role.ENTITY].get(name)
            case ("ObjectIntersectionOf", only):
                return inner(only)  # type: ignore[no-any-return]
            case ("ObjectIntersectionOf", first, *rest):
                parts = inner(first), inner(("ObjectIntersectionOf", *rest))
                return None if None in parts else ("and", *parts)
            case ("ObjectSomeValuesFrom" | "ObjectHasValue", str(name), filler):
                one = ("ObjectOneOf", filler) if part[0] == "ObjectHasValue" else filler
                relation, found = self._numbers[Role.RELATION].get(name), inner(one)
                return None if relation is None or found in (None, _NOTHING) else ("some", relation, found)
        return None

    def _include(self, below: ElExpression, above: ElExpression) -> None:
        match below, above:
            case _, ("and", *parts):
                for part in parts:
                    self._include(below, part)
            case ("or", *parts), _:
                for part in parts:
                    self._include(part, above)
            case (_, str()) if above == _THING:
                return
            case ("and", one, other), str():
                self._add(NormalForm.DISJOINT, self._name(one, True), self._name(other, True))
            case (_, str()) | (str(), _) if _NOTHING in (below, above):
                return  # a class without members has no place in a geometry
            case _, ("some", relation, filler):
                self._add(NormalForm.LINK, relation, self._name(below, True), self._name(filler, False))
            case ("and", one, other), _:
                self._add(
                    NormalForm.CONJUNCTION, self._name(one, True), self._name(other, True), self._name(above, False)
                )
            case ("some", relation, filler), _:
                self._add(NormalForm.FILLER, relation, self._name(filler, True), self._name(above, False))
            case _:
                self._add(NormalForm.SUBSUMPTION, self._name(below, True), self._name(above, False))

    def _add(self, form: NormalForm, *row: int) -> None:
        self.rows[form].add(row)

    def _name(self, expression: ElExpression, is_below: bool) -> int:
        """The node of an expression: itself, or a fresh one, which is above it where it stands below, or below it."""
        if isinstance(expression, int):
            return expression
        key = expression, is_below or expression == _THING
        if key not in self._names:
            self._names[key] = fresh = self._first + len(self.fresh)
            self.fresh.append(expression)
            if expression != _THING:
                self._include(*((expression, fresh) if is_below else (fresh, expression)))
        return self._names[key]


def _role_inclusions(axiom: Axiom) -> Iterator[tuple[str | Axiom, ...]]:
    """(the chain of relations on the left, the relation on the right), flat."""
    word, *parts = axiom
    match word, parts:
        case "SubObjectPropertyOf", [("ObjectPropertyChain", *chain), above]:
            yield (*chain, above)
        case "SubObjectPropertyOf", [below, above]:
            yield below, above
        case "EquivalentObjectProperties", _:
            yield from pairwise([*parts, parts[0]])
        case "TransitiveObjectProperty", [relation]:
            yield relation, relation, relation
