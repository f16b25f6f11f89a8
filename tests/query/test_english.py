"""Queries in English and as drawings."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarbox.core.ids import Role
from tarbox.query.algebra import And, Concept, Direction, Entity, Exists, Not, Or, Query, size
from tarbox.query.drawing import draw
from tarbox.query.english import describe
from tarbox.query.manchester import parse
from tarbox.query.names import Name
from tarbox.query.phrases import RelationPhrase, article, base_form, participle, split_words

SENTENCES = [
    ("inverse investigates value 'Geoffrey Hinton'", "everything that Geoffrey Hinton investigates"),
    (
        "interestedIn some ((inverse investigates value 'Geoffrey Hinton') and (inverse uses value Google))",
        "everything that is interested in something that Geoffrey Hinton investigates and Google uses",
    ),
    (
        "Person and (worksAt some (University and locatedIn value Canada)) and not (bornIn value Canada)",
        "every Person that works at a University that is located in Canada, and that is not born in Canada",
    ),
    ("Person", "every Person"),
    ("{Google}", "Google"),
    ("{Google, Meta, MIT}", "Google, Meta or MIT"),
    ("not Person", "everything that is not a Person"),
    ("Person or University", "every Person or every University"),
    ("worksAt some (University or Organisation)", "everything that works at a University or an Organisation"),
    ("not (inverse uses some Company)", "everything that no Company uses"),
    ("not (worksAt some Company)", "everything that does not work at any Company"),
    ("birthPlace value Canada", "everything that has as birth place Canada"),
    ("inverse birthPlace some Person", "everything that is the birth place of a Person"),
    ("inverse knows some (inverse knows value A)", "everything that is known by something that A knows"),
    ("not (Person or bornIn value Canada)", "everything that is not a Person and is not born in Canada"),
    ("uses some <http://www.w3.org/2002/07/owl#Thing>", "everything that uses something"),
]


class _Verbatim:
    def resolve(self, role: Role, name: Name) -> str:  # noqa: ARG002
        return name.text


@pytest.mark.parametrize(("text", "sentence"), SENTENCES)
def test_sentence(text: str, sentence: str) -> None:
    assert describe(parse(text, _Verbatim()), lambda _, name: name) == sentence


def test_words() -> None:
    assert split_words("hasRNASequence") == "has RNA sequence"
    assert split_words("place_of_birth") == "place of birth"
    assert [base_form(verb) for verb in ("studies", "teaches", "uses", "goes")] == ["study", "teach", "use", "go"]
    assert [participle(verb) for verb in ("study", "teach", "use", "advise")] == [
        "studied",
        "taught",
        "used",
        "advised",
    ]
    assert [article(noun) for noun in ("Author", "University", "Person", "Umbrella")] == ["an", "a", "a", "an"]
    assert RelationPhrase.of("isPartOf").deny() == "is not part of"


def trees() -> st.SearchStrategy[Query]:
    names = st.sampled_from(["a", "B & <c>", '"q"', "x" * 60])
    leaves = names.map(Entity) | names.map(Concept)
    return st.recursive(
        leaves,
        lambda inner: (
            st.builds(Exists, names, st.sampled_from(Direction), inner)
            | st.lists(inner, min_size=2, max_size=3).map(tuple).map(And)
            | st.lists(inner, min_size=2, max_size=3).map(tuple).map(Or)
            | inner.map(Not)
        ),
        max_leaves=6,
    )


@given(trees())
def test_every_query_has_a_sentence_and_a_drawing(query: Query) -> None:
    sentence = describe(query, lambda _, name: name)
    assert sentence
    assert "  " not in sentence
    picture = ElementTree.fromstring(draw(query, lambda _, name: name, sentence))
    space = "{http://www.w3.org/2000/svg}"
    assert picture.findtext(f"{space}desc") == sentence
    shapes = [s for s in picture if s.tag in (f"{space}circle", f"{space}rect") and s.get("class") != "tb-answer"]
    assert len(shapes) == size(query)
    wide, high = float(picture.attrib["width"]), float(picture.attrib["height"])
    for shape in picture.iter(f"{space}circle"):
        x, y, radius = (float(shape.attrib[key]) for key in ("cx", "cy", "r"))
        assert radius <= x <= wide - radius
        assert radius <= y <= high - radius


def test_nodes_do_not_overlap() -> None:
    query = parse("C and (p some (D or q value a)) and not (r some {b, c, d})", _Verbatim())
    picture = ElementTree.fromstring(draw(query, lambda _, name: name))
    centres = [(float(s.attrib["cx"]), float(s.attrib["cy"])) for s in picture.iter() if s.get("r") == "15"]
    assert len(centres) > 5
    gaps = [abs(a[0] - b[0]) + abs(a[1] - b[1]) for a in centres for b in centres if a != b]
    assert min(gaps) > 30
