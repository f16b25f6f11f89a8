"""A run that follows its store: what is known is the store's, what is new is folded in, what is untouched stays."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from tarbox import KnowledgeBase, Reasoner
from tarbox.cli.main import app
from tarbox.core.errors import ConfigError, StoreVersion
from tarbox.kb.facts import Facts
from tarbox.kb.splits import keep_connected, keep_entities
from tarbox.kb.store import open_store
from tarbox.kb.writing import write_store
from tarbox.models.credo.model import Credo
from tarbox.models.saved import SavedRun, open_run
from tarbox.training.session import resume, start
from tarbox.training.settings import read_recipe, resolve
from tarbox.training.updating import update

SETTINGS = {"model": {"rank": 16, "queries": 4}, "stopping": {"epochs": 4}}
NEW = ("GeoffreyHinton", "YannLeCun", "Google")
QUESTIONS = (
    "inverse investigates value GeoffreyHinton",
    "Person and (worksAt some (University and locatedIn value Canada))",
    "(worksAt value Google) or (worksAt value MIT)",
    "Person and not (investigates some Field)",
)


@pytest.fixture(scope="module")
def kb(store: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The best connected part of academia."""
    place = tmp_path_factory.mktemp("whole") / "kb"
    write_store(place, keep_connected(open_store(store).facts, 14))
    return place


@pytest.fixture(scope="module")
def whole(kb: Path) -> Facts:
    return open_store(kb).facts


