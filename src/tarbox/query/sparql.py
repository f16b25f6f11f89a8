"""SPARQL to query, for the queries that are trees.

A ``SELECT`` of one variable maps to a query when its pattern is a tree around that variable: triples, ``UNION``,
``FILTER NOT EXISTS`` and ``MINUS`` over one shared variable, ``VALUES`` of one variable, ``a`` with a class (or
``rdf:type/rdfs:subClassOf*``: a concept always means its instances under closure), and the property paths ``^p``,
``p/q``, ``p|q``. A variable that nothing else restricts means any entity. All other SPARQL is for an engine over the
facts (`tarbox.query.sparql_results`); this is for what a model predicts, and for answers at both levels.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NoReturn, TypeAlias, final

from tarbox.core.errors import NotAnswerable, QuerySyntaxError, QueryTooLarge
from tarbox.query.algebra import Concept, Direction, Entity, Exists, Not, Query, conjunction, depth, disjunction, size
from tarbox.query.manchester import DEFAULT_LIMITS, Limits
from tarbox.query.names import ANYTHING, OWL_THING, RDF_TYPE, SUBCLASS_OF, WELL_KNOWN, quote
from tarbox.query.sparql_conditions import OF_SOLUTIONS, conjuncts, write_condition

SPARQL_ANSWERABLE: Final = (
    "answerable is a SELECT of one variable over a tree of triple patterns, UNION, FILTER NOT EXISTS, MINUS, VALUES; "
    "any query is, over facts alone: `tarbox ask KB --sparql`, or /sparql without predictions"
)

_SCHEMA: Final = (WELL_KNOWN["rdfs"] + "label", WELL_KNOWN["skos"] + "altLabel", SUBCLASS_OF)
_UNKNOWN_PREFIX = re.compile(r"Unknown namespace prefix : (\S*)")


@final
@dataclass(frozen=True, slots=True)
class _Triple:
    subject: Any
    path: Any
    object: Any


@final
@dataclass(frozen=True, slots=True)
class _Choice:
    """A union of groups that restricts one variable."""

    branches: tuple[tuple[_Part, ...], ...]


@final
@dataclass(frozen=True, slots=True)
class _Without:
    """A group that must have no solution for `variable`."""

    variable: Any
    group: tuple[_Part, ...]


@final
@dataclass(frozen=True, slots=True)
class _OneOf:
    variable: Any
    terms: tuple[Any, ...]


_Part: TypeAlias = _Triple | _Choice | _Without | _OneOf


@final
@dataclass(frozen=True, slots=True)
class SparqlSelection:
    """A ``SELECT`` of one variable: what it means, and which part of its solutions is asked for.

    `selected` are the variables in their order, `condition` and `order` what is said of each solution's degree and
    status (`tarbox.query.sparql_conditions`), as SPARQL has it.
    """

    query: Query
    variable: str
    offset: int = 0
    limit: int | None = None
    selected: tuple[str, ...] = ()
    condition: str = ""
    order: str = ""


def parse_sparql(text: str, limits: Limits = DEFAULT_LIMITS) -> Query:
    """The query that a SPARQL text writes; well-known prefixes need no declaration.

    Raises `QuerySyntaxError` for what is no SPARQL, `NotAnswerable` for what is no tree, `QueryTooLarge` beyond the
    limits.
    """
    found = parse_selection(text, limits)
    if len(found.selected) > 1 or found.condition or found.order:
        _Reader(text).refuse("select one variable; of degree and status it can be said with predictions only", "SELECT")
    if found.limit is not None or found.offset:
        _Reader(text).refuse("LIMIT and OFFSET are not answerable", "LIMIT" if found.limit is not None else "OFFSET")
    return found.query


def parse_selection(text: str, limits: Limits = DEFAULT_LIMITS) -> SparqlSelection:
    """The same with its ``LIMIT`` and ``OFFSET``, and with what it says of ``?degree`` and ``?status``.

    >>> parse_selection("SELECT ?x { ?x <urn:p> <urn:a> }LIMIT 5 # rows").limit
    5
    """
    if len(text) > limits.characters:
        raise QueryTooLarge(f"the query has {len(text):,} characters; the limit is {limits.characters:,}")
    try:
        reader = _Reader(text)
        node = _translate(text, reader)
        part, order, pattern = _pattern(node, reader)
        condition = reader.take_conditions(pattern)
        root = next((each for each in node.PV if str(each) not in OF_SOLUTIONS), node.PV[0])
        query = reader.query(reader.parts(pattern), root)
    except RecursionError:
        raise QueryTooLarge("the SPARQL query is nested too deeply") from None
    if size(query) > limits.nodes or depth(query) > limits.depth:
        raise QueryTooLarge(f"the query exceeds the limits of {limits.nodes:,} nodes or {limits.depth:,} levels")
    return SparqlSelection(query, str(root), *part, tuple(map(str, node.PV)), condition, order)


def _translate(text: str, reader: _Reader) -> Any:
    """A SELECT of one variable in rdflib's algebra."""
    from pyparsing import ParseBaseException
    from rdflib.plugins.sparql.algebra import translateQuery
    from rdflib.plugins.sparql.parser import parseQuery

    try:
        node = translateQuery(parseQuery(text), initNs=WELL_KNOWN).algebra
    except ParseBaseException as error:
        raise QuerySyntaxError(f"not SPARQL: {error.msg}", text, error.loc) from error
    except RecursionError:
        raise
    except Exception as error:  # rdflib raises bare exceptions, for unknown prefixes among others
        reason, position = _explain(error, text)
        raise QuerySyntaxError(f"not SPARQL: {reason}", text, position) from error
    if node.name != "SelectQuery":
        form = node.name.removesuffix("Query").upper()
        reader.refuse(f"{form} is not answerable here", form)
    if node.datasetClause:
        reader.refuse("FROM is not answerable: there is one knowledge base", "FROM")
    own = [each for each in node.PV if str(each) not in OF_SOLUTIONS]
    if len(own) != 1 and len(node.PV) != 1:
        reader.refuse(f"select one variable, not {len(own)}", "SELECT")
    return node


