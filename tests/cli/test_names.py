"""`tarbox search` and `tarbox show` as a person meets them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from command import tarbox
from tarbox.kb.build import BuildOptions, build
from tarbox.kb.presets import PRESETS

TABLES = {
    "nodes.tsv": "id\tcategory\tname\nHGNC:6218\tbiolink:Gene\tKCNA1\nHP:0001250\tbiolink:OntologyClass\tSeizure\n",
    "edges.tsv": "id\tsubject\tpredicate\tobject\tpublications\n"
    "1\tHGNC:6218\tbiolink:has_phenotype\tHP:0001250\tPMID:1|PMID:2\n",
}


@pytest.fixture(scope="module")
def academia(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("names") / "academia"
    build(PRESETS["academia"].sources(None), path, BuildOptions(PRESETS["academia"].interpretation))
    return path


def test_search_finds_words_of_names(academia: Path) -> None:
    shown = tarbox("search", academia, "hinton").stdout.splitlines()
    assert shown == [
        "entity    GeoffreyHinton ! Geoffrey Hinton  80 facts  <https://tarbox.example/academia#GeoffreyHinton>"
    ]
    assert "(also G. Hinton)" in tarbox("search", academia, "G.", "Hinton").stdout
    found = json.loads(tarbox("search", academia, "Turing", "--role", "concept", "-k", "1", "--json").stdout)["results"]
    assert [(each["label"], each["role"]) for each in found] == [("Turing Award laureate", "concept")]
    nothing = tarbox("search", academia, "qqxzzyv")
    assert (nothing.returncode, nothing.stdout) == (1, "")
    assert nothing.stderr == "tarbox: nothing in academia is called 'qqxzzyv', nor anything like it\n"


def test_show_an_entity_a_concept_a_relation(academia: Path) -> None:
    entity = tarbox("show", academia, "Geoffrey Hinton", "-k", "2").stdout
    assert "also called G. Hinton; Geoffrey E. Hinton" in entity
    assert "types: Nobel laureate, Cognitive scientist and 14 more" in entity
    assert "  works at (2)\n    University of Toronto, Vector Institute\n" in entity
    assert "  inverse advised by (14)\n    Yann LeCun, Ilya Sutskever and 12 more\n" in entity
    concept = tarbox("show", academia, "Professor").stdout
    assert "place: Agent > Person > Academic person > Professor" in concept
    assert "99 instances: Geoffrey Hinton, " in concept
    relation = tarbox("show", academia, "worksAt", "-k", "1").stdout
    assert "189 facts, from 126 entities: Person (126)" in relation
    assert "to 73 entities: Organisation (73)" in relation
    whole = json.loads(tarbox("show", academia, "worksAt", "-k", "0", "--json").stdout)["relation"]
    assert len(whole["facts"]) == whole["relation"]["count"] == 189


def test_show_without_a_name_is_the_schema(academia: Path) -> None:
    shown = tarbox("show", academia).stdout
    assert shown.startswith("25 relations\n")
    assert "  worksAt ! works at: 189 facts\n    from Person (126)" in shown
    content = json.loads(tarbox("show", academia, "--json").stdout)
    assert content["total"] == len(content["relations"]) == 25


def test_an_unknown_name_is_told_what_is_near(academia: Path) -> None:
    wrong = tarbox("show", academia, "Hintn")
    assert (wrong.returncode, wrong.stdout) == (1, "")
    assert wrong.stderr == (
        "tarbox: nothing in academia is called 'Hintn'. Did you mean the entity GeoffreyHinton ! Geoffrey Hinton?\n"
    )
    asked = tarbox("ask", academia, "Hinton").stderr.splitlines()[0]
    assert asked == (
        "tarbox: no concept 'Hinton' in academia, but the entity 'GeoffreyHinton': write {GeoffreyHinton}, or "
        "'value GeoffreyHinton' after a relation"
    )


def test_the_documentation_shows_what_is_printed(academia: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "query-language.md").read_text()
    block = next(each for each in re.findall(r"^```console\n(.*?)^```", page, re.M | re.S) if "tarbox show" in each)
    shown = re.findall(r"^\$ tarbox (.*)\n((?:(?!\$).*\n)*)", block, re.M)
    assert len(shown) == 3
    for command, expected in shown:
        verb, _, *rest = command.split()
        assert tarbox(verb, academia, *rest).stdout == expected


def test_cards_show_attributes_of_facts(tmp_path: Path) -> None:
    for name, text in TABLES.items():
        (tmp_path / name).write_text(text)
    files = [tmp_path / name for name in TABLES]
    tarbox("kb", "build", *files, "-o", tmp_path / "kb", "--annotation", "https://w3id.org/biolink/vocab/has_phenotype")
    assert "    Seizure [reference PMID:1, PMID:2]\n" in tarbox("show", tmp_path / "kb", "KCNA1").stdout
    both = tarbox("show", tmp_path / "kb", "Seizure").stdout
    assert "Seizure, an entity\n" in both
    assert "Seizure, a concept\n" in both
    assert "describes 2 entities, by annotation relations too" in both
