"""From the names in a query to the things of a knowledge base."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Final, NoReturn, final
from urllib.parse import unquote

from tarbox.core.errors import AmbiguousName, UnknownName
from tarbox.core.ids import Role
from tarbox.execution.lookup import Lookup, NameSource
from tarbox.execution.name_search import NameFit
from tarbox.execution.rows import means_everything
from tarbox.kb.terms import is_literal, is_text, literal, local_name, namespace, split_literal, to_ntriples
from tarbox.kb.vocabulary import Names, Vocabulary
from tarbox.query.algebra import Query, lift
from tarbox.query.names import ANYTHING, WELL_KNOWN, XSD, Name, NameForm, expand
from tarbox.query.render import full_name
from tarbox.query.tokens import is_word, quote_label

SHOWN_CANDIDATES: Final = 5
_NAMESPACES: Final = 20
_ORDER: Final = {
    NameForm.WORD: (NameSource.LOCAL, NameSource.LABEL, NameSource.SYNONYM),
    NameForm.LABEL: (NameSource.LABEL, NameSource.LOCAL, NameSource.SYNONYM),
}
_NUMBERS: Final = (
    (re.compile(r"[+-]?\d+"), "integer"),
    (re.compile(r"[+-]?\d+\.\d+"), "decimal"),
    (re.compile(r"true|false"), "boolean"),
)
_NUMBERED: Final = re.compile(r"([A-Za-z]+_)?[A-Z]?\d{3,}|[PQ]\d+")
_EVERYTHING: Final = Name(NameForm.WORD, "owl:Thing")
_NO_TEXT: Final = (
    "the name has bytes that are no text in the encoding of this terminal (lone surrogates): write it in UTF-8, under "
    "a locale such as LC_ALL=C.UTF-8"
)


def check_names(query: Query, resolver: VocabularyResolver) -> None:
    """Raises `UnknownName`, with near names, for a term that is none of the vocabulary's: SPARQL may say any."""
    for slot in lift(query)[1]:
        if not means_everything(slot.role, slot.name):
            form = NameForm.LITERAL if is_literal(slot.name) else NameForm.IRI
            resolver.find(slot.role, Name(form, slot.name))


