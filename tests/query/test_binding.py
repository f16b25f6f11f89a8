"""From names to ids: look-up, completion and binding."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tarbox.core.errors import AmbiguousName, UnknownName
from tarbox.core.ids import Role
from tarbox.execution import name_search
from tarbox.execution.binding import VocabularyResolver, check_names
from tarbox.execution.lookup import Lookup, NameSource
from tarbox.execution.name_search import edit_distance
from tarbox.execution.rows import encode
from tarbox.kb.vocabulary import Names, Vocabulary
from tarbox.query.algebra import Concept, Direction, Entity, Exists, Not, Query
from tarbox.query.manchester import parse
from tarbox.query.names import ANYTHING, OWL_THING, Name, NameForm
from tarbox.query.render import render
from tarbox.query.templates import TEMPLATES

NS = "https://tarbox.example/academia#"


def test_bind_gives_shape_and_ids(vocabulary: Vocabulary, resolver: VocabularyResolver) -> None:
    query = parse("interestedIn some ((inverse investigates value GeoffreyHinton) and (uses value Google))", resolver)
    shape, ids = encode(query, vocabulary)
    assert shape == TEMPLATES["ip"].shape
    expected = [
        2 * _id(vocabulary.relations, "interestedIn"),
        2 * _id(vocabulary.relations, "investigates") + 1,
        _id(vocabulary.entities, "GeoffreyHinton"),
        2 * _id(vocabulary.relations, "uses"),
        _id(vocabulary.entities, "Google"),
    ]
    assert ids.dtype == np.int32
    assert ids.tolist() == expected


def _id(names, local: str) -> int:  # type: ignore[no-untyped-def]
    found = names.find(NS + local)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("form", "text", "local"),
    [
        (NameForm.WORD, "London", "London"),
        (NameForm.WORD, "geoffreyhinton", "GeoffreyHinton"),
        (NameForm.LABEL, "geoffrey hinton", "GeoffreyHinton"),
        (NameForm.LABEL, "GeoffreyHinton", "GeoffreyHinton"),
        (NameForm.WORD, "academia:Canada", "Canada"),
        (NameForm.WORD, "Rock%20%27n%27%20Roll", "Rock%20%27n%27%20Roll"),
        (NameForm.IRI, NS + "Canada", "Canada"),
    ],
)
def test_resolve(form: NameForm, text: str, local: str, resolver: VocabularyResolver) -> None:
    assert resolver.resolve(Role.ENTITY, Name(form, text)) == NS + local


def test_a_name_of_several_things_lists_them(resolver: VocabularyResolver) -> None:
    with pytest.raises(AmbiguousName, match="names 2 entities") as caught:
        resolver.resolve(Role.ENTITY, Name(NameForm.LABEL, "london"))
    assert caught.value.candidates == (f"<{NS}London>", f"<{NS}London_Ontario>")


@pytest.mark.parametrize(
    ("role", "text", "message"),
    [
        (Role.ENTITY, "Londn", "no entity 'Londn' in academia. Did you mean 'London'"),
        (Role.RELATION, "interestdIn", "Did you mean 'interestedIn'"),
        (Role.ENTITY, "Hinton", "Did you mean 'GeoffreyHinton'"),
        (Role.RELATION, "Person", "'Person' is a concept in academia, not a relation"),
        (Role.CONCEPT, "Qxzzyv", "no concept 'Qxzzyv' in academia$"),
        (Role.ENTITY, "http://elsewhere.org/Canada", "Did you mean 'Canada'"),
    ],
)
def test_unknown(role: Role, text: str, message: str, resolver: VocabularyResolver) -> None:
    form = NameForm.IRI if text.startswith("http") else NameForm.WORD
    with pytest.raises(UnknownName, match=message):
        resolver.resolve(role, Name(form, text))


def test_an_iri_without_brackets_is_told_how_to_be_written(resolver: VocabularyResolver) -> None:
    for form in (NameForm.WORD, NameForm.LABEL):
        with pytest.raises(UnknownName, match=f"'{NS}Canada' is an IRI: write <{NS}Canada>"):
            resolver.resolve(Role.ENTITY, Name(form, NS + "Canada"))


def test_suggestions_say_labels_where_names_are_numbers() -> None:
    base = "http://purl.obolibrary.org/obo/"
    labels = {
        "GO_0007369": "gastrulation",
        "GO_0001702": "gastrulation with mouth forming second",
        "GO_0008150": "same",
    }
    concepts = Names.of(Role.CONCEPT, [base + name for name in (*labels, "GO_0000001")], [*labels.values(), "same"])
    resolver = VocabularyResolver(replace(Vocabulary.of(["http://x.org/same1"]), concepts=concepts), "go")

    def told(text: str) -> str:
        with pytest.raises(UnknownName) as caught:
            resolver.resolve(Role.CONCEPT, Name(NameForm.WORD, text))
        return str(caught.value)

    assert told("gastrulaton") == "no concept 'gastrulaton' in go. Did you mean 'gastrulation'?"
    assert "'gastrulation with mouth forming second'" in told("GO_00017")
    assert told("GO_000815").endswith("Did you mean 'GO_0008150' (same)?")
    assert resolver.write(Role.CONCEPT, base + "GO_0007369") == "'gastrulation'"
    assert resolver.write(Role.CONCEPT, base + "GO_0008150") == "GO_0008150"


HALVES = ("\udcff\udcfe", "Lond\udcc3\udcb6n", NS + "Canada\ud800")


@pytest.mark.parametrize("text", HALVES)
@pytest.mark.parametrize("role", Role)
def test_what_is_no_text_names_nothing(role: Role, text: str, resolver: VocabularyResolver) -> None:
    for form in (NameForm.WORD, NameForm.LABEL, NameForm.IRI):
        with pytest.raises(UnknownName, match="bytes that are no text in the encoding of this terminal"):
            resolver.resolve(role, Name(form, text))
    assert len(resolver.lookup(role).index.suggest(text, 10)) <= 10


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (Concept(NS + "Persn"), "no concept '.*#Persn' in this knowledge base. Did you mean 'Person'?"),
        (Exists(NS + "workAt", Direction.INVERSE, Entity(NS + "Google")), "Did you mean 'worksAt'?"),
        (Entity('"1978"'), 'no entity "1978" in this knowledge base$'),
        (Concept(NS + "Canada"), "'.*#Canada' is an entity in this knowledge base, not a concept$"),
    ],
)
def test_a_query_with_unknown_names_is_told_near_ones(query: Query, message: str, vocabulary: Vocabulary) -> None:
    with pytest.raises(UnknownName, match=message):
        check_names(query, VocabularyResolver(vocabulary))


def test_everything_is_written_as_it_is_read(vocabulary: Vocabulary, resolver: VocabularyResolver) -> None:
    query = parse("worksAt some (not owl:Thing)", resolver)
    assert query == Exists(NS + "worksAt", Direction.FORWARD, Not(Concept(ANYTHING)))
    assert render(query, resolver.write) == "worksAt some (not owl:Thing)"
    assert render(Concept(OWL_THING), resolver.write) == "owl:Thing"
    with_own = replace(vocabulary, concepts=Names.of(Role.CONCEPT, [OWL_THING, NS + "Person"]))
    for concept in (ANYTHING, OWL_THING):
        own = VocabularyResolver(with_own)
        assert parse(render(Concept(concept), own.write), own) == Concept(concept)


def test_completion(vocabulary: Vocabulary, resolver: VocabularyResolver) -> None:
    lookup = resolver.lookup(Role.ENTITY)

    def complete(prefix: str) -> list[str]:
        return [vocabulary.entities.iri(match.id).removeprefix(NS) for match in lookup.index.suggest(prefix, 10)]

    assert complete("goog") == ["Google"]
    assert complete("hint") == ["GeoffreyHinton"]
    assert set(complete("lon")) == {"London", "London_Ontario"}
    assert complete("gogle") == ["Google"]
    assert lookup.index.search("gogle", 10) == []
    assert complete("zzz") == []


def test_an_empty_vocabulary_has_no_names() -> None:
    empty = Vocabulary.of([])
    lookup = Lookup(empty, empty.entities)
    assert lookup.index.suggest("abc", 3) == []
    assert lookup.index.search("", 3) == []
    assert lookup.find("a", NameSource.LOCAL) == ()


def test_misspelling_is_found_among_many_by_few_comparisons(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(0)
    letters = generator.integers(97, 123, (100_000, 12)).astype(np.uint8)
    names = [row.tobytes().decode() for row in letters]
    vocabulary = Vocabulary.of([f"http://x.org/{name}" for name in names])
    lookup = Lookup(vocabulary, vocabulary.entities)
    compared: list[str] = []

    def counted(a: str, b: str, limit: int) -> int:
        compared.append(b)
        return edit_distance(a, b, limit)

    monkeypatch.setattr(name_search, "edit_distance", counted)
    for name in names[:20]:
        swapped = name[:3] + name[4] + name[3] + name[5:-1]
        assert lookup.index.suggest(swapped, 1)[0].name == name
    assert 20 <= len(compared) <= 20 * 3 * name_search.SHORTLIST  # of 100,000; with three lengths of each


@example("ab", "bca")
@given(st.text("abc", max_size=7), st.text("abc", max_size=7))
def test_edit_distance_is_a_distance(a: str, b: str) -> None:
    distance = edit_distance(a, b, 20)
    assert distance == edit_distance(b, a, 20)
    assert (distance == 0) == (a == b)
    assert distance <= max(len(a), len(b))
    assert distance <= _plain(a, b)
    assert edit_distance(a, b, 1) == min(distance, 2)


def _plain(a: str, b: str) -> int:
    """Without swaps, from the definition."""
    if not a or not b:
        return len(a) + len(b)
    if a[0] == b[0]:
        return _plain(a[1:], b[1:])
    return 1 + min(_plain(a[1:], b), _plain(a, b[1:]), _plain(a[1:], b[1:]))


def test_a_swap_is_one_edit() -> None:
    assert edit_distance("london", "lnodon", 3) == 1


def test_a_part_of_a_word_in_another_role_is_not_what_was_meant() -> None:
    resolver = VocabularyResolver(Vocabulary.of(["http://x.org/Canopener"]), "kitchen")
    with pytest.raises(UnknownName, match=r"no relation 'nope' in kitchen$"):
        resolver.find(Role.RELATION, Name(NameForm.WORD, "nope"))
