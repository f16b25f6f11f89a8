"""Single English words: how they bend, and what kind they seem to be.

Everything here goes by endings and short lists. It is right for most names that ontologies use, and never certain.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

_PREPOSITIONS: Final = re.compile(
    "about|above|after|against|along|among|around|as|at|before|behind|below|beside|between|by|during|for|from|in|inside"
    "|into|near|of|off|on|onto|over|per|since|through|to|toward|towards|under|until|upon|via|with|within|without"
)
_NOT_VERBS: Final = re.compile(
    "is|has|was|as|its|his|this|series|species|news|alias|address|class|process|status|headquarters|sports|alumnis?"
    "|(?:club|member|parent|product|genre|partner|sibling|award|language|author|actor|writer|editor|employee|keyword"
    "|topic|player|artist|symptom|student|friend|colleague|occupation|interest)s"
)
_FORMS_OF_VERBS: Final = (  # base, past, participle
    "bear bore born, become became become, begin began begun, bring brought brought, build built built, buy bought "
    "bought, choose chose chosen, cut cut cut, do did done, draw drew drawn, drive drove driven, fight fought "
    "fought, find found found, give gave given, grow grew grown, have had had, hold held held, keep kept kept, know "
    "knew known, lead led led, leave left left, lose lost lost, make made made, meet met met, put put put, read "
    "read read, run ran run, see saw seen, sell sold sold, send sent sent, sing sang sung, speak spoke spoken, take "
    "took taken, teach taught taught, think thought thought, win won won, write wrote written"
)
_IRREGULAR: Final = {base: (past, done) for base, past, done in map(str.split, _FORMS_OF_VERBS.split(","))}
_PARTICIPLE_OF: Final[dict[str, str]] = dict(_IRREGULAR.values())
_PAST_OF: Final = {participle: past for past, participle in _IRREGULAR.values()}
_UNCLEAR_PAST: Final = frozenset(["cut", "put", "read", "left", "saw", "found", "bore", "run", "lead"])
"""Past forms that are as likely something else: a noun, an adjective, another verb."""
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_SINGULAR: Final = re.compile(
    r"(?i).*(?:ss|us|is|os|ics|'s)|series|species|news|lens|alias|atlas|gas|canvas|chaos|diabetes|herpes|headquarters"
)
_PLURAL: Final = re.compile(r"(?i)people|children|men|women|.*(?:men|women|people)")


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
    if base in _IRREGULAR:
        return _IRREGULAR[base][1]
    if base.endswith("e"):
        return base + "d"
    return base[:-1] + "ied" if re.search("[^aeiou]y$", base) else base + "ed"


def participle_of_past(past: str) -> str:
    """``wrote`` gives ``written``; of regular verbs both are one."""
    return _PARTICIPLE_OF.get(past, past)


def past_of_participle(word: str) -> str | None:
    """``written`` gives ``wrote``; None for a word that is no participle."""
    return _PAST_OF.get(word) or (word if _ends_as_past(word) else None)


def article(noun: str) -> str:
    """``an`` before a vowel letter, except where it sounds like a consonant."""
    sounds_like_consonant = re.match(r"(?i)uni|use|usa|eu|one\b|ur[aio]", noun)
    return "an" if noun[:1].lower() in ("a", "e", "i", "o", "u") and not sounds_like_consonant else "a"


def is_preposition(word: str) -> bool:
    return _PREPOSITIONS.fullmatch(word) is not None


def is_third_person(word: str) -> bool:
    """Whether a word looks like a verb in the third person, not like a noun in the plural."""
    ending = len(word) > 2 and word.endswith("s") and not word.endswith(("ss", "us", "is"))
    return ending and not _NOT_VERBS.fullmatch(word)


def is_participle(word: str) -> bool:
    return word in _PAST_OF or _ends_as_past(word)


def is_past(word: str) -> bool:
    """Whether a word alone is a verb in the past: ``received``, ``wrote``."""
    return _ends_as_past(word) or (word in _PARTICIPLE_OF and word not in _UNCLEAR_PAST)


def is_plural(noun: str) -> bool:
    """Whether a name is in the plural: that of its head, which stands before the first preposition.

    >>> is_plural("Methods of learning"), is_plural("Master of arts"), is_plural("Physics")
    (True, False, False)
    """
    head = _head(noun.split())
    return _PLURAL.fullmatch(head) is not None or (
        len(head) > 3 and head.endswith("s") and _SINGULAR.fullmatch(head) is None
    )


def _head(words: Sequence[str]) -> str:
    end = next((place for place, word in enumerate(words) if place and is_preposition(word)), len(words))
    return words[end - 1] if words else ""


def _ends_as_past(word: str) -> bool:
    return len(word) > 3 and word.endswith("ed") and not word.endswith("eed")
