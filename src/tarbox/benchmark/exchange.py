"""Query tables as JSON lines, plain or gzip: the exchange format of DESIGN.md.

::

    {"id": "2p-1", "template": "2p", "level": "entity", "query": "inverse <urn:p> some (inverse <urn:q> value <urn:a>)",
     "target": ["<urn:b>"], "known": ["<urn:c>"], "derivable": false, "missing": [1]}

Queries of one form differ in their names only. So a text is cut into its names and the form between them; the parser
sees every form once, and the rest is lookups.
"""

from __future__ import annotations

import gzip
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final, final

from tarbox.benchmark.tables import OUTSIDE, SCHEMA, QueryTable, parse_shape, render_shape
from tarbox.core.errors import BenchmarkError, QueryError, QuerySyntaxError, SourceError
from tarbox.core.ids import Level, Role
from tarbox.execution.rows import directed, undirected
from tarbox.kb.sources import Rejection
from tarbox.kb.terms import from_ntriples, is_literal, is_literal_text, literal, split_literal, to_ntriples
from tarbox.kb.vocabulary import Vocabulary
from tarbox.kb.writing import replace_file
from tarbox.query.algebra import Direction, Query, Slot, lift, slots
from tarbox.query.manchester import parse
from tarbox.query.names import FULL_IRIS, Resolver

_NAME = re.compile(r'"(?:[^"\\]|\\.)*"(?:@[A-Za-z]+(?:-[A-Za-z0-9]+)*|\^\^<[^<>"\s]+>)?|<[^<>\s]*>')
_PLACEHOLDER = re.compile(r"\?[ecr]\d+")
_REQUIRED: Final = ("level", "query", "target")
_GZIP: Final = b"\x1f\x8b"


@final
@dataclass(frozen=True, slots=True)
class Reading:
    """What a file held: its queries, and the lines that are none.

    Targets outside the vocabulary are in the table (`QueryTable.outside`); `unknown_known` counts the known answers
    outside it, which are no candidates anyway.
    """

    table: QueryTable
    rejected: tuple[Rejection, ...]
    unknown_known: int


def read_queries(path: str | os.PathLike[str], vocabulary: Vocabulary, resolver: Resolver = FULL_IRIS) -> Reading:
    """Read JSON lines; names in queries must be in `vocabulary`. `resolver` reads those that are not full IRIs."""
    file = os.fspath(path)
    reader = _LineReader(vocabulary, resolver)
    columns: dict[str, list[Any]] = {name: [] for name in SCHEMA.names}
    rejected = []
    with _opened(file) as lines:
        for number, line in enumerate(_numbered(lines, file), 1):
            if not line.strip():
                continue
            try:
                row = reader.read(line, number)
            except _Unreadable as error:
                rejected.append(Rejection(file, number, str(error)))
                continue
            for name, value in row.items():
                columns[name].append(value)
    return Reading(QueryTable.of(columns), tuple(rejected), reader.unknown_known)


def write_queries(path: str | os.PathLike[str], table: QueryTable, vocabulary: Vocabulary) -> None:
    """Write JSON lines; gzip when the name ends in ``.gz``."""
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in exchange_rows(table, vocabulary))
    content = text.encode()
    replace_file(Path(path), gzip.compress(content, mtime=0) if str(path).endswith(".gz") else content)


def exchange_rows(table: QueryTable, vocabulary: Vocabulary) -> Iterator[dict[str, Any]]:
    """The rows as the JSON objects of the contract."""
    terms = _Terms(vocabulary)
    for row in table.columns.to_pylist():
        role = Level(row["level"]).role
        outside = iter(row["outside"] or ())
        shown: dict[str, Any] = {
            "id": row["id"],
            "template": row["template"],
            "level": row["level"],
            "query": terms.query(row["shape"], row["slots"]),
            "target": [next(outside) if answer == OUTSIDE else terms.show(role, answer) for answer in row["target"]],
            "known": [terms.show(role, answer) for answer in row["known"]],
        }
        optional = {name: row[name] for name in ("derivable", "missing") if row[name] is not None}
        yield shown | optional


class _Unreadable(Exception):
    """Why a line is rejected."""


@final
@dataclass(frozen=True, slots=True)
class _Form:
    """What a text with its names cut out means: a shape, and for each slot its role, direction and name's place."""

    shape: str
    slots: tuple[tuple[Slot, int], ...]


@final
@dataclass(slots=True)
class _LineReader:
    """Turns lines into rows; remembers forms and names."""

    vocabulary: Vocabulary
    resolver: Resolver
    unknown_known: int = 0
    _forms: dict[str, _Form | None] = field(default_factory=dict)
    _ids: dict[tuple[Role, str], int | None] = field(default_factory=dict)

    def read(self, line: str, number: int) -> dict[str, Any]:
        record = _parse_record(line)
        level = Level(record["level"])
        role = level.role
        shape, ids = self._query(record["query"])
        targets = [self._find(role, name) for name in record["target"]]
        known = [self._find(role, name) for name in record.get("known") or ()]
        self.unknown_known += known.count(None)
        outside = [name for name, found in zip(record["target"], targets, strict=True) if found is None]
        return {
            "id": str(record.get("id", number)),
            "template": record.get("template"),
            "level": level.value,
            "shape": shape,
            "slots": ids,
            "target": [OUTSIDE if found is None else found for found in targets],
            "known": [found for found in known if found is not None],
            "derivable": record.get("derivable"),
            "missing": record.get("missing"),
            "outside": outside or None,
        }

    def _query(self, text: str) -> tuple[str, list[int]]:
        names = _NAME.findall(text)
        cut = _NAME.sub(lambda name: '""' if name.group().startswith('"') else "<>", text)
        if cut not in self._forms:
            self._forms[cut] = _read_form(text)
        form = self._forms[cut]
        if form is None:
            shape, taken = lift(self._parse(text))
            return render_shape(shape), [self._slot(slot) for slot in taken]
        return form.shape, [self._slot(slot, names[place]) for slot, place in form.slots]

    def _parse(self, text: str) -> Query:
        try:
            return parse(text, self.resolver)
        except QuerySyntaxError as error:
            reason = " ".join(error.reason.split("\n"))
            raise _Unreadable(f"{reason} (at character {error.position + 1} of the query)") from None
        except QueryError as error:
            raise _Unreadable(str(error)) from None

    def _slot(self, slot: Slot, written: str | None = None) -> int:
        name = to_ntriples(slot.name) if written is None else written
        found = self._find(slot.role, name)
        if found is None:
            raise _Unreadable(f"no {slot.role.value} {name} in the knowledge base")
        return found if slot.direction is None else directed(found, slot.direction)

    def _find(self, role: Role, name: str) -> int | None:
        key = (role, name)
        if key not in self._ids:
            self._ids[key] = self.vocabulary.names(role).find(_term(name))
        return self._ids[key]