@final
class VocabularyResolver:
    """Finds what a name means in a knowledge base.

    In this order: full IRI; CURIE (well-known prefixes, those of the vocabulary's own namespaces, and OBO's
    ``GO:0008150``); local name, label, synonym, for a quoted name label before local name; the same in any case; and
    where none of these is found, a bare word with spaces for its underscores (``part_of``).
    The first step that finds anything decides, and finds one thing or is ambiguous.

    >>> resolver = VocabularyResolver(Vocabulary.of(["http://x.org/London"]))
    >>> resolver.resolve(Role.ENTITY, Name(NameForm.WORD, "london"))
    'http://x.org/London'
    """

    def __init__(self, vocabulary: Vocabulary, title: str = "this knowledge base") -> None:
        self._vocabulary = vocabulary
        self._title = title
        self._lookups = {role: Lookup(vocabulary, vocabulary.names(role)) for role in Role}

    def resolve(self, role: Role, name: Name) -> str:
        """The one term with this name; see `tarbox.query.names.Resolver`."""
        if means_everything(role, self._expand(name)) and not self._find(role, name):
            return ANYTHING
        return self._vocabulary.names(role).iri(self.find(role, name))

    def find(self, role: Role, name: Name) -> int:
        """The id of the one thing with this name. Raises `UnknownName` or `AmbiguousName`."""
        found = self._find(role, name)
        if not found:
            self._report_unknown(role, name)
        if len(found) > 1:
            self._report_ambiguous(role, name, [self._vocabulary.names(role).iri(row) for row in found])
        return found[0]

    def matches(self, role: Role, name: Name) -> bool:
        """Whether anything has this name; everything is `owl:Thing`."""
        return bool(self._find(role, name)) or means_everything(role, self._expand(name))

    def lookup(self, role: Role) -> Lookup:
        """The names of one role, for search."""
        return self._lookups[role]

    def write(self, role: Role, term: str, by_label: bool = False) -> str:
        """The shortest text that a query can use for a term: a local name, a quoted label, or the full IRI.

        A label comes before a local name that is a mere number, as in ``HP_0001250`` or ``Q42``, or if it is asked
        for (`by_label`). The concept of all entities is ``owl:Thing``, unless that names a concept of the vocabulary's
        own.
        """
        known = self._vocabulary.names(role).find(term)
        if known is None and means_everything(role, term) and not self._find(role, _EVERYTHING):
            return _EVERYTHING.text
        if known is None or is_literal(term):
            return full_name(role, term)
        local, label = local_name(term), self._vocabulary.names(role).label(known)
        forms = [(Name(NameForm.WORD, local), local)] if is_word(local) and ":" not in local else []
        if label:
            forms.insert(
                0 if by_label or _NUMBERED.fullmatch(local) else 1, (Name(NameForm.LABEL, label), quote_label(label))
            )
        for name, text in forms:
            if self._find(role, name) == (known,):
                return text
        return full_name(role, term)

    def show(self, role: Role, term: str) -> str:
        """What a person reads: the label, or else the local name."""
        known = self._vocabulary.names(role).find(term)
        return local_name(term) if known is None else self._vocabulary.names(role).show(known)

    def read(self, role: Role, text: str) -> list[str]:
        """The terms that people read as this text, in any case: the way back from `show`."""
        names, lookup = self._vocabulary.names(role), self._lookups[role]
        found = [*lookup.find_folded(text, NameSource.LABEL), *lookup.find_folded(text, NameSource.LOCAL)]
        return [names.iri(row) for row in dict.fromkeys(found) if names.show(row).casefold() == text.casefold()]

    @cached_property
    def prefixes(self) -> dict[str, str]:
        """Prefix to namespace: the well-known ones, and the vocabulary's commonest by the last part of their path.

        The empty prefix is the commonest namespace of all.
        """
        ours: dict[str, str] = {}
        for space in self._namespaces():
            prefix = re.split(r"[/#:]", space.rstrip("/#:"))[-1].lower()
            if prefix and is_word(prefix):
                ours.setdefault(prefix, space)
            ours.setdefault("", space)
        return {**ours, **WELL_KNOWN}

    def _namespaces(self) -> list[str]:
        terms: Iterable[str] = (term for role in Role for term in self._vocabulary.names(role))
        counts = Counter(namespace(term) for term in terms)
        return [space for space, _ in counts.most_common(_NAMESPACES) if space]

    def _find(self, role: Role, name: Name) -> tuple[int, ...]:
        names, text = self._vocabulary.names(role), name.text
        match name.form:
            case NameForm.IRI | NameForm.LITERAL:
                return _only(names.find(text))
            case NameForm.LABEL:
                return self._find_by_name(role, name)
            case NameForm.WORD:
                expanded = self._expand(name)
                direct = None if expanded is None else names.find(expanded)
                return (
                    _only(direct)
                    or self._find_by_name(role, name)
                    or self._find_number(role, names, text)
                    or (self._find_by_name(role, Name(name.form, text.replace("_", " "))) if "_" in text else ())
                )
            case NameForm.PLACEHOLDER:
                return ()

    def _find_by_name(self, role: Role, name: Name) -> tuple[int, ...]:
        lookup = self._lookups[role]
        texts = dict.fromkeys([name.text, unquote(name.text), name.text.replace(":", "_", 1)])
        for find in (lookup.find, lookup.find_folded):
            for source in _ORDER[name.form]:
                for text in texts:
                    found = find(text, source)
                    if found:
                        return found
        return ()

    def _find_number(self, role: Role, names: Names, text: str) -> tuple[int, ...]:
        """Manchester syntax writes numbers and truth values without quotation marks."""
        if role is not Role.ENTITY:
            return ()
        datatype = next((kind for pattern, kind in _NUMBERS if pattern.fullmatch(text)), None)
        return () if datatype is None else _only(names.find(literal(text, XSD + datatype)))

    def _expand(self, name: Name) -> str | None:
        """The IRI that a name writes in full or as a CURIE."""
        if name.form is NameForm.IRI or name.text.startswith("_:"):
            return name.text
        return expand(name.text, self.prefixes) if name.form is NameForm.WORD and ":" in name.text else None

    def _report_ambiguous(self, role: Role, name: Name, iris: list[str]) -> NoReturn:
        labels = {iri: self.show(role, iri) for iri in iris[:SHOWN_CANDIDATES]}
        shown = [to_ntriples(iri) + (f" ({label})" if label != name.text else "") for iri, label in labels.items()]
        more = f" and {len(iris) - len(shown):,} more" if len(iris) > len(shown) else ""
        listed = ", ".join(shown) + more
        reason = f"'{name.text}' names {len(iris):,} {role.plural}: {listed}. Write the full IRI of the one you mean"
        raise AmbiguousName(reason, [to_ntriples(iri) for iri in iris])

    def _report_unknown(self, role: Role, name: Name) -> NoReturn:
        if name.form is NameForm.PLACEHOLDER:
            raise UnknownName(f"{name.text} is a placeholder; placeholders stand in templates only")
        if not is_text(name.text):
            raise UnknownName(_NO_TEXT)
        shown = name.text if is_literal(name.text) else f"'{name.text}'"
        if name.form is not NameForm.IRI and self._vocabulary.names(role).find(name.text) is not None:
            raise UnknownName(f"{shown} is an IRI: write <{name.text}>")
        for other in Role:
            if other is not role and self._find(other, name):
                reason = f"{shown} is {other.with_article} in {self._title}, not {role.with_article}"
                raise UnknownName(reason if name.form is NameForm.IRI else reason + _advice(role, other, name.text))
        near = self._near(role, name)
        if near:
            question = f"Did you mean {_either(near)}?"
            raise UnknownName(f"no {role.value} {shown} in {self._title}. {question}", list(near))
        for other in Role:
            near = self._near(other, name, forgiving=False) if other is not role else {}
            if near:
                reason = f"no {role.value} {shown} in {self._title}, but the {other.value} {_either(near)}"
                raise UnknownName(reason + _advice(role, other, next(iter(near))), list(near))
        raise UnknownName(f"no {role.value} {shown} in {self._title}")

    def _near(self, role: Role, name: Name, forgiving: bool = True) -> dict[str, str]:
        """Near names as a query would write them, each as a message shows it: with its label where that says more."""
        lookup, names = self._lookups[role], self._vocabulary.names(role)
        if is_literal(name.text):
            terms = map(names.iri, lookup.find(split_literal(name.text)[0], NameSource.LOCAL))
            return {term: f"'{term}'" for term in list(filter(is_literal, terms))[:SHOWN_CANDIDATES]}
        sought = local_name(name.text) if name.form is NameForm.IRI else name.text.rpartition(":")[2] or name.text
        find = lookup.index.suggest if forgiving else lookup.index.search
        quoted = name.form is NameForm.LABEL
        near = [match for match in find(sought, 3) if forgiving or match.fit is not NameFit.PART]
        found = [(self.write(role, names.iri(match.id), quoted), names.show(match.id)) for match in near]
        return {text: _with_label(text, label) for text, label in found} if len(sought) > 2 else {}


def _advice(role: Role, other: Role, text: str) -> str:
    match role, other:
        case Role.CONCEPT, Role.ENTITY:
            return f": write {{{text}}}, or 'value {text}' after a relation"
        case Role.ENTITY, Role.CONCEPT:
            return f": write 'some {text}' instead of 'value', and no braces"
        case Role.CONCEPT, Role.RELATION:
            return f": write '{text} some ...' or '{text} value ...'"
        case _:
            return ""


def _with_label(text: str, label: str) -> str:
    quoted = text if text.startswith("'") else f"'{text}'"
    return quoted if _letters(text) == _letters(label) else f"{quoted} ({label})"


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text)).casefold()


def _either(near: Mapping[str, str]) -> str:
    *others, last = near.values()
    return f"{', '.join(others)} or {last}" if others else last


def _only(row: int | None) -> tuple[int, ...]:
    return () if row is None else (row,)
