"""Predicted subsumptions: what is a candidate, what its features say, and what a run makes of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from quick_learning import few_steps, quick_settings
from typer.testing import CliRunner

from tarbox import KnowledgeBase, Reasoner
from tarbox.cli.main import app
from tarbox.core.ids import Role
from tarbox.kb.closure import Hierarchy
from tarbox.kb.facts import Facts
from tarbox.kb.rows import pair_keys
from tarbox.kb.store import open_store
from tarbox.kb.vocabulary import Names, Vocabulary
from tarbox.kb.writing import write_store
from tarbox.models.credo.subsumptions import (
    ConceptGraph,
    SubsumptionView,
    keep_subsumptions,
    predict_subsumptions,
    words_of,
)
from tarbox.service.class_expressions import describe_expression
from tarbox.training.session import start

CPU = torch.device("cpu")
KINDS = ("red", "green", "blue", "white", "black", "grey")
THINGS = ("car", "house", "boat", "chair", "lamp", "shirt", "door", "table", "cup", "bag")


@pytest.fixture(scope="module", autouse=True)
def quick() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        few_steps(patched.setattr)
        yield


def coloured() -> tuple[Facts, tuple[int, int]]:
    """Every `red car` is a `red thing` and a `car`, except that nobody says what kind of thing a `blue lamp` is."""
    pairs = [(f"{kind} {thing}", (f"{kind} thing", thing)) for kind in KINDS for thing in THINGS]
    tops = [(f"{kind} thing", ("thing",)) for kind in KINDS] + [(thing, ("thing",)) for thing in THINGS]
    names = sorted({"thing", *(name for name, _ in pairs + tops)})
    iris = [f"urn:{name.replace(' ', '-')}" for name in names]
    number = {name: row for row, (_, name) in enumerate(sorted(zip(iris, names, strict=True)))}
    vocabulary = Vocabulary.of(["urn:e"], iris)
    labelled = Names.of(Role.CONCEPT, iris, names)
    told = {(number[name], number[above]) for name, uppers in pairs + tops for above in uppers}
    missing = number["blue lamp"], number["lamp"]
    facts = Facts.of(
        Vocabulary(vocabulary.entities, labelled, vocabulary.relations, vocabulary.synonyms),
        subsumptions=told - {missing},
        typings=[(0, number["red car"])],
    )
    return facts, missing


@st.composite
def hierarchies(draw: st.DrawFn) -> Facts:
    """Any subsumptions among a few concepts, cycles and all, with instances."""
    size = draw(st.integers(1, 12))
    concept, entity = st.integers(0, size - 1), st.integers(0, 4)
    told = draw(st.lists(st.tuples(concept, concept), max_size=30))
    typings = draw(st.lists(st.tuples(entity, concept), max_size=10))
    names = Vocabulary.of([f"urn:e{n}" for n in range(5)], [f"urn:Some{n % 3}Name{n}" for n in range(size)])
    return Facts.of(names, typings=typings, subsumptions=[(low, high) for low, high in told if low != high])


@given(hierarchies())
@settings(max_examples=40, deadline=None)
def test_what_is_known_is_no_candidate_and_probabilities_are_some(facts: Facts) -> None:
    size = len(facts.vocabulary.concepts)
    rows = predict_subsumptions(facts, (), 0.3, 0, CPU)
    tree = Hierarchy.of(facts.subs, facts.supers, size)
    assert len(rows) == size
    assert np.all((rows.values > 0) & (rows.values < 1))
    for concept in range(size):
        assert not set(rows[concept].tolist()) & {
            *tree.ancestors[concept].tolist(),
            *tree.descendants[concept].tolist(),
        }


@given(hierarchies(), st.integers(0, 3))
@example(Facts.of(Vocabulary.of(["urn:e"], ["urn:a", "urn:b", "urn:c"]), (), (), [(0, 1), (1, 0), (2, 0), (2, 1)]), 1)
@settings(max_examples=40, deadline=None)
def test_held_out_are_direct_subsumptions(facts: Facts, seed: int) -> None:
    kept = keep_subsumptions(facts, seed, 0.5)
    assert keep_subsumptions(facts, seed, 0.0).all()
    size = len(facts.vocabulary.concepts)
    for row in np.flatnonzero(~kept):  # without it alone, it does not follow
        others = facts.with_subsumptions(np.arange(len(kept)) != row)
        assert facts.supers[row] not in Hierarchy.of(others.subs, others.supers, size).ancestors[int(facts.subs[row])]


@given(hierarchies())
@settings(max_examples=30, deadline=None)
def test_features_by_plain_counts(facts: Facts) -> None:
    graph = ConceptGraph.of(facts, ())
    lower, upper = graph.candidates(np.arange(len(graph.tree)))
    view = SubsumptionView(graph, lower, upper)
    instances, shares, words = graph.instances, view.instances(), view.covered(graph.words)
    for row, (low, high) in enumerate(zip(lower.tolist(), upper.tolist(), strict=True)):
        own, other = set(instances[low].tolist()), set(instances[high].tolist())
        assert shares[row] == pytest.approx(len(own & other) / (len(own) + 1))
        had = [set(graph.words.having[concept].tolist()) for concept in (low, high)]
        both = sum(float(graph.words.weights[word]) for word in had[0] & had[1])
        for column, concept in enumerate(had):
            whole = sum(float(graph.words.weights[word]) for word in concept) + 0.1
            assert words[row, column] == pytest.approx(both / whole, rel=1e-4, abs=1e-6)


def test_words_of_labels_and_of_names() -> None:
    names = Vocabulary.of([], ["urn:x#DeepLearningTechnique", "urn:x#learning_DNA", "urn:x#Other"])
    words = words_of(Facts.of(names))
    assert words.having.sizes().tolist() == [3, 1, 2]  # in the order of IRIs
    assert len(set(words.having[0].tolist()) & set(words.having[2].tolist())) == 1


def test_links_between_classes_are_evidence() -> None:
    names = Vocabulary.of([], [f"urn:{letter}" for letter in "ABCDE"], ["urn:part_of"])
    axioms = [("SubClassOf", f"urn:{low}", ("ObjectSomeValuesFrom", "urn:part_of", "urn:E")) for low in "AB"]
    axioms += [("SubClassOf", "urn:A", ("ObjectSomeValuesFrom", "urn:unknown", "urn:D"))]
    facts = Facts.of(names, subsumptions=[(1, 2)])
    with_links, without = (ConceptGraph.of(facts, told) for told in (axioms, ()))
    assert (0, 2) in set(zip(*(ids.tolist() for ids in with_links.candidates(np.arange(5))), strict=True))
    assert not len(without.candidates(np.arange(5))[0])


def test_a_missing_subsumption_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    facts, (low, high) = coloured()
    rows = predict_subsumptions(facts, (), 0.1, 0, CPU)
    best = int(rows[low][np.argmax(rows.values_of(low))])
    assert best == high
    assert rows.value(low, high) > np.quantile(rows.values, 0.95)
    again = predict_subsumptions(facts, (), 0.1, 0, CPU)
    assert np.array_equal(pair_keys(*rows.coordinates(), len(rows)), pair_keys(*again.coordinates(), len(again)))
    assert np.array_equal(rows.values, again.values)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("coloured")
    write_store(folder / "kb", coloured()[0])
    start(folder / "kb", folder / "run", quick_settings())
    return folder / "run"


def test_a_run_says_what_is_predicted(run: Path) -> None:
    kb = Reasoner.load(run).kb
    found = describe_expression(kb, "'blue lamp'", min_degree=0.001)
    known = {each.iri for each in (*found.superclasses, *found.subclasses)}
    assert "lamp" in [each.label for each in found.predicted_superclasses]
    assert not known & {each.iri for each in found.predicted_superclasses + found.predicted_subclasses}
    degrees = [each.degree for each in found.predicted_superclasses]
    assert degrees == sorted(degrees, reverse=True)
    assert len(describe_expression(kb, "'blue lamp'", k=1, min_degree=0.001).predicted_superclasses) == 1
    assert "blue lamp" in [each.label for each in describe_expression(kb, "lamp", None, 0.001).predicted_subclasses]
    assert not describe_expression(kb, "lamp", min_degree=1).predicted_subclasses
    assert not describe_expression(kb, "lamp and not 'blue thing'", min_degree=0).predicted_superclasses
    store = KnowledgeBase(open_store(run.with_name("kb")).facts)
    assert not describe_expression(store, "'blue lamp'", min_degree=0).predicted_superclasses


def test_the_command_shows_known_and_predicted_classes(run: Path) -> None:
    arguments = ["concept", str(run), "blue lamp", "--min-degree", "0.001"]
    shown = CliRunner().invoke(app, arguments).output
    assert "1 direct superclass\n  blue-thing ! blue thing\n" in shown
    assert "predicted direct superclass" in shown
    found = json.loads(CliRunner().invoke(app, [*arguments, "--json"]).output)
    assert [each["label"] for each in found["direct_superclasses"]] == ["blue thing"]
    assert {"lamp"} <= {each["label"] for each in found["predicted_superclasses"]}
    assert {each["status"] for each in found["predicted_superclasses"]} == {"predicted"}
    placed = CliRunner().invoke(
        app, ["concept", str(run), "'blue lamp' or 'blue lamp'", "--min-degree", "0.001", "--tsv"]
    )
    assert "predicted_superclasses\t<urn:lamp>\tlamp\t0." in placed.output


def test_a_run_without_concepts_or_of_an_earlier_version_predicts_none(tmp_path: Path, run: Path) -> None:
    from tarbox.models.saved import open_run

    names = Vocabulary.of([f"urn:e{n}" for n in range(6)], [], ["urn:r"])
    write_store(tmp_path / "kb", Facts.of(names, [(n, 0, (n + 1) % 6) for n in range(6)]))
    start(tmp_path / "kb", tmp_path / "run", quick_settings())
    assert Reasoner.load(tmp_path / "run").kb.predicted_subsumptions is None
    saved = open_run(run)
    scorer = saved.scorer()
    arrays = {name: array for name, array in scorer.arrays().items() if not name.startswith("subsumptions/")}
    assert len(arrays) == len(scorer.arrays()) - 3
    older = type(scorer).of_arrays(saved.facts, arrays, scorer.Config(), "cpu")
    assert older.subsumptions is None