@pytest.fixture(scope="module")
def run(whole: Facts, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on all of academia but three entities."""
    folder = tmp_path_factory.mktemp("updating")
    names = whole.vocabulary.entities
    keep = np.array([name.rpartition("#")[2] not in NEW for name in names])
    write_store(folder / "less", keep_entities(whole, keep))
    start(folder / "less", folder / "run", resolve([read_recipe("credo-small"), SETTINGS]))
    return folder / "run"


@pytest.fixture(scope="module")
def updated(run: Path, kb: Path) -> SavedRun:
    place = run.with_name("updated")
    update(run, kb, place)
    return open_run(place)


def scorer(saved: SavedRun) -> Credo:
    found = saved.scorer()
    assert isinstance(found, Credo)
    return found


def test_what_is_known_is_what_follows_from_the_store(updated: SavedRun, kb: Path) -> None:
    reasoner, exactly = Reasoner.load(updated.path), KnowledgeBase.load(kb)
    for question in QUESTIONS:
        found, exact = reasoner.answer(question, k=None), exactly.answer(question)
        for level in ("entities", "concepts"):
            known = {each.iri for each in getattr(found, level) if each.status == "known"}
            assert known == {each.iri for each in getattr(exact, level)}, question


def named(saved: SavedRun) -> dict[tuple[str, str, str], float]:
    """The probabilities of all links by names."""
    held, names = scorer(saved).probabilities, saved.facts.vocabulary
    directed = np.repeat(np.arange(len(held.starts) - 1), np.diff(held.starts))
    own = directed % 2 == 1
    columns = (directed[own] // 2, held.near[own], held.far[own], held.degrees[own])
    return {
        (names.relations.iri(relation), names.entities.iri(head), names.entities.iri(tail)): degree
        for relation, head, tail, degree in zip(*(column.tolist() for column in columns), strict=True)
    }


def test_what_no_change_touches_keeps_its_probability(run: Path, updated: SavedRun) -> None:
    before, after = named(open_run(run)), named(updated)
    predicted = {link: degree for link, degree in before.items() if degree < 1}
    assert len(predicted) > 100
    same = sum(after[link] == degree for link, degree in predicted.items())
    assert same > 0.99 * len(predicted)  # but for questions that new facts made plausible


def test_new_entities_are_predicted_of(updated: SavedRun) -> None:
    """Folded in, an entity has predictions, and those with its own facts outrank most others."""
    new = {link: degree for link, degree in named(updated).items() if degree < 1 and link[1].endswith(NEW)}
    assert len(new) > 20


def test_folding_in_learns(updated: SavedRun) -> None:
    """The MRR of added facts before they are known is far above that of chance."""
    told = json.loads((updated.path / "run.json").read_bytes())["updates"][0]
    assert told["new_entities"] == len(NEW)
    assert told["mrr"] > 0.1


def test_removed_facts_are_gone(run: Path, tmp_path: Path) -> None:
    """Back to the facts of training: the new names go, and what was asserted of them."""
    shutil.copytree(run.with_name("updated"), tmp_path / "run")
    told = update(tmp_path / "run", run.with_name("less"))
    assert told is not None
    assert told["gone_entities"] == len(NEW)
    assert told["folded_in"] < 0.01  # but for entities that the new ones were most of what is known of
    saved = open_run(tmp_path / "run")
    assert saved.facts.counts() == open_run(run).facts.counts()
    known = {link for link, degree in named(saved).items() if degree == 1}
    assert len(known) == len(saved.facts.heads)
    before = {link: degree for link, degree in named(open_run(run)).items() if degree < 1}
    after = named(saved)
    assert sum(link in after for link in before) > 0.99 * len(before)


def test_a_fact_that_is_removed_is_no_longer_known(updated: SavedRun, whole: Facts, tmp_path: Path) -> None:
    keep = np.ones(len(whole.heads), np.bool_)
    keep[::50] = False
    write_store(tmp_path / "fewer", whole.with_assertions(keep))
    update(updated.path, tmp_path / "fewer", tmp_path / "run")
    found = scorer(open_run(tmp_path / "run")).probabilities
    for row in np.flatnonzero(~keep)[:20].tolist():
        assert found.link(2 * int(whole.relations[row]) + 1, int(whole.heads[row]), int(whole.tails[row])) < 1


def test_an_update_in_place_keeps_the_content_before_it(run: Path, kb: Path, tmp_path: Path) -> None:
    place = tmp_path / "run"
    shutil.copytree(run, place)
    first = open_run(place)
    assert update(place, kb) is not None
    second = open_run(place)
    for opened in (first, second):  # whoever had opened it before still can
        assert isinstance(opened.scorer(), Credo)
    assert second.facts.counts() != first.facts.counts()
    assert update(place, kb) is None
    assert update(place, run.with_name("less")) is not None
    assert not (place / "model.safetensors").exists()
    assert len(open_run(place).description["updates"]) == 2


def test_the_training_of_an_updated_run_cannot_go_on(updated: SavedRun, run: Path, kb: Path, tmp_path: Path) -> None:
    """Its parts are gone, and its facts are others: nothing of it is touched."""
    shutil.copytree(run, tmp_path / "run")
    update(tmp_path / "run", kb)
    for place, changes in ((tmp_path / "run", {}), (updated.path, {"stopping": {"epochs": 9}})):
        before = {file: file.stat().st_mtime_ns for file in place.rglob("*")}
        with pytest.raises(ConfigError, match="was updated: its training cannot go on"):
            resume(place, changes)
        told = CliRunner().invoke(app, ["train", "--resume", "-o", str(place)])
        assert (told.exit_code, type(told.exception)) == (1, ConfigError)  # one line on the screen
        assert {file: file.stat().st_mtime_ns for file in place.rglob("*")} == before


def test_another_store_with_the_same_relations(run: Path, whole: Facts, tmp_path: Path) -> None:
    """Inductive use: all entities have other names; what is predicted of them is sensible all the same."""
    from dataclasses import replace

    from tarbox.core.ids import Role
    from tarbox.kb.vocabulary import Names

    names = whole.vocabulary.entities
    other = Names.of(Role.ENTITY, [f"urn:other:{iri}" for iri in names])
    write_store(tmp_path / "other", replace(whole, vocabulary=replace(whole.vocabulary, entities=other)))
    told = update(run, tmp_path / "other", tmp_path / "run")
    assert told is not None
    assert told["folded_in"] == 1
    assert told["mrr"] > 0.1
    assert open_run(tmp_path / "run").train_again()


def test_given_facts_hold_for_one_question(updated: SavedRun, tmp_path: Path) -> None:
    given = tmp_path / "given.ttl"
    given.write_text(
        "@prefix a: <https://tarbox.example/academia#> .\n"
        "a:NewLab a a:University ; a:locatedIn a:Canada .\n"
        "a:Ada a a:Person ; a:worksAt a:NewLab ; a:investigates a:DeepLearning .\n"
    )
    question = "worksAt some (locatedIn value Canada)"
    runner = CliRunner()
    told = runner.invoke(app, ["ask", str(updated.path), question, "--given", str(given), "--json", "-k", "0"])
    found = {each["iri"]: each for each in json.loads(told.stdout)["entities"]}
    assert found["<https://tarbox.example/academia#Ada>"]["status"] == "known"
    assert all("Ada>" not in each.iri for each in Reasoner.load(updated.path).answer(question, k=None).entities)
    exactly = KnowledgeBase.load(updated.content / "store", given=given)
    assert "<https://tarbox.example/academia#Ada>" in {each.iri for each in exactly.answer(question).entities}
    why = runner.invoke(app, ["ask", str(updated.path), "worksAt value NewLab", "--given", str(given), "--explain"])
    assert "Ada" in why.stdout


def test_info_tells_of_updates(updated: SavedRun) -> None:
    runner = CliRunner()
    told = json.loads(runner.invoke(app, ["info", str(updated.path), "--json"]).stdout)
    assert len(told["updates"]) == 1
    assert 0 < told["folded_in"] < 0.05
    assert told["counts"] == updated.facts.counts()
    assert "updates 1" in runner.invoke(app, ["info", str(updated.path)]).stdout


def test_runs_that_cannot_follow_are_refused(run: Path, kb: Path, tmp_path: Path) -> None:
    place = tmp_path / "run"
    shutil.copytree(run, place)
    (place / "predictor.safetensors").unlink()
    with pytest.raises(StoreVersion, match=r"predictor\.safetensors"):
        update(place, kb)
    start(kb, tmp_path / "counting", resolve([{"model": {"name": "counting"}}]))
    with pytest.raises(ConfigError, match="only runs of credo"):
        update(tmp_path / "counting", run.with_name("less"))
    described = json.loads((run / "run.json").read_bytes())
    assert "updates" not in described
