"""Queries in English and as drawings."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarbox.core.ids import Role
from tarbox.query.algebra import (
    And,
    AtLeast,
    Concept,
    DataRange,
    Direction,
    Entity,
    Exists,
    HasSelf,
    Not,
    Or,
    Query,
    walk,
)
from tarbox.query.drawing import draw
from tarbox.query.english import describe
from tarbox.query.manchester import parse
from tarbox.query.names import XSD, Name
from tarbox.query.phrases import RelationPhrase
from tarbox.query.restrictions import restrict, said_operands
from tarbox.query.words import article, base_form, is_plural, participle, split_words

ONE = st.integers(1, 3)
SENTENCES = [
    ("worksAt only University", "everything that works at nothing but a University"),
    (
        "Person and worksAt only (University or Company)",
        "every Person that works at nothing but a University or a Company",
    ),
    ("worksAt only (A and B)", "everything that works at nothing but an A that is a B"),
    ("inverse uses only Company", "everything that nothing but a Company uses"),
    ("uses min 2 Technique", "everything that uses a Technique (at least 2 of them)"),
    ("inverse uses max 2 Company", "everything that a Company uses (at most 2 of them, or none)"),
    ("uses exactly 1 Technique", "everything that uses a Technique (exactly 1 of them)"),
    (
        "Person and (uses exactly 2 Technique) and (bornIn value A)",
        "every Person that uses a Technique (exactly 2 of them) and was born in A",
    ),
    ("uses max 0 Technique", "everything that does not use any Technique"),
    ("uses min 2", "everything that uses something (at least 2 of them)"),
    ("knows Self", "everything that knows itself"),
    ("Person and not (knows Self)", "every Person that does not know itself"),
    ("birthYear some xsd:gYear[>= 1990]", "everything that has a year from 1990 on as birth year"),
    ("age some xsd:integer[> 3, <= 5]", "everything that has an integer above 3 and of at most 5 as age"),
    ("age some rdfs:Literal", "everything that has a literal as age"),
    ("inverse investigates value 'Geoffrey Hinton'", "everything that Geoffrey Hinton investigates"),
    (
        "interestedIn some ((inverse investigates value 'Geoffrey Hinton') and (inverse uses value Google))",
        "everything that is interested in something that Geoffrey Hinton investigates and Google uses",
    ),
    (
        "Person and (worksAt some (University and locatedIn value Canada)) and not (bornIn value Canada)",
        "every Person that works at a University that is located in Canada, and that was not born in Canada",
    ),
    ("Person", "every Person"),
    ("{Google}", "Google"),
    ("{Google, Meta, MIT}", "Google, Meta or MIT"),
    ("not Person", "everything that is not a Person"),
    ("Person or University", "every Person or every University"),
    ("worksAt some (University or Organisation)", "everything that works at a University or an Organisation"),
    ("not (inverse uses some Company)", "everything that no Company uses"),
    ("not (worksAt some Company)", "everything that does not work at any Company"),
    ("birthPlace value Canada", "everything that has Canada as birth place"),
    ("inverse birthPlace some Person", "everything that is the birth place of a Person"),
    ("inverse knows some (inverse knows value A)", "everything that is known by something that A knows"),
    ("not (Person or bornIn value Canada)", "everything that is not a Person and was not born in Canada"),
    ("uses some <http://www.w3.org/2002/07/owl#Thing>", "everything that uses something"),
    ("'The industry'", "everything in the industry"),
    ("worksAt some 'The industry'", "everything that works at something in the industry"),
    ("not 'The industry'", "everything that is not in the industry"),
    ("'Deep learning methods' and (inverse uses value A)", "each of the Deep learning methods that A uses"),
    ("inverse uses some 'The Beatles'", "everything that one of the Beatles uses"),
    ("inverse (worksAt) some (bornIn value A)", "everything at which works something that was born in A"),
    ("not (inverse (worksAt) some (bornIn value A))", "everything at which works nothing that was born in A"),
    (
        "uses value A and (inverse worksAt some (uses value B))",
        "everything that uses A and at which works something that uses B",
    ),
    (
        "C and (uses value A or (inverse worksAt some (uses value B)))",
        "every C that either uses A or at which works something that uses B",
    ),
    (
        "C and ((inverse worksAt some (uses value B)) or uses value A)",
        "every C either at which works something that uses B, or that uses A",
    ),
    ("author some (worksAt value A)", "everything that has an author that works at A"),
    ("author some (Person and worksAt value A)", "everything that has as author a Person that works at A"),
    ("not (author some (worksAt value A))", "everything that does not have any author that works at A"),
    ("bornInCity some (locatedIn value A)", "everything that was born in a city that is located in A"),
]
RELATIONS = [  # name; of x: y is an entity, a concept, is not; of y
    ("worksAt", "works at Y", "works at a C", "does not work at Y", "that Y works at"),
    ("bornIn", "was born in Y", "was born in a C", "was not born in Y", "that Y was born in"),
    ("wasBornIn", "was born in Y", "was born in a C", "was not born in Y", "that Y was born in"),
    ("locatedIn", "is located in Y", "is located in a C", "is not located in Y", "that Y is located in"),
    ("interestedIn", "is interested in Y", "is interested in a C", "is not interested in Y", "that Y is interested in"),
    ("received", "received Y", "received a C", "has not received Y", "that Y received"),
    (
        "receivedAward",
        "received the award Y",
        "received an award that is a C",
        "has not received the award Y",
        "that is an award received by Y",
    ),
    ("hasChild", "has Y as child", "has a C as child", "does not have Y as child", "that is the child of Y"),
    ("author", "has Y as author", "has a C as author", "does not have Y as author", "that is the author of Y"),
    ("isPartOf", "is part of Y", "is part of a C", "is not part of Y", "that has Y as part"),
    ("memberOf", "is a member of Y", "is a member of a C", "is not a member of Y", "that has Y as member"),
    ("isAMemberOf", "is a member of Y", "is a member of a C", "is not a member of Y", "that Y is a member of"),
    ("foundedBy", "was founded by Y", "was founded by a C", "was not founded by Y", "that founded Y"),
    ("written_by", "was written by Y", "was written by a C", "was not written by Y", "that wrote Y"),
    ("studied at", "studied at Y", "studied at a C", "has not studied at Y", "that Y studied at"),
    ("graduatedFrom", "graduated from Y", "graduated from a C", "has not graduated from Y", "that Y graduated from"),
    ("about", "is about Y", "is about a C", "is not about Y", "that Y is about"),
    (
        "born in the city",
        "was born in the city Y",
        "was born in a city that is a C",
        "was not born in the city Y",
        "that is a city in which Y was born",
    ),
    (
        "inLanguage",
        "is in the language Y",
        "is in a language that is a C",
        "is not in the language Y",
        "that is a language in which Y is",
    ),
    (
        "knowsLanguage",
        "knows the language Y",
        "knows a language that is a C",
        "does not know the language Y",
        "that is a language known by Y",
    ),
    ("musicBy", "has music by Y", "has music by a C", "does not have music by Y", "that Y has music by"),
    ("hasWritten", "has written Y", "has written a C", "has not written Y", "that Y has written"),
    (
        "positively_regulates",
        "positively regulates Y",
        "positively regulates a C",
        "does not positively regulate Y",
        "that Y positively regulates",
    ),
    (
        "associatedAct",
        "has Y as associated act",
        "has a C as associated act",
        "does not have Y as associated act",
        "that is the associated act of Y",
    ),
    (
        "place of birth",
        "has Y as place of birth",
        "has a C as place of birth",
        "does not have Y as place of birth",
        "that is the place of birth of Y",
    ),
    ("sameAs", "is the same as Y", "is the same as a C", "is not the same as Y", "that Y is the same as"),
    ("isA", "is Y", "is a C", "is not Y", "that Y is"),
    ("parents", "has Y as parents", "has a C as parents", "does not have Y as parents", "that is the parents of Y"),
]


class _Verbatim:
    def resolve(self, role: Role, name: Name) -> str:  # noqa: ARG002
        return name.text


@pytest.mark.parametrize(("text", "sentence"), SENTENCES)
def test_sentence(text: str, sentence: str) -> None:
    assert describe(parse(text, _Verbatim()), lambda _, name: name) == sentence


@pytest.mark.parametrize(("name", "entity", "concept", "denied", "inverse"), RELATIONS)
def test_relation(name: str, entity: str, concept: str, denied: str, inverse: str) -> None:
    def said(query: Query) -> str:
        return describe(query, lambda _, written: written)

    value = Exists(name, Direction.FORWARD, Entity("Y"))
    assert said(value) == f"everything that {entity}"
    assert said(Exists(name, Direction.FORWARD, Concept("C"))) == f"everything that {concept}"
    assert said(Not(value)) == f"everything that {denied}"
    assert said(Exists(name, Direction.INVERSE, Entity("Y"))) == f"everything {inverse}"


def test_plurals() -> None:
    assert all(map(is_plural, ["Companies", "Living people", "Methods of learning", "The Beatles", "Women"]))
    assert not any(map(is_plural, ["Company", "Physics", "Class", "Series", "Master of arts", "GPS", "Gas", "Virus"]))


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
    assert RelationPhrase.of("isPartOf").say("X", positive=False) == "is not part of X"


def trees() -> st.SearchStrategy[Query]:
    names = st.sampled_from(["a", "B & <c>", '"q"', "x" * 60])
    leaves = names.map(Entity) | names.map(Concept) | names.map(HasSelf) | st.just(DataRange(f"{XSD}date"))
    return st.recursive(
        leaves,
        lambda inner: (
            st.builds(Exists, names, st.sampled_from(Direction), inner)
            | st.lists(inner, min_size=2, max_size=3).map(tuple).map(And)
            | st.lists(inner, min_size=2, max_size=3).map(tuple).map(Or)
            | inner.map(Not)
            | st.builds(AtLeast, st.integers(2, 3), names, st.sampled_from(Direction), inner)
            | st.builds(restrict, st.sampled_from(["only", "exactly"]), names, st.sampled_from(Direction), inner, ONE)
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
    assert len(shapes) == len(list(walk(query, said_operands)))
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