def _explain(error: Exception, text: str) -> tuple[str, int]:
    """What rdflib complains of, for people, and where it is."""
    found = _UNKNOWN_PREFIX.search(str(error))
    if found is None:
        return str(error), 0
    prefix = found[1] if f"{found[1]}:" in text else ""  # rdflib calls the empty prefix None
    place = re.search(rf"(?<![\w.-]){re.escape(prefix)}:", text)
    declared = f"declare it with PREFIX {prefix}: <http://...>, or write full IRIs in angle brackets"
    return f"the prefix '{prefix}:' is not declared; {declared}", place.start() if place else 0


def _pattern(node: Any, reader: _Reader) -> tuple[tuple[int, int | None], str, Any]:
    """(offset, limit), the order, and what stands between the braces."""
    pattern, offset, limit, order = node.p, 0, None, ""
    if pattern.name == "Slice":
        pattern, offset, limit = pattern.p, int(pattern.start or 0), pattern.length
    while pattern.name in ("Distinct", "Reduced", "Project", "OrderBy"):
        for each in pattern.expr if pattern.name == "OrderBy" else ():
            key = write_condition(each.expr, (*OF_SOLUTIONS, *map(str, node.PV)))
            if key is None:
                reader.refuse("ORDER BY is answerable for the variables that are selected, degree and status", "ORDER")
            order += f" {each.order or 'ASC'}({key})"
        pattern = pattern.p
    return (offset, limit), order, pattern


