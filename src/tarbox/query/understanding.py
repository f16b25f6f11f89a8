"""English to query: the way back from `tarbox.query.english.describe`.

What a sentence may mean is found by reading it with the same phrases that the writer uses; of all readings the one is
taken that the writer says in the same words. Covered are entities, concepts, relations in both directions, `and`, `or`,
`not` and `only`; counts, ranges and `Self` are said in Manchester syntax alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import Final, TypeAlias, final

from tarbox.core.ids import Role
from tarbox.query.algebra import And, Concept, Direction, Entity, Exists, Not, Or, Query, conjunction, disjunction
from tarbox.query.english import describe
from tarbox.query.names import ANYTHING
from tarbox.query.phrases import RelationPhrase
from tarbox.query.render import NameWriter
from tarbox.query.words import article

Finding: TypeAlias = Callable[[Role, str], Iterable[str]]
"""The terms of a role that people read as this text, in any case."""
_Reading: TypeAlias = tuple[Query, int]
"""A part that was read, and the place of the word behind it."""

READINGS: Final = 200
"""So many readings of a sentence, and of each of its parts, are tried."""
LONGEST_SENTENCE: Final = 80
WORDS_OF_A_NAME: Final = 12
_SLOT: Final = "\0"
_THINGS: Final = ("everything", "something", "anything", "nothing")
_DETERMINERS: Final = ("every", "a", "an", "any", "no")
_NONE: Final = ("no", "nothing", "none")
_ONLY: Final = ["nothing", "but"]
_ONE_OF: Final = ("each", "one", "any", "none")


@final
@dataclass(frozen=True, slots=True)
class _Pattern:
    """How one relation is said: words before and after what it leads to. After `noun` a clause follows, no phrase."""

    before: tuple[str, ...]
    after: tuple[str, ...]
    relation: str
    direction: Direction
    positive: bool
    clause: bool = False
    relative: bool = False


def understand(text: str, find: Finding, relations: Iterable[str], show: NameWriter) -> Query | None:
    """The query that `describe` says as this text; None where there is none that is covered.

    `relations` are all terms that may be meant, `show` gives each name as people read it.

    >>> find = lambda role, text: [text] if text == "Google" else []
    >>> understand("everything that Google uses", find, ["uses"], lambda role, name: name)
    Exists(relation='uses', direction=<Direction.INVERSE: 'inverse'>, operand=Entity(name='Google'))
    """
    reader = _SentenceReader(text.strip(), find, [each for name in relations for each in _patterns(name, show)])
    said = " ".join(text.split()).casefold()
    if len(reader.words) > LONGEST_SENTENCE:
        return None
    whole = (query for query, end in reader.phrase(0) if end == len(reader.words))
    return next((query for query in whole if describe(query, show).casefold() == said), None)


def _patterns(name: str, show: NameWriter) -> Iterator[_Pattern]:
    """All ways to say a relation, as `tarbox.query.english` says it."""
    phrase = RelationPhrase.of(show(Role.RELATION, name))

    def made(text: str, direction: Direction, positive: bool, clause: bool = False, relative: bool = False) -> _Pattern:
        before, _, after = text.partition(_SLOT)
        return _Pattern(tuple(before.split()), tuple(after.split()), name, direction, positive, clause, relative)

    def forward(said: RelationPhrase, direction: Direction) -> Iterator[_Pattern]:
        for positive in (True, False):
            yield made(said.say(_SLOT, positive), direction, positive)
            if said.noun:
                some = said.say_of_some("" if positive else "any", positive)
                yield made(f"{some} {_SLOT}", direction, positive, clause=True)
            if said.names_noun:
                verb = said.verb if positive else said.denied
                yield made(f"{verb} as {said.noun} {_SLOT}", direction, positive)

    yield from forward(phrase, Direction.FORWARD)
    if phrase.part:
        yield from forward(RelationPhrase.of_noun(phrase.part), Direction.INVERSE)
    for positive in (True, False):
        verb = phrase.converse if positive else phrase.converse_denied
        if verb:
            yield made(f"{verb} {_SLOT}", Direction.INVERSE, positive)
        if phrase.noun and phrase.preposition:
            being = f"is {'' if positive else 'not '}{article(phrase.noun)} {phrase.noun} {phrase.preposition} which"
            yield made(f"{being} {phrase.invert(_SLOT)}", Direction.INVERSE, positive)
            yield made(f"{being} {_SLOT} {phrase.predicate}", Direction.INVERSE, positive)
        yield made(f"{_SLOT} {phrase.leave_open(positive)}", Direction.INVERSE, positive)
    if phrase.preposition:
        inverted = f"{phrase.preposition} which {phrase.invert(_SLOT)}"
        yield made(inverted, Direction.INVERSE, True, relative=True)


@final
class _SentenceReader:
    """Reads a sentence from a place on, in every way; places are remembered."""

    def __init__(self, text: str, find: Finding, patterns: Sequence[_Pattern]) -> None:
        self._text = text
        self._spans = [match.span() for match in re.finditer(r",(?=\s)|[^\s,]+(?:,[^\s,]+)*", text)]
        self.words = [text[start:end].casefold() for start, end in self._spans]
        self._find = cache(find)
        self._patterns = patterns
        self.phrase = cache(lambda at: list(islice(self._phrase(at), READINGS)))
        self.clauses = cache(lambda at: list(islice(self._clauses(at), READINGS)))
        self._clause = cache(lambda at: list(islice(self._one(at), READINGS)))

    def _phrase(self, at: int) -> Iterator[_Reading]:
        """A noun phrase: one thing, or several names joined by "or"."""
        for first, end in self._noun(at):
            yield first, end
            if isinstance(first, Entity | Concept):
                yield from self._alternatives([first], end)

    def _alternatives(self, several: list[Query], end: int) -> Iterator[_Reading]:
        word = self._word(end)
        for more, last in self._noun(end + 1) if word in (",", "or") else ():
            if isinstance(more, Entity | Concept):
                joined = [*several, more]
                yield from [(disjunction(joined), last)] if word == "or" else self._alternatives(joined, last)

    def _noun(self, at: int) -> Iterator[_Reading]:
        yield from ((Entity(name), end) for name, end in self._named(Role.ENTITY, at))
        for head, end in self._head(at):
            for rest, last in self.clauses(end):
                parts = rest.operands if isinstance(rest, And) else (rest,)
                yield (rest if head is None else And((head, *parts))), last
            yield (head or Concept(ANYTHING)), end

    def _head(self, at: int) -> Iterator[tuple[Concept | None, int]]:
        """What a phrase begins with: a concept, or nothing but "something"."""
        word, following = self._word(at), self._word(at + 1)
        starts: list[int] = []
        if word in _THINGS:
            yield None, at + 1
            starts += [at + 2] if following == "in" else []
        if word in _ONE_OF and following == "of":
            starts += [at + 2, at + 3] if self._word(at + 2) == "the" else [at + 2]
        starts += [at + 1] if word in _DETERMINERS else []
        yield from ((Concept(name), end) for start in starts for name, end in self._named(Role.CONCEPT, start))

    def _clauses(self, at: int) -> Iterator[_Reading]:
        """Clauses behind a noun, joined by "and" or "or"."""
        for first, end in self._related(at):
            yield from self._joined([first], end, None)

    def _joined(self, several: list[Query], end: int, joint: str | None) -> Iterator[_Reading]:
        place = end + 1 if self._word(end) == "," else end
        word = self._word(place)
        if word in ("and", "or") and joint in (None, word):
            for more, last in [*self._related(place + 1), *self._clause(place + 1)]:
                yield from self._joined([*several, more], last, word)
        yield (disjunction if joint == "or" else conjunction)(several), end

    def _related(self, at: int) -> Iterator[_Reading]:
        """A clause with what joins it to its noun: "that" or "at which"."""
        if self._word(at) == "that":
            yield from self._clause(at + 1)
        yield from self._by_patterns(at, relative=True)

    def _one(self, at: int) -> Iterator[_Reading]:
        """A clause: what is true of a thing."""
        yield from self._by_patterns(at, relative=False)
        word = self._word(at)
        if word in ("both", "either"):
            for first, end in [*self._clause(at + 1), *self._related(at + 1)]:
                kind = And if word == "both" else Or
                yield from (each for each in self._joined([first], end, None) if isinstance(each[0], kind))
        if word == "is":
            negated = self._word(at + 1) == "not"
            for query, end in [*self.phrase(at + 1 + negated), *self._membership(at + 1 + negated)]:
                yield (Not(query) if negated else query), end

    def _membership(self, at: int) -> Iterator[_Reading]:
        """What "something" is left out of: "in the industry"."""
        if self._word(at) == "in":
            yield from ((Concept(name), end) for name, end in self._named(Role.CONCEPT, at + 1))

    def _by_patterns(self, at: int, relative: bool) -> Iterator[_Reading]:
        for pattern in self._patterns:
            start = at + len(pattern.before)
            if pattern.relative is not relative or tuple(self.words[at:start]) != pattern.before:
                continue
            only = self.words[start : start + 2] == _ONLY
            none = self._word(start) in _NONE and not only
            for operand, end in self.clauses(start) if pattern.clause else self.phrase(start + 2 * only):
                last = end + len(pattern.after)
                if tuple(self.words[end:last]) == pattern.after:
                    found = Exists(pattern.relation, pattern.direction, Not(operand) if only else operand)
                    yield (found if pattern.positive and not none and not only else Not(found)), last

    def _named(self, role: Role, at: int) -> Iterator[tuple[str, int]]:
        """Names that begin here, the longest first."""
        for end in range(min(at + WORDS_OF_A_NAME, len(self._spans)), at, -1):
            for name in self._find(role, self._text[self._spans[at][0] : self._spans[end - 1][1]]):
                yield name, end

    def _word(self, at: int) -> str:
        return self.words[at] if at < len(self.words) else ""
