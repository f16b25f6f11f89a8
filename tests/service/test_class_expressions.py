"""Where an expression stands among the classes, and the expressions that fit a set of entities."""

from __future__ import annotations

import json
import shutil
from math import comb
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from oracle import Oracle
from tarbox.cli.main import app
from tarbox.core.errors import QuerySyntaxError
from tarbox.kb.facts import Facts
from tarbox.kb.store import open_store
from tarbox.kb.vocabulary import Vocabulary
from tarbox.service.class_expressions import describe_expression
from tarbox.service.expression_search import search_expressions
from tarbox.service.knowledge_base import KnowledgeBase

CELLS = """Prefix(:=<http://x.org/>)
Ontology(<http://x.org/o>
Declaration(Class(:Organelle)) Declaration(Class(:Nucleus)) Declaration(Class(:Nucleolus))
Declaration(Class(:Chromatin)) Declaration(Class(:Cell)) Declaration(Class(:NuclearPart))
Declaration(ObjectProperty(:part_of))
SubClassOf(:Nucleus :Organelle)
SubClassOf(:Nucleus ObjectSomeValuesFrom(:part_of :Cell))
SubClassOf(:Nucleolus ObjectSomeValuesFrom(:part_of :Nucleus))
SubClassOf(:Chromatin ObjectSomeValuesFrom(:part_of :Nucleolus))
EquivalentClasses(:NuclearPart ObjectSomeValuesFrom(:part_of :Nucleus))
TransitiveObjectProperty(:part_of)
)
"""
FIRM, PERSON, WOMAN = range(3)
FAMILY = Facts.of(
    Vocabulary.of([f"urn:e{n:02}" for n in range(40)], ["urn:Firm", "urn:Person", "urn:Woman"], ["urn:worksAt"]),
    [*((n, 0, 30 + n % 5) for n in (*range(5), *range(10, 15))), *((n, 0, 36) for n in range(5, 10))],
    [*((n, WOMAN) for n in range(10)), *((n, PERSON) for n in range(10, 20)), *((n, FIRM) for n in range(30, 35))],
    [(WOMAN, PERSON)],
)
"""Women 0 to 4 and men 10 to 14 work at firms, women 5 to 9 elsewhere."""


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cells")
    (folder / "cells.ofn").write_text(CELLS)
    result = CliRunner().invoke(app, ["kb", "build", str(folder / "cells.ofn"), "-o", str(folder / "cells")])
    assert result.exit_code == 0, result.output
    return folder / "cells"


def labels(things: object) -> list[str]:
    return [thing.label for thing in things]  # type: ignore[attr-defined]


def test_a_store_without_individuals_answers_with_classes(cells: Path) -> None:
    kb = KnowledgeBase.load(cells)
    assert kb.of_classes
    assert labels(kb.answer("part_of some Nucleus").entities) == ["Chromatin", "NuclearPart", "Nucleolus"]
    assert labels(kb.answer("part_of some Organelle").entities) == ["Chromatin", "NuclearPart", "Nucleolus"]
    assert labels(kb.answer("Organelle and part_of some Cell").entities) == ["Nucleus"]
    assert not KnowledgeBase.load(cells, classes=False).answer("Organelle").entity_count


def test_the_commands_speak_of_classes(cells: Path) -> None:
    shown = CliRunner().invoke(app, ["ask", str(cells), "part_of some Nucleus"]).output
    assert "3 classes" in shown
    assert "Answers are classes of cells" in shown
    placed = CliRunner().invoke(app, ["concept", str(cells), "part_of some Organelle"]).output
    assert "1 direct subclass\n  NuclearPart\n3 subclasses\n" in placed
    assert "no instances" in placed
    found = json.loads(CliRunner().invoke(app, ["concept", str(cells), "NuclearPart", "--json"]).output)
    assert [each["label"] for each in found["direct_subclasses"]] == ["Chromatin", "Nucleolus"]
    assert found["satisfiable"] is True
    wrong = CliRunner().invoke(app, ["concept", str(cells), "Nucleus and Clel"])
    assert "Did you mean 'Cell'?" in str(wrong.exception)


def test_a_reasoner_finds_what_follows(cells: Path) -> None:
    found = describe_expression(KnowledgeBase.load(cells), "part_of some Nucleus")
    assert found.reasoned
    assert labels(found.equivalent) == ["NuclearPart"]
    assert labels(found.subclasses) == ["Chromatin", "Nucleolus"]


PIZZA = """Prefix(:=<http://x.org/>)
Ontology(<http://x.org/o>
SubClassOf(:Ham :Meat) SubClassOf(:Brie :Cheese) DisjointClasses(:Meat :Cheese)
SubClassOf(:Plain ObjectAllValuesFrom(:has :Brie)) SubClassOf(:Plain ObjectSomeValuesFrom(:has :Brie))
)
"""


def test_an_expression_gets_the_time_that_the_store_was_classified_in(tmp_path: Path) -> None:
    (tmp_path / "pizza.ofn").write_text(PIZZA)
    found = {}
    for name, options in {"quick": [], "complete": ["--complete", "1"]}.items():
        build = ["kb", "build", str(tmp_path / "pizza.ofn"), "-o", str(tmp_path / name), *options]
        assert CliRunner().invoke(app, build).exit_code == 0
        shown = CliRunner().invoke(app, ["concept", str(tmp_path / name), "has only Cheese"]).output
        found[name] = "1 direct subclass\n  Plain\n" in shown, "--complete" in shown
    assert found == {"quick": (False, True), "complete": (True, False)}
    simple = CliRunner().invoke(app, ["concept", str(tmp_path / "quick"), "has some Cheese"]).output
    assert "1 direct subclass\n  Plain\n" in simple
    assert "--complete" not in simple


