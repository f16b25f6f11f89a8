"""Why something holds: the rule and its premises down to what is asserted, or the few axioms that imply it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, final

import numpy as np

from tarbox.core.errors import TarboxError
from tarbox.kb.axioms import Axiom, canonical
from tarbox.kb.facts import Facts
from tarbox.kb.namespaces import TOP
from tarbox.kb.reasoning.classification import classify, reached
from tarbox.kb.reasoning.desugaring import BOTTOM, Term, desugar, sub
from tarbox.kb.reasoning.inference import InferenceMode, saturate
from tarbox.kb.reasoning.rules import ANY, EVERYBODY, RuleForm

_MOST: Final = 20_000
"""How many facts are looked at in search of a derivation."""

Goal = tuple[int, ...]
"""A fact in numbers: (role, x, y), the role forwards; or (x, concept)."""
RuleStep = tuple[int, tuple[Goal, ...]]
"""The place of an axiom, or one of the following, and the premises."""
ASSERTED, SUBSUMED = -1, -2


@final
@dataclass(frozen=True, slots=True)
class Derivation:
    """A statement, the axiom that it follows by, and what that was applied to.

    What a source states has no axiom and no premises.
    """

    statement: Axiom
    axiom: Axiom | None = None
    premises: tuple[Derivation, ...] = ()


@final
class Deriver:
    """Finds derivations of facts about individuals. All rules are applied once, when it is made."""

    def __init__(self, facts: Facts, axioms: Sequence[Axiom], mode: InferenceMode) -> None:
        self._asserted = facts.about_individuals()
        self._saturation = saturate(self._asserted, axioms, mode, whole=True)
        self._saturation.run(self._asserted)
        self._merged = set(self._saturation.same[self._saturation.same != np.arange(self._saturation.width)].tolist())
        self._rules = self._saturation.rules
        self._table = self._saturation.table

    def assertion(self, head: int, relation: int, tail: int) -> Derivation | None:
        """Why the assertion holds; None where it does not."""
        return self._explain((2 * relation, head, tail))

    def typing(self, entity: int, concept: int) -> Derivation | None:
        """Why the entity is in the concept; None where it is not."""
        return self._explain((entity, concept))

    def _explain(self, goal: Goal) -> Derivation | None:
        same = self._saturation.same
        first, *rest = goal
        root = (int(same[first]), *rest) if len(goal) == 2 else (first, *(int(same[x]) for x in rest))
        if goal in self._asserted_facts(root):
            return Derivation(self._statement(goal))
        found = self._derive(root)
        return found and self._restated(goal, root, found)

    def _restated(self, goal: Goal, other: Goal, found: Derivation) -> Derivation:
        """The goal by what was found of the same individuals under other names."""
        pairs = zip(_individuals(goal), _individuals(other), strict=True)
        differing = dict.fromkeys(pair for pair in pairs if pair[0] != pair[1])
        if not differing:
            return found
        return Derivation(self._statement(goal), None, (found, *(self._identity(*pair) for pair in differing)))

    def _identity(self, one: int, other: int) -> Derivation:
        """That two individuals are the same, of which one stands for both."""
        axiom = self._rules.axioms[self._saturation.united[one if one in self._saturation.united else other]]
        statement = canonical(("SameIndividual", *map(self._rules.entities.term, (one, other))))
        return Derivation(statement, None if axiom == statement else axiom)

    def _derive(self, root: Goal) -> Derivation | None:
        """Backwards over all ways in which each fact could follow, until the root does from asserted facts."""
        ways: dict[Goal, list[RuleStep]] = {}
        proven: dict[Goal, RuleStep] = {}
        level = [root]
        while level and root not in proven:
            for goal in level:
                ways[goal] = list(self._ways(goal))
            if len(ways) > _MOST:
                raise TarboxError(f"no derivation was found among {_MOST:,} facts; ask for one of its premises.")
            _prove(ways, proven)
            level = list({p: None for goal in level for _, ps in ways[goal] for p in ps if p not in ways})
        return self._tree(root, proven) if root in proven else None

    def _tree(self, goal: Goal, proven: dict[Goal, RuleStep]) -> Derivation:
        axiom, premises = proven[goal]
        if axiom == ASSERTED:
            facts = list(self._asserted_facts(goal))
            told = goal if goal in facts else facts[0]
            return self._restated(goal, told, Derivation(self._statement(told)))
        inner: tuple[Derivation, ...] = ()
        for premise in premises:
            found = self._tree(premise, proven)
            of_expression = len(premise) == 2 and isinstance(found.statement[1], tuple)
            inner += found.premises if of_expression else (found,)  # it is there by its definition
        statement = self._statement(goal)
        if axiom == SUBSUMED:
            lower = self._rules.concepts.term(premises[0][1])
            inner = (*inner, Derivation(sub(lower, statement[1])))
        return Derivation(statement, self._rules.axioms[axiom] if axiom >= 0 else None, inner)

    def _asserted_facts(self, goal: Goal) -> Iterator[Goal]:
        """The asserted facts that say the goal, of any individuals that are the same."""
        facts = self._asserted
        if len(goal) == 2:
            x, concept = goal
            yield from ((one, concept) for one in self._alike(x) if concept in self._told_of(one))
            return
        role, x, y = goal
        tails = self._alike(y)
        for head in self._alike(x):
            own = slice(*np.searchsorted(facts.heads, [head, head + 1]))
            here = (facts.relations[own] == role // 2) & np.isin(facts.tails[own], tails)
            yield from ((role, head, tail) for tail in facts.tails[own][here].tolist())

    def _statement(self, goal: Goal) -> Axiom:
        rules = self._rules
        if len(goal) == 2:
            return ("ClassAssertion", rules.concepts.term(goal[1]), rules.entities.term(goal[0]))
        role, x, y = goal
        return ("ObjectPropertyAssertion", rules.relations.term(role // 2), *map(rules.entities.term, (x, y)))

    def _ways(self, goal: Goal) -> Iterator[RuleStep]:
        yield from self._ways_of_type(*goal) if len(goal) == 2 else self._ways_of_edge(*goal)

    def _ways_of_edge(self, role: int, x: int, y: int) -> Iterator[RuleStep]:
        if any(self._asserted_facts((role, x, y))):
            yield ASSERTED, ()
        for lower, upper, axiom in self._table[RuleForm.ROLE].tolist():
            for flip in (0, 1):
                if upper ^ flip == role and self._has_edge(lower ^ flip, x, y):
                    yield axiom, (_forward(lower ^ flip, x, y),)
        for first, second, whole, axiom in self._table[RuleForm.CHAIN].tolist():
            if whole >> 1 == role >> 1:
                start, end = (x, y) if whole == role else (y, x)
                for between in self._tails(first, start):
                    if self._has_edge(second, between, end):
                        yield axiom, (_forward(first, start, between), _forward(second, between, end))
        yield from self._ways_by_members(role, x, y)

    def _ways_by_members(self, role: int, x: int, y: int) -> Iterator[RuleStep]:
        for concept, own, value, axiom in self._table[RuleForm.VALUE].tolist():
            for start, end in [(x, y)] if own == role else [(y, x)] if own ^ 1 == role else []:
                if self._saturation.same[value] == end and self._is(start, concept):
                    yield axiom, self._member(start, concept)
        for concept, own, axiom in self._table[RuleForm.LOOP].tolist():
            if x == y and own >> 1 == role >> 1 and self._is(x, concept):
                yield axiom, self._member(x, concept)

    def _ways_of_type(self, x: int, concept: int) -> Iterator[RuleStep]:
        facts = self._asserted
        if any(self._asserted_facts((x, concept))):
            yield ASSERTED, ()
        for entity, own, axiom in self._table[RuleForm.MEMBER].tolist():
            if own == concept and self._saturation.same[entity] == x:
                yield axiom, ()
        for lower, upper, axiom in self._table[RuleForm.SUB].tolist():
            if upper == concept and lower != upper and self._is(x, lower):
                yield axiom, self._member(x, lower)
        for lower in facts.subs[facts.supers == concept].tolist():
            if self._is(x, lower):
                yield SUBSUMED, ((x, lower),)
        yield from self._ways_by_definition(x, concept)

    def _ways_by_definition(self, x: int, concept: int) -> Iterator[RuleStep]:
        for one, other, whole, axiom in self._table[RuleForm.BOTH].tolist():
            if whole == concept and self._is(x, one) and self._is(x, other):
                yield axiom, ((x, one), (x, other))
        for role, filler, whole, axiom in self._table[RuleForm.SOME].tolist():
            if whole == concept:
                for y in self._tails(role, x):
                    if self._is(y, filler):
                        yield axiom, (_forward(role, x, y), *self._member(y, filler))
        for role, whole, axiom in self._table[RuleForm.SELF].tolist():
            if whole == concept and self._has_edge(role, x, x):
                yield axiom, (_forward(role, x, x),)

    def _member(self, x: int, concept: int) -> tuple[Goal, ...]:
        everybody = concept == ANY or self._rules.concepts.term(concept) == EVERYBODY
        return () if everybody else ((x, concept),)

    def _is(self, x: int, concept: int) -> bool:
        """Whether x is in the concept, by what is asserted or was inferred, under closure."""
        if concept == ANY or self._rules.concepts.term(concept) == EVERYBODY:
            return True
        saturation = self._saturation
        first, last = np.searchsorted(saturation.types, [x * saturation.kinds, (x + 1) * saturation.kinds])
        own = saturation.types[first:last] % saturation.kinds
        below = saturation.hierarchy.descendants[concept]
        return bool(np.isin(below, own).any() or np.isin(below, self._told(x)).any())

    def _alike(self, x: int) -> list[int]:
        """The individuals that x stands for."""
        found: list[int] = np.flatnonzero(self._saturation.same == x).tolist() if x in self._merged else [x]
        return found

    def _told(self, x: int) -> list[int]:
        """The asserted concepts of whom x stands for."""
        return [concept for entity in self._alike(x) for concept in self._told_of(entity)]

    def _told_of(self, entity: int) -> list[int]:
        first, last = np.searchsorted(self._asserted.typed, [entity, entity + 1])
        found: list[int] = self._asserted.types[first:last].tolist()
        return found

    def _tails(self, role: int, x: int) -> list[int]:
        saturation = self._saturation
        start = (role * saturation.width + x) * saturation.width
        first, last = np.searchsorted(saturation.edges, [start, start + saturation.width])
        found: list[int] = (saturation.edges[first:last] - start).tolist()
        return found

    def _has_edge(self, role: int, x: int, y: int) -> bool:
        return y in self._tails(role, x)


def _individuals(goal: Goal) -> Goal:
    return goal[:1] if len(goal) == 2 else goal[1:]


def _forward(role: int, x: int, y: int) -> Goal:
    return (role ^ 1, y, x) if role & 1 else (role, x, y)


def _prove(ways: dict[Goal, list[RuleStep]], proven: dict[Goal, RuleStep]) -> None:
    """Mark what follows from asserted facts by the ways seen so far; a premise is proven before what needs it."""
    grown = True
    while grown:
        grown = False
        for goal, steps in ways.items():
            if goal not in proven:
                step = next((step for step in steps if all(premise in proven for premise in step[1])), None)
                if step is not None:
                    proven[goal] = step
                    grown = True


def justify(axioms: Sequence[Axiom], lower: str, upper: str, seconds: float | None = None) -> tuple[Axiom, ...] | None:
    """A set of axioms from which the subsumption follows, and from none of its parts; None where it does not follow."""

    def follows(some: Sequence[Axiom]) -> bool:
        taxonomy = classify([*some, ("Declaration", ("Class", lower)), ("Declaration", ("Class", upper))], seconds)
        empty = {*taxonomy.unsatisfiable, BOTTOM}
        return taxonomy.inconsistent or bool(
            lower in empty or upper in taxonomy.top or upper in reached(lower, taxonomy.direct)
        )

    kept = next((some for some in (_module(axioms, lower), list(axioms)) if follows(some)), None)
    return None if kept is None else _minimise(kept, follows)


def _minimise(kept: list[Axiom], follows: Callable[[Sequence[Axiom]], bool]) -> tuple[Axiom, ...]:
    """Leave out blocks that are not needed, of half the size each time."""
    size = len(kept)
    while size:
        start = 0
        while start < len(kept):
            rest = kept[:start] + kept[start + size :]
            kept, start = (rest, start) if follows(rest) else (kept, start + size)
        size //= 2
    return tuple(kept)


def _module(axioms: Sequence[Axiom], start: str) -> list[Axiom]:
    """The axioms that a class may depend on: those whose conditions are all within reach, and all about relations."""
    conditions: list[tuple[set[str], Axiom]] = []
    for axiom in axioms:
        parts = desugar(axiom) or [axiom]
        conditions += [(_names(part[1]) if part[0] == "SubClassOf" else set(), axiom) for part in parts]
    seen, chosen, grown = {start, TOP, BOTTOM}, dict[Axiom, None](), True
    while grown:
        grown, waiting = False, []
        for needed, axiom in conditions:
            if needed <= seen:
                chosen[axiom] = None
                seen |= _names(axiom)
                grown = True
            else:
                waiting.append((needed, axiom))
        conditions = waiting
    return list(chosen)


def _names(term: Term) -> set[str]:
    return {term} if isinstance(term, str) else set().union(*map(_names, term[1:]))
