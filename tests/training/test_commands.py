"""`tarbox train`, `concept`, `eval RUN`, `ask RUN` and `tune`, as a user calls them."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import typer
from typer.testing import CliRunner, Result

from tarbox.cli.ask import ask
from tarbox.cli.bench import build
from tarbox.cli.concept import concept
from tarbox.cli.demo import QUESTIONS, RECIPE, SUGGESTED, SUGGESTED_CONCEPT, suggestions
from tarbox.cli.evaluate import evaluate
from tarbox.cli.kb import export_kb, show_kb
from tarbox.cli.progress_line import ProgressLine, duration
from tarbox.cli.train import train
from tarbox.cli.training_progress import ProgressPrinter
from tarbox.cli.tune import tune
from tarbox.core.errors import (
    BenchmarkError,
    ConfigError,
    MissingDependency,
    QueryError,
    StoreDamaged,
    StoreError,
    StoreMissing,
)
from tarbox.service.knowledge_base import KnowledgeBase
from tarbox.training.events import (
    EpochEnded,
    Estimated,
    Finished,
    PartBegan,
    PartProgressed,
    Started,
    Ticked,
    Validated,
)
from tarbox.training.settings import check_ablations, read_assignments, read_recipe, resolve

SHORT = ["--set", "epochs=2", "--set", "every=1", "--set", "batches.size=1024", "--set", "optimizer.rate=0.02"]
TINY = ["--model", "tiny_model:Tiny", *SHORT]


@pytest.fixture(scope="module")
def call() -> Callable[..., Result]:
    app = typer.Typer()
    for name, command in (("train", train), ("concept", concept), ("eval", evaluate), ("ask", ask), ("tune", tune)):
        app.command(name)(command)
    for name, command in (("info", show_kb), ("export", export_kb), ("build", build)):
        app.command(name)(command)

    def run(*arguments: str | Path) -> Result:
        found = CliRunner().invoke(app, [str(argument) for argument in arguments])
        if found.exception is not None and not isinstance(found.exception, SystemExit):
            raise found.exception
        return found

    return run


@pytest.fixture(scope="module")
def run_folder(call: Callable[..., Result], bench: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("commands") / "run"
    done = call("train", bench, "-o", folder, *TINY)
    assert done.exit_code == 0
    assert "2 epochs, reached stopping.epochs; best validation MRR" in done.stdout
    return folder


def test_lines_on_stderr_tell_how_training_goes(call: Callable[..., Result], bench: Path, tmp_path: Path) -> None:
    done = call("train", bench, "-o", tmp_path / "run", *TINY)
    assert "training: 2 epochs of" in done.stderr
    assert "epoch 1: validation MRR entity" in done.stderr
    assert "done after 2 epochs" in done.stderr


def test_evaluating_a_run(call: Callable[..., Result], run_folder: Path) -> None:
    found = json.loads(call("eval", run_folder, "--json", "--split", "valid").stdout)
    assert found["model"] == "tiny_model:Tiny"
    assert found["protocol"] == "honest"
    assert 0 < found["levels"]["concept"]["mrr"] < 1


def test_what_a_model_lacks_is_said_on_stderr(call: Callable[..., Result], bench: Path, tmp_path: Path) -> None:
    small = ["--model", "gqe", "--set", "dimension=4", "--set", "negatives.count=4", *SHORT, "--set", "every=9"]
    assert (
        "left out, since the model does not support them: 2in"
        in call("train", bench, "-o", tmp_path / "run", *small).stderr
    )
    done = call("eval", tmp_path / "run", "--json")
    assert done.stderr == "left out, since gqe does not support them: 2in\n"
    assert "2in" not in json.loads(done.stdout)["levels"]["entity"]["templates"]
    negated = {"id": "1", "level": "entity", "target": ["<https://tarbox.example/academia#Google>"], "known": []}
    query = "not (inverse <https://tarbox.example/academia#uses> value <https://tarbox.example/academia#Google>)"
    (tmp_path / "negated.jsonl").write_text(json.dumps(negated | {"query": query}))
    with pytest.raises(BenchmarkError, match="gqe does not support any of these queries"):
        call("eval", tmp_path / "run", "--queries", tmp_path / "negated.jsonl")
    with pytest.raises(QueryError, match="gqe does not support negation"):
        call("ask", tmp_path / "run", "not (inverse uses value Google)")


def test_a_model_that_is_not_trained_cannot_be_evaluated(call: Callable[..., Result], bench: Path) -> None:
    with pytest.raises(ConfigError, match="'tar' must be trained first"):
        call("eval", bench, "--model", "tar")


def test_a_run_has_one_model_and_devices_must_be_there(call: Callable[..., Result], run_folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"is a run of tiny_model:Tiny, .* Leave out --model tar, or train it"):
        call("eval", run_folder, "--model", "tar")
    assert call("eval", run_folder, "--model", "tiny_model:Tiny", "--json").exit_code == 0
    for command in (["eval", run_folder], ["concept", run_folder, "Researcher"]):
        with pytest.raises(ConfigError, match="no device 'foo'; there are auto, cpu, cuda"):
            call(*command, "--device", "foo")
        with pytest.raises(ConfigError, match=f"no device 'cuda:{torch.cuda.device_count()}' here"):
            call(*command, "--device", f"cuda:{torch.cuda.device_count()}")


def test_a_benchmark_that_moved(call: Callable[..., Result], bench: Path, tmp_path: Path) -> None:
    shutil.copytree(bench, tmp_path / "here")
    call("train", tmp_path / "here", "-o", tmp_path / "run", "--model", "counting")
    before = call("eval", tmp_path / "run", "--json").stdout
    (tmp_path / "here").rename(tmp_path / "there")
    with pytest.raises(StoreMissing, match=r"is not at .*here.*Name its new place: `tarbox eval .*run --bench BENCH`"):
        call("eval", tmp_path / "run")
    assert call("eval", tmp_path / "run", "--bench", tmp_path / "there", "--json").stdout == before
    with pytest.raises(ConfigError, match="--bench says where the benchmark of a run is"):
        call("eval", tmp_path / "there", "--bench", bench)


def test_messages_say_what_is_there(call: Callable[..., Result], run_folder: Path, bench: Path, tmp_path: Path) -> None:
    for command in (["info"], ["export", "-o", tmp_path / "facts.nt"], ["build", "-o", tmp_path / "bench"]):
        with pytest.raises(StoreMissing, match=rf"is a run, not a store\. .* is {run_folder / 'store'}\."):
            call(command[0], run_folder, *command[1:])
    with pytest.raises(StoreMissing, match=rf"is a benchmark, not a store\. .* is {bench / 'store'}\."):
        call("info", bench)
    with pytest.raises(StoreMissing, match=rf"is a benchmark, not a store\. .* is {bench / 'store'}\."):
        call("concept", bench, "Researcher")
    shutil.copytree(run_folder, tmp_path / "run")
    (tmp_path / "run" / "run.json").write_text("{")
    for wanted in (["eval"], ["ask", "Researcher"], ["concept", "Researcher"]):
        with pytest.raises(StoreDamaged, match=r"run\.json is damaged"):
            call(wanted[0], tmp_path / "run", *wanted[1:])
    with pytest.raises(StoreMissing, match=r"there is nothing at .*nope\. Name a benchmark or a store"):
        call("train", tmp_path / "nope", "-o", tmp_path / "new")


def test_asking_a_run(call: Callable[..., Result], run_folder: Path) -> None:
    found = json.loads(call("ask", run_folder, "inverse investigates value GeoffreyHinton", "--json", "-k", "6").stdout)
    for listed in (found["entities"], found["concepts"]):
        counts = Counter(answer["status"] for answer in listed)
        assert counts["predicted"] == 6
        assert 0 < counts["known"] <= 6


def test_the_members_of_a_concept(call: Callable[..., Result], run_folder: Path) -> None:
    found = json.loads(call("concept", run_folder, "Researcher", "--json", "-k", "5").stdout)
    assert found["label"] == "Researcher"
    assert Counter(member["status"] for member in found["members"]) == {"known": 5, "predicted": 5}
    assert "predicted" in call("concept", run_folder, "Researcher").stdout
    assert call("concept", run_folder, "Researcher", "--tsv").stdout.startswith("iri\tlabel\tdegree\tstatus\n")


def test_resuming_and_seeds(call: Callable[..., Result], bench: Path, tmp_path: Path) -> None:
    assert call("train", bench, "-o", tmp_path / "runs", *TINY, "--seeds", "2", "--seed", "5").exit_code == 0
    seeds = json.loads((tmp_path / "runs" / "seeds.json").read_text())
    assert set(seeds["best_mrr"]) == {"seed-5", "seed-6"}
    one = tmp_path / "runs" / "seed-5"
    assert "3 epochs" in call("train", "--resume", "-o", one, "--set", "epochs=3").stdout
    assert call("train", "--resume", "-o", one, "--model", "tar").exit_code == 2
    with pytest.raises(ConfigError, match=r"no run at .* to resume"):
        call("train", "--resume", "-o", tmp_path / "nothing")


def test_ablations_by_option(call: Callable[..., Result], bench: Path, tmp_path: Path) -> None:
    call("train", bench, "-o", tmp_path / "run", *TINY, "--without", "subsumption", "--without", "instantiation")
    line = json.loads((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()[0])
    assert set(line["losses"]) == {"entity", "concept"}


@pytest.mark.parametrize(("model", "learnt"), [("credo", "tar does"), ("gqe", "it learns entity, concept, inst")])
def test_an_ablation_of_nothing_is_refused(
    call: Callable[..., Result], bench: Path, tmp_path: Path, model: str, learnt: str
) -> None:
    with pytest.raises(ConfigError, match=f"{model} does not learn subsumption as a task, .*{learnt}"):
        call("train", bench, "-o", tmp_path / "run", "--model", model, "--without", "subsumption")
    assert not (tmp_path / "run").exists()


def test_more_may_be_left_out_than_a_model_learns() -> None:
    """The baselines are trained at entity level alone, by one setting for all of them."""
    without = read_assignments(["objective.without=['concept', 'instantiation', 'subsumption']"], "gqe")
    check_ablations(resolve([read_recipe("gqe"), without], "gqe"))


def test_counting_needs_no_training(call: Callable[..., Result], bench: Path, tmp_path: Path) -> None:
    assert "nothing to train" in call("train", bench, "-o", tmp_path / "run", "--model", "counting").stdout
    assert json.loads(call("eval", tmp_path / "run", "--json").stdout)["model"] == "counting"


def test_tuning(call: Callable[..., Result], bench: Path, tmp_path: Path) -> None:
    searched = ["--search", "optimizer.rate=0.02,0.002", *TINY]
    try:
        import optuna  # noqa: F401
    except ImportError:
        with pytest.raises(MissingDependency, match=r"needs optuna: pip install 'tarbox\[tune\]'"):
            call("tune", bench, "-o", tmp_path / "search", *searched)
        return
    first = call("tune", bench, "-o", tmp_path / "search", "--trials", "1", *searched)
    again = call("tune", bench, "-o", tmp_path / "search", "--trials", "2", *searched)
    assert "trial 0" in first.stderr
    assert "trial 0" not in again.stderr
    assert "trial 1" in again.stderr
    assert "best validation MRR" in again.stdout


def test_the_progress_printer_is_sober_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    now = iter(range(0, 1000, 20))
    losses = {"entity": 0.5}
    with ProgressLine(clock=lambda: float(next(now))) as line:
        printer = ProgressPrinter(line)
        printer(Started(0, 9, 100, 2048))
        printer(Ticked(0, 50, losses, 1000.0, 75.0))
        printer(EpochEnded(1, losses, 2048, 3.0, 1000.0, 60.0, 0.1))
        printer(Validated(1, 3.0, 0.25, {"entity": 0.2, "concept": 0.3}, True, 0.1))
        printer(Finished(1, 3.0, "9 epochs", 1, 0.25))
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "training: 9 epochs of 100 steps of 2,048 samples"
    assert "epoch 1: validation MRR entity 20.0, concept 30.0; the best so far" in said
    assert said[-1] == "done after 1 epochs and 3 s: 9 epochs"
    assert duration(7260) == "2 h 1 min"


def test_a_silence_is_broken_without_an_event(capsys: pytest.CaptureFixture[str]) -> None:
    now = [0.0]
    with ProgressLine(clock=lambda: now[0]) as line:
        printer = ProgressPrinter(line)
        printer(PartBegan("fitting calibration on held-out facts"))
        line.remind()
        now[0] = 40.0
        line.remind()
        printer(Estimated(200.0, 1_500_000_000, 0))
        printer(PartProgressed("fitting calibration on held-out facts", 0.25, 90.0))  # a line was said just now
        line.remind()
        now[0] = 66.0
        line.remind()
        now[0] = 92.0
        line.remind()
    assert capsys.readouterr().err.splitlines() == [
        "fitting calibration on held-out facts",
        "fitting calibration on held-out facts, 40 s after the start",
        "training will take about 3 min 20 s more, 1.5 GB of memory",
        "fitting calibration on held-out facts: 25%  1 min 30 s left",
        "fitting calibration on held-out facts, 1 min 32 s after the start",
    ]


def test_every_query_of_the_demo_has_answers(store: Path) -> None:
    kb = KnowledgeBase.load(store)
    for query in (*(query for _, query in QUESTIONS), SUGGESTED, SUGGESTED_CONCEPT):
        assert kb.answer(query).entities, query
    assert any(SUGGESTED in command for command in suggestions(Path("kb"), Path("run")))
    assert read_recipe(RECIPE)["model"]["name"] == "credo"


def test_a_run_on_a_store_has_nothing_to_be_evaluated_on(
    call: Callable[..., Result], store: Path, bench: Path, tmp_path: Path
) -> None:
    call("train", store, "-o", tmp_path / "run", "--model", "counting")
    with pytest.raises(BenchmarkError, match=r"nothing was held out .* Build a benchmark .* and train on that, or"):
        call("eval", tmp_path / "run")
    with pytest.raises(StoreError, match="was trained on other facts"):
        call("eval", tmp_path / "run", "--bench", bench)
    call("train", bench / "store", "-o", tmp_path / "same", "--model", "counting")
    assert json.loads(call("eval", tmp_path / "same", "--bench", bench, "--json").stdout)["model"] == "counting"