@final
class _Reader:
    """Turns rdflib's algebra of one text into a query."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._taken: list[Any] = []

    def take_conditions(self, pattern: Any) -> str:
        """What a query's own filter says of degree and status, which its patterns do not."""
        told = [(each, write_condition(each)) for each in (conjuncts(pattern.expr) if pattern.name == "Filter" else ())]
        self._taken = [each for each, written in told if written]
        return " && ".join(written for _, written in told if written)

    def parts(self, node: Any) -> tuple[_Part, ...]:
        """A group of patterns as a flat sequence; negations are bound to the one variable they share with it."""
        match node.name:
            case "BGP":
                return tuple(_Triple(*triple) for triple in node.triples)
            case "Join":
                return self.parts(node.p1) + self.parts(node.p2)
            case "Union":
                return (_Choice(tuple(self._branches(node))),)
            case "Minus" | "Filter":
                return self._reduced(node)
            case "ToMultiSet" if node.p.name == "values":
                return (self._one_of(node.p.res),)
            case _:
                return self._refuse_node(node.name)

    def _reduced(self, node: Any) -> tuple[_Part, ...]:
        """A group and what is taken from it."""
        if node.name == "Minus":
            outer = self.parts(node.p1)
            return (*outer, self._without(outer, node.p2, "MINUS"))
        outer = self.parts(node.p)
        return (*outer, *(self._without(outer, graph, "NOT EXISTS") for graph in self._filtered(node.expr)))

    def query(self, parts: tuple[_Part, ...], root: Any) -> Query:
        """The set of values of `root`."""
        return _Tree(self, parts, root).query()

    def refuse(self, reason: str, near: str) -> NoReturn:
        position = self._text.upper().find(near.upper())
        raise NotAnswerable(f"{reason}; {SPARQL_ANSWERABLE}", self._text, max(position, 0))

    def _branches(self, node: Any) -> Iterator[tuple[_Part, ...]]:
        for side in (node.p1, node.p2):
            if side.name == "Union":
                yield from self._branches(side)
            else:
                yield self.parts(side)

    def _filtered(self, expression: Any) -> Iterator[Any]:
        """The patterns that a filter forbids."""
        for each in conjuncts(expression):
            if getattr(each, "name", "") == "Builtin_NOTEXISTS":
                yield each.graph
            elif not any(each is taken for taken in self._taken):
                self.refuse("a FILTER other than NOT EXISTS is not answerable", "FILTER")

    def _without(self, outer: tuple[_Part, ...], node: Any, keyword: str) -> _Without:
        inner = self.parts(node)
        shared = _variables(outer) & _variables(inner)
        if len(shared) != 1:
            names = ", ".join(sorted(f"?{variable}" for variable in shared)) or "none"
            self.refuse(f"{keyword} must share one variable with what stands before it, not {names}", keyword)
        return _Without(shared.pop(), inner)

    def _one_of(self, rows: list[dict[Any, Any]]) -> _OneOf:
        variables = {variable for row in rows for variable in row}
        if len(variables) != 1 or not all(rows):
            self.refuse("VALUES must list values of one variable", "VALUES")
        return _OneOf(variables.pop(), tuple(term for row in rows for term in row.values()))

    def _refuse_node(self, name: str) -> NoReturn:
        clauses = {"LeftJoin": "OPTIONAL", "Extend": "BIND", "Slice": "LIMIT", "OrderBy": "ORDER", "Graph": "GRAPH"}
        clause = clauses.get(name, {"ToMultiSet": "SELECT", "AggregateJoin": "GROUP"}.get(name, name))
        self.refuse(f"{clause} is not answerable" if name != "ToMultiSet" else "a subquery is not answerable", clause)


