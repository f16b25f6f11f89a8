"""Sets of entities against a background, judged by a plain oracle on generated stores of genes with terms."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import typer
from typer.testing import CliRunner, Result

from set_oracle import SetOracle, random_lists, share_with_a_finding
from tarbox.cli.answer_tables import Form, Printer
from tarbox.cli.ask import ask
from tarbox.core.errors import QueryError, SourceError, TarboxError, UnknownName
from tarbox.core.ids import Role
from tarbox.execution.graph import Index
from tarbox.kb.facts import Facts
from tarbox.kb.rows import Rows, TripleKeys
from tarbox.kb.vocabulary import SYNONYMS, Names, Vocabulary
from tarbox.models.counting import Counting
from tarbox.models.credo.concepts import SetModel
from tarbox.models.credo.model import Credo
from tarbox.models.credo.probabilities import FactProbabilities
from tarbox.models.saved import sizes_of
from tarbox.service.enrichment import SetTests, upper_tail, weighted_tail
from tarbox.service.knowledge_base import KnowledgeBase
from tarbox.service.reasoner import Reasoner

BASE = "http://x.org/"
GENES = [f"gene/G{number:03}" for number in range(300)]
DISEASES = [f"disease/D{number:03}" for number in range(100)]
TERMS = [f"term/T{number:03}" for number in range(121)]
"""A tree: T000 above T001 to T010, each of these above ten."""


def parent(term: int) -> int:
    return (term - 1) // 10


def make(annotations: dict[str, set[int]], synonyms: dict[str, list[str]] | None = None) -> KnowledgeBase:
    """A knowledge base of genes and diseases with the given terms, of which concept and entity have one name."""
    entities = sorted([*GENES, *DISEASES, *TERMS])
    concepts = sorted(["Gene", "Disease", *TERMS])
    rows = [
        (Role.ENTITY.value, entities.index(name), text) for name, texts in (synonyms or {}).items() for text in texts
    ]
    columns = [list(column) for column in zip(*rows, strict=True)] or [[], [], []]
    vocabulary = Vocabulary(
        Names.of(Role.ENTITY, [BASE + name for name in entities]),
        Names.of(Role.CONCEPT, [BASE + name for name in concepts]),
        Names.of(Role.RELATION, [BASE + "has_phenotype"]),
        pa.table(columns, schema=SYNONYMS),
    )
    place, kind = {name: at for at, name in enumerate(entities)}, {name: at for at, name in enumerate(concepts)}
    links = [(place[name], 0, place[TERMS[term]]) for name, terms in annotations.items() for term in terms]
    types = [(place[name], kind["Gene"]) for name in GENES] + [(place[name], kind["Disease"]) for name in DISEASES]
    types += [(place[name], kind[name]) for name in TERMS]
    tree = [(kind[TERMS[term]], kind[TERMS[parent(term)]]) for term in range(1, len(TERMS)) if parent(term) != term]
    return KnowledgeBase(Facts.of(vocabulary, links, types, tree, [0]), "genes")


@pytest.fixture(scope="module")
def kb() -> KnowledgeBase:
    """270 of the genes and all diseases have terms, diseases many more and others: they are no background for genes."""
    draw = np.random.default_rng(5)
    popular = draw.dirichlet(np.full(110, 0.3))
    terms = {name: set((11 + draw.choice(110, 4, p=popular)).tolist()) for name in GENES[:270]}
    terms |= {name: set(draw.integers(11, 121, 12).tolist()) for name in DISEASES}
    return make(terms, {GENES[1]: ["NCBIGene:7157", "p53"], GENES[2]: ["both"], DISEASES[2]: ["both"]})


@pytest.fixture(scope="module")
def oracle(kb: KnowledgeBase) -> SetOracle:
    return SetOracle(kb)


@pytest.fixture
def run(kb: KnowledgeBase, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    monkeypatch.setattr(KnowledgeBase, "load", lambda *_: kb)
    app = typer.Typer()
    app.command()(ask)
    return lambda *arguments: CliRunner().invoke(app, ["KB", *map(str, arguments)], env={"COLUMNS": "140"})


def write(file: Path, names: list[str]) -> Path:
    file.write_text("".join(f"{name.rpartition('/')[2]}\n" for name in names))
    return file


def iris(names: list[str]) -> list[str]:
    return [f"<{BASE}{name}>" for name in names]


def test_tests_are_those_of_the_oracle(kb: KnowledgeBase, oracle: SetOracle) -> None:
    """Genes without a term are not counted, diseases and terms are no background, the type Gene is no finding."""
    for members in (iris(GENES[:30]), iris(GENES[250:290]), oracle.population):
        answers = kb.describe_set(members, everything=True)
        plain = {test.term: test for test in oracle.test(members)}
        assert answers.extra["outside"] == [iri for iri in members if iri not in oracle.terms_of]
        assert answers.extra["tests"] == len(plain) + 1  # and Gene, which all of them are
        found = {concept.iri: concept for concept in answers.concepts}
        assert found.keys() - {f"<{BASE}Gene>"} == {term for term, test in plain.items() if test.k}
        for iri, concept in found.items():
            if iri in plain:
                told = (concept.set_count, concept.set_size, concept.background_count, concept.background_size)
                assert told == plain[iri][1:5]
                assert concept.p_value == pytest.approx(plain[iri].p, rel=1e-9)
                assert concept.fold == pytest.approx((told[0] / told[1]) / (told[2] / told[3]))
            else:
                assert (concept.p_value, concept.q_value, concept.fold) == (1.0, 1.0, 1.0)
        tested = len(plain) + 1
        for q, test in ((found[term].q_value, test) for term, test in plain.items() if test.k):
            assert q == pytest.approx(min(1.0, test.q * tested / len(plain)), rel=1e-9)


def test_random_lists_have_no_findings(kb: KnowledgeBase, oracle: SetOracle) -> None:
    lists = random_lists(oracle, 200, seed=3)
    assert share_with_a_finding(kb, lists) <= 0.06
    mixed = [kb.describe_set(each, background=iris([*GENES, *DISEASES])) for each in lists[:20]]
    assert sum(answers.extra["significant"] > 0 for answers in mixed) > 15  # diseases would make findings of them all


def test_expected_counts_find_nothing_in_random_lists(kb: KnowledgeBase, oracle: SetOracle) -> None:
    """Whatever the probabilities are: here of each gene one of its own for every term."""
    index, draw = kb.index, np.random.default_rng(1)
    ids = np.array([kb.entities.id(iri) for iri in oracle.population], np.int32)
    weights = np.zeros((index.entities, index.concepts))
    weights[ids] = draw.random((len(ids), 1)) ** 3 * draw.random(index.concepts)
    rows, columns = np.nonzero(weights)
    sparse = Rows.of_values(rows * index.concepts + columns, weights[rows, columns], index.entities, index.concepts)
    found = 0
    for size in (10, 40, 100, 200):
        for _ in range(50):
            members = np.sort(draw.choice(ids, size, replace=False))
            found += bool((SetTests.of(sparse, members, ids, index.concepts).q_values < 0.05).any())
    assert found <= 12


def test_with_most_annotations_missing_expected_counts_find_more() -> None:
    """Truth is drawn from probabilities, a quarter is known; lists have half the genes that truly have a term."""
    draw = np.random.default_rng(2)
    chances = np.where(draw.random((400, 80)) < 0.1, 0.5, 0.01)
    truth = draw.random(chances.shape) < chances
    known = truth & (draw.random(chances.shape) < 0.25)
    expected = np.where(known, 1.0, chances * 0.75 / (1 - chances * 0.25))
    rows, columns = np.nonzero(expected)
    weights = Rows.of_keys(rows * 80 + columns, 400, 80, expected[rows, columns])
    crisp = Rows.of(*np.nonzero(known), 400, 80)
    found = {"known": 0, "expected": 0}
    everyone = np.arange(400, dtype=np.int32)
    for term in range(80):
        own = np.flatnonzero(truth[:, term])[::2]
        members = np.union1d(own, draw.choice(400, 2 * len(own), replace=False)).astype(np.int32)
        for name, matrix in (("known", crisp), ("expected", weights)):
            found[name] += bool(SetTests.of(matrix, members, everyone, 80).q_values[term] < 0.05)
    assert found["expected"] > 2 * found["known"] > 0


@pytest.mark.parametrize("inside", [1, 2, 20, 200, 3000])
def test_of_whole_weights_the_tail_is_the_hypergeometric_one(inside: int) -> None:
    k = np.array([k for k in (1, 2, 3, 5, 8, 20, 40, 60) if 60 * inside / 19_711 + 0.7 <= k <= min(inside, 60)])
    exact = upper_tail(k, np.full(len(k), inside), 60, 19_711)
    weights, counts = np.array([[0.0, 1.0]] * len(k)), np.array([[19_711.0 - inside, inside]] * len(k))
    found = weighted_tail(weights, counts, k.astype(float), 60)
    assert len(k)
    assert np.all(np.abs(np.log(found / exact)) < 0.17)


@pytest.mark.parametrize(
    "weights",
    [
        np.linspace(0.01, 1, 60),
        np.append(np.ones(20), np.linspace(0, 0.3, 200)),
        np.append(np.ones(5), np.full(300, 0.05)),
        np.linspace(0, 1, 400) ** 4,
    ],
)
def test_of_any_weights_the_tail_is_above_what_draws_have(weights: np.ndarray) -> None:
    draw, whole = np.random.default_rng(0), np.append(weights, np.zeros(400 - len(weights)))
    sums = np.array([whole[draw.choice(400, 40, replace=False)].sum() for _ in range(20_000)])
    at = np.quantile(sums, [0.9, 0.99, 0.999])
    found = weighted_tail(np.tile(whole, (3, 1)), np.ones((3, 400)), at, 40)
    share = np.array([np.mean(sums >= each - 1e-9) for each in at])
    assert np.all(found >= 0.9 * share)
    assert np.all(found <= 10 * share)


@pytest.fixture(scope="module")
def nested() -> KnowledgeBase:
    """T011 to T020 are below T001, T021 and more below T002. Twenty genes have T011, which is all that T001 has but for
    one gene that is elsewhere; T002 is half of T021's and half of T022's."""
    terms: dict[str, set[int]] = {name: {30 + number % 80} for number, name in enumerate(GENES)}
    for name in GENES[:20]:
        terms[name].add(11)
    terms[GENES[200]].add(12)
    for number, name in enumerate(GENES[20:40]):
        terms[name].add(21 + number % 2)
    return make(terms)


def labels(answers: object) -> list[str]:
    return [concept.label for concept in answers.concepts]  # type: ignore[attr-defined]


def test_parents_that_add_nothing_are_left_out(nested: KnowledgeBase) -> None:
    answers = nested.describe_set(iris(GENES[:20]))
    assert labels(answers)[0] == "T011"
    assert "T001" not in labels(answers)
    assert answers.extra["redundant"] == 1
    assert "T001" in labels(nested.describe_set(iris(GENES[:20]), everything=True))


def test_parents_that_add_something_stay(nested: KnowledgeBase) -> None:
    answers = nested.describe_set(iris(GENES[20:40]))
    assert labels(answers)[0] == "T002"
    assert {"T021", "T022"} < set(labels(answers))
    assert answers.extra["redundant"] == 0


@pytest.mark.parametrize("seed", range(5))
def test_the_most_significant_concept_always_stays(seed: int) -> None:
    draw = np.random.default_rng(seed)
    kb = make({name: set(draw.integers(11, 40, 3).tolist()) for name in GENES})
    own = [gene.iri for gene, _, _ in kb.assertions("T015")]
    own += iris([name for name in GENES if draw.random() < 0.1])
    shown, whole = kb.describe_set(own), kb.describe_set(own, everything=True)
    assert shown.extra["significant"] > 0
    assert shown.concepts[0].p_value == whole.concepts[0].p_value
    assert set(labels(shown)) <= set(labels(whole))


def test_a_given_background(kb: KnowledgeBase, oracle: SetOracle) -> None:
    background = iris(GENES[:100])
    answers = kb.describe_set(iris(GENES[80:120]), background)
    plain = {test.term: test for test in oracle.test(iris(GENES[80:120]), background)}
    assert answers.extra["background_size"] == 100
    assert answers.extra["outside"] == iris(GENES[100:120])
    for concept in answers.concepts:
        if concept.iri in plain:
            assert (concept.set_count, concept.background_count) == (plain[concept.iri].k, plain[concept.iri].size)
    with pytest.raises(QueryError, match="nothing describes the set: none of its 3 entities is in the background"):
        kb.describe_set(iris(GENES[:3]), iris(GENES[10:20]))


def test_strays_do_not_widen_the_background(kb: KnowledgeBase) -> None:
    answers = kb.describe_set(iris([*GENES[:19], DISEASES[0]]))
    assert answers.extra["background"] == [f"<{BASE}Gene>"]
    assert answers.extra["outside"] == iris([DISEASES[0]])
    both = kb.describe_set(iris([*GENES[:10], *DISEASES[:10]]))
    assert both.extra["background"] == [f"<{BASE}Disease>", f"<{BASE}Gene>"]


def test_two_sets_compared(kb: KnowledgeBase, oracle: SetOracle) -> None:
    first, second = iris(GENES[:40]), iris(GENES[30:80])
    one, other = kb.compare_sets(first, second)
    for answers, members in ((one, GENES[:30]), (other, GENES[40:80])):
        plain = {test.term: test for test in oracle.test(iris(members), iris([*GENES[:30], *GENES[40:80]]))}
        assert answers.extra["set_size"] == len(members)
        assert answers.extra["background_size"] == 70
        for concept in answers.concepts:
            if concept.iri in plain:
                assert concept.p_value == pytest.approx(plain[concept.iri].p, rel=1e-9)
    with pytest.raises(QueryError, match="no member that the other does not have"):
        kb.compare_sets(first, first[:5])


def test_identifiers_of_several_kinds(kb: KnowledgeBase) -> None:
    names = ["G000", "NCBIGene:7157", "P53", "7157", f"<{BASE}{GENES[3]}>", BASE + GENES[4], "both"]
    answers = kb.describe_set(names)
    assert [entity.label for entity in answers.entities] == ["G000", "G001", "G002", "G003", "G004"]
    with pytest.raises(UnknownName, match="Did you mean"):
        kb.describe_set(["G000", "G0000"])


def test_a_text_is_no_set_of_letters(kb: KnowledgeBase) -> None:
    with pytest.raises(QueryError, match=r"a set is a list of names, and this is a text: write \['e1'\]"):
        kb.describe_set("e1")


def test_lines_that_name_nothing_are_listed(run: Callable[..., Result], tmp_path: Path) -> None:
    file = write(tmp_path / "genes.txt", ["# mine", "G000\t1.5", "Nowhere", "", "both", "7157"])
    result = run("--set", file, "--json")
    assert result.exit_code == 3
    assert result.stderr == f"{file}:3: no entity 'Nowhere' in genes\n"
    told = json.loads(result.stdout)
    assert [entity["label"] for entity in told["entities"]] == ["G000", "G001", "G002"]
    many = write(tmp_path / "background.txt", [*(f"Nowhere{number}" for number in range(200)), *GENES[:50], "both"])
    lines = run("--set", file, "--background", many).stderr.splitlines()
    assert len(lines) == 201
    assert lines[-1] == f"{many}:200: no entity 'Nowhere199' in genes"


def test_an_unclear_name_of_no_set_is_rejected(run: Callable[..., Result], tmp_path: Path) -> None:
    result = run("--set", write(tmp_path / "genes.txt", ["G000", "D000", "both"]))
    assert result.exit_code == 3
    assert "genes.txt:3: 'both' names 2 entities" in result.stderr
    with pytest.raises(SourceError, match="names no entity of genes: a line is one name, or has cells with tabs"):
        raise run("--set", write(tmp_path / "none.txt", ["Nowhere"])).exception


def test_the_screen_says_what_is_compared(run: Callable[..., Result], tmp_path: Path) -> None:
    file = write(tmp_path / "genes.txt", GENES[260:280])
    shown = run("--set", file, "-k", "3").stdout
    assert "n = 10 members in the background, N = 270 described entities of Gene" in shown
    assert "not in the background, hence not counted: 10 (G270, G271, G272, G273, G274, ...)" in shown
    assert "k/n" in shown
    assert "10/270" not in shown.split("k/n")[0]
    rows = run("--set", file, "--tsv", "-k", "0").stdout.splitlines()
    header = rows[0].split("\t")
    assert {"set_count", "background_size", "fold", "p_value", "q_value"} < set(header)
    assert "expected_count" not in header
    first = dict(zip(header, next(row for row in rows if "concept" in row).split("\t"), strict=True))
    assert (first["set_size"], first["background_size"]) == ("10", "270")


def test_two_files_and_a_picture(run: Callable[..., Result], tmp_path: Path) -> None:
    one, other = write(tmp_path / "a.txt", GENES[:40]), write(tmp_path / "b.txt", GENES[30:80])
    plot = tmp_path / "sets.png"
    result = run("--set", one, "--versus", other, "--tsv", "--plot", plot)
    assert result.exit_code == 0
    assert {row.split("\t")[0] for row in result.stdout.splitlines()[1:]} == {str(one), str(other)}
    assert plot.read_bytes()[:4] == b"\x89PNG"
    shown = run("--set", one, "--versus", other).stdout
    assert f"30 entities of {one}, against {other}" in shown.replace("\n", " ").replace("  ", " ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("Gene", "--all"), "go with --set FILE"),
        (("--set", "a", "--versus", "b", "--predicted"), "--versus is its own background"),
    ],
)
def test_wrong_usage(run: Callable[..., Result], arguments: tuple[str, ...], message: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.replace("│", " ").split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(("--predicted",), "--predicted needs a run: genes is a store"), (("--plot", "x.jpeg"), "must end in .png")],
)
def test_what_cannot_be_done_is_said(
    run: Callable[..., Result], tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    result = run("--set", write(tmp_path / "genes.txt", GENES[:5]), *arguments)
    assert isinstance(result.exception, TarboxError)
    assert message in str(result.exception)


def test_a_run_expects_missing_descriptions(capsys: pytest.CaptureFixture[str]) -> None:
    """Of forty genes of one group half have T011 and the others are predicted to have it: with these it is found."""
    terms: dict[str, set[int]] = {name: {30 + number % 80} for number, name in enumerate(GENES)}
    for name in GENES[:6] + GENES[100:130]:
        terms[name].add(11)
    kb = make(terms)
    facts, index = kb.facts, Index.of(kb.facts)
    term = kb.entities.id("T011")
    heads = np.array([kb.entities.id(name[5:]) for name in GENES[6:36]])
    keys = TripleKeys(index.entities).encode(np.zeros(30, np.int64), heads, np.full(30, term))
    order = np.argsort(keys)
    nothing = np.empty(0, np.int64), np.empty(0, np.float32)
    links = keys[order], np.full(30, 0.6, np.float32)
    probabilities = FactProbabilities.of(facts, sizes_of(facts), links, nothing)
    reasoner = Reasoner(kb, Credo.of(index, probabilities, SetModel.of(index, 0)), "credo")
    members = iris(GENES[:36])
    known = {concept.label: concept for concept in kb.describe_set(members).concepts}["T011"]
    found = {concept.label: concept for concept in reasoner.describe_set(members, everything=True).concepts}["T011"]
    assert (found.set_count, found.p_value, found.q_value) == (known.set_count, known.p_value, known.q_value)
    assert known.q_value > 0.05
    assert found.expected_count == pytest.approx(6 + 30 * 0.6, rel=1e-4)
    assert found.expected_background_count == pytest.approx(36 + 30 * 0.6, rel=1e-4)
    assert found.expected_q_value < 0.001
    Printer(kb, Form.SCREEN).show(reasoner.describe_set(members), "")
    assert re.search(r"k/n .*\nconcept +expected .*\n(.*\n)*T011 +6/36 .*\n +24\.00 ", capsys.readouterr().out)
    only = reasoner.describe_set(iris(GENES[6:36]), everything=True).concepts
    assert {concept.label: concept.status for concept in only}["T011"] == "predicted"
    with pytest.raises(QueryError, match="counting predicts without probabilities"):
        Reasoner(kb, Counting.from_facts(facts), "counting").describe_set(members)
