"""What notebooks show: HTML in which every name is escaped, tables for other libraries, and reasons."""

from __future__ import annotations

from xml.etree import ElementTree

import polars
import pyarrow as pa
import pytest

from conftest import NS
from tarbox.core.errors import MissingDependency, QueryError, UnknownName
from tarbox.core.ids import Role
from tarbox.kb.facts import Facts
from tarbox.kb.vocabulary import SYNONYMS, Names, Vocabulary
from tarbox.models.counting import Counting
from tarbox.service.explanations import Support
from tarbox.service.knowledge_base import KnowledgeBase
from tarbox.service.reasoner import Reasoner

QUESTION = "interestedIn some (inverse uses value Google)"
EVIL = '<script>alert("1")</script> & <b onload=x>'


@pytest.fixture
def hostile() -> KnowledgeBase:
    names = (
        Names.of(role, [f"urn:x:{word}" for word in words], [EVIL] * len(words))
        for role, words in ((Role.ENTITY, "ab"), (Role.CONCEPT, "C"), (Role.RELATION, "r"))
    )
    return KnowledgeBase(Facts.of(Vocabulary(*names, SYNONYMS.empty_table()), [(0, 0, 1)], [(0, 0), (1, 0)]), EVIL)


def test_names_cannot_bring_markup(hostile: KnowledgeBase) -> None:
    question = hostile["urn:x:C"] & hostile["urn:x:r"].value(hostile["urn:x:b"])
    answers = hostile.answer(question)
    reasoner = Reasoner(hostile, Counting.from_facts(hostile.facts), EVIL, EVIL)
    for each in (hostile, question, answers, answers.explain(), reasoner, reasoner.answer(question)):
        html = each._repr_html_()
        assert "<script" not in html
        assert "<b " not in html
        assert "&lt;script&gt;" in html
        ElementTree.fromstring(f"<div>{html.replace('<br>', '<br/>')}</div>")


def test_known_and_predicted_answers_are_tables_of_their_own(reasoner: Reasoner) -> None:
    answers = reasoner.answer(QUESTION, min_degree=0)
    html = answers._repr_html_()
    body = ElementTree.fromstring(f"<div>{html.replace('<br>', '<br/>')}</div>")
    heads = [table.find(".//th").text for table in body.iter("table")]  # type: ignore[union-attr]
    counts = answers.entity_counts, answers.concept_counts
    assert counts[0].predicted == 1
    assert heads == [
        f"{counts[0].known} known entities",
        f"{counts[1].known} known concepts",
        "1 predicted entity",
        f"{counts[1].predicted} predicted concepts",
    ]
    known = [row.find("td").text for row in next(body.iter("table")).iter("tr") if row.find("td") is not None]  # type: ignore[union-attr]
    assert known == [each.label for each in answers.entities if each.status == "known"]
    bars = [float(bar.get("value", "")) for bar in body.iter("meter")]
    listed = [each.degree for each in (*answers.entities, *answers.concepts)]
    assert sorted(bars) == pytest.approx(sorted(listed), abs=1e-4)


def test_a_view_shows_the_first_answers_and_counts_all(kb: KnowledgeBase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tarbox.service.notebook_views.ROWS", 2)
    answers = kb.answer("owl:Thing")
    assert "2 of 8 known entities" in answers._repr_html_()
    assert repr(answers).splitlines()[0] == "8 known entities: Canada, GeoffreyHinton, ..."
    assert "predicted" not in answers._repr_html_()


def test_the_picture_is_the_one_of_the_page_but_for_its_theme(kb: KnowledgeBase) -> None:
    html, drawn = kb.query(QUESTION)._repr_html_(), kb.draw(QUESTION)
    picture = html[html.index("<svg") : html.index("</svg>") + 6]
    dark = drawn[drawn.index("@media") : drawn.index("</style>")]
    assert picture == drawn.replace(dark, "")


def test_a_knowledge_base_and_a_reasoner_show_their_sizes(reasoner: Reasoner) -> None:
    html = reasoner._repr_html_()
    for text in (
        "small",
        '<td style="text-align:left">entities</td><td style="text-align:left">8</td>',
        "interestedIn",
    ):
        assert text in html
    assert repr(reasoner) == "Reasoner(small over academia)"


def test_reasons_without_passing_names_around(reasoner: Reasoner) -> None:
    answers = reasoner.answer(QUESTION, min_degree=0)
    entity, concept = answers.entities[-1], answers.concepts[0]
    assert answers.explain() == answers.explain(0) == answers.explain(answers.entities[0].label)
    assert answers.explain(-1) == answers.explain(entity) == reasoner.explain(QUESTION, entity.iri)
    assert (
        answers.explain(concept)
        == answers.explain(concept.label)
        == reasoner.explain(QUESTION, concept.iri, Role.CONCEPT)
    )
    support = answers.explain()
    assert isinstance(support, Support)
    assert str(support) == support.sentence


def test_what_has_no_reasons_is_told(kb: KnowledgeBase) -> None:
    answers = kb.answer(QUESTION)
    with pytest.raises(QueryError, match="no entity number 99"):
        answers.explain(99)
    with pytest.raises(QueryError, match="Canada is no answer"):
        answers.explain("Canada")
    with pytest.raises(UnknownName, match="Did you mean"):
        answers.explain("Canda")
    with pytest.raises(QueryError, match="described set"):
        kb.describe_set(["MIT", "Toronto"]).explain()


def test_answers_are_arrow(kb: KnowledgeBase) -> None:
    answers = kb.answer(QUESTION)
    assert pa.table(answers).equals(answers.to_arrow())
    assert not any(column.null_count == len(column) for column in answers.to_arrow().columns)
    assert set(kb.describe_set(["MIT", "Toronto"]).to_arrow().column_names) > set(answers.to_arrow().column_names)


def test_polars_reads_answers_and_facts(kb: KnowledgeBase) -> None:
    answers = kb.answer(QUESTION)
    frame = polars.DataFrame(answers)
    assert frame.rows(named=True) == answers.to_arrow().to_pylist()
    assert frame.filter(polars.col("level") == "entity")["label"].to_list() == [each.label for each in answers.entities]
    for table in kb.to_arrow().values():
        read = polars.from_arrow(table)
        assert isinstance(read, polars.DataFrame)
        assert read.rows(named=True) == table.to_pylist()


def test_a_graph_of_all_facts(kb: KnowledgeBase) -> None:
    graph = kb.to_networkx()
    assert (graph.number_of_nodes(), graph.number_of_edges()) == (13, 18)
    assert graph.nodes[f"<{NS}YannLeCun>"] == {"label": "Yann LeCun", "entity": True}
    assert graph.nodes[f"<{NS}Person>"] == {"label": "Person", "concept": True}
    assert graph[f"<{NS}Google>"][f"<{NS}Search>"] == {f"<{NS}uses>": {"label": "uses"}}
    assert [data["label"] for _, _, data in graph.out_edges(f"<{NS}MIT>", data=True)].count("is a") == 1
    assert list(graph[f"<{NS}University>"][f"<{NS}Organisation>"].values()) == [{"label": "is a kind of"}]


def test_a_graph_needs_networkx(kb: KnowledgeBase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tarbox.service.answers.find_spec", lambda _: None)
    with pytest.raises(MissingDependency, match=r"graphs need networkx: pip install 'tarbox\[networkx\]'"):
        kb.to_networkx()
