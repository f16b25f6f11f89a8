"""What things are called: from local names, labels and synonyms to ids, forgiving of case.

Everything is built on first use and kept: opening a knowledge base costs nothing, the first bare name some tenths of
a second per 100,000 names.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from functools import cached_property
from typing import assert_never, final

import numpy as np
import pyarrow as pa

from tarbox.execution.name_search import NameIndex
from tarbox.kb.terms import local_name
from tarbox.kb.vocabulary import Names, Vocabulary


class NameSource(Enum):
    """Where a name comes from."""

    LOCAL = "local name"
    LABEL = "label"
    SYNONYM = "synonym"


@final
class Lookup:
    """The names of one role.

    >>> from tarbox.core.ids import Role
    >>> vocabulary = Vocabulary.of(["http://x.org/London", "http://x.org/Lisbon"])
    >>> lookup = Lookup(vocabulary, vocabulary.entities)
    >>> lookup.find("London", NameSource.LOCAL), lookup.index.suggest("Londn", 1)[0].name
    ((1,), 'London')
    """

    def __init__(self, vocabulary: Vocabulary, names: Names) -> None:
        self._names = names
        self._synonyms = vocabulary.synonyms
        self._built: dict[tuple[NameSource, bool], dict[str, list[int]]] = {}

    def find(self, text: str, source: NameSource) -> tuple[int, ...]:
        """The ids with exactly this name."""
        return tuple(dict.fromkeys(self._table(source, folded=False).get(text, ())))

    def find_folded(self, text: str, source: NameSource) -> tuple[int, ...]:
        """The ids with this name in any case."""
        return tuple(dict.fromkeys(self._table(source, folded=True).get(text.casefold(), ())))

    @cached_property
    def index(self) -> NameIndex:
        """All names, for search; what people read, labels and local names without one, comes before other names."""
        order = (NameSource.LABEL, NameSource.LOCAL, NameSource.SYNONYM)
        texts = [pa.array((text for text, _ in self._named(source)), pa.string()) for source in order]
        ids = [np.fromiter((row for _, row in self._named(source)), np.int32) for source in order]
        sources = np.repeat(np.arange(len(order), dtype=np.int8), [len(part) for part in ids])
        labelled = np.isin(np.arange(len(self._names)), ids[0])
        sources[len(ids[0]) : len(ids[0]) + len(ids[1])] = labelled[ids[1]]
        return NameIndex(pa.concat_arrays(texts), np.concatenate(ids), sources)

    def _table(self, source: NameSource, folded: bool) -> dict[str, list[int]]:
        """Ids by name, of one source; most look-ups need the first source only."""
        table = self._built.get((source, folded))
        if table is None:
            table = {}
            for text, row in self._named(source):
                table.setdefault(text.casefold() if folded else text, []).append(row)
            self._built[source, folded] = table
        return table

    def _named(self, source: NameSource) -> Iterator[tuple[str, int]]:
        """Every (name, id) of one source."""
        match source:
            case NameSource.LOCAL:
                return ((local_name(iri), row) for row, iri in enumerate(self._names.iris.to_pylist()))
            case NameSource.LABEL:
                return ((label, row) for row, label in enumerate(self._names.labels.to_pylist()) if label)
            case NameSource.SYNONYM:
                mine = self._names.role.value
                columns = (self._synonyms[column].to_pylist() for column in ("role", "text", "id"))
                return ((text, row) for role, text, row in zip(*columns, strict=True) if role == mine)
            case _:
                assert_never(source)
