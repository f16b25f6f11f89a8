"""English for single relations: which kind of phrase a relation's name is, and how it bends.

Names come as ontologies write them: ``worksAt``, ``birth_place``, ``interestedIn``, ``hasPart``. Nothing here is
certain, since names follow no rule; a wrong guess reads clumsily but means the same.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Final, final

_PREPOSITIONS: Final = re.compile(
    "about|above|after|against|along|among|around|as|at|before|behind|below|beside|between|by|during|for|from|in|inside"
    "|into|near|of|off|on|onto|over|per|since|through|to|toward|towards|under|until|upon|via|with|within|without"
)
_NOT_VERBS: Final = re.compile("is|has|was|as|its|his|this|series|species|news|alias|address|class|process|status")
_PARTICIPLES: Final = {
    "begin": "begun",
    "buy": "bought",
    "choose": "chosen",
    "cut": "cut",
    "do": "done",
    "draw": "drawn",
    "drive": "driven",
    "find": "found",
    "give": "given",
    "grow": "grown",
    "have": "had",
    "hold": "held",
    "keep": "kept",
    "know": "known",
    "lead": "led",
    "make": "made",
    "meet": "met",
    "put": "put",
    "read": "read",
    "run": "run",
    "see": "seen",
    "sell": "sold",
    "send": "sent",
    "sing": "sung",
    "speak": "spoken",
    "take": "taken",
    "teach": "taught",
    "think": "thought",
    "win": "won",
    "write": "written",
}
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


class RelationKind(Enum):
    """How ``x relation y`` is said."""

    VERB = "x investigates y"
    STATE = "x is interested in y"
    NOUN = "x has as birth place y"


@final
@dataclass(frozen=True, slots=True)
class RelationPhrase:
    """A relation's name as English; `words` are without the auxiliary."""

    kind: RelationKind
    words: str

    @classmethod
    def of(cls, name: str) -> RelationPhrase:
        """
        >>> RelationPhrase.of("worksAt").affirm(), RelationPhrase.of("bornIn").deny()
        ('works at', 'is not born in')
        """
        words = split_words(name).split()
        first, last = words[0] if words else "", words[-1] if words else ""
        if first in ("has", "have") and len(words) > 1:
            return cls(RelationKind.NOUN, " ".join(words[1:]))
        if first in ("is", "was", "are") and len(words) > 1:
            return cls(RelationKind.STATE, " ".join(words[1:]))
        if _is_third_person(first):
            return cls(RelationKind.VERB, " ".join(words))
        kind = RelationKind.STATE if _PREPOSITIONS.fullmatch(last) and len(words) > 1 else RelationKind.NOUN
        return cls(kind, " ".join(words))

    def affirm(self) -> str:
        """What stands between x and y."""
        match self.kind:
            case RelationKind.VERB:
                return self.words
            case RelationKind.STATE:
                return f"is {self.words}"
            case RelationKind.NOUN:
                return f"has as {self.words}"

    def deny(self) -> str:
        match self.kind:
            case RelationKind.VERB:
                first, _, rest = self.words.partition(" ")
                return f"does not {base_form(first)} {rest}".rstrip()
            case RelationKind.STATE:
                return f"is not {self.words}"
            case RelationKind.NOUN:
                return f"does not have as {self.words}"

    def passive(self) -> str:
        """What stands between y and x, for a verb: ``is investigated by``."""
        first, _, rest = self.words.partition(" ")
        return " ".join(["is", participle(base_form(first)), *rest.split(), "by"])


def split_words(name: str) -> str:
    """``birthPlace``, ``birth_place`` and ``birth-place`` as ``birth place``; acronyms stay in capitals."""
    spaced = _CAMEL.sub(" ", re.sub(r"[_\s]+|(?<=\w)-(?=\w)", " ", name)).strip()
    return " ".join(word if word.isupper() and len(word) > 1 else word.lower() for word in spaced.split())


def base_form(verb: str) -> str:
    """The base of a verb in the third person: ``studies`` gives ``study``."""
    if verb == "does":
        return "do"
    if verb.endswith("ies") and len(verb) > 4:
        return verb[:-3] + "y"
    return verb[:-2] if re.search(r"(?:ch|sh|ss|x|zz|o)es$", verb) else verb[:-1]


def participle(base: str) -> str:
    """The past participle: ``study`` gives ``studied``."""
    if base in _PARTICIPLES:
        return _PARTICIPLES[base]
    if base.endswith("e"):
        return base + "d"
    return base[:-1] + "ied" if re.search("[^aeiou]y$", base) else base + "ed"


def article(noun: str) -> str:
    """``an`` before a vowel letter, except where it sounds like a consonant."""
    sounds_like_consonant = re.match(r"(?i)uni|use|usa|eu|one\b|ur[aio]", noun)
    return "an" if noun[:1].lower() in ("a", "e", "i", "o", "u") and not sounds_like_consonant else "a"


def _is_third_person(word: str) -> bool:
    ending = len(word) > 2 and word.endswith("s") and not word.endswith(("ss", "us", "is"))
    return ending and not _NOT_VERBS.fullmatch(word)
