"""Candidates: the likeliest facts that are not known, each once, and evidence that is true."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import httpx
import numpy as np
import predicting
import pytest
import typer
from predicting import LINKS, SmallPredictor
from typer.testing import CliRunner, Result

from tarbox.cli import main
from tarbox.cli.predict import predict
from tarbox.core.errors import QueryError, UnknownName
from tarbox.execution.graph import Index
from tarbox.http.app import create_app
from tarbox.kb.facts import Facts
from tarbox.kb.store import open_store
from tarbox.kb.vocabulary import Vocabulary
from tarbox.kb.writing import write_store
from tarbox.models.counting import Counting
from tarbox.models.credo.concepts import SetModel
from tarbox.models.credo.model import Credo
from tarbox.models.credo.neighbours import Neighbours, SharedLinks
from tarbox.models.credo.probabilities import FactProbabilities
from tarbox.models.credo.rules import RuleConfidences
from tarbox.models.saved import sizes_of
from tarbox.service.candidate_evidence import EvidenceTeller
from tarbox.service.candidates import CandidateList
from tarbox.service.knowledge_base import KnowledgeBase
from tarbox.service.reasoner import Reasoner

NS = "https://tarbox.example/academia#"


def pairs(found: CandidateList) -> list[tuple[str, str, float]]:
    return [(each.subject.label, each.object.label, round(each.degree, 3)) for each in found.candidates]


def triple(facts: Facts, head: str, relation: str, tail: str) -> tuple[int, int, int]:
    kb = KnowledgeBase(facts)
    return kb.entities.id(head), kb.relations.id(relation), kb.entities.id(tail)


# What is a candidate


def test_the_likeliest_new_facts_of_a_relation(reasoner: Reasoner) -> None:
    found = reasoner.candidates("worksAt")
    assert pairs(found) == [("Yann LeCun", "MIT", 0.6), ("Yann LeCun", "Toronto", 0.3)]
    assert found.count == 2
    assert found.expected_precision == {"2": pytest.approx(0.45)}
    assert [each.expected_precision for each in found.candidates] == [pytest.approx(0.6), pytest.approx(0.45)]
    assert pairs(reasoner.candidates("inverse worksAt", k=1)) == [("MIT", "Yann LeCun", 0.6)]
    assert pairs(reasoner.candidates("worksAt", k=1, first=1)) == [("Yann LeCun", "Toronto", 0.3)]


def test_nothing_known_is_a_candidate_and_every_likely_fact_is(reasoner: Reasoner, kb: KnowledgeBase) -> None:
    known = {(head.label, relation.label, tail.label) for head, relation, tail in kb.assertions()}
    for relation in kb.relations:
        listed = {(head, tail) for head, tail, _ in pairs(reasoner.candidates(relation.iri))}
        assert not {(head, relation.label, tail) for head, tail in listed} & known
        wanted = {
            (head.replace("YannLeCun", "Yann LeCun"), tail)
            for (head, own, tail), degree in LINKS.items()
            if own == relation.label and degree >= 0.01
        }
        assert listed == wanted


def test_subjects_are_answers_of_a_query(reasoner: Reasoner) -> None:
    assert pairs(reasoner.candidates("interestedIn", "Organisation")) == [("Google", "Search", 0.5)]
    assert pairs(reasoner.candidates("interestedIn", "Person")) == []
    assert pairs(reasoner.candidates("inverse worksAt", "locatedIn value Canada")) == [("Toronto", "Yann LeCun", 0.3)]
    assert reasoner.candidates("interestedIn", "Person").expected_precision == {}


def test_typings_without_what_follows_from_a_narrower_one(reasoner: Reasoner) -> None:
    assert pairs(reasoner.candidates("type")) == [("Canada", "Organisation", 0.7), ("Google", "University", 0.2)]
    assert pairs(reasoner.candidates("type", concept="Agent")) == [("Canada", "Agent", 0.7)]
    assert pairs(reasoner.candidates("rdf:type", "Organisation")) == [("Google", "University", 0.2)]


def test_a_symmetric_relation_has_each_pair_once(facts: Facts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(predicting.LINKS, ("MIT", "worksAt", "YannLeCun"), 0.7)
    monkeypatch.setitem(predicting.LINKS, ("MIT", "worksAt", "Search"), 0.2)
    known = [triple(facts, *names) for names in (("MIT", "worksAt", "Google"), ("Google", "worksAt", "MIT"))]
    both_ways = Facts.of(facts.vocabulary, known)
    reasoner = Reasoner(KnowledgeBase(both_ways), SmallPredictor(both_ways), "small")
    wanted = [("MIT", "Yann LeCun", 0.7), ("Yann LeCun", "Toronto", 0.3), ("MIT", "Search", 0.2)]
    assert pairs(reasoner.candidates("worksAt")) == wanted
    assert pairs(reasoner.candidates("worksAt", "{Search}")) == [("Search", "MIT", 0.2)]
    one_way = Facts.of(facts.vocabulary, known[:1])
    reasoner = Reasoner(KnowledgeBase(one_way), SmallPredictor(one_way), "small")
    assert ("Yann LeCun", "MIT", 0.6) in pairs(reasoner.candidates("worksAt"))


def test_what_is_known_the_other_way_round_is_known_of_a_symmetric_relation(
    facts: Facts, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["GeoffreyHinton", "Google", "MIT", "NeuralNetworks", "Search", "Toronto"]
    ring = [triple(facts, a, "uses", b) for a in names for b in names if a != b]  # 30 links
    missing = triple(facts, names[0], "uses", names[1])  # known the other way round
    nearly = Facts.of(facts.vocabulary, [fact for fact in ring if fact != missing])
    monkeypatch.setitem(predicting.LINKS, (names[0], "uses", names[1]), 0.9)
    found = Reasoner(KnowledgeBase(nearly), SmallPredictor(nearly), "small").candidates("uses")
    assert (names[0], names[1], 0.9) not in pairs(found)
    assert not {(a, b) for a, b, _ in pairs(found)} & {(a, b) for a in names for b in names}


def test_who_has_a_term_has_what_is_above_it() -> None:
    """`g has Focal` is known: `g has Seizure` says nothing new, `g has Fever` does, and so does `h has Seizure`."""
    entities, concepts = ["Fever", "Focal", "Seizure", "g", "h"], ["Fever", "Focal", "Seizure"]
    vocabulary = Vocabulary.of(entities, concepts, ["has"])
    known, selves = [(3, 0, 1), (4, 0, 0)], [(0, 0), (1, 1), (2, 2)]
    facts = Facts.of(vocabulary, known, selves, [(1, 2)], annotations=[0])
    links = {(3, 2): 0.9, (3, 0): 0.5, (4, 2): 0.4, (4, 1): 0.3}
    keys = np.array([head * len(entities) + tail for head, tail in sorted(links)])
    degrees = np.array([links[pair] for pair in sorted(links)], np.float32)
    nothing = np.empty(0, np.int64), np.empty(0, np.float32)
    probabilities = FactProbabilities.of(facts, sizes_of(facts), (keys, degrees), nothing)
    index = Index.of(facts)
    reasoner = Reasoner(KnowledgeBase(facts), Credo.of(index, probabilities, SetModel.of(index, 0)), "credo")
    assert pairs(reasoner.candidates("has")) == [("g", "Fever", 0.5), ("h", "Seizure", 0.4), ("h", "Focal", 0.3)]
    assert pairs(reasoner.candidates("inverse has", k=1)) == [("Fever", "g", 0.5)]


@pytest.mark.parametrize(
    ("axiom", "left"),
    [
        (None, [("MIT", 0.6), ("Toronto", 0.3)]),
        ("FunctionalObjectProperty", []),
        ("InverseFunctionalObjectProperty", [("MIT", 0.6)]),
    ],
)
def test_what_can_have_one_only(axiom: str | None, left: list[tuple[str, float]], facts: Facts, tmp_path: Path) -> None:
    more = [*zip(facts.heads.tolist(), facts.relations.tolist(), facts.tails.tolist(), strict=True)]
    given = Facts.of(facts.vocabulary, [*more, triple(facts, "YannLeCun", "worksAt", "Google")])
    write_store(tmp_path / "kb", given, axioms=[(axiom, NS + "worksAt")] if axiom else [])
    store = open_store(tmp_path / "kb")
    reasoner = Reasoner(KnowledgeBase(store.facts, store=store), SmallPredictor(store.facts), "small")
    assert [(label, degree) for _, label, degree in pairs(reasoner.candidates("worksAt"))] == left
    turned = pairs(reasoner.candidates("inverse worksAt"))
    assert [(label, degree) for label, _, degree in turned] == left


def test_a_model_that_only_scores_orders_pairs_of_known_ends(kb: KnowledgeBase, facts: Facts) -> None:
    found = Reasoner(kb, Counting.from_facts(facts), "counting").candidates("uses", "Organisation", k=3)
    assert found.expected_precision == {}
    degrees = [each.degree for each in found.candidates]
    assert degrees == sorted(degrees, reverse=True)
    assert all(
        0 <= degree <= 1 and each.expected_precision is None
        for degree, each in zip(degrees, found.candidates, strict=True)
    )
    listed = {(head, tail) for head, tail, _ in pairs(found)}
    assert listed <= {(a, b) for a in ("Google", "MIT", "Toronto") for b in ("NeuralNetworks", "Search")}
    assert not listed & {("Google", "NeuralNetworks"), ("Google", "Search")}
    typed = Reasoner(kb, Counting.from_facts(facts), "counting").candidates("type", concept="University")
    assert {(head, tail) for head, tail, _ in pairs(typed)} == {
        (kb.entities.at(row).label, "University") for row in set(facts.typed.tolist())
    } - {("MIT", "University"), ("Toronto", "University")}


def test_mistakes(reasoner: Reasoner) -> None:
    with pytest.raises(UnknownName, match="worksAt"):
        reasoner.candidates("worksAtt")
    with pytest.raises(UnknownName, match="not a relation"):
        reasoner.candidates("inverse Person")
    with pytest.raises(QueryError, match="a concept is for typings"):
        reasoner.candidates("worksAt", concept="Person")
    with pytest.raises(QueryError, match="k = 0"):
        reasoner.candidates("worksAt", k=0)


# Evidence


@pytest.fixture(scope="module")
def academia(tmp_path_factory: pytest.TempPathFactory) -> Facts:
    folder = tmp_path_factory.mktemp("candidates") / "academia"
    assert CliRunner().invoke(main.app, ["kb", "build", "--preset", "academia", "-o", str(folder)]).exit_code == 0
    return open_store(folder).facts


def test_paths_are_known_facts_with_the_confidence_of_the_features(academia: Facts) -> None:
    rules, random = RuleConfidences.of(academia), np.random.default_rng(0)
    known = set(zip(academia.relations.tolist(), academia.heads.tolist(), academia.tails.tolist(), strict=True))
    size, found = len(academia.vocabulary.entities), 0
    asked = random.integers(0, size, (400, 2))
    asked[:200] = np.stack([academia.heads, academia.tails], axis=1)[random.integers(0, len(academia.heads), 200)]
    for head, tail in asked.tolist():
        relation = int(random.integers(0, len(academia.vocabulary.relations)))
        single, double = rules.features(np.array([relation]), np.array([head]), np.array([tail]))[0, :2]
        best = {len(steps): (confidence, steps) for confidence, steps in rules.best_paths(relation, head, tail)}
        assert best.get(1, (0.0,))[0] == pytest.approx(single)
        assert best.get(2, (0.0,))[0] == pytest.approx(double)
        for _, steps in best.values():
            ways = [(way // 2, near, far) if way % 2 == 0 else (way // 2, far, near) for way, near, far in steps]
            assert set(ways) <= known
            assert (steps[0][1], steps[-1][2]) == (head, tail)
            found += 1
    assert found > 100


def test_neighbours_of_some_are_those_that_the_features_count(academia: Facts) -> None:
    whole = Neighbours.of(academia, KnowledgeBase(academia).index.instances).similar
    wanted = np.array([5, 3, 400], np.int32)
    some = SharedLinks.of_facts(academia).nearest(wanted)
    for row, entity in enumerate(wanted.tolist()):
        assert some[row].tolist() == whole[entity].tolist()
        assert some.values_of(row).tolist() == whole.values_of(entity).tolist()
    assert len(SharedLinks.of_facts(academia).nearest(wanted[:0])) == 0


def test_evidence_says_known_facts(reasoner: Reasoner, kb: KnowledgeBase) -> None:
    teller = EvidenceTeller(kb)
    head, relation, tail = triple(kb.facts, "YannLeCun", "investigates", "NeuralNetworks")
    (neighbour,) = teller.of_link(relation, head, tail)
    assert re.fullmatch(
        r"GeoffreyHinton investigates NeuralNetworks, and GeoffreyHinton is similar to Yann LeCun "
        r"\(0\.\d\d: each is a Person\)",
        neighbour,
    )
    (said, *_) = reasoner.candidates("type", concept="University").candidates[0].evidence
    assert said == "Google is an Organisation, and 2 of 3 known ones are a University"
    head, relation, tail = triple(kb.facts, "Canada", "locatedIn", "Search")
    assert teller.of_link(relation, head, tail) == ()


def test_what_is_said_of_neighbours_is_so(academia: Facts) -> None:
    """Every sentence of the form 'X is similar to Y' names two entities, of which X has the fact."""
    kb = KnowledgeBase(academia)
    link = kb.relations.id("worksAt"), kb.entities.id("SergeyBrin"), kb.entities.id("Alphabet")
    assert EvidenceTeller(kb).of_link(*link)[:2] == (
        "Alphabet was founded by Sergey Brin (confidence of this rule: 0.49)",
        "Sergey Brin works at Google and Google is part of Alphabet (confidence of this rule: 0.45)",
    )
    teller, random = EvidenceTeller(kb), np.random.default_rng(1)
    told = 0
    for row in random.integers(0, len(academia.heads), 60).tolist():
        head, relation, tail = (int(column[row]) for column in (academia.heads, academia.relations, academia.tails))
        names = {thing.label: thing.id for thing in kb.entities}
        of_head = {a for a, r, b in _triples(academia) if (r, b) == (relation, tail)}
        of_tail = {b for a, r, b in _triples(academia) if (a, r) == (head, relation)}
        for said in teller.of_link(relation, head, tail):
            found = re.search(r", and (.*?) is similar to (.*?) \(0\.\d\d: ", said)
            if found is not None:
                other, own = names[found[1]], names[found[2]]
                assert (own == head and other in of_head) or (own == tail and other in of_tail)
                told += 1
    assert told > 40


def _triples(facts: Facts) -> set[tuple[int, int, int]]:
    return set(zip(facts.heads.tolist(), facts.relations.tolist(), facts.tails.tolist(), strict=True))


# The command and the route


def run(reasoner: Reasoner, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> Result:
    monkeypatch.setattr(Reasoner, "load", lambda *_, **__: reasoner)
    app = typer.Typer()
    app.command()(predict)
    return CliRunner().invoke(app, ["RUN", *arguments], env={"COLUMNS": "200"})


def test_the_command_on_a_screen(reasoner: Reasoner, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = run(reasoner, monkeypatch, "--relation", "worksAt").stdout
    assert shown.startswith(
        "2 of 2 candidates; expected to be true: 45% of the first 2\n0.60  Yann LeCun  worksAt  MIT\n"
    )
    assert "GeoffreyHinton works at Toronto, and GeoffreyHinton is similar to Yann LeCun" in shown
    assert "0.70  Canada  type  Organisation" in run(reasoner, monkeypatch, "--relation", "type").stdout
    assert "0.20  Google  type  University" in run(reasoner, monkeypatch, "--types", "University").stdout
    assert "0 candidates" in run(reasoner, monkeypatch, "--relation", "worksAt", "--for", "University").stdout


def test_the_command_writes_tables(reasoner: Reasoner, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "candidates.tsv"
    assert f"{file}: 2 of 2 candidates" in run(reasoner, monkeypatch, "--relation", "worksAt", "-o", str(file)).stdout
    head, first, second = (line.split("\t") for line in file.read_text(encoding="utf-8").splitlines())
    assert head == ["subject", "subject_label", "object", "object_label", "degree", "expected_precision", "evidence"]
    assert first[:6] == [f"<{NS}YannLeCun>", "Yann LeCun", f"<{NS}MIT>", "MIT", "0.6000", "0.6000"]
    assert second[4:6] == ["0.3000", "0.4500"]
    printed = run(reasoner, monkeypatch, "--relation", "worksAt", "--tsv").stdout
    assert printed == file.read_text(encoding="utf-8")
    run(reasoner, monkeypatch, "--relation", "worksAt", "-n", "1", "-o", str(tmp_path / "c.json"))
    content = json.loads((tmp_path / "c.json").read_text(encoding="utf-8"))
    assert content == json.loads(run(reasoner, monkeypatch, "--relation", "worksAt", "-n", "1", "--json").stdout)
    assert (content["count"], len(content["candidates"])) == (2, 1)


def test_wrong_usage(reasoner: Reasoner, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert run(reasoner, monkeypatch).exit_code == 2
    assert run(reasoner, monkeypatch, "--relation", "worksAt", "--json", "--tsv").exit_code == 2
    missing = run(reasoner, monkeypatch, "--relation", "worksAt", "-o", str(tmp_path / "none" / "c.tsv"))
    assert "there is no folder" in str(missing.exception)
    other = run(reasoner, monkeypatch, "--relation", "worksAt", "-o", str(tmp_path / "c.xlsx"))
    assert "must end in .tsv or .json" in str(other.exception)
    assert not any(tmp_path.iterdir())


def test_candidates_over_http(reasoner: Reasoner, kb: KnowledgeBase) -> None:
    async def get(by: Reasoner | KnowledgeBase, **parameters: str) -> httpx.Response:
        transport = httpx.ASGITransport(app=create_app(by))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await client.get("/api/candidates", params=parameters)

    content = asyncio.run(get(reasoner, relation=f"<{NS}worksAt>", limit="1", offset="1")).json()
    assert content["candidates"][0]["object"] == {"iri": f"<{NS}Toronto>", "label": "Toronto"}
    assert content["candidates"][0]["degree"] == pytest.approx(0.3)
    assert content["expected_precision"] == {"2": pytest.approx(0.45)}
    content = asyncio.run(get(reasoner, relation="type", types="University", **{"for": "Organisation"})).json()
    assert [each["subject"]["label"] for each in content["candidates"]] == ["Google"]
    unknown = [{"relation": "workAt"}, {"relation": "type", "types": "Unversity"}]
    for parameters in unknown:
        told = asyncio.run(get(reasoner, **parameters))
        assert (told.status_code, told.json()["type"]) == (404, "urn:tarbox:problem:unknown-name")
    misspelled = asyncio.run(get(reasoner, relation="worksAt", **{"for": "Persn"}))
    assert (misspelled.status_code, misspelled.json()["position"]) == (400, 0)
    refused = asyncio.run(get(kb, relation="worksAt"))
    assert (refused.status_code, "train a model" in refused.json()["detail"]) == (400, True)
