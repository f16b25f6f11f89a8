"""A run of a store whose genes are annotated with terms (ADR 39): concept answers have predicted descriptions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from quick_learning import few_steps, quick_settings

from tarbox import Reasoner
from tarbox.execution.rows import encode
from tarbox.kb.build import BuildOptions, build
from tarbox.kb.interpretation import Interpretation
from tarbox.kb.sources import find_sources
from tarbox.models.saved import open_run
from tarbox.query.algebra import Entity
from tarbox.training.session import start

GROUPS, TERMS, GENES = 4, 6, 15


@pytest.fixture(scope="module", autouse=True)
def quick() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        few_steps(patched.setattr)
        yield


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Each gene of a group has four of its six terms."""
    folder, random = tmp_path_factory.mktemp("annotated"), np.random.default_rng(0)
    tables = folder / "tables"
    tables.mkdir()
    links, types, tree = list[str](), list[str](), list[str]()
    for group in range(GROUPS):
        tree += [f"Group{group}\tPhenotype", *(f"T{group}{term}\tGroup{group}" for term in range(TERMS))]
        for gene in range(GENES):
            types.append(f"G{group}{gene:02}\tGene")
            chosen = random.permutation(TERMS)[:4].tolist()
            links += [f"G{group}{gene:02}\thas_phenotype\tT{group}{term}" for term in chosen]
            links.append(f"G{group}{gene:02}\tinteracts_with\tG{group}{(gene + 1) % GENES:02}")
    for name, lines in (("relations", links), ("types", types), ("subclass", tree)):
        (tables / f"{name}.tsv").write_text("\n".join(lines) + "\n")
    options = BuildOptions(Interpretation(annotations=("has_phenotype",)))
    build(find_sources([str(tables)])[0], folder / "kb", options)
    start(folder / "kb", folder / "run", quick_settings("stopping.epochs=30", "model.rank=16"))
    return folder / "run"


def test_known_and_predicted_descriptions(run: Path) -> None:
    reasoner = Reasoner.load(run)
    kb = reasoner.kb
    assert kb.facts.annotations
    better, pairs = 0, 0
    for gene in ("G003", "G107", "G211"):
        found = {answer.label: answer for answer in reasoner.answer(f"{{{gene}}}", k=None, min_degree=0.0).concepts}
        known = {name for name, answer in found.items() if answer.status == "known"}
        terms = {thing.label for _, relation, thing in kb.assertions(gene) if relation.label == "has_phenotype"}
        assert known == {"Gene", "Phenotype", f"Group{gene[1]}", *terms}
        assert all(found[name].degree == 1.0 for name in known)
        own = {f"T{gene[1]}{term}" for term in range(TERMS)} - known
        others = {f"T{group}{term}" for group in range(GROUPS) for term in range(TERMS)} - own - known
        degree = {name: found[name].degree if name in found else 0.0 for name in own | others}
        pairs += len(own) * len(others)
        better += sum(degree[mine] > degree[other] for mine in own for other in others)
        assert max(degree[mine] for mine in own) > 0
    assert better / pairs > 0.9


def test_no_concept_has_less_than_one_below_it(run: Path) -> None:
    model, facts = open_run(run).scorer("cpu"), open_run(run).store.facts
    for entity in range(0, len(facts.vocabulary.entities), 7):
        shape, ids = encode(Entity(facts.vocabulary.entities.iri(entity)), facts.vocabulary)
        degrees, _ = model.predict(shape, ids[None]).dense_concepts(0, len(facts.vocabulary.concepts))
        assert all(degrees[facts.supers] >= degrees[facts.subs])


def test_terms_are_what_the_hierarchy_says(run: Path) -> None:
    """Nothing is predicted of their types, and no gene is one of them."""
    saved = open_run(run)
    concepts, facts = saved.scorer("cpu").probabilities.concepts, saved.store.facts
    typed, types = concepts.coordinates()
    names = facts.vocabulary
    for entity, concept, degree in zip(typed.tolist(), types.tolist(), concepts.values.tolist(), strict=True):
        if names.entities.show(entity).startswith("T"):
            assert degree == 1.0
        else:
            assert names.concepts.show(concept) == "Gene"
