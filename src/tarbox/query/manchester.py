"""OWL 2 Manchester syntax, the answerable fragment: text to query.

::

    query       := conjunction ("or" conjunction)*
    conjunction := primary (("and" | "that") primary)*
    primary     := "not" primary | relation ("some" | "only") primary | relation "value" entity | relation "Self"
                 | relation ("min" | "max" | "exactly") number [primary] | atom
    relation    := name | "inverse" relation | "(" relation ")"
    atom        := concept | "{" entity ("," entity)* "}" | "(" query ")" | range
    range       := datatype ["[" facet value ("," facet value)* "]"]
    facet       := ">=" | ">" | "<=" | "<"

A chain of one operator makes one node; parentheses make nodes of their own, so that every tree has a text
(`tarbox.query.render` writes it). The parser keeps its own stack: no text can exhaust Python's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NoReturn, TypeAlias, final

from tarbox.core.errors import NameLookupError, NotAnswerable, QuerySyntaxError, QueryTooLarge
from tarbox.core.ids import Role
from tarbox.query import algebra
from tarbox.query.algebra import Direction, Query, conjunction, disjunction, size
from tarbox.query.names import ANYTHING, FULL_IRIS, WELL_KNOWN, XSD, Name, NameForm, Resolver, expand
from tarbox.query.ranges import DATATYPES, FACETS, example_of, facet_literal, is_datatype, is_ordered
from tarbox.query.restrictions import COUNTS, restrict
from tarbox.query.tokens import Token, tokenize

_OPERAND: Final = "a concept, a relation with 'some', 'value' or the like, 'not', '{' or '('"
_AFTER_RELATION: Final = "'some', 'only', 'value', 'min', 'max', 'exactly' or 'Self'"
_RESTRICTIONS: Final = frozenset(["some", "only", "value", "self", *COUNTS])
_LEVELS: Final = {"only": 3, "max": 2, "exactly": 3}
"""How many levels the tree of a restriction has, where they are more than one."""
_SPARQL: Final = re.compile(
    r"(\s|#.*\n)*(prefix\s+[^\s:]*:|base\s*<|(select|ask|construct|describe)\s*([?$*{(<]|(distinct|reduced|where)\b))",
    re.IGNORECASE,
)
_IS_SPARQL: Final = (
    "this is SPARQL, where a class expression is expected: say so, by --sparql (:sparql at the prompt), over HTTP by "
    "language=sparql, in Python by sparql=True"
)
_MOST: Final = 1_000_000
"""The greatest number after `min`, `max` and `exactly`."""


@final
@dataclass(frozen=True, slots=True)
class Limits:
    """What a query may measure: bounds on the work that hostile input can cause."""

    characters: int = 100_000
    depth: int = 100
    nodes: int = 1_000


DEFAULT_LIMITS: Final = Limits()


_Prefix: TypeAlias = tuple[str, Callable[[Query], Query]]
"""A keyword, and what the words with it make of the query that follows."""
_Join: TypeAlias = Callable[[Sequence[Query]], Query]


@final
@dataclass(slots=True)
class _Group:
    """What is read so far between two parentheses: finished conjunctions, the current one, and waiting prefixes.

    Each query stands with its depth.
    """

    opened: int
    alternatives: list[tuple[Query, int]] = field(default_factory=list)
    conjuncts: list[tuple[Query, int]] = field(default_factory=list)
    prefixes: list[_Prefix] = field(default_factory=list)


def parse(text: str, resolver: Resolver = FULL_IRIS, limits: Limits = DEFAULT_LIMITS) -> Query:
    """The query that `text` writes; `resolver` says what its names stand for.

    Raises `QuerySyntaxError` with the place and what was expected there (also for unknown and ambiguous names, with
    the candidates), `NotAnswerable` for facets without an order, `QueryTooLarge` beyond the limits.

    >>> parse("not {<urn:a>}")
    Not(operand=Entity(name='urn:a'))
    """
    if len(text) > limits.characters:
        raise QueryTooLarge(f"the query has {len(text):,} characters; the limit is {limits.characters:,}")
    try:
        return _Parser(text, resolver, limits).parse()
    except QuerySyntaxError:
        if _SPARQL.match(text):
            raise QuerySyntaxError(_IS_SPARQL, text, 0) from None
        raise


@final
class _Parser:
    """One reading of one text."""

    def __init__(self, text: str, resolver: Resolver, limits: Limits) -> None:
        self._text = text
        self._resolver = resolver
        self._limits = limits
        self._tokens: Iterator[Token] = tokenize(text)
        self._next = next(self._tokens)
        self._nodes = 0
        self._groups = [_Group(0)]

    def parse(self) -> Query:
        while True:
            self._read_operand()
            while self._next.is_mark(")"):
                self._close()
            if self._next.is_end:
                return self._finish()
            self._read_operator()

    def _read_operand(self) -> None:
        """Reads prefixes and opening parentheses up to and including the next leaf."""
        while True:
            token = self._take()
            group = self._groups[-1]
            if token.is_mark("("):
                self._open(token)
            elif token.keyword == "not":
                group.prefixes.append(("not", algebra.Not))
            elif token.is_mark("{"):
                return self._add(*self._read_set())
            elif token.keyword == "inverse" or self._is_relation(token):
                leaf = self._read_restriction(token)
                if leaf is not None:
                    return self._add(leaf, 1)
            else:
                return self._add(self._read_concept(token), 1)

    def _read_restriction(self, token: Token) -> Query | None:
        """Reads ``p some`` and the like, a prefix of what follows, or a whole restriction: then what it is of."""
        named, direction = self._read_relation(token)
        relation = self._resolve(Role.RELATION, named)
        word = self._take()
        if word.keyword == "self":
            self._count()
            return algebra.HasSelf(relation)
        if word.keyword not in _RESTRICTIONS:
            self._reject(word, f"{_AFTER_RELATION} after the relation")
        count = self._read_number(word) if word.keyword in COUNTS else 0
        said = word.keyword
        self._groups[-1].prefixes.append((said, lambda operand: restrict(said, relation, direction, operand, count)))
        if word.keyword == "value":
            return self._read_entity()
        if word.keyword in COUNTS and not self._begins_operand():
            self._count()
            return algebra.Concept(ANYTHING)
        return None

    def _read_relation(self, token: Token) -> tuple[Token, Direction]:
        """The name of a relation that may be inverted, more than once and in parentheses."""
        direction, opened = Direction.FORWARD, 0
        while token.keyword == "inverse" or token.is_mark("("):
            if token.keyword == "inverse":
                direction = direction.opposite
            else:
                opened += 1
            token = self._take()
        for _ in range(opened):
            closing = self._take()
            if not closing.is_mark(")"):
                self._reject(closing, "')' after the inverted relation")
        return token, direction

    def _read_number(self, word: Token) -> int:
        token = self._take()
        if token.form is not NameForm.WORD or not (token.value.isascii() and token.value.isdigit()):
            self._reject(token, f"a number after '{word.keyword}', such as {word.keyword} 2")
        if len(token.value) > 7 or int(token.value) > _MOST:
            raise QuerySyntaxError(f"a number after '{word.keyword}' is at most {_MOST:,}", self._text, token.start)
        return int(token.value)

    def _begins_operand(self) -> bool:
        """Whether the next token begins an operand; after a number there may be none."""
        token = self._next
        return token.keyword in ("not", "inverse") or (
            token.is_mark("(") or token.is_mark("{") or (token.name is not None and not token.keyword)
        )

    def _read_range(self, token: Token, datatype: str) -> Query:
        """A datatype with its facets, each a bound."""
        self._count()
        facets: list[tuple[str, str]] = []
        if self._next.is_mark("["):
            if not is_ordered(datatype):
                ordered = "numbers, floats, dates, times with a date, years and months of a year have one"
                raise NotAnswerable(f"'{token.value}' has no order to compare by: {ordered}", self._text, token.start)
            while not self._take().is_mark("]"):  # first '[', then ','
                facets.append(self._read_facet(datatype))
                if not (self._next.is_mark(",") or self._next.is_mark("]")):
                    self._reject(self._next, "',' or ']'")
        return algebra.DataRange(datatype, tuple(facets))

    def _read_facet(self, datatype: str) -> tuple[str, str]:
        sign, token = self._take(), self._take()
        if sign.form is not None or sign.value not in FACETS:
            self._reject(sign, "a facet: '>=', '>', '<=' or '<' before a value")
        value = facet_literal(token.value, datatype) if token.form in (NameForm.WORD, NameForm.LITERAL) else None
        if value is None:
            name = datatype.removeprefix(XSD)
            self._reject(token, f"a value of {name} after '{sign.value}', such as {example_of(datatype)}")
        return sign.value, value

    def _read_set(self) -> tuple[Query, int]:
        members = [self._read_entity()]
        while True:
            token = self._take()
            if token.is_mark("}"):
                break
            if not token.is_mark(","):
                self._reject(token, "',' or '}'")
            members.append(self._read_entity())
        if len(members) > 1:
            self._count()
        return disjunction(members), min(len(members), 2)

    def _read_entity(self) -> Query:
        token = self._take()
        if token.name is None:
            self._reject(token, "an entity: a name or a literal")
        self._count()
        return algebra.Entity(self._resolve(Role.ENTITY, token))

    def _read_concept(self, token: Token) -> Query:
        if token.name is None or token.keyword:
            self._reject(token, _OPERAND)
        if token.form is NameForm.LITERAL:
            self._reject(token, f"{_OPERAND}; a literal stands after 'value' or in braces")
        datatype = self._datatype(token)
        if datatype is not None:
            return self._read_range(token, datatype)
        self._count()
        return algebra.Concept(self._resolve(Role.CONCEPT, token))

    def _datatype(self, token: Token) -> str | None:
        """The datatype that a name is: one of XML Schema's in full, or its last word where no concept has that name."""
        known = expand(token.value, WELL_KNOWN) if token.form is NameForm.WORD else token.value
        if token.form in (NameForm.WORD, NameForm.IRI) and known is not None and is_datatype(known):
            return known
        if token.form is not NameForm.WORD or token.value not in DATATYPES:
            return None
        try:
            self._resolver.resolve(Role.CONCEPT, Name(NameForm.WORD, token.value))
        except NameLookupError:
            return XSD + token.value
        return XSD + token.value if self._next.is_mark("[") else None

    def _read_operator(self) -> None:
        token = self._take()
        group = self._groups[-1]
        if token.keyword == "or":
            group.alternatives.append(self._join(group.conjuncts, conjunction))
            group.conjuncts = []
        elif token.keyword not in ("and", "that"):
            closing = ", 'or' or ')'" if len(self._groups) > 1 else ", 'or' or the end"
            self._reject(token, f"'and'{closing}")

    def _open(self, token: Token) -> None:
        self._groups.append(_Group(token.start))
        if len(self._groups) > self._limits.depth + 1:
            self._too_deep()

    def _close(self) -> None:
        token = self._take()
        if len(self._groups) == 1:
            raise QuerySyntaxError("this ')' closes nothing", self._text, token.start)
        inner = self._groups.pop()
        self._add(*self._join_group(inner))

    def _finish(self) -> Query:
        if len(self._groups) > 1:
            opened = self._groups[-1].opened
            raise QuerySyntaxError("this '(' is never closed: expected 'and', 'or' or ')'", self._text, opened)
        return self._join_group(self._groups[0])[0]

    def _join_group(self, group: _Group) -> tuple[Query, int]:
        group.alternatives.append(self._join(group.conjuncts, conjunction))
        return self._join(group.alternatives, disjunction)

    def _join(self, parts: list[tuple[Query, int]], join: _Join) -> tuple[Query, int]:
        if len(parts) == 1:
            return parts[0]
        self._count()
        return join([query for query, _ in parts]), self._deeper(max(depth for _, depth in parts))

    def _add(self, query: Query, depth: int) -> None:
        """Puts the waiting prefixes of the current group before `query`, the nearest first, and adds it."""
        group = self._groups[-1]
        while group.prefixes:
            word, apply = group.prefixes.pop()
            for _ in range(_LEVELS.get(word, 1)):
                self._count()
                depth = self._deeper(depth)
            for _ in range(size(query) if word == "exactly" else 0):  # which has its operand twice
                self._count()
            query = apply(query)
        group.conjuncts.append((query, depth))

    def _is_relation(self, token: Token) -> bool:
        """Whether what follows a name makes it a relation."""
        return token.name is not None and not token.keyword and self._next.keyword in _RESTRICTIONS

    def _resolve(self, role: Role, token: Token) -> str:
        name = token.name
        if name is None or (token.keyword and role is not Role.ENTITY):
            self._reject(token, f"the name of a {role.value}")
        try:
            return self._resolver.resolve(role, name)
        except NameLookupError as error:
            raise QuerySyntaxError(str(error), self._text, token.start, error.candidates) from error

    def _take(self) -> Token:
        token = self._next
        if not token.is_end:
            self._next = next(self._tokens)
        return token

    def _count(self) -> None:
        self._nodes += 1
        if self._nodes > self._limits.nodes:
            raise QueryTooLarge(f"the query has more than {self._limits.nodes:,} nodes, the limit")

    def _deeper(self, depth: int) -> int:
        if depth >= self._limits.depth:
            self._too_deep()
        return depth + 1

    def _too_deep(self) -> NoReturn:
        raise QueryTooLarge(f"the query is nested more than {self._limits.depth:,} levels deep, the limit")

    def _reject(self, token: Token, expected: str) -> NoReturn:
        raise QuerySyntaxError(f"expected {expected}, found {token.describe()}", self._text, token.start)
