"""`tarbox kb build --infer` and `tarbox explain` as a person meets them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from .test_kb import tarbox

FAMILY = """@prefix : <http://example.org/> . @prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
:Mother owl:equivalentClass [ a owl:Class ; owl:intersectionOf ( :Woman
    [ a owl:Restriction ; owl:onProperty :hasChild ; owl:someValuesFrom :Person ] ) ] .
:Woman rdfs:subClassOf :Person . :Woman owl:disjointWith :Man . :hasChild rdfs:range :Person .
:ada a :Woman ; :hasChild :bob . :eve a :Woman , :Man .
"""


@pytest.fixture(scope="module")
def family(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("family")
    (folder / "family.ttl").write_text(FAMILY)
    built = tarbox("kb", "build", folder / "family.ttl", "-o", folder / "kb")
    assert built.returncode == 0
    assert "inferred (owl): 1 subsumptions, 2 typings, 0 assertions" in built.stdout
    assert "inconsistent entity: http://example.org/eve against DisjointClasses(" in built.stdout
    return folder / "kb"


def test_a_change_that_contradicts_axioms_is_named(family: Path, tmp_path: Path) -> None:
    shutil.copytree(family, tmp_path / "kb")
    (tmp_path / "more.ttl").write_text("@prefix : <http://example.org/> . :bob a :Man , :Woman .")
    added = tarbox("kb", "add", tmp_path / "kb", tmp_path / "more.ttl").stdout.splitlines()
    found = [line.partition(" against ")[0] for line in added if line.startswith("inconsistent")]
    assert found == ["inconsistent entity: http://example.org/bob"]  # eve was one before
    removed = tarbox("kb", "remove", tmp_path / "kb", tmp_path / "more.ttl").stdout
    assert "inconsistent" not in removed


def test_inferred_facts_are_known(family: Path) -> None:
    found = json.loads(tarbox("ask", family, "Mother", "--json").stdout)
    assert [entity["iri"] for entity in found["entities"]] == ["<http://example.org/ada>"]
    counts = json.loads(tarbox("kb", "info", family, "--json").stdout)["counts"]
    assert (counts["typings"], counts["inferred_typings"]) == (3, 2)


def test_a_fact_is_explained_down_to_what_is_asserted(family: Path) -> None:
    lines = tarbox("explain", family, "ada type Mother").stdout.splitlines()
    assert lines[0].startswith("ada type Mother   because of EquivalentClasses(Mother")
    assert [line.strip() for line in lines[1:]] == [
        "ada type Woman   asserted",
        "ada hasChild bob   asserted",
        "bob type Person   because of ObjectPropertyRange(hasChild Person)",
        "ada hasChild bob   asserted",
    ]
    found = json.loads(tarbox("explain", family, "<http://example.org/ada> a Mother", "--json").stdout)
    assert [premise["asserted"] for premise in found["premises"]] == [True, True, False]


def test_facts_of_the_same_individual_are_explained_under_its_names(tmp_path: Path) -> None:
    lines = [
        *FAMILY.splitlines()[:2],
        ":hasMother a owl:ObjectProperty , owl:FunctionalProperty . :hasChild owl:inverseOf :hasParent .",
        ":bob :hasMother :ann , :anna . :anna a :Woman . :anna :hasChild :bob .",
    ]
    (tmp_path / "same.ttl").write_text("\n".join(lines))
    assert tarbox("kb", "build", tmp_path / "same.ttl", "-o", tmp_path / "kb").returncode == 0
    because = "because of FunctionalObjectProperty(hasMother)"
    for statement, expected in {
        "bob hasMother anna": ["bob hasMother anna   asserted"],
        "ann type Woman": [
            "ann type Woman   because",
            "anna type Woman   asserted",
            f"SameIndividual(ann anna)   {because}",
        ],
        "bob hasParent anna": [
            "bob hasParent anna   because",
            "bob hasParent ann   because of InverseObjectProperties(hasChild hasParent)",
            "ann hasChild bob   because",
            "anna hasChild bob   asserted",
            f"SameIndividual(ann anna)   {because}",
            f"SameIndividual(ann anna)   {because}",
        ],
    }.items():
        assert [line.strip() for line in tarbox("explain", tmp_path / "kb", statement).stdout.splitlines()] == expected


def test_a_subsumption_is_explained_by_axioms(family: Path) -> None:
    lines = tarbox("explain", family, "Mother subClassOf Person").stdout.splitlines()
    assert lines[0] == "Mother subClassOf Person   because"
    assert len(lines) == 3


def test_an_inferred_subsumption_within_a_derivation_has_its_reasons(tmp_path: Path) -> None:
    prefix, some = FAMILY.splitlines()[:2], "[ a owl:Restriction ; owl:onProperty :has ; owl:someValuesFrom"
    lines = [
        f":Meaty owl:equivalentClass {some} :Meat ] . :Special rdfs:subClassOf {some} :Ham ] .",
        ":has a owl:ObjectProperty . :Ham rdfs:subClassOf :Pork . :Pork rdfs:subClassOf :Meat . :mine a :Special .",
    ]
    (tmp_path / "pizza.ttl").write_text("\n".join([*prefix, *lines]))
    assert tarbox("kb", "build", tmp_path / "pizza.ttl", "-o", tmp_path / "kb").returncode == 0
    found = tarbox("explain", tmp_path / "kb", "mine type Meaty").stdout.splitlines()
    assert [line.strip() for line in found[:3]] == [
        "mine type Meaty   because", "mine type Special   asserted", "Special subClassOf Meaty   because",
    ]  # fmt: skip
    assert len(found) == 3 + 4
    assert all(line.endswith("asserted") for line in found[3:])
    chain = tarbox("explain", tmp_path / "kb", "Ham subClassOf Meat").stdout.splitlines()
    assert [line.strip() for line in chain[1:]] == ["Ham subClassOf Pork   asserted", "Pork subClassOf Meat   asserted"]


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("bob type Mother", "does not follow"),
        ("Person subClassOf Mother", "does not follow"),
        ("bob Mother", "is no statement. Write 'X subClassOf Y'"),
        ("bob type Mothr", "Did you mean 'Mother'?"),
        ("Woman disjointWith Man", "Woman is a concept in kb: what is explained of it is 'Woman subClassOf Y'."),
        ("Woman subClassOf Woman", "there is nothing to explain"),
    ],
)
def test_what_cannot_be_explained_gives_one_line(family: Path, statement: str, message: str) -> None:
    found = tarbox("explain", family, statement)
    assert found.returncode == 1
    assert message in found.stderr
    assert len(found.stderr.splitlines()) == 1


def test_a_mode_that_is_gone_names_those_there_are(family: Path) -> None:
    found = tarbox("kb", "build", family.parent / "family.ttl", "-o", family.parent / "other", "--infer", "inverse")
    assert found.returncode == 1
    assert "There are: none, rdfs, owl." in found.stderr
