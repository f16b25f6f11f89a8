"""The search for names against the plain meaning of its ranks."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tarbox.execution.name_search import NameFit, NameIndex, edit_distance, fold

WORDS = st.text("abcé", min_size=1, max_size=5)
NAMES = st.lists(st.lists(WORDS, min_size=1, max_size=3).map(" ".join), min_size=1, max_size=8)


def plain_fit(name: str, text: str) -> NameFit | None:
    """How a folded name fits a folded text, from the definition."""
    words, sought = name.split(), text.split()
    if not sought:
        return NameFit.BEGINNING
    starts = [
        place
        for place in range(len(words) - len(sought) + 1)
        if words[place : place + len(sought) - 1] == sought[:-1]
        and words[place + len(sought) - 1].startswith(sought[-1])
    ]
    if words == sought:
        return NameFit.EXACT
    if starts:
        return NameFit.BEGINNING if starts[0] == 0 else NameFit.WORD
    if all(any(word.startswith(part) for word in words) for part in sought):
        return NameFit.WORDS
    if all(len(part) >= 3 and any(part in word for word in words) for part in sought):
        return NameFit.PART
    return None


@settings(deadline=None)
@given(NAMES, st.lists(WORDS, max_size=3).map(" ".join))
@example(["ab", "ab c", "c ab"], "ab")
@example(["a b a b c"], "a b c")
@example(["aabcé"], "abc")
def test_every_name_fits_as_it_should(names: list[str], text: str) -> None:
    index = NameIndex(pa.array(names), np.arange(len(names), dtype=np.int32), np.zeros(len(names), np.int8))
    uses = np.arange(len(names))[::-1] % 3
    folded = [each.as_py() for each in fold(pa.array([*names, text]))]
    expected = {row: plain_fit(name, folded[-1]) for row, name in enumerate(folded[:-1])}
    found = index.search(text, len(names), uses)
    assert {match.id: match.fit for match in found} == {row: fit for row, fit in expected.items() if fit is not None}
    order = [(match.fit, -uses[match.id], match.id) for match in found]
    assert order == sorted(order)
    assert index.search(text, 2, uses) == found[:2]


@settings(deadline=None)
@given(NAMES, WORDS)
def test_a_corrected_word_is_the_nearest(names: list[str], word: str) -> None:
    index = NameIndex(pa.array(names), np.arange(len(names), dtype=np.int32), np.zeros(len(names), np.int8))
    folded = {word for name in fold(pa.array(names)).to_pylist() for word in name.split()}
    (sought,) = fold(pa.array([word])).to_pylist()
    corrected = index.correct(word)
    if corrected is None:
        return
    edits, found = corrected
    assert not any(each.startswith(sought) for each in folded)
    assert found in folded
    ends = range(max(1, len(sought) - 1), len(sought) + 2)
    assert edits == min(edit_distance(sought, each[:end], 9) for each in folded for end in ends)


def test_a_misspelled_name_is_suggested_before_words_that_it_is_a_part_of() -> None:
    names = pa.array(["Inhalational anthrax", "HRX", "HRAS", "HRAS-like suppressor"])
    index = NameIndex(names, np.arange(4, dtype=np.int32), np.zeros(4, np.int8))
    assert [match.name for match in index.suggest("HRAX", 3)] == ["HRAS"]
    assert [match.name for match in index.suggest("thrax", 3)] == ["Inhalational anthrax"]
    assert index.suggest("hras", 3) == index.search("hras", 1)


def test_a_thing_is_found_once_by_its_best_name() -> None:
    names, ids = pa.array(["Seizure", "Epilepsy", "Epileptic seizure", "Seizure"]), np.array([0, 0, 0, 1], np.int32)
    index = NameIndex(names, ids, np.array([0, 2, 2, 2], np.int8))
    assert [(match.id, match.name, match.source) for match in index.search("seizure", 5, np.array([1, 9]))] == [
        (0, "Seizure", 0),
        (1, "Seizure", 2),
    ]


@pytest.mark.parametrize("text", ["Crohn's disease", "crohn s DISEASE", "CROHN-S_disease", "crohn\u2019s disease"])
def test_signs_and_case_do_not_matter(text: str) -> None:
    index = NameIndex(pa.array(["Crohn's disease"]), np.zeros(1, np.int32), np.zeros(1, np.int8))
    assert [match.fit for match in index.search(text, 1)] == [NameFit.EXACT]
