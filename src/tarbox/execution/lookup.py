"""What things are called: from local names, labels and synonyms to ids, forgiving of case and of misspelling.

Everything is built on first use and kept: opening a knowledge base costs nothing, the first bare name some tenths of
a second per 100,000 names. Misspelled names are found in two steps: a bit signature of letter pairs picks a few
dozen names out of all, then the edit distance ranks them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from enum import Enum
from functools import cached_property
from typing import Final, assert_never, final

import numpy as np
from numpy.typing import NDArray

from tarbox.kb.terms import local_name
from tarbox.kb.vocabulary import Names, Vocabulary

SHORTLIST: Final = 64
_WORDS: Final = 4
_BLOCK: Final = 1 << 16
Signatures = NDArray[np.uint64]


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
    >>> lookup.find("London", NameSource.LOCAL), lookup.near("Londn"), lookup.complete("li")
    ((1,), ['London'], [0])
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

    def near(self, text: str, limit: int = 3) -> list[str]:
        """The names within a few edits of `text`, nearest first."""
        folded = text.casefold()
        allowed = max(1, round(len(folded) / 3))
        best: dict[int, tuple[int, str]] = {}
        for row in self._shortlist(folded, contained=False):
            found = edit_distance(folded, self._texts[row].casefold(), allowed), self._texts[row]
            if found[0] <= allowed:
                best[self._ids[row]] = min(found, best.get(self._ids[row], found))
        return list(dict.fromkeys(name for _, name in sorted(best.values())))[:limit]

    def complete(self, prefix: str, limit: int = 10, forgiving: bool = True) -> list[int]:
        """Ids of things that `prefix` may begin to name: first names that begin with it, then names with a word that
        does, then, where these are few and the look-up is `forgiving`, names that begin almost so."""
        folded = prefix.casefold().strip()
        rows = list(self._starting(self._sorted, folded, limit))
        if len(rows) < limit:
            rows += self._starting(self._sorted_words, folded, limit)
        ids = list(dict.fromkeys(self._ids[row] for row in rows))
        if forgiving and len(ids) < limit and len(folded) > 2:
            ids = list(dict.fromkeys([*ids, *(self._ids[row] for row in self._almost(folded))]))
        return ids[:limit]

    def _table(self, source: NameSource, folded: bool) -> dict[str, list[int]]:
        """Ids by name, of one source; most look-ups need the first source only."""
        table = self._built.get((source, folded))
        if table is None:
            table = {}
            named = list(self._named(source))
            if source is NameSource.SYNONYM:  # an identifier is also found without its prefix: P04637, 7157
                given = {text for text, _ in named}
                bare = ((text.partition(":")[2], row) for text, row in named if ":" in text and " " not in text)
                named += [pair for pair in bare if pair[0] and pair[0] not in given]
            for text, row in named:
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

    @cached_property
    def _pairs(self) -> list[tuple[str, int]]:
        """Every distinct (name, id), labels first."""
        order = (NameSource.LABEL, NameSource.LOCAL, NameSource.SYNONYM)
        return list(dict.fromkeys(pair for source in order for pair in self._named(source)))

    @cached_property
    def _texts(self) -> list[str]:
        return [text for text, _ in self._pairs]

    @cached_property
    def _ids(self) -> list[int]:
        return [row for _, row in self._pairs]

    @cached_property
    def _sorted(self) -> list[tuple[str, int]]:
        return sorted((text.casefold(), row) for row, text in enumerate(self._texts))

    @cached_property
    def _sorted_words(self) -> list[tuple[str, int]]:
        return sorted(
            (word, row)
            for row, text in enumerate(self._texts)
            for word in text.casefold().replace("_", " ").replace("-", " ").split()[1:]
        )

    @cached_property
    def _signatures(self) -> Signatures:
        blocks = [
            _signatures([text.casefold() for text in self._texts[start : start + _BLOCK]])
            for start in range(0, len(self._texts), _BLOCK)
        ]
        return np.concatenate([np.empty((0, _WORDS), np.uint64), *blocks])

    def _shortlist(self, folded: str, contained: bool) -> list[int]:
        """Rows of the names with the most letter pairs in common; `contained` forgives what the name has more."""
        mine = _signatures([folded])[0]
        common = np.bitwise_count(self._signatures & mine).sum(1).astype(np.float64)
        if not contained:
            common *= 2 / (np.bitwise_count(self._signatures).sum(1) + np.bitwise_count(mine).sum())
        count = min(SHORTLIST, len(common))
        best = np.argpartition(-common, count - 1)[:count] if count else np.empty(0, np.int64)
        return [int(row) for row in best if common[row] > 0]

    def _starting(self, table: list[tuple[str, int]], prefix: str, limit: int) -> list[int]:
        """Rows whose text begins with `prefix`: the shortest names of the first few dozen in the alphabet."""
        start = bisect_left(table, (prefix, -1))
        found = []
        for text, row in table[start : start + max(SHORTLIST, 4 * limit)]:
            if not text.startswith(prefix):
                break
            found.append(row)
        return sorted(found, key=lambda row: (len(self._texts[row]), self._texts[row]))[:limit]

    def _almost(self, prefix: str) -> Iterator[int]:
        """Rows whose beginning is within a few edits of `prefix`, nearest first."""
        allowed = max(1, len(prefix) // 4)
        ranked = []
        for row in self._shortlist(prefix, contained=True):
            text = self._texts[row].casefold()
            ends = range(max(1, len(prefix) - 1), len(prefix) + 2)
            distance = min(edit_distance(prefix, text[:end], allowed) for end in ends)
            if distance <= allowed:
                ranked.append((distance, len(text), row))
        return (row for _, _, row in sorted(ranked))


def edit_distance(a: str, b: str, limit: int) -> int:
    """The least number of letters to insert, delete, replace or swap with a neighbour; `limit` + 1 if beyond it."""
    if abs(len(a) - len(b)) > limit:
        return limit + 1
    before: list[int] = []
    row = list(range(len(b) + 1))
    for i, letter in enumerate(a, start=1):
        earlier, before, row = before, row, [i]
        for j, other in enumerate(b, start=1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != other))
            if i > 1 and j > 1 and letter == b[j - 2] and a[i - 2] == other:
                cost = min(cost, earlier[j - 2] + 1)
            row.append(cost)
        if min(row) > limit:
            return limit + 1
    return min(row[-1], limit + 1)


def _signatures(texts: list[str]) -> Signatures:
    """[N, 4] for each text 256 bits: one per pair of neighbouring bytes, hashed, with the two ends."""
    encoded = [b"\0" + text.encode("utf-8", "surrogatepass") + b"\0" for text in texts]
    letters = np.frombuffer(b"".join(encoded), np.uint8).astype(np.uint32)
    starts = np.cumsum([0, *map(len, encoded)])[:-1]
    hashed = np.zeros(len(letters), np.uint32)
    hashed[:-1] = (letters[:-1] * 167 + letters[1:] * 59) % (64 * _WORDS)
    hashed[np.append(starts[1:] - 1, len(letters) - 1)] = hashed[np.append(starts[1:] - 2, len(letters) - 2)]
    bits = np.left_shift(np.uint64(1), (hashed % 64).astype(np.uint64))
    words = [np.where(hashed // 64 == word, bits, np.uint64(0)) for word in range(_WORDS)]
    return np.stack([np.bitwise_or.reduceat(word, starts) for word in words], axis=1)
