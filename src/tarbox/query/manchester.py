"""OWL 2 Manchester syntax, the answerable fragment: text to query.

::

    query       := conjunction ("or" conjunction)*
    conjunction := primary (("and" | "that") primary)*
    primary     := "not" primary | relation "some" primary | relation "value" entity | atom
    relation    := name | "inverse" name | "inverse" "(" name ")"
    atom        := concept | "{" entity ("," entity)* "}" | "(" query ")"

A chain of one operator makes one node; parentheses make nodes of their own, so that every tree has a text
(`tarbox.query.render` writes it). The parser keeps its own stack: no text can exhaust Python's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NoReturn, TypeAlias, final

from tarbox.core.errors import NameLookupError, NotAnswerable, QuerySyntaxError, QueryTooLarge
from tarbox.core.ids import Role
from tarbox.query.algebra import Concept, Direction, Entity, Exists, Not, Query, conjunction, disjunction
from tarbox.query.names import FULL_IRIS, XSD, Resolver, expand
from tarbox.query.tokens import Token, TokenKind, tokenize

ANSWERABLE: Final = (
    "answerable are: concept names, {entity, ...}, 'relation some ...', 'relation value entity', 'inverse relation', "
    "'and', 'or', 'not'"
)
_OPERAND: Final = "a concept, a relation with 'some' or 'value', 'not', '{' or '('"
_REASONS: Final = {
    "only": "'only' (a universal restriction) is not answerable",
    "min": "'min' (a cardinality) is not answerable",
    "max": "'max' (a cardinality) is not answerable",
    "exactly": "'exactly' (a cardinality) is not answerable",
    "self": "'Self' (a reflexive restriction) is not answerable",
}
_INSTEAD: Final = {
    "only": "; 'not (p some (not C))' says that no known p leads outside C",
    "min": "; 'p some C' says at least one",
}


@final
@dataclass(frozen=True, slots=True)
class Limits:
    """What a query may measure: bounds on the work that hostile input can cause."""

    characters: int = 100_000
    depth: int = 100
    nodes: int = 1_000


DEFAULT_LIMITS: Final = Limits()


@final
@dataclass(frozen=True, slots=True)
class _Negation:
    pass


@final
@dataclass(frozen=True, slots=True)
class _Restriction:
    relation: str
    direction: Direction


_Prefix: TypeAlias = _Negation | _Restriction
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
    the candidates), `NotAnswerable` for the rest of Manchester syntax, `QueryTooLarge` beyond the limits.

    >>> parse("not {<urn:a>}")
    Not(operand=Entity(name='urn:a'))
    """
    if len(text) > limits.characters:
        raise QueryTooLarge(f"the query has {len(text):,} characters; the limit is {limits.characters:,}")
    return _Parser(text, resolver, limits).parse()


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
            if self._next.kind is TokenKind.END:
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
                group.prefixes.append(_Negation())
            elif token.is_mark("{"):
                return self._add(*self._read_set())
            elif token.keyword == "inverse" or self._is_relation(token):
                leaf = self._read_restriction(token)
                if leaf is not None:
                    return self._add(leaf, 1)
            else:
                return self._add(self._read_concept(token), 1)

    def _read_restriction(self, token: Token) -> Query | None:
        """Reads ``p some`` (a prefix of what follows) or ``p value i`` (then the entity is returned)."""
        direction = Direction.INVERSE if token.keyword == "inverse" else Direction.FORWARD
        named = self._read_inverted() if direction is Direction.INVERSE else token
        relation = self._resolve(Role.RELATION, named)
        word = self._take()
        self._groups[-1].prefixes.append(_Restriction(relation, direction))
        if word.keyword == "value":
            return self._read_entity()
        if word.keyword != "some":
            self._reject(word, "'some' or 'value' after the relation")
        return None

    def _read_inverted(self) -> Token:
        token = self._take()
        if not token.is_mark("("):
            return token
        named = self._take()
        closing = self._take()
        if not closing.is_mark(")"):
            self._reject(closing, "')' after the inverted relation")
        return named

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
        return Entity(self._resolve(Role.ENTITY, token))

    def _read_concept(self, token: Token) -> Query:
        if token.name is None or token.keyword:
            self._reject(token, _OPERAND)
        if token.kind is TokenKind.LITERAL:
            self._reject(token, f"{_OPERAND}; a literal stands after 'value' or in braces")
        if token.kind is TokenKind.WORD and (expand(token.value, {"xsd": XSD}) or self._next.is_mark("[")):
            self._refuse(token, "data ranges are not answerable; a literal is: 'relation value \"1977\"^^xsd:gYear'")
        self._count()
        return Concept(self._resolve(Role.CONCEPT, token))

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
            prefix = group.prefixes.pop()
            self._count()
            depth = self._deeper(depth)
            match prefix:
                case _Negation():
                    query = Not(query)
                case _Restriction(relation, direction):
                    query = Exists(relation, direction, query)
        group.conjuncts.append((query, depth))

    def _is_relation(self, token: Token) -> bool:
        """Whether what follows a name makes it a relation; refuses the restrictions that have no answer."""
        if token.name is None or token.keyword:
            return False
        if self._next.keyword in _REASONS:
            self._refuse(self._next, _REASONS[self._next.keyword] + _INSTEAD.get(self._next.keyword, ""))
        return self._next.keyword in ("some", "value")

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
        if token.kind is not TokenKind.END:
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
        if token.keyword in _REASONS:
            self._refuse(token, _REASONS[token.keyword] + _INSTEAD.get(token.keyword, ""))
        if token.is_mark("["):
            self._refuse(token, "data ranges are not answerable")
        raise QuerySyntaxError(f"expected {expected}, found {token.describe()}", self._text, token.start)

    def _refuse(self, token: Token, reason: str) -> NoReturn:
        raise NotAnswerable(f"{reason}; {ANSWERABLE}", self._text, token.start)
