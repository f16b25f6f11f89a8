"""English for single relations: what a relation's name says, and how it is denied and turned round.

Names come as ontologies write them: ``worksAt``, ``birth_place``, ``interestedIn``, ``hasPart``, ``receivedAward``.
Nothing here is certain, since names follow no rule; a wrong guess reads clumsily but means the same.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, final

from tarbox.query.words import (
    article,
    base_form,
    is_participle,
    is_past,
    is_preposition,
    is_third_person,
    participle,
    participle_of_past,
    past_of_participle,
    split_words,
)

_INTRANSITIVE: Final = re.compile(
    "acted|appeared|belonged|competed|consisted|debuted|died|emerged|flowed|graduated|happened|invested|lived"
    "|moved|occurred|participated|performed|played|resided|retired|served|starred|studied|taught|travelled"
    "|traveled|voted|worked"
)
"""Verbs in the past that stand before a preposition as they are; others need "is": "worked at", "is located in"."""
_TAKING: Final = re.compile("achieved|attended|earned|gained|got|held|joined|obtained|received|won|wrote")
"""Verbs in the past that take the noun after them; others describe it: "received award", but "related item"."""
_NO_ARTICLE: Final = re.compile(
    "ahead|aware|capable|characteristic|downstream|exclusive|fond|full|inclusive|independent|instead|made|part"
    "|representative|typical|upstream|worthy"
)
_EVENTS: Final = re.compile(
    "acquired|born|built|buried|composed|created|designed|directed|discovered|drawn|educated|established|formed"
    "|founded|introduced|invented|killed|launched|painted|produced|proposed|published|released|sung|written"
)
"""Participles of what happened once, which "was" fits better than "is"."""
_PERSONAL: Final = re.compile("engaged|interested|involved|known|married|specialised|specialized")
_BELONGING: Final = re.compile("citizen|employee|example|member|part|student")
_ARTICLES: Final = ("a", "an", "the")
_KEPT: Final = 4096


@final
@dataclass(frozen=True, slots=True)
class RelationPhrase:
    """How ``x relation y`` is said: ``x verb rest preposition (the) noun y``, where most parts may be empty.

    `denied` stands instead of the verb where it is not so. A noun after `has` alone stands behind y: ``x has y as
    author``. `converse` and `converse_denied` stand between y and x where the relation can be turned round: ``y is
    the author of x``, ``y founded x``. `part` is what y has x as: ``y has x as member``, for ``x is a member of y``.

    >>> RelationPhrase.of("worksAt").say("MIT"), RelationPhrase.of("bornIn").say("Canada", False)
    ('works at MIT', 'was not born in Canada')
    >>> RelationPhrase.of("author").say("Ann"), RelationPhrase.of("author").converse
    ('has Ann as author', 'is the author of')
    """

    verb: str
    denied: str
    rest: str = ""
    preposition: str = ""
    noun: str = ""
    converse: str = ""
    converse_denied: str = ""
    part: str = ""

    @staticmethod
    def of(name: str) -> RelationPhrase:
        return _read(name)

    @staticmethod
    def of_noun(noun: str) -> RelationPhrase:
        """The relation that a noun names, whatever else its words look like: ``x has y as member``."""
        return _naming(noun)

    @property
    def names_noun(self) -> bool:
        """Whether y stands before the noun: ``has y as author``."""
        return self.verb == "has" and bool(self.noun) and not self.preposition

    @property
    def is_transitive(self) -> bool:
        """Whether y follows the verb at once: ``investigates y``."""
        return not (self.rest or self.preposition or self.noun)

    @property
    def predicate(self) -> str:
        """Verb and rest: ``works``, ``is interested``."""
        return _join(self.verb, self.rest)

    def invert(self, other: str) -> str:
        """The predicate with x, a long phrase, after "in which": ``is located a University that ...``."""
        if self.verb in ("is", "was") and not self.rest:
            return f"there {self.verb} {other}"
        turned = not self.rest or (self.verb in ("is", "was") and _PERSONAL.fullmatch(self.rest) is None)
        return f"{self.predicate} {other}" if turned else f"{other} {self.predicate}"

    def say(self, other: str, positive: bool = True) -> str:
        """What is said of x; `other` is y as English."""
        verb = self.verb if positive else self.denied
        if self.names_noun:
            return f"{verb} {other} as {self.noun}"
        return _join(verb, self.rest, self.preposition, self.noun and f"the {self.noun}", other)

    def say_of_some(self, determiner: str, positive: bool = True) -> str:
        """What is said of x before a clause about y: ``received an award``, ``was born in a city``."""
        verb = self.verb if positive else self.denied
        word = determiner or article(self.noun)
        return _join(verb, self.rest, self.preposition, word, self.noun)

    def leave_open(self, positive: bool = True) -> str:
        """What is said of x with y left out, after "that": ``works at``, ``does not use``."""
        return _join(self.verb if positive else self.denied, self.rest, self.preposition)


@lru_cache(_KEPT)
def _read(name: str) -> RelationPhrase:
    words = split_words(name).split()
    first, rest = (words[0], words[1:]) if words else ("", [])
    if first in ("is", "are", "was", "were"):
        return _state("was" if first.startswith("w") else "is", rest)
    if first in ("has", "have"):
        return _having(rest)
    if is_third_person(first) or (first.endswith("ly") and rest and is_third_person(rest[0])):
        return _present(words)
    if _is_past_phrase(words):
        past = participle_of_past(first)
        return _acting(RelationPhrase(first, f"has not {past}"), f"was {past} by", rest)
    if _is_state(words):
        return _state("is", words)
    return _naming(" ".join(words) or name)


def _is_past_phrase(words: Sequence[str]) -> bool:
    first, *rest = words or [""]
    if not rest:
        return is_past(first)
    if any(map(is_preposition, rest)):
        return _INTRANSITIVE.fullmatch(first) is not None or (is_past(first) and not is_preposition(rest[0]))
    return _TAKING.fullmatch(first) is not None


def _is_state(words: Sequence[str]) -> bool:
    """Whether "is" before the words makes sense: ``interested in``, ``part of the series``, ``in the city``."""
    if not words or not any(map(is_preposition, words)):
        return False
    describes = is_participle(words[0]) or is_preposition(words[0]) or _BELONGING.fullmatch(words[0]) is not None
    return describes or is_preposition(words[-1])


def _state(verb: str, words: Sequence[str]) -> RelationPhrase:
    """``x is interested in y``, ``x was born in the city y``, ``x is about y``."""
    rest, preposition, noun = _split(words)
    if not preposition:
        return RelationPhrase(verb, f"{verb} not", " ".join(words) if noun else "")
    if preposition == "by" and rest and not is_participle(rest[-1]):
        return RelationPhrase("has", "does not have", " ".join(rest), preposition, " ".join(noun))
    if rest and _EVENTS.fullmatch(rest[-1]) is not None:
        verb = "was"
    said = _with_article(rest, preposition)
    made = RelationPhrase(verb, f"{verb} not", said, preposition, " ".join(noun))
    if preposition == "of" and not noun and (said == "part" or said != " ".join(rest)):
        return replace(made, part=" ".join(rest))
    past = past_of_participle(rest[0]) if preposition == "by" and len(rest) == 1 and not noun else None
    return made if past is None else replace(made, converse=past, converse_denied=f"has not {rest[0]}")


def _with_article(rest: Sequence[str], preposition: str) -> str:
    """``member`` before "of" is "a member"; participles and adjectives have no article."""
    text = " ".join(rest)
    if text == "same":
        return "the same"
    bare = not rest or rest[0] in _ARTICLES or _NO_ARTICLE.fullmatch(rest[-1]) is not None or is_participle(rest[-1])
    adjective = text.endswith(("able", "ible", "ous"))
    return text if bare or adjective or preposition != "of" else f"{article(text)} {text}"


def _having(words: Sequence[str]) -> RelationPhrase:
    """``x has y as child``; ``x has written y`` where a participle follows."""
    if not words:
        return RelationPhrase("has", "does not have", converse="is had by", converse_denied="is not had by")
    first, rest = words[0], words[1:]
    if is_participle(first) and (not rest or is_preposition(rest[-1]) or _TAKING.fullmatch(first) is not None):
        return _acting(RelationPhrase(f"has {first}", f"has not {first}"), f"was {first} by", rest)
    if len(words) > 1 and is_preposition(words[-1]):
        return RelationPhrase("has", "does not have", " ".join(words[:-1]), words[-1])
    return _naming(" ".join(words))


def _present(words: Sequence[str]) -> RelationPhrase:
    """``x works at y``, ``x positively regulates y``, ``x knows the language y``."""
    adverb, verb, rest = ("", words[0], words[1:]) if is_third_person(words[0]) else (words[0], words[1], words[2:])
    base = base_form(verb)
    made = RelationPhrase(_join(adverb, verb), _join("does not", adverb, base))
    return _acting(made, _join("is", adverb, participle(base), "by"), rest)


def _acting(made: RelationPhrase, passive: str, words: Sequence[str]) -> RelationPhrase:
    """A verb with what follows it: nothing, a preposition, a noun, or both."""
    rest, preposition, noun = _split(words)
    if preposition:
        return replace(made, rest=" ".join(rest), preposition=preposition, noun=" ".join(noun))
    if not noun:
        return replace(made, converse=passive, converse_denied=_deny(passive))
    turned = f"is {article(noun[0])} {' '.join(noun)} {passive.split(' ', 1)[1]}"
    return replace(made, noun=" ".join(noun), converse=turned, converse_denied=_deny(turned))


def _naming(noun: str) -> RelationPhrase:
    """``x has y as birth place``, ``y is the birth place of x``."""
    converse = f"is the {noun} of"
    return RelationPhrase("has", "does not have", noun=noun, converse=converse, converse_denied=_deny(converse))


def _split(words: Sequence[str]) -> tuple[list[str], str, list[str]]:
    """(what stands before the preposition, the preposition, the noun behind it); a last preposition has no noun."""
    places = [place for place, word in enumerate(words) if is_preposition(word)]
    if not places:
        return [], "", [word for word in words if word not in _ARTICLES]
    place = places[-1] if places[-1] == len(words) - 1 else places[0]
    return list(words[:place]), words[place], [word for word in words[place + 1 :] if word not in _ARTICLES]


def _deny(clause: str) -> str:
    auxiliary, _, rest = clause.partition(" ")
    return f"{auxiliary} not {rest}"


def _join(*parts: str) -> str:
    return " ".join(part for part in parts if part)
