"""A query as English, for people who read neither Manchester syntax nor SPARQL.

Everything is said of one thing ("everything that ...", "every Person that ..."), which spares plurals. A set of
entities is said in two ways: as a noun phrase ("something that Google uses") and as clauses that follow "that": what
the thing does (*subject* clauses: "is interested in X") or what is done to it (*object* clauses: "Google uses").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from typing import assert_never, final

from tarbox.core.ids import Role
from tarbox.query.algebra import And, Concept, Direction, Entity, Exists, Not, Or, Query
from tarbox.query.names import ANYTHING, OWL_THING
from tarbox.query.phrases import RelationKind, RelationPhrase, article
from tarbox.query.render import Naming, is_enumeration
from tarbox.query.rewrites import negation_normal_form, simplify


class _Quantifier(Enum):
    """How a phrase begins: the word before a concept, and the word for a thing of no concept."""

    EVERY = ("every", "everything")
    SOME = ("a", "something")
    ANY = ("any", "anything")
    NO = ("no", "nothing")


@final
@dataclass(frozen=True, slots=True)
class _Clause:
    """What follows "that"; object clauses begin with their own subject. `long` ones have clauses within."""

    text: str
    is_object: bool = False
    long: bool = False


def describe(query: Query, naming: Naming) -> str:
    """One English phrase for the answers of a query; `naming` gives each name as people read it.

    >>> describe(Exists("uses", Direction.INVERSE, Entity("Google")), lambda role, name: name)
    'everything that Google uses'
    """
    return _Speaker(naming).phrase(simplify(negation_normal_form(query)), _Quantifier.EVERY)


@final
class _Speaker:
    """Says queries in simplified negation normal form."""

    def __init__(self, naming: Naming) -> None:
        self._naming = naming

    def phrase(self, query: Query, quantifier: _Quantifier) -> str:
        """A noun phrase for the members: "every Person that ...", "a University", "Google"."""
        match query:
            case Entity(name):
                return self._naming(Role.ENTITY, name)
            case Concept():
                return self._noun(query, quantifier)
            case Or(several) if all(isinstance(operand, Entity | Concept) for operand in several):
                return _join([self.phrase(operand, quantifier) for operand in several], "or")
            case Or(several):
                return f"{quantifier.value[1]} that {self._relative(several, 'or').text}"
            case And(several):
                head = next((part for part in several if isinstance(part, Concept)), Concept(ANYTHING))
                rest = [part for part in several if part is not head]
                return f"{self._noun(head, quantifier)} that {self._relative(rest, 'and').text}"
            case Exists() | Not():
                return f"{quantifier.value[1]} that {self.clause(query).text}"
            case _:
                assert_never(query)

    def clause(self, query: Query) -> _Clause:
        """What is true of a member."""
        match query:
            case Entity() | Concept():
                return _Clause(f"is {self.phrase(query, _Quantifier.SOME)}")
            case Exists():
                return self._relation(query)
            case Not(Exists() as inner):
                return self._no_relation(inner)
            case Not(inner):
                return _Clause(f"is not {self.phrase(inner, _Quantifier.SOME)}")
            case Or(several) if is_enumeration(query):
                return _Clause(f"is {self.phrase(query, _Quantifier.SOME)}")
            case And(several) | Or(several):
                joined = self._relative(several, "and" if isinstance(query, And) else "or")
                word = "both" if isinstance(query, And) else "either"
                return _Clause(f"{word} {joined.text}", joined.is_object, long=True)
            case _:
                assert_never(query)

    def _relation(self, query: Exists) -> _Clause:
        phrase = RelationPhrase.of(self._naming(Role.RELATION, query.relation))
        other = self.phrase(query.operand, _Quantifier.SOME)
        long = _is_long(query.operand)
        if query.direction is Direction.FORWARD:
            return _Clause(f"{phrase.affirm()} {other}", long=long)
        if phrase.kind is RelationKind.NOUN:
            return _Clause(f"is the {phrase.words} of {other}", long=long)
        if phrase.kind is RelationKind.VERB and long:
            return _Clause(f"{phrase.passive()} {other}", long=long)
        return _Clause(f"{other} {phrase.affirm()}", is_object=True, long=long)

    def _no_relation(self, query: Exists) -> _Clause:
        phrase = RelationPhrase.of(self._naming(Role.RELATION, query.relation))
        other = self.phrase(query.operand, _Quantifier.ANY)
        long = _is_long(query.operand)
        if query.direction is Direction.FORWARD:
            return _Clause(f"{phrase.deny()} {other}", long=long)
        if phrase.kind is RelationKind.NOUN:
            return _Clause(f"is not the {phrase.words} of {other}", long=long)
        if isinstance(query.operand, Entity):
            return _Clause(f"{other} {phrase.deny()}", is_object=True)
        if phrase.kind is RelationKind.VERB and long:
            return _Clause(f"{phrase.passive().replace('is', 'is not', 1)} {other}", long=long)
        return _Clause(f"{self.phrase(query.operand, _Quantifier.NO)} {phrase.affirm()}", is_object=True, long=long)

    def _noun(self, concept: Concept, quantifier: _Quantifier) -> str:
        determiner, thing = quantifier.value
        if concept.name in (ANYTHING, OWL_THING):
            return thing
        name = self._naming(Role.CONCEPT, concept.name)
        return f"{article(name) if quantifier is _Quantifier.SOME else determiner} {name}"

    def _relative(self, queries: Sequence[Query], word: str) -> _Clause:
        return _relative([self.clause(query) for query in queries], word)


def _is_long(query: Query) -> bool:
    """Whether the phrase for a query has a clause in it."""
    return not (isinstance(query, Entity | Concept) or is_enumeration(query))


def _relative(clauses: Sequence[_Clause], word: str) -> _Clause:
    """Clauses after one "that", which is repeated where the reader could lose it."""
    text = clauses[0].text
    for before, clause in pairwise(clauses):
        again = before.long or before.is_object != clause.is_object
        comma = "," if before.long else ""
        text += f"{comma} {word} {'that ' if again else ''}{clause.text}"
    return _Clause(text, clauses[0].is_object, any(clause.long for clause in clauses))


def _join(names: Sequence[str], word: str) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} {word} {names[-1]}"
