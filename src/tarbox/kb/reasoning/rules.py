"""Axioms as rules over individuals, in the normal forms of `RuleForm`: what `tarbox.kb.reasoning.fixpoint` applies.

Concepts are numbered as in the vocabulary; expressions and names that are not in it get numbers after those, and so
do individuals. A *role* is a relation with a direction: twice its number, plus one if it is meant backwards. What a
rule cannot say is not lost silently: `RuleSet.outside` names the axioms.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, final

from tarbox.kb.axioms import Axiom
from tarbox.kb.namespaces import TOP
from tarbox.kb.reasoning.desugaring import BOTTOM, BOTTOM_ROLES, Term, desugar, inverse, some
from tarbox.kb.vocabulary import Names, Vocabulary

ANY: Final = -1
"""In the place of a concept: every individual."""
EVERYBODY: Final = ("everybody",)
"""The expression of the concept that stands for ANY where a rule needs the members listed."""


class RuleForm(Enum):
    """The normal forms: the kinds of a rule's columns in order, and what it says; x, y, z are individuals.

    A column is a concept (`C` if the rule asks for its members, else `c`), a role `r` or an individual `a`.
    """

    SUB = "cc", "x in c -> x in d"
    BOTH = "CCc", "x in c, x in d -> x in e"
    SOME = "rCc", "r(x, y), y in c -> x in d"
    SELF = "rc", "r(x, x) -> x in c"
    ROLE = "rr", "r(x, y) -> s(x, y)"
    CHAIN = "rrr", "r(x, y), s(y, z) -> t(x, z)"
    VALUE = "Cra", "x in c -> r(x, a)"
    LOOP = "Cr", "x in c -> r(x, x)"
    SINGLE = "CrC", "x in c, r(x, y), r(x, z), y and z in d -> y is z"
    SAME = "Ca", "x in c -> x is a"
    MEMBER = "ac", "a in c"
    DISJOINT = "rr", "r(x, y), s(x, y) -> contradiction"
    DIFFERENT = "a", "a is different from the others of its axiom"

    def places(self, kind: str) -> list[int]:
        """The columns of one kind."""
        return [place for place, letter in enumerate(self.value[0]) if letter == kind]


class OutsideRules(Exception):
    """An expression in a place where the rules have no form for it; the text says which."""


@final
@dataclass(slots=True)
class Numbering:
    """The numbers of names of one role, and of what is not in the vocabulary after them."""

    names: Names
    more: dict[Term, int] = field(default_factory=dict)
    _terms: list[Term] = field(default_factory=list)
    _known: dict[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.names) + len(self.more)

    def __getitem__(self, term: Term) -> int:
        if isinstance(term, str):
            if term not in self._known:
                found = self.names.find(term)
                self._known[term] = -1 if found is None else found
            if self._known[term] >= 0:
                return self._known[term]
        if term not in self.more:
            self.more[term] = len(self)
            self._terms.append(term)
        return self.more[term]

    def term(self, number: int) -> Term:
        """The name, or the expression that got this number."""
        if number < len(self.names):
            return self.names.iri(number)
        return self._terms[number - len(self.names)]


@final
class RuleSet:
    """The rules of some axioms over a vocabulary.

    `table[form]` holds rows of numbers, the columns in the order of the letters of the form, the place of the axiom
    among `axioms` last.
    """

    def __init__(self, vocabulary: Vocabulary, axioms: Sequence[Axiom]) -> None:
        self.axioms = axioms
        self.concepts = Numbering(vocabulary.concepts)
        self.relations = Numbering(vocabulary.relations)
        self.entities = Numbering(vocabulary.entities)
        self.table: dict[RuleForm, list[tuple[int, ...]]] = defaultdict(list)
        self.outside: dict[int, str] = {}
        self._defined: set[int] = set()
        self._axiom = 0
        for self._axiom, axiom in enumerate(axioms):
            parts = desugar(axiom)
            if parts is None:
                self.outside[self._axiom] = f"{axiom[0]} has no rule for individuals"
            for part in parts or ():
                with self._noting():
                    self._take(part)

    @contextmanager
    def _noting(self) -> Iterator[None]:
        """What has no rule is noted, and the rest of the axiom is read on."""
        try:
            yield
        except OutsideRules as reason:
            self.outside[self._axiom] = str(reason)

    def add(self, form: RuleForm, *numbers: int) -> None:
        if numbers[0] == ANY and form in (RuleForm.SUB, RuleForm.VALUE, RuleForm.LOOP, RuleForm.SAME):
            numbers = (self.concepts[EVERYBODY], *numbers[1:])
        self.table[form].append((*numbers, self._axiom))

    def _take(self, axiom: Axiom) -> None:
        match axiom:
            case ("SubClassOf", lower, upper):
                if upper != TOP:
                    self._include(self.sufficient(lower), upper)
            case ("SubObjectPropertyOf", ("ObjectPropertyChain", *chain), upper):
                *front, last = (self.role(role) for role in chain)
                step = front[0]
                for place, role in enumerate(front[1:], 2):
                    whole = 2 * self.relations[("ObjectPropertyChain", *chain[:place])]
                    self.add(RuleForm.CHAIN, step, role, whole)
                    step = whole
                self.add(RuleForm.CHAIN, step, last, self.role(upper))
            case ("SubObjectPropertyOf", lower, upper) if upper in BOTTOM_ROLES:
                self._include(self.sufficient(some(lower)), BOTTOM)
            case ("SubObjectPropertyOf", lower, upper):
                self.add(RuleForm.ROLE, self.role(lower), self.role(upper))
            case ("DisjointObjectProperties", one, other):
                self.add(RuleForm.DISJOINT, self.role(one), self.role(other))
            case ("DifferentIndividuals", *individuals):
                for individual in individuals:
                    self.add(RuleForm.DIFFERENT, self.entities[individual])

    def role(self, role: Term) -> int:
        if isinstance(role, tuple):
            return self.role(role[1]) ^ 1
        return 2 * self.relations[role]

    def sufficient(self, term: Term) -> int:
        """The concept of what is surely in an expression, by what is known of individuals; ANY for owl:Thing."""
        if term == TOP:
            return ANY
        concept = self.concepts[term]
        if not isinstance(term, str) and concept not in self._defined:
            self._define(concept, term)
            self._defined.add(concept)
        return concept

    def _define(self, concept: int, term: Term) -> None:
        """The rules by which somebody is in the expression."""
        match term:
            case ("ObjectIntersectionOf", first, *others):
                whole = self.sufficient(first)
                for place, other in enumerate(others, 2):
                    whole = self._both(whole, self.sufficient(other), (*term[:1], *term[1 : 1 + place]))
                if whole != concept:
                    self.add(RuleForm.SUB, whole, concept)
            case ("ObjectUnionOf", *parts):
                for part in parts:
                    with self._noting():
                        self.add(RuleForm.SUB, self.sufficient(part), concept)
            case ("ObjectSomeValuesFrom", role, filler) | ("ObjectMinCardinality", "1", role, filler):
                self.add(RuleForm.SOME, self.role(role), self.sufficient(filler), concept)
            case ("ObjectMinCardinality", "1", role):
                self.add(RuleForm.SOME, self.role(role), ANY, concept)
            case ("ObjectHasValue", role, individual):
                self.add(RuleForm.SOME, self.role(role), self.sufficient(("ObjectOneOf", individual)), concept)
            case ("ObjectOneOf", *individuals):
                for individual in individuals:
                    self.add(RuleForm.MEMBER, self.entities[individual], concept)
            case ("ObjectHasSelf", role):
                self.add(RuleForm.SELF, self.role(role), concept)
            case _:
                raise OutsideRules(f"{term[0]} as a condition")

    def _both(self, one: int, other: int, whole: Term) -> int:
        if one in (ANY, other):
            return other
        if other == ANY:
            return one
        concept = self.concepts[whole]
        self.add(RuleForm.BOTH, one, other, concept)
        return concept

    def _include(self, concept: int, term: Term) -> None:
        """Every member of `concept` is in the expression `term`, as far as that says something of named individuals."""
        match term:
            case str() if term == BOTTOM:
                self.add(RuleForm.SUB, concept, self.contradiction(self._axiom))
            case str():
                if term != TOP:
                    self.add(RuleForm.SUB, concept, self.concepts[term])
            case ("ObjectIntersectionOf", *parts):
                for part in parts:
                    with self._noting():
                        self._include(concept, part)
            case ("ObjectAllValuesFrom", role, filler):
                self._include(self.sufficient(some(inverse(role), self._term(concept))), filler)
            case ("ObjectHasValue", role, individual) | ("ObjectSomeValuesFrom", role, ("ObjectOneOf", individual)):
                self.add(RuleForm.VALUE, concept, self.role(role), self.entities[individual])
            case ("ObjectHasSelf", role):
                self.add(RuleForm.LOOP, concept, self.role(role))
            case ("ObjectOneOf", individual):
                self.add(RuleForm.SAME, concept, self.entities[individual])
            case _:
                self._limit(concept, term)

    def _limit(self, concept: int, term: Term) -> None:
        """What is said of how many there are."""
        match term:
            case ("ObjectComplementOf", other):
                self._exclude(concept, other)
            case ("ObjectMaxCardinality" | "ObjectExactCardinality", "0", role, *filler):
                self._exclude(concept, some(role, *filler))
            case ("ObjectMaxCardinality" | "ObjectExactCardinality", "1", role, *filler):
                self.add(RuleForm.SINGLE, concept, self.role(role), self.sufficient(filler[0]) if filler else ANY)
            case ("ObjectSomeValuesFrom", *_) | ("ObjectMinCardinality", *_):
                pass  # it says that somebody is there, not who
            case _:
                raise OutsideRules(f"{term[0]} as a conclusion")

    def _exclude(self, concept: int, term: Term) -> None:
        nothing = self.contradiction(self._axiom)
        joined = self._both(concept, self.sufficient(term), ("ObjectIntersectionOf", self._term(concept), term))
        self.add(RuleForm.SUB, joined, nothing)

    def _term(self, concept: int) -> Term:
        return TOP if concept == ANY else self.concepts.term(concept)

    def contradiction(self, axiom: int) -> int:
        """The concept of the individuals that contradict this axiom."""
        return self.concepts[("contradiction", str(axiom))]
