"""A query as English, for people who read neither Manchester syntax nor SPARQL.

Everything is said of one thing ("everything that ...", "every Person that ..."), which spares plurals. A set of
entities is said in two ways: as a noun phrase ("something that Google uses") and as clauses that follow "that": what
the thing does (*subject* clauses: "is interested in X") or what is done to it (*object* clauses: "Google uses").
Where what does it is itself a long phrase, the clause is turned so that this phrase comes last: "is used by a Company
that ...", or after "at which" instead of "that": "at which works a Person that ...".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import pairwise
from typing import Final, assert_never, final

from tarbox.core.ids import Role
from tarbox.query.algebra import (
    And,
    AtLeast,
    Concept,
    DataRange,
    Direction,
    Entity,
    Exists,
    HasSelf,
    Not,
    Or,
    Query,
    conjunction,
    disjunction,
)
from tarbox.query.names import ANYTHING, OWL_THING
from tarbox.query.phrases import RelationPhrase
from tarbox.query.ranges import say_range
from tarbox.query.render import NameWriter, is_enumeration
from tarbox.query.restrictions import restriction
from tarbox.query.rewrites import plain
from tarbox.query.words import article, is_plural

THAT: Final = "that"
_ONLY: Final = "nothing but "


class _Quantifier(Enum):
    """How a phrase begins: the word before a concept, for a thing of no concept, and for one of several."""

    EVERY = ("every", "everything", "each")
    SOME = ("a", "something", "one")
    ANY = ("any", "anything", "any")
    NO = ("no", "nothing", "none")


@final
@dataclass(frozen=True, slots=True)
class _Clause:
    """What follows `relative`; object clauses begin with their own subject. `long` ones have clauses within."""

    text: str
    is_object: bool = False
    long: bool = False
    relative: str = THAT

    def __str__(self) -> str:
        return f"{self.relative} {self.text}".lstrip()


def describe(query: Query, naming: NameWriter) -> str:
    """One English phrase for the answers of a query; `naming` gives each name as people read it.

    >>> describe(Exists("uses", Direction.INVERSE, Entity("Google")), lambda role, name: name)
    'everything that Google uses'
    """
    return _Speaker(naming).phrase(plain(query), _Quantifier.EVERY)


def say_member(concept: str) -> str:
    """That something is a member of a concept, by its label: ``a Person``, ``one of the Methods``.

    >>> say_member("University"), say_member("The industry")
    ('a University', 'in the industry')
    """
    return _member(concept, _Quantifier.SOME).removeprefix("something ")


def say_each(concept: str) -> str:
    """Every member of a concept, by its label."""
    return _member(concept, _Quantifier.EVERY)


@final
class _Speaker:
    """Says queries in simplified negation normal form."""

    def __init__(self, naming: NameWriter) -> None:
        self._naming = naming

    def phrase(self, query: Query, quantifier: _Quantifier) -> str:
        """A noun phrase for the members: "every Person that ...", "a University", "Google"."""
        match query:
            case Entity(name):
                return self._naming(Role.ENTITY, name)
            case Concept():
                return self._noun(query, quantifier)
            case DataRange():
                kind, facets = say_range(query)
                return _member(kind, quantifier) + facets
            case Or(several) if all(isinstance(operand, Entity | Concept | DataRange) for operand in several):
                return _join([self.phrase(operand, quantifier) for operand in several], "or")
            case And(several) if restriction(query) is None:
                head = next((part for part in several if isinstance(part, Concept)), Concept(ANYTHING))
                rest = [part for part in several if part is not head]
                return f"{self._noun(head, quantifier)} {self._relative(rest, 'and')}"
            case Exists() | AtLeast() | HasSelf() | Not() | And() | Or():
                return f"{quantifier.value[1]} {self._that(query)}"
            case _:
                assert_never(query)

    def clause(self, query: Query) -> _Clause:
        """What is true of a member."""
        match query:
            case Entity() | Concept() | DataRange():
                return _Clause(self._being(query))
            case AtLeast() | Not(AtLeast()):
                return self._counted(query)
            case Exists() | HasSelf() | Not(Exists() | HasSelf()):
                return self._related(query)
            case Not(inner):
                return _Clause(self._being(inner, "is not"))
            case Or() if is_enumeration(query):
                return _Clause(f"is {self.phrase(query, _Quantifier.SOME)}")
            case And() | Or():
                return self._joined(query)
            case _:
                assert_never(query)

    def _joined(self, query: And | Or) -> _Clause:
        """Clauses within clauses: "either uses A or works at B"."""
        if restriction(query) is not None:
            return self._counted(query)
        joined = self._relative(query.operands, "and" if isinstance(query, And) else "or")
        word = "both" if isinstance(query, And) else "either"
        if joined.relative != THAT:
            return _Clause(f"{word} {joined}", long=True, relative="")
        return _Clause(f"{word} {joined.text}", joined.is_object, long=True)

    def _being(self, query: Query, verb: str = "is") -> str:
        if isinstance(query, Concept) and query.name not in (ANYTHING, OWL_THING):
            return f"{verb} {say_member(self._naming(Role.CONCEPT, query.name))}"
        return f"{verb} {self.phrase(query, _Quantifier.SOME)}"

    def _related(self, query: Query) -> _Clause:
        """What a relation leads to: something, not anything, nothing but something, itself."""
        match query:
            case HasSelf(relation) | Not(HasSelf(relation)):
                phrase = RelationPhrase.of(self._naming(Role.RELATION, relation))
                return _Clause(phrase.say("itself", isinstance(query, HasSelf)))
            case Not(Exists() as inner):
                only = _denied(inner.operand)
                if only is not None:
                    return self._relation(replace(inner, operand=only), lead=_ONLY)
                return self._relation(inner, positive=False)
            case Exists():
                return self._relation(query)
            case _:
                raise AssertionError("neither a relation nor its denial")

    def _counted(self, query: Query) -> _Clause:
        """How many: "uses a Technique (at least 2 of them)"."""
        said = restriction(query)
        assert said is not None, "a count is a restriction"
        how = {"min": "at least {} of them", "exactly": "exactly {} of them", "max": "at most {} of them, or none"}
        clause = self._relation(Exists(said.relation, said.direction, said.operand))
        return replace(clause, text=f"{clause.text} ({how[said.word].format(said.count)})")

    def _relation(self, query: Exists, positive: bool = True, lead: str = "") -> _Clause:
        """`lead` stands before what the relation leads to."""
        phrase = RelationPhrase.of(self._naming(Role.RELATION, query.relation))
        turn = self._forward if query.direction is Direction.FORWARD else self._inverse
        return turn(phrase, query.operand, positive, lead)

    def _forward(self, phrase: RelationPhrase, operand: Query, positive: bool, lead: str = "") -> _Clause:
        """What a thing has or does: "works at a University", "has an author that ..."."""
        quantifier = _Quantifier.SOME if positive else _Quantifier.ANY
        other, long = lead + self.phrase(operand, quantifier), _is_long(operand)
        if phrase.noun and not lead and _needs_clause(phrase, operand):
            some = phrase.say_of_some("" if positive else "any", positive)
            return _Clause(f"{some} {self._that(operand)}", long=True)
        if phrase.names_noun and long:
            return _Clause(f"{phrase.verb if positive else phrase.denied} as {phrase.noun} {other}", long=True)
        return _Clause(phrase.say(other, positive), long=long)

    def _inverse(self, phrase: RelationPhrase, operand: Query, positive: bool, lead: str = "") -> _Clause:
        """What is done to a thing: "Google uses", "is used by a Company that ...", "is the author of a Book"."""
        quantifier = _Quantifier.SOME if positive else _Quantifier.ANY
        other, long = lead + self.phrase(operand, quantifier), _is_long(operand)
        if phrase.part:
            return self._forward(RelationPhrase.of_noun(phrase.part), operand, positive, lead)
        if phrase.noun and phrase.preposition:
            done = phrase.invert(other) if long else f"{other} {phrase.predicate}"
            being = f"is {'' if positive else 'not '}{article(phrase.noun)} {phrase.noun}"
            return _Clause(f"{being} {phrase.preposition} which {done}", long=long)
        if phrase.converse and (long or not phrase.is_transitive):
            return _Clause(f"{phrase.converse if positive else phrase.converse_denied} {other}", long=long)
        if isinstance(operand, Entity):
            return _Clause(f"{other} {phrase.leave_open(positive)}", is_object=True)
        none = other if positive else self.phrase(operand, _Quantifier.NO)
        if not long or not phrase.preposition:
            return _Clause(f"{none} {phrase.leave_open()}", is_object=True, long=long)
        return _Clause(phrase.invert(none), long=True, relative=f"{phrase.preposition} which")

    def _noun(self, concept: Concept, quantifier: _Quantifier) -> str:
        if concept.name in (ANYTHING, OWL_THING):
            return quantifier.value[1]
        return _member(self._naming(Role.CONCEPT, concept.name), quantifier)

    def _that(self, query: Query) -> str:
        """A query as clauses behind a noun."""
        if isinstance(query, And) and restriction(query) is not None:
            return str(self._counted(query))
        match query:
            case Or(several) if not is_enumeration(query):
                return str(self._relative(several, "or"))
            case And(several):
                return str(self._relative(several, "and"))
            case _:
                return str(self.clause(query))

    def _relative(self, queries: Sequence[Query], word: str) -> _Clause:
        """Clauses joined by a word; of a conjunction, two that count the same are said as one."""
        said: list[_Clause] = []
        rest = list(queries)
        while rest:
            pair = And((rest[0], rest[1])) if word == "and" and len(rest) > 1 else None
            exact = pair is not None and restriction(pair) is not None
            said.append(self._counted(pair) if pair is not None and exact else self.clause(rest[0]))
            rest = rest[2 if exact else 1 :]
        return _relative(said, word)


def _member(name: str, quantifier: _Quantifier) -> str:
    """A member of a concept by its label, which may have an article of its own or stand in the plural."""
    determiner, thing, one = quantifier.value
    own_article = name.lower().startswith(("the ", "a ", "an "))
    known = name[0].lower() + name[1:] if own_article else f"the {name}"
    if is_plural(name):
        return f"{one} of {known}"
    if own_article:
        return f"{thing} in {known}"
    return f"{article(name) if quantifier is _Quantifier.SOME else determiner} {name}"


def _denied(query: Query) -> Query | None:
    """What a query says is not so, where it says nothing else: `not A or not B` denies `A and B`."""
    match query:
        case Not(operand):
            return operand
        case And(several) | Or(several) if all(isinstance(part, Not) for part in several):
            inner = [part.operand for part in several if isinstance(part, Not)]
            return disjunction(inner) if isinstance(query, And) else conjunction(inner)
        case _:
            return None


def _is_long(query: Query) -> bool:
    """Whether the phrase for a query has a clause in it."""
    return not (isinstance(query, Entity | Concept | DataRange) or is_enumeration(query))


def _needs_clause(phrase: RelationPhrase, operand: Query) -> bool:
    """Whether the relation's noun is best said of the operand in a clause: "an author that works at MIT".

    A single entity needs none ("the city Toronto"), nor does an operand that has a concept to begin with where the
    noun can stand apart ("has a Person as author").
    """
    if isinstance(operand, Entity):
        return False
    if not phrase.names_noun:
        return True
    led = isinstance(operand, And) and any(isinstance(part, Concept) for part in operand.operands)
    return _is_long(operand) and not led


def _relative(clauses: Sequence[_Clause], word: str) -> _Clause:
    """Clauses after one "that", which is repeated where the reader could lose it."""
    text = clauses[0].text
    for before, clause in pairwise(clauses):
        again = before.long or before.is_object != clause.is_object or before.relative != clause.relative
        comma = "," if before.long else ""
        text += f"{comma} {word} {clause if again else clause.text}"
    return _Clause(text, clauses[0].is_object, any(clause.long for clause in clauses), clauses[0].relative)


def _join(names: Sequence[str], word: str) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} {word} {names[-1]}"
