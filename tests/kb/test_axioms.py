"""Axioms as tuples and as functional syntax."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarbox.core.errors import SourceError
from tarbox.kb.axioms import Axiom, read_axioms, write_axioms

_NAMES = st.sampled_from(
    ["urn:a", "http://x/b#c", "_:b1", '"1\\"8"^^<urn:int>', '"a (b) \\\\"@en', '"two\nlines"', "12"]
)
_AXIOMS: st.SearchStrategy[Axiom] = st.recursive(
    st.builds(lambda word, names: (word, *names), st.sampled_from(["SubClassOf", ""]), st.lists(_NAMES)),
    lambda inner: st.builds(
        lambda word, parts: (word, *parts), st.sampled_from(["ObjectUnionOf", ""]), st.lists(inner | _NAMES)
    ),
)


@given(st.lists(_AXIOMS, max_size=4))
def test_what_is_written_is_read(axioms: list[Axiom]) -> None:
    assert list(read_axioms(write_axioms(axioms))) == axioms


@pytest.mark.parametrize("text", ["SubClassOf(<a>", "SubClassOf(<a> ?)", "<a>", ")"])
def test_a_damaged_text_is_refused(text: str) -> None:
    with pytest.raises(SourceError):
        list(read_axioms(text))
