"""The taxonomy of relations: which is within which."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import final

from tarbox.kb.axioms import Axiom, axiom_names
from tarbox.kb.namespaces import Declaration
from tarbox.kb.reasoning.classification import PROBE, Taxonomy, classify
from tarbox.kb.reasoning.desugaring import BOTTOM_ROLES, TOP_ROLES, Term, desugar, some

DirectedProperty = tuple[str, bool]


def classify_relations(axioms: Sequence[Axiom]) -> Taxonomy:
    """The taxonomy of relations: stated inclusions, with those by inverses and by chains with reflexive relations.

    A relation is unsatisfiable where rustdl finds that nothing can have it.
    """
    roles = RoleInclusions(axioms)
    empty_class = {name: f"{PROBE}#{number}" for number, name in enumerate(roles.names)}
    told = [("EquivalentClasses", fresh, some(name)) for name, fresh in empty_class.items()]
    classes = classify((*axioms, *told))
    empty = {name for name, fresh in empty_class.items() if fresh in classes.unsatisfiable}
    direct = roles.closure()
    empty |= {lower for lower, upper in direct if upper in BOTTOM_ROLES}
    top = {upper for lower, upper in direct if lower in TOP_ROLES}
    return Taxonomy(
        tuple(roles.names),
        tuple(
            sorted(
                (lower, upper)
                for lower, upper in direct
                if lower in empty_class and upper in empty_class and lower not in empty and upper not in top
            )
        ),
        tuple(sorted(empty - {*TOP_ROLES, *BOTTOM_ROLES})),
        frozenset(top - {*TOP_ROLES, *BOTTOM_ROLES}),
        classes.inconsistent or bool(top & {*empty, *BOTTOM_ROLES}),
    )


@final
class RoleInclusions:
    """Which relation is within which, by what the axioms state; a role is a name and whether it is meant backwards."""

    def __init__(self, axioms: Iterable[Axiom]) -> None:
        self._pairs: set[tuple[DirectedProperty, DirectedProperty]] = set()
        self._chains: list[tuple[list[DirectedProperty], DirectedProperty]] = []
        self._reflexive: set[DirectedProperty] = set()
        self.names: dict[str, None] = {}
        for axiom in axioms:
            if axiom[0] == "Declaration":
                self.names |= {str(axiom[1][1]): None} if axiom[1][0] == "ObjectProperty" else {}
                continue
            self.names |= {name: None for kind, name in axiom_names(axiom) if kind == Declaration.RELATION.value}
            if axiom[0] == "ReflexiveObjectProperty":
                self._reflexive.add(_role(axiom[1]))
            for part in desugar(axiom) or ():
                match part:
                    case ("SubObjectPropertyOf", ("ObjectPropertyChain", *chain), upper):
                        self._chains.append(([_role(role) for role in chain], _role(upper)))
                    case ("SubObjectPropertyOf", lower, upper):
                        self._pairs.add((_role(lower), _role(upper)))
        self._drop_reflexive_links()

    def _drop_reflexive_links(self) -> None:
        """Of a chain in which all but one are reflexive, that one is within the whole."""
        size = -1
        while size != len(self._pairs) + len(self._reflexive):
            size = len(self._pairs) + len(self._reflexive)
            self._reflexive |= {upper for lower, upper in self._pairs if lower in self._reflexive}
            for chain, upper in self._chains:
                others = [role for role in chain if role not in self._reflexive]
                if not others:
                    self._reflexive.add(upper)
                if len(others) <= 1:
                    self._pairs |= {(role, upper) for role in others or chain}

    def closure(self) -> set[tuple[str, str]]:
        """All (lower, upper) between names, without those of a name with itself."""
        both = self._pairs | {((a, not x), (b, not y)) for (a, x), (b, y) in self._pairs}
        above: dict[DirectedProperty, set[DirectedProperty]] = {}
        for lower, upper in both:
            above.setdefault(lower, set()).add(upper)
        found: set[tuple[str, str]] = set()
        for name in {name for (name, _), _ in both}:
            waiting, seen = [(name, False)], {(name, False)}
            while waiting:
                for upper in above.get(waiting.pop(), set()) - seen:
                    seen.add(upper)
                    waiting.append(upper)
            found |= {(name, upper) for upper, backwards in seen if not backwards and upper != name}
        return found


def _role(term: Term) -> DirectedProperty:
    if isinstance(term, tuple):
        name, backwards = _role(term[1])
        return name, not backwards
    return term, False