@final
class _Tree:
    """One group of patterns, hung up at one variable."""

    def __init__(self, reader: _Reader, parts: tuple[_Part, ...], root: Any) -> None:
        self._reader = reader
        self._root = root
        self._parts = parts
        self._used: set[int] = set()
        self._seen: set[Any] = set()
        self._at: dict[Any, list[int]] = {}
        for row, part in enumerate(parts):
            for variable in _variables((part,)):
                self._at.setdefault(variable, []).append(row)

    def query(self) -> Query:
        if self._root not in self._at:
            self._reader.refuse(f"?{self._root} must stand in every group and branch", f"?{self._root}")
        query = self._visit(self._root)
        if len(self._used) < len(self._parts):
            left = next(part for row, part in enumerate(self._parts) if row not in self._used)
            self._reader.refuse(f"{_show(left)} is not connected with ?{self._root}", _show(left))
        return query

    def _visit(self, variable: Any) -> Query:
        if variable in self._seen:
            self._reader.refuse(f"the patterns form a cycle through ?{variable}, not a tree", f"?{variable}")
        self._seen.add(variable)
        restrictions: list[Query] = []
        for row in self._at.get(variable, []):
            if row not in self._used:
                self._used.add(row)
                restrictions.append(self._restriction(variable, self._parts[row]))
        return conjunction(restrictions) if restrictions else Concept(ANYTHING)

    def _restriction(self, variable: Any, part: _Part) -> Query:
        match part:
            case _Triple():
                return self._triple(variable, part)
            case _OneOf(terms=terms):
                return disjunction([Entity(_term(term)) for term in terms])
            case _Without(group=group):
                return Not(self._reader.query(group, variable))
            case _Choice(branches):
                inner = _variables((part,)) - {variable}
                outside = [row for other in inner for row in self._at[other] if self._parts[row] is not part]
                if outside or inner & self._seen:
                    self._reader.refuse("the branches of a UNION must share one variable with the rest", "UNION")
                return disjunction([self._reader.query(branch, variable) for branch in branches])

    def _triple(self, variable: Any, triple: _Triple) -> Query:
        forward = triple.subject == variable
        other = triple.object if forward else triple.subject
        steps, typed = _steps(triple.path)
        if typed:
            if not forward or _is_variable(other):
                self._reader.refuse("a type must be a class: answers at concept level come with every query", "a ")
            if str(other).startswith(WELL_KNOWN["owl"]) and str(other) != OWL_THING:
                self._reader.refuse(f"{other} is a class of the schema", "a ")
            query: Query = Concept(str(other))
        else:
            query = self._visit(other) if _is_variable(other) else Entity(_term(other))
        for path in reversed(steps) if forward else steps:
            query = self._step(path, Direction.FORWARD if forward else Direction.INVERSE, query)
        return query

    def _step(self, path: Any, direction: Direction, operand: Query) -> Query:
        match type(path).__name__:
            case "URIRef" if str(path) in _SCHEMA:
                return self._reader.refuse(f"{path} leads to no entity", str(path))
            case "URIRef" if str(path) != RDF_TYPE:
                return Exists(str(path), direction, operand)
            case "InvPath":
                return self._step(path.arg, direction.opposite, operand)
            case "AlternativePath":
                return disjunction([self._step(choice, direction, operand) for choice in path.args])
            case "SequencePath":
                for part in reversed(path.args) if direction is Direction.FORWARD else path.args:
                    operand = self._step(part, direction, operand)
                return operand
            case kind:
                return self._refuse_path(path, kind)

    def _refuse_path(self, path: Any, kind: str) -> NoReturn:
        if kind in ("Variable", "BNode"):
            self._reader.refuse("a variable cannot stand for a relation", f"?{path}")
        if kind == "URIRef":
            self._reader.refuse("rdf:type must lead to a class, at the end of a path", "type")
        self._reader.refuse("of property paths only ^p, p/q and p|q are answerable", "*")


def _steps(path: Any) -> tuple[list[Any], bool]:
    """The parts of a path, less an ending ``rdf:type`` or ``rdf:type/rdfs:subClassOf*``; whether it had one."""
    parts = list(path.args) if type(path).__name__ == "SequencePath" else [path]
    last = parts[-1]
    closure = type(last).__name__ == "MulPath" and str(last.path) == SUBCLASS_OF and last.mod == "*"
    if closure and len(parts) > 1 and str(parts[-2]) == RDF_TYPE:
        return parts[:-2], True
    return (parts[:-1], True) if str(last) == RDF_TYPE else (parts, False)


def _variables(parts: tuple[_Part, ...]) -> set[Any]:
    """The variables that the rest of a query can see in these patterns."""
    found: set[Any] = set()
    for part in parts:
        match part:
            case _Triple(subject, _, object):
                found.update(term for term in (subject, object) if _is_variable(term))
            case _Choice(branches):
                found.update(*(_variables(branch) for branch in branches))
            case _Without(variable) | _OneOf(variable):
                found.add(variable)
    return found


def _is_variable(term: Any) -> bool:
    return type(term).__name__ in ("Variable", "BNode")


def _show(part: _Part) -> str:
    match part:
        case _Triple(subject):
            return f"?{subject}" if _is_variable(subject) else str(subject)
        case _Choice():
            return "UNION"
        case _Without():
            return "NOT EXISTS"
        case _OneOf():
            return "VALUES"


def _term(term: Any) -> str:
    """A term as queries write it: IRIs bare, literals in N-Triples form."""
    if type(term).__name__ != "Literal":
        return str(term)
    suffix = f"@{term.language}" if term.language else ""
    if term.datatype is not None and str(term.datatype) != WELL_KNOWN["xsd"] + "string":
        suffix = f"^^<{term.datatype}>"
    return quote(str(term)) + suffix
