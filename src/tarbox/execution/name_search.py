"""Names found by what someone remembers of them: their beginning, their words, any part, or almost so.

Names are folded (no case, no accents, single spaces between words) and kept as numbers: of each name the words in
their order, of each word the places where it stands. Words are in alphabetical order, so that those with one
beginning lie together. A misspelled word is found in two steps: a bit signature of letter pairs picks a few dozen
words out of all, then the edit distance ranks them (ADR 42).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from enum import IntEnum
from functools import cached_property
from typing import Any, Final, NamedTuple, final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tarbox.kb.arrays import Flags, Ids, Places
from tarbox.kb.rows import offsets_of, ranges

SHORTLIST: Final = 64
_NO_FIT: Final = 9
_SHORT: Final = 3  # letters: what is shorter is a part of too many words
_WORDS: Final = 4
_BLOCK: Final = 1 << 16
_USES: Final = 1 << 40
_SEPARATORS: Final = r"[\s_\-:/,;.()\[\]{}'\"<>\x{2010}-\x{201f}]+"


class NameFit(IntEnum):
    """How a name fits a text, the best first: it is the text, begins with it, has it where a word begins, has words
    that begin with its words, or has its words as parts."""

    EXACT = 0
    BEGINNING = 1
    WORD = 2
    WORDS = 3
    PART = 4


class NameMatch(NamedTuple):
    """A thing that may be meant, by one of its names; `source` is 0 for what people read, more for other names."""

    id: int
    name: str
    fit: NameFit
    source: int = 0


def fold(texts: pa.Array) -> pa.Array:
    """Texts without case and accents, with single spaces for what parts words."""
    import pyarrow.compute as pc  # 0.1 s, and only names that are sought need it

    plain = pc.replace_substring_regex(pc.utf8_normalize(pc.utf8_lower(texts), "NFKD"), r"\p{Mn}+", "")
    return pc.utf8_trim_whitespace(pc.replace_substring_regex(plain, _SEPARATORS, " "))


@final
class NameIndex:
    """The names of one role, with the id of each and its source: 0 for a label, more for what is less usual.

    >>> index = NameIndex(pa.array(["Geoffrey Hinton", "Google"]), np.array([7, 8]), np.zeros(2, np.int8))
    >>> index.search("hint", 1), index.search("hintn", 1), index.correct("hintn")
    ([NameMatch(id=7, name='Geoffrey Hinton', fit=<NameFit.WORD: 2>, source=0)], [], (1, 'hinton'))
    """

    def __init__(self, names: pa.Array, ids: Ids, sources: NDArray[np.int8]) -> None:
        import pyarrow.compute as pc

        self._names, self._ids, self._sources = names, ids, sources
        split = pc.split_pattern(fold(names), " ")
        coded = split.flatten().dictionary_encode()
        order = pc.sort_indices(coded.dictionary).to_numpy()
        self._words = coded.dictionary.take(pa.array(order))
        places = np.empty(len(order), np.int32)
        places[order] = np.arange(len(order))
        self._tokens: Ids = places[coded.indices.to_numpy()]  # the words of all names, one name after the other
        self._starts = offsets_of(pc.list_value_length(split).to_numpy())
        self._name_of = np.repeat(np.arange(len(names), dtype=np.int32), np.diff(self._starts))
        self._places = np.argsort(self._tokens, kind="stable").astype(np.int32)  # of the tokens, by word
        self._word_starts = offsets_of(np.bincount(self._tokens, minlength=len(order)))

    def search(self, text: str, limit: int, uses: Places | None = None) -> list[NameMatch]:
        """The things that `text` may name, each once, at most `limit`: by fit, then labels first, then by `uses` of
        each id."""
        return self._best(self._fits(_split(text)), limit, uses)

    def suggest(self, text: str, limit: int, uses: Places | None = None) -> list[NameMatch]:
        """What `search` finds at the beginnings of words, or else what it finds for the text with its spelling
        corrected, or else within words: of these what is so called, if anything is."""
        found = self.search(text, limit, uses)
        corrected = self.correct(text) if all(match.fit is NameFit.PART for match in found) else None
        found = self.search(corrected[1], limit, uses) if corrected else found
        return [match for match in found if match.fit is NameFit.EXACT] or found

    def correct(self, text: str) -> tuple[int, str] | None:
        """The text with the nearest word for each that begins no word here, and how many edits that takes; None
        where there is none for one of them, or all are known."""
        edits, words = 0, _split(text)
        for place, word in enumerate(words):
            start, end = self._beginning(word)
            nearest = (0, word) if start < end else self._nearest(word)
            if nearest is None:
                return None
            edits, words[place] = edits + nearest[0], nearest[1]
        return (edits, " ".join(words)) if edits else None

    def _fits(self, words: Sequence[str]) -> NDArray[np.int8]:
        """[N] how each name fits; `_NO_FIT` where it does not."""
        fits = np.full(len(self._ids), _NO_FIT if words else NameFit.BEGINNING, np.int8)
        if not words:
            return fits
        begun = [range(*self._beginning(word)) for word in words]
        if all(len(word) >= _SHORT for word in words):
            fits[self._named_by([self._having(word) for word in words])] = NameFit.PART
        fits[self._named_by(begun)] = NameFit.WORDS
        whole = [self._whole(word) for word in words]
        if None in whole[:-1]:
            return fits
        starts, ends = self._phrases([*(range(word, word + 1) for word in whole[:-1] if word is not None), begun[-1]])
        rows = self._name_of[starts]
        first = starts == self._starts[rows]
        fits[rows] = NameFit.WORD
        fits[rows[first]] = NameFit.BEGINNING
        if whole[-1] is not None:
            fits[rows[first & (ends == self._starts[rows + 1] - 1) & (self._tokens[ends] == whole[-1])]] = NameFit.EXACT
        return fits

    def _beginning(self, word: str) -> tuple[int, int]:
        """The range of the words that begin so."""
        start = bisect_left(self._words, word, key=_text)
        return start, bisect_left(self._words, word + "\U0010ffff", start, key=_text)

    def _whole(self, word: str) -> int | None:
        start, end = self._beginning(word)
        return start if start < end and self._words[start].as_py() == word else None

    def _having(self, part: str) -> Places:
        """The words with this part."""
        import pyarrow.compute as pc

        return np.flatnonzero(pc.match_substring(self._words, part).to_numpy(zero_copy_only=False))

    def _places_of(self, words: Iterable[int]) -> Places:
        """Where some words stand among all."""
        chosen = np.fromiter(words, np.int64)
        sizes = self._word_starts[chosen + 1] - self._word_starts[chosen]
        return self._places[ranges(self._word_starts[chosen], sizes)[1]].astype(np.int64)

    def _named_by(self, choices: Iterable[Iterable[int]]) -> Flags:
        """[N] the names with a word out of each choice."""
        found = np.ones(len(self._ids), np.bool_)
        for words in choices:
            here = np.zeros(len(self._ids), np.bool_)
            here[self._name_of[self._places_of(words)]] = True
            found &= here
        return found

    def _phrases(self, words: Sequence[range]) -> tuple[Places, Places]:
        """The first and the last place of every row of words, one out of each range, in one name."""
        starts = self._places_of(words[0])
        for further, choice in enumerate(words[1:], start=1):
            starts = starts[starts + further < len(self._tokens)]
            token = self._tokens[starts + further]
            same = self._name_of[starts + further] == self._name_of[starts]
            starts = starts[same & (token >= choice.start) & (token < choice.stop)]
        return starts, starts + len(words) - 1

    def _best(self, fits: NDArray[np.int8], limit: int, uses: Places | None) -> list[NameMatch]:
        rows = np.flatnonzero(fits < _NO_FIT)
        keys = (fits[rows].astype(np.int64) * 8 + self._sources[rows]) * _USES
        if uses is not None:
            keys -= np.minimum(uses[self._ids[rows]], _USES - 1)
        count = 4 * limit
        while True:  # a thing may have many names that fit
            best = np.argpartition(keys, count)[:count] if count < len(keys) else np.arange(len(keys))
            best = rows[best[np.lexsort((best, keys[best]))]]
            _, first = np.unique(self._ids[best], return_index=True)
            if count >= len(keys) or len(first) >= limit:
                break
            count *= 4
        return [
            NameMatch(
                int(self._ids[row]), str(self._names[row].as_py()), NameFit(int(fits[row])), int(self._sources[row])
            )
            for row in best[np.sort(first)[:limit]].tolist()
        ]

    @cached_property
    def _signatures(self) -> NDArray[np.uint64]:
        blocks = [
            _signatures(self._words.slice(start, _BLOCK).to_pylist()) for start in range(0, len(self._words), _BLOCK)
        ]
        return np.concatenate([np.empty((0, _WORDS), np.uint64), *blocks])

    def _nearest(self, word: str) -> tuple[int, str] | None:
        """The word whose beginning is the fewest edits away, if these are few; of several one that does not go on, then
        the one with the most places in names, the shortest."""
        allowed = max(1, len(word) // 4)
        ends = range(max(1, len(word) - 1), len(word) + 2)
        ranked = []
        for place in self._shortlist(word) if len(word) >= _SHORT else ():
            other = str(self._words[place].as_py())
            edits = min(edit_distance(word, other[:end], allowed) for end in ends)
            places = int(self._word_starts[place + 1] - self._word_starts[place])
            ranked.append((edits, len(other) >= ends.stop, -places, len(other), other))
        edits, *_, nearest = min(ranked, default=(allowed + 1, ""))
        return (edits, nearest) if edits <= allowed else None

    def _shortlist(self, word: str) -> list[int]:
        """The words with the most letter pairs in common; the shorter of two with as many."""
        mine = _signatures([word])[0]
        common = np.bitwise_count(self._signatures & mine).sum(1)
        score = common - np.bitwise_count(self._signatures).sum(1) / (64 * _WORDS)
        count = min(SHORTLIST, len(common))
        best = np.argpartition(-score, count - 1)[:count] if count else np.empty(0, np.int64)
        return [int(place) for place in best if common[place] > 0]


def _text(value: Any) -> str:
    return str(value.as_py())


def _split(text: str) -> list[str]:
    """The words of a text, folded."""
    return str(fold(pa.array([text.encode("utf-8", "replace").decode()]))[0].as_py()).split()


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


def _signatures(texts: list[str]) -> NDArray[np.uint64]:
    """[N, 4] for each text 256 bits: one per pair of neighbouring bytes, hashed, with the two ends."""
    encoded = [b"\0" + text.encode() + b"\0" for text in texts]
    letters = np.frombuffer(b"".join(encoded), np.uint8).astype(np.uint32)
    starts = np.cumsum([0, *map(len, encoded)])[:-1]
    hashed = np.zeros(len(letters), np.uint32)
    hashed[:-1] = (letters[:-1] * 167 + letters[1:] * 59) % (64 * _WORDS)
    hashed[np.append(starts[1:] - 1, len(letters) - 1)] = hashed[np.append(starts[1:] - 2, len(letters) - 2)]
    bits = np.left_shift(np.uint64(1), (hashed % 64).astype(np.uint64))
    words = [np.where(hashed // 64 == word, bits, np.uint64(0)) for word in range(_WORDS)]
    return np.stack([np.bitwise_or.reduceat(word, starts) for word in words], axis=1)
