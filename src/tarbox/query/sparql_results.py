"""A SPARQL query put to an engine (Oxigraph), and its results in the format that is asked for."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, Any, Final, TypeAlias, final

from tarbox.core.errors import NotAnswerable, QueryError, QuerySyntaxError, QueryTooLarge
from tarbox.query.names import WELL_KNOWN

if TYPE_CHECKING:
    from pyoxigraph import QueryBoolean, QueryResultsFormat, QuerySolutions, QueryTriples, RdfFormat
    from pyoxigraph import Store as Engine

SparqlResults: TypeAlias = "QuerySolutions | QueryBoolean | QueryTriples"
ResultFormat: TypeAlias = "QueryResultsFormat | RdfFormat"

ANY_MEDIA: Final = "*/*"
SOLUTION_FORMATS: Final = ("JSON", "XML", "CSV", "TSV")
GRAPH_FORMATS: Final = ("TURTLE", "N_TRIPLES", "RDF_XML", "JSON_LD")
"""Names of Oxigraph's formats, the preferred first."""
_RANGES: Final = {ANY_MEDIA: (0, 0), "application/*": (0, 1), "text/*": (2, 0)}
"""Ranges of media types with their place in `SOLUTION_FORMATS` and in `GRAPH_FORMATS`."""
_PLACE: Final = re.compile(r"error at (\d+):(\d+): ")


def put_query(engine: Engine, text: str) -> SparqlResults:
    """The results of any SPARQL 1.1 query; well-known prefixes need no declaration.

    Raises `QuerySyntaxError` for what is no query, and `QueryError` where the engine cannot go on.
    """
    try:
        return engine.query(text, prefixes=WELL_KNOWN)
    except SyntaxError as error:
        raise _explain(str(error), text) from error
    except OSError as error:
        raise QueryError(f"the query cannot be answered: {error}") from error


def write_results(results: SparqlResults, format: ResultFormat, most: int | None = None) -> bytes:
    """The results in a format; raises `QueryTooLarge` beyond so many bytes."""
    sink = _Sink(most)
    try:
        results.serialize(sink, format)  # type: ignore[arg-type]  # one of the format's own kind
    except OSError as error:
        raise QueryError(f"the query cannot be answered: {error}") from error
    return sink.getvalue()


def is_graph(results: SparqlResults) -> bool:
    from pyoxigraph import QueryTriples

    return isinstance(results, QueryTriples)


def formats_of(graph: bool) -> list[ResultFormat]:
    """The formats of triples, or of solutions and truths; the preferred first."""
    from pyoxigraph import QueryResultsFormat, RdfFormat

    named: Any = RdfFormat if graph else QueryResultsFormat
    return [getattr(named, name) for name in (GRAPH_FORMATS if graph else SOLUTION_FORMATS)]


def choose_format(graph: bool, accept: str, wanted: str = "") -> ResultFormat | None:
    """The format that a parameter names (`csv`, `ttl`, a media type); where it names none, the best of `Accept`."""
    offered = formats_of(graph)
    kind: Any = type(offered[0])
    named = wanted.strip().lower()
    found = kind.from_extension(named) or kind.from_media_type(named)
    if found in offered:
        return found  # type: ignore[no-any-return]
    ranked: list[tuple[float, int]] = []
    choices: list[ResultFormat] = []
    for part in accept.split(",") if accept.strip() else [ANY_MEDIA]:
        media, *parameters = (piece.strip().lower() for piece in part.split(";"))
        quality = next((_quality(each) for each in parameters if each.startswith("q=")), 1.0)
        found = offered[_RANGES[media][graph]] if media in _RANGES else kind.from_media_type(media)
        if found in offered and quality > 0:
            ranked.append((-quality, len(choices)))
            choices.append(found)
    return choices[min(ranked)[1]] if ranked else None


def _quality(parameter: str) -> float:
    try:
        return float(parameter[2:])
    except ValueError:
        return 0.0


def _explain(message: str, text: str) -> QuerySyntaxError:
    """What the engine says of a text, with the place; of what it would have taken, it lists too much to repeat."""
    found = _PLACE.match(message)
    if found is None:
        return NotAnswerable(f"not answerable: {message}", text, 0)
    before = text.split("\n")[: int(found[1]) - 1]
    position = min(sum(len(line) + 1 for line in before) + int(found[2]) - 1, len(text))
    if "Prefix not found" in message:
        return QuerySyntaxError("not SPARQL: a prefix is not declared; declare it with PREFIX", text, position)
    while text[position - 1 : position + 1].isalnum() and 0 < position < len(text):  # to the beginning of a word
        position -= 1
    rest = text[position:].split()
    place = f"{rest[0][:40]!r}" if rest else "its end"
    return QuerySyntaxError(f"not SPARQL: it goes wrong at {place}, or just before", text, position)


@final
class _Sink(io.BytesIO):
    """Takes at most so many bytes."""

    def __init__(self, most: int | None) -> None:
        super().__init__()
        self._most = most

    def write(self, data: Any) -> int:
        if self._most is not None and self.tell() + len(data) > self._most:
            raise QueryTooLarge(f"the result has more than {self._most:,} bytes: ask for less, with LIMIT for example")
        return super().write(data)