def test_what_is_open_keeps_its_axioms_when_the_store_changes(cells: Path, tmp_path: Path) -> None:
    """Between a change and the reload of what is served; the file of the old axioms is gone then."""
    shutil.copytree(cells, place := tmp_path / "cells")
    kb = KnowledgeBase.load(place)
    before, store = describe_expression(kb, "part_of some Nucleus"), open_store(place)
    (tmp_path / "more.ofn").write_text(CELLS.replace(":Chromatin", ":Histone"))
    changed = CliRunner().invoke(app, ["kb", "add", str(place), str(tmp_path / "more.ofn")])
    assert changed.exit_code == 0, changed.output
    assert describe_expression(kb, "part_of some Nucleus") == before
    assert len(open_store(place).axioms()) > len(store.axioms()) > 0
    assert len(open_store(place).table("concepts")) == len(store.table("concepts")) + 1


def test_a_class_that_nothing_can_be_in(tmp_path: Path) -> None:
    more = "DisjointClasses(:Organelle :Cell) Declaration(Class(:Odd)) Declaration(Class(:Alone))"
    odd = f"{more} SubClassOf(:Odd ObjectIntersectionOf(:Nucleus :Cell))"
    source, store = str(tmp_path / "odd.ofn"), str(tmp_path / "odd")
    Path(source).write_text(CELLS.replace(":part_of)\n)", f":part_of)\n{odd})"))
    assert CliRunner().invoke(app, ["kb", "build", source, "-o", store]).exit_code == 0
    kb = KnowledgeBase.load(store)
    assert not describe_expression(kb, "Odd").satisfiable
    assert labels(describe_expression(kb, "Organelle and Cell").equivalent) == ["Odd"]
    assert "Alone" in labels(describe_expression(kb, "owl:Thing").direct_subclasses)
    shown = CliRunner().invoke(app, ["concept", store, "Odd"]).output
    assert "Nothing can be in it" in shown
    assert "superclass" not in shown, "it is below every class"


def test_without_axioms_the_hierarchy_is_what_there_is() -> None:
    kb = KnowledgeBase(FAMILY)
    woman = describe_expression(kb, "Woman")
    assert not woman.reasoned
    assert (labels(woman.equivalent), labels(woman.superclasses), labels(woman.subclasses)) == ([], ["Person"], [])
    assert woman.instance_count == 10
    both = describe_expression(kb, "Woman and Person", k=2)
    assert (labels(both.equivalent), labels(both.direct_superclasses)) == (["Woman"], ["Person"])
    assert (len(both.instances), both.instance_count) == (2, 10)
    either = describe_expression(kb, "Woman or Person")
    assert (labels(either.equivalent), labels(either.subclasses)) == (["Person"], ["Woman"])
    assert labels(describe_expression(kb, "Person and worksAt some Firm").superclasses) == ["Person"]
    for text in ("inverse worksAt some Person", "worksAt min 2", "not Firm", "{e00}"):
        assert not describe_expression(kb, text).subclasses
    with pytest.raises(QuerySyntaxError, match="no concept 'Womn'"):
        describe_expression(kb, "Womn")


def test_expressions_for_a_set_are_found_with_their_exact_answers() -> None:
    kb = KnowledgeBase(FAMILY)
    members = [f"urn:e{n:02}" for n in range(5)]
    found = kb.express(members)
    assert found[0].expression == "Woman and (worksAt some Firm)"
    assert found[0].english == "every Woman that works at a Firm"
    assert (found[0].count, found[0].coverage) == (5, 1.0)
    assert found[0].p_value == pytest.approx(1 / comb(40, 5))
    oracle = Oracle.of(FAMILY)
    for each in search_expressions(kb.index, np.arange(5, dtype=np.int32)):
        assert frozenset(each.extension.tolist()) == oracle.entities(each.query)
        assert each.inside == len(oracle.entities(each.query) & set(range(5)))
    assert kb.express(members[::-1]) == found
    assert kb.express([]) == []


def test_a_query_is_not_described_by_its_own_parts() -> None:
    kb = KnowledgeBase(FAMILY)
    members = [f"urn:e{n:02}" for n in (*range(5), *range(10, 15))]
    assert kb.express(members)[0].expression == "worksAt some Firm"
    query = kb.parse("Person and worksAt some Firm")
    assert "worksAt some Firm" not in [each.expression for each in kb.express(members, without=query)]


def test_members_of_classes_within_an_expression_are_its_instances(tmp_path: Path) -> None:
    """That a margherita has some cheese follows from its class; no fact says which."""
    (tmp_path / "pizza.ofn").write_text(
        """Prefix(:=<http://x.org/>)
        Ontology(<http://x.org/o>
        EquivalentClasses(:Cheesy ObjectIntersectionOf(:Pizza ObjectSomeValuesFrom(:has :Cheese)))
        SubClassOf(:Margherita :Pizza) SubClassOf(:Margherita ObjectSomeValuesFrom(:has :Cheese))
        ClassAssertion(:Margherita :told) ClassAssertion(:Pizza :shown) ClassAssertion(:Cheese :gouda)
        ClassAssertion(:Pizza :plain) ObjectPropertyAssertion(:has :shown :gouda))"""
    )
    result = CliRunner().invoke(app, ["kb", "build", str(tmp_path / "pizza.ofn"), "-o", str(tmp_path / "kb")])
    assert result.exit_code == 0, result.output
    found = describe_expression(KnowledgeBase.load(tmp_path / "kb"), "Pizza and has some Cheese")
    assert labels(found.equivalent) == ["Cheesy"]
    assert sorted(labels(found.instances)) == ["shown", "told"]
    assert found.instance_count == 2
