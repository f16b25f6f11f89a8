"""The Manchester surface: what texts mean, what errors say, and what hostile texts cost."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

import pytest

from tarbox.core.errors import NotAnswerable, QueryError, QuerySyntaxError, QueryTooLarge
from tarbox.core.ids import Role
from tarbox.execution.binding import VocabularyResolver
from tarbox.kb.vocabulary import Vocabulary
from tarbox.query.algebra import And, AtLeast, Concept, DataRange, Direction, Entity, Exists, HasSelf, Not, Or, Query
from tarbox.query.manchester import Limits, parse
from tarbox.query.names import ANYTHING, XSD
from tarbox.query.ranges import ANY_LITERAL
from tarbox.query.render import render

NS = "https://tarbox.example/academia#"
F, I = Direction.FORWARD, Direction.INVERSE  # noqa: E741
HINTON, GOOGLE, CANADA = (Entity(NS + name) for name in ("GeoffreyHinton", "Google", "Canada"))
PERSON, UNIVERSITY = Concept(NS + "Person"), Concept(NS + "University")
BORN = Exists(NS + "bornIn", F, CANADA)

GE_1990, LT_2000 = (">=", f'"1990"^^<{XSD}integer>'), ("<", f'"2000"^^<{XSD}integer>')
MEANINGS: list[tuple[str, Query]] = [
    ("Person", PERSON),
    ("{Google}", GOOGLE),
    ("{Google, Canada}", Or((GOOGLE, CANADA))),
    ("{Google} or {Canada}", Or((GOOGLE, CANADA))),
    ("bornIn value Canada", BORN),
    ("bornIn some {Canada}", BORN),
    ("inverse investigates value GeoffreyHinton", Exists(NS + "investigates", I, HINTON)),
    ("inverse(investigates) value GeoffreyHinton", Exists(NS + "investigates", I, HINTON)),
    ("inverse ( investigates ) value 'Geoffrey Hinton'", Exists(NS + "investigates", I, HINTON)),
    ("bornIn value 'Geoff Hinton'", Exists(NS + "bornIn", F, HINTON)),
    (
        "Person and (worksAt some (University and locatedIn value Canada)) and not (bornIn value Canada)",
        And(
            (
                PERSON,
                Exists(NS + "worksAt", F, And((UNIVERSITY, Exists(NS + "locatedIn", F, CANADA)))),
                Not(BORN),
            )
        ),
    ),
    ("Person that bornIn value Canada", And((PERSON, BORN))),
    ("not Person and University or Person", Or((And((Not(PERSON), UNIVERSITY)), PERSON))),
    ("not not Person", Not(Not(PERSON))),
    ("not bornIn value Canada", Not(BORN)),
    ("worksAt some not University", Exists(NS + "worksAt", F, Not(UNIVERSITY))),
    ("worksAt some bornIn value Canada", Exists(NS + "worksAt", F, BORN)),
    ("Person and (University and Person)", And((PERSON, And((UNIVERSITY, PERSON))))),
    ("Person AND Not University", And((PERSON, Not(UNIVERSITY)))),
    (f"<{NS}bornIn> value <{NS}Canada>", BORN),
    ("academia:bornIn value :Canada", BORN),
    ("bornin VALUE canada", BORN),
    ("age value 5", Exists(NS + "age", F, Entity('"5"^^<http://www.w3.org/2001/XMLSchema#integer>'))),
    (
        'bornIn value "1977"^^xsd:gYear',
        Exists(NS + "bornIn", F, Entity('"1977"^^<http://www.w3.org/2001/XMLSchema#gYear>')),
    ),
    ("bornIn value MAX", Exists(NS + "bornIn", F, Entity(NS + "MAX"))),
    ("'Value'", Concept(NS + "Value")),
    ("uses value 'Rock \\'n\\' Roll'", Exists(NS + "uses", F, Entity(NS + "Rock%20%27n%27%20Roll"))),
    ("uses value GO:0008150", Exists(NS + "uses", F, Entity(NS + "GO_0008150"))),
    ("Google", Concept(NS + "Google")),
    ("uses some owl:Thing", Exists(NS + "uses", F, Concept(ANYTHING))),
    ("(((Person)))\n", PERSON),
    ("worksAt only Person", Not(Exists(NS + "worksAt", F, Not(PERSON)))),
    ("worksAt min 2 Person", AtLeast(2, NS + "worksAt", F, PERSON)),
    ("worksAt min 2", AtLeast(2, NS + "worksAt", F, Concept(ANYTHING))),
    ("worksAt min 1 Person", Exists(NS + "worksAt", F, PERSON)),
    ("worksAt MIN 0 Person", Concept(ANYTHING)),
    ("worksAt max 0 Person", Not(Exists(NS + "worksAt", F, PERSON))),
    ("not (worksAt max 2 Person)", Not(Not(AtLeast(3, NS + "worksAt", F, PERSON)))),
    ("worksAt max 1 and Person", And((Not(AtLeast(2, NS + "worksAt", F, Concept(ANYTHING))), PERSON))),
    (
        "inverse (worksAt) exactly 2 Person",
        And((AtLeast(2, NS + "worksAt", I, PERSON), Not(AtLeast(3, NS + "worksAt", I, PERSON)))),
    ),
    ("worksAt exactly 0 Person", Not(Exists(NS + "worksAt", F, PERSON))),
    ("inverse (inverse worksAt) some Person", Exists(NS + "worksAt", F, PERSON)),
    ("inverse worksAt Self", HasSelf(NS + "worksAt")),
    ("age some xsd:integer", Exists(NS + "age", F, DataRange(XSD + "integer"))),
    ("age some integer[>=1990,<2000]", Exists(NS + "age", F, DataRange(XSD + "integer", (GE_1990, LT_2000)))),
    (
        f'age only <{XSD}date>[> "1990-01-01"^^xsd:date]',
        Not(Exists(NS + "age", F, Not(DataRange(XSD + "date", ((">", f'"1990-01-01"^^<{XSD}date>'),))))),
    ),
    ("age some (not rdfs:Literal)", Exists(NS + "age", F, Not(DataRange(ANY_LITERAL)))),
]

ERRORS = [
    "",
    "Person and",
    "Person University",
    "and Person",
    "(Person or University",
    "Person)",
    "{Google Canada}",
    "{Google,",
    "worksAt",
    "worksAt some",
    "worksAt value",
    "inverse worksAt",
    "inverse (worksAt some Person",
    "bornIn value Canda",
    "bornIn value 'Geofrey Hintn'",
    "bornIn value 'London'",
    "Canada",
    "worksAt some Canada",
    "worksAt value Person",
    "bornIn and Person",
    "wroksAt value Google",
    "Person and 'unclosed",
    'bornIn value "1977',
    "bornIn value <http://x",
    'bornIn value "1977"',
    'bornIn value "1977"^^my:year',
    '"1977"',
    "?r1 value ?e1",
    "? and Person",
    "worksAt only",
    "worksAt min University",
    "worksAt max -2",
    "worksAt exactly 12345678 University",
    "worksAt Self University",
    "Self",
    "inverse (worksAt only University",
    "age some xsd:integer[]",
    "age some xsd:integer[5]",
    "age some xsd:integer[>= 5",
    "age some xsd:integer[>= five]",
    "age some xsd:date[>= 5]",
    'age some xsd:string[>= "a"]',
    "age some Person[>= 5]",
    "Person and [",
    "Person\n  and (worksAt some\n    Universty)",
]


@pytest.mark.parametrize(("text", "query"), MEANINGS)
def test_meaning(text: str, query: Query, resolver: VocabularyResolver) -> None:
    assert parse(text, resolver) == query


def test_a_concept_called_as_a_datatype_is_meant_by_its_name() -> None:
    resolver = VocabularyResolver(Vocabulary.of(["urn:a"], ["urn:string"], ["urn:p"]))
    assert parse("p some string", resolver) == Exists("urn:p", F, Concept("urn:string"))
    assert parse("p some xsd:string", resolver) == Exists("urn:p", F, DataRange(XSD + "string"))


def test_counts_within_counts_are_too_large() -> None:
    with pytest.raises(QueryTooLarge, match="1,000 nodes"):
        parse("<urn:p> exactly 1 (" * 12 + "<urn:C>" + ")" * 12)


@pytest.mark.parametrize("query", [query for _, query in MEANINGS])
def test_short_names_read_back(query: Query, resolver: VocabularyResolver) -> None:
    assert parse(render(query, resolver.write), resolver) == query


def test_short_names_are_short(resolver: VocabularyResolver) -> None:
    assert render(And((PERSON, Not(BORN))), resolver.write) == "Person and not (bornIn value Canada)"
    assert resolver.write(Role.ENTITY, NS + "Rock%20%27n%27%20Roll") == "'Rock \\'n\\' Roll'"
    assert resolver.write(Role.CONCEPT, NS + "Value") == f"<{NS}Value>"


def test_error_messages(resolver: VocabularyResolver, golden: Callable[[str, str], None]) -> None:
    shown = []
    for text in ERRORS:
        with pytest.raises(QuerySyntaxError) as caught:
            parse(text, resolver)
        shown.append(f"{type(caught.value).__name__}: {caught.value}\n")
    golden("errors.txt", "\n".join(shown))


def test_an_error_knows_its_place_and_candidates(resolver: VocabularyResolver) -> None:
    with pytest.raises(QuerySyntaxError) as caught:
        parse("Person and bornIn value Canda", resolver)
    assert caught.value.position == 24
    assert caught.value.candidates == ("Canada",)
    with pytest.raises(QuerySyntaxError, match="names 2 entities") as caught:
        parse("bornIn value 'London'", resolver)
    assert caught.value.candidates == (f"<{NS}London>", f"<{NS}London_Ontario>")


def test_what_is_not_answerable_is_told_apart(resolver: VocabularyResolver) -> None:
    with pytest.raises(NotAnswerable, match="'string' has no order"):
        parse('age some string[>= "a"]', resolver)
    with pytest.raises(QuerySyntaxError) as caught:
        parse("worksAt onyl University", resolver)
    assert not isinstance(caught.value, NotAnswerable)


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("(" * 50_000, "levels"),
        ("(" * 101 + "<urn:a>" + ")" * 101, "levels"),
        ("not " * 101 + "<urn:a>", "levels"),
        ("<urn:p> some " * 7_000 + "<urn:a>", "levels"),
        (" and ".join(["<urn:a>"] * 1_001), "nodes"),
        ("{" + ", ".join(["<urn:a>"] * 1_001) + "}", "nodes"),
        ("x" * 100_001, "characters"),
    ],
)
def test_limits(text: str, limit: str) -> None:
    with pytest.raises(QueryTooLarge, match=limit):
        parse(text)


def test_what_is_within_the_limits_is_read() -> None:
    assert parse("(" * 100 + "<urn:a>" + ")" * 100) == Concept("urn:a")
    assert len(parse(" and ".join(["<urn:a>"] * 999)).operands) == 999  # type: ignore[union-attr]
    deep = parse("not " * 99 + "<urn:a>")
    assert parse(render(deep)) == deep


def test_other_limits_do_not_meet_python_s() -> None:
    wide = Limits(characters=10**7, depth=10**6, nodes=10**6)
    query = parse("not (" * 20_000 + "<urn:a>" + ")" * 20_000, limits=wide)
    assert render(query).startswith("not (not (")


@pytest.mark.parametrize("unit", ["'", "('", "not ", "{<a>}, ", "<urn:a> or ", '"a"^^', "<", "?", "\\' '", "x'y "])
def test_time_grows_with_length_only(unit: str) -> None:
    text = (unit * 100_000)[:100_000]
    start = perf_counter()
    with pytest.raises(QueryError):
        parse(text)
    assert perf_counter() - start < 2