@final
@dataclass(slots=True)
class _Terms:
    """Names by id in N-Triples form, each looked up once."""

    vocabulary: Vocabulary
    _shown: dict[tuple[Role, int], str] = field(default_factory=dict)
    _roles: dict[str, tuple[Role, ...]] = field(default_factory=dict)

    def show(self, role: Role, id: int) -> str:
        key = (role, id)
        if key not in self._shown:
            self._shown[key] = to_ntriples(self.vocabulary.names(role).iri(id))
        return self._shown[key]

    def query(self, shape: str, ids: list[int]) -> str:
        """The text of a query: that of its shape with names in place of the placeholders."""
        if shape not in self._roles:
            self._roles[shape] = tuple(slot.role for slot in slots(parse_shape(shape)))
        names = map(self._slot, self._roles[shape], ids)
        return _PLACEHOLDER.sub(lambda _: next(names), shape)

    def _slot(self, role: Role, id: int) -> str:
        if role is not Role.RELATION:
            return self.show(role, id)
        relation, direction = undirected(id)
        return ("inverse " if direction is Direction.INVERSE else "") + self.show(role, relation)


def _read_form(text: str) -> _Form | None:
    """The form of a text whose names are all IRIs or literals; none for other texts (and for wrong ones)."""
    count = iter(range(len(text)))
    numbered = _NAME.sub(
        lambda name: ('"{}"' if name.group().startswith('"') else "<urn:{}>").format(next(count)), text
    )
    try:
        query = parse(numbered, FULL_IRIS)
    except QueryError:
        return None
    shape, taken = lift(query)
    places = [re.fullmatch(r'"(\d+)"|urn:(\d+)', slot.name) for slot in taken]
    found = [int(place[1] or place[2]) for place in places if place is not None]
    if len(found) < len(taken):
        return None
    return _Form(render_shape(shape), tuple(zip(taken, found, strict=True)))


def _parse_record(line: str) -> dict[str, Any]:
    """A line's object, with the types of the contract."""
    try:
        record = json.loads(line)
    except ValueError as error:
        raise _Unreadable(f"not JSON: {error}") from None
    if not isinstance(record, dict):
        raise _Unreadable("not a JSON object")
    lacking = [key for key in _REQUIRED if key not in record]
    if lacking:
        raise _Unreadable(f"no {' and no '.join(map(repr, lacking))}")
    if record["level"] not in (level.value for level in Level):
        raise _Unreadable(f"'level' is {record['level']!r}, not 'entity' or 'concept'")
    if not isinstance(record["query"], str):
        raise _Unreadable("'query' is not a text")
    for key in ("target", "known"):
        names = record.get(key) or []
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise _Unreadable(f"{key!r} is not a list of names")
    _check_optional(record)
    return record


def _check_optional(record: dict[str, Any]) -> None:
    if not record["target"]:
        raise _Unreadable("'target' is empty: there is nothing to rank")
    if len(set(record["target"])) < len(record["target"]):
        raise _Unreadable("'target' names an answer twice")
    if not isinstance(record.get("template"), str | None):
        raise _Unreadable("'template' is not a text")
    if not isinstance(record.get("derivable"), bool | None):
        raise _Unreadable("'derivable' is neither true nor false")
    missing = record.get("missing")
    if missing is None:
        return
    if not isinstance(missing, list) or not all(type(n) is int and 0 <= n <= 127 for n in missing):
        raise _Unreadable("'missing' is not a list of small numbers")
    if len(missing) != len(record["target"]):
        raise _Unreadable(f"'missing' has {len(missing)} numbers for {len(record['target'])} targets")


def _term(name: str) -> str:
    """A name in N-Triples form as the vocabulary writes it."""
    if not is_literal(name):
        return from_ntriples(name)
    if not is_literal_text(name):
        return name
    value, language, datatype = split_literal(name)
    return literal(value, datatype or None, language or None)


@contextmanager
def _opened(file: str) -> Iterator[IO[str]]:
    try:
        with Path(file).open("rb") as handle:
            packed = handle.read(2) == _GZIP
        with gzip.open(file, "rt", encoding="utf-8-sig") if packed else Path(file).open(encoding="utf-8-sig") as lines:
            yield lines
    except OSError as error:
        raise SourceError(f"cannot read {file}: {error.strerror or error}") from None


def _numbered(lines: IO[str], file: str) -> Iterator[str]:
    try:
        yield from lines
    except (UnicodeDecodeError, EOFError) as error:
        raise BenchmarkError(f"{file} is damaged: {error}") from None
