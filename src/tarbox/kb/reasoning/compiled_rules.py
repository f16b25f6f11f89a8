"""Rules with what follows from inclusions alone: what evaluating them needs beside the facts.

It is as large as the axioms and names ask for, not as the facts; `tarbox.kb.reasoning.fixpoint` evaluates it in memory,
`tarbox.kb.preparation.entailed` on an engine (ADR 60).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import final

import numpy as np

from tarbox.kb.arrays import Places
from tarbox.kb.closure import Hierarchy
from tarbox.kb.facts import Facts
from tarbox.kb.reasoning.rules import RuleForm, RuleSet
from tarbox.kb.rows import Rows

Clashes = set[tuple[int, int]]
"""(individual, axiom) that cannot both be."""


@final
class CompiledRules:
    """The rules over the names of some facts, of which only the subsumptions are read.

    `table[form]` are the rows of a form, sorted. `above[role]` are the roles above one, itself among them. Of the
    concepts above a concept `asked` are those that a rule asks for, and `told` these and the named ones that its
    members get. With `whole` every expression counts as asked for. Individuals below `literals` are literals.
    """

    def __init__(self, rules: RuleSet, facts: Facts, whole: bool = False) -> None:
        self.rules = rules
        self.table: dict[RuleForm, Places] = {
            form: np.array(sorted(set(rules.table.get(form, ()))), np.int64).reshape(-1, len(form.value[0]) + 1)
            for form in RuleForm
        }
        self.width, self.kinds = len(rules.entities), len(rules.concepts)
        self.hierarchy = Hierarchy.of(
            np.append(facts.subs, self.table[RuleForm.SUB][:, 0]).astype(np.int32),
            np.append(facts.supers, self.table[RuleForm.SUB][:, 1]).astype(np.int32),
            self.kinds,
        )
        self.literals = literal_count(facts)
        self.more_literals = {n for term, n in rules.entities.more.items() if term.startswith('"')}
        self.above = _upward(self.table[RuleForm.ROLE], 2 * len(rules.relations))
        self.asked, self.told = self._concepts_to_keep(whole)

    def _concepts_to_keep(self, whole: bool) -> tuple[Rows, Rows]:
        asked = np.full(self.kinds, whole)
        for form, rows in self.table.items():
            numbers = rows[:, form.places("C")]
            asked[numbers[numbers >= 0]] = True
        asked[list(self.contradicting())] = True
        lower, upper = self.hierarchy.ancestors.coordinates()
        named = np.ones(self.kinds, np.bool_)
        for expression, number in self.rules.concepts.more.items():
            named[number] = isinstance(expression, str)
        chosen = asked[upper]
        told = (lower == upper) & named[lower]
        inner = np.flatnonzero(~named[lower] & named[upper])
        told[inner[self.hierarchy.most_specific(lower[inner], upper[inner])]] = True
        return (
            Rows.of(lower[chosen], upper[chosen], self.kinds, self.kinds),
            Rows.of(lower[chosen | told], upper[chosen | told], self.kinds, self.kinds),
        )

    def used_relations(self) -> Places:
        """The relations that a rule is about."""
        return np.unique(np.concatenate([rows[:, form.places("r")].ravel() // 2 for form, rows in self.table.items()]))

    def contradicting(self) -> dict[int, int]:
        """The concepts that nobody can be in, and the axiom that says so."""
        more = self.rules.concepts.more.items()
        return {number: int(expression[1]) for expression, number in more if expression[0] == "contradiction"}

    def is_literal(self, individual: int) -> bool:
        return individual < self.literals or individual in self.more_literals

    def unite(
        self, equal: Iterable[tuple[int, int, int, int]], clashes: Clashes, reasons: dict[int, int]
    ) -> dict[int, int]:
        """Of (whose, x, y, axiom), that x is y by the axiom and by what is known of `whose`: the individual, the least,
        that stands for each that it is not. The axiom is put into `reasons` of that.

        Two values are not the same, and none is an individual: that is a clash of those whose they are.
        """
        first: dict[int, int] = {}

        def root(x: int) -> int:
            while first.get(x, x) != x:
                x = first[x]
            return x

        for whose, x, y, axiom in equal:
            one, other = sorted((root(x), root(y)))
            if one != other and (self.is_literal(one) or self.is_literal(other)):
                clashes.add((whose, axiom))
            elif one != other:
                first[other] = one
                reasons[other] = axiom
        return {x: root(x) for x in first}

    def different_but_same(self, same: Mapping[int, int]) -> Iterator[tuple[int, int]]:
        """The clashes of individuals that an axiom says are different; `same` has what stands for those merged."""
        seen: dict[tuple[int, int], int] = {}
        for entity, axiom in self.table[RuleForm.DIFFERENT].tolist():
            first = seen.setdefault((same.get(entity, entity), axiom), entity)
            if first != entity:
                yield from ((first, axiom), (entity, axiom))


def literal_count(facts: Facts) -> int:
    """How many of the entities are literals; these come first, for a quotation mark sorts before any IRI."""
    low, high = 0, len(facts.vocabulary.entities)
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if facts.vocabulary.entities.iri(middle) < "#" else (low, middle)
    return low


def _upward(inclusions: Places, roles: int) -> Rows:
    """For each role those above it, itself among them; an inclusion holds backwards too."""
    lower = np.concatenate([inclusions[:, 0], inclusions[:, 0] ^ 1]).astype(np.int32)
    upper = np.concatenate([inclusions[:, 1], inclusions[:, 1] ^ 1]).astype(np.int32)
    return Hierarchy.of(lower, upper, roles).ancestors
