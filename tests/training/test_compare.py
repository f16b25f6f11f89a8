"""`tarbox compare`, as a user calls it: what is trained, what is not trained again, and what is refused."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from tarbox.benchmark.folder import open_benchmark
from tarbox.cli.compare import compare
from tarbox.cli.compare_progress import Estimator, Reporter
from tarbox.cli.progress_line import ProgressLine
from tarbox.core.errors import ConfigError
from tarbox.training.comparison import (
    COUNTING,
    Began,
    Ended,
    Job,
    ProgressEvent,
    Trained,
    make_plan,
    read_plan,
    train_in_turn,
)
from tarbox.training.events import EpochEnded, PartBegan, PartProgressed, Started, Ticked
from tarbox.training.failures import TrainingInterrupted
from tarbox.training.model_specs import ModelSpec, Overrides, Word, choose_models

TINY = "tiny_model:Tiny"
SHORT = ["--set", "epochs=2", "--set", "every=1", "--set", "batches.size=1024", "--set", "optimizer.rate=0.02"]
Call = Callable[..., Result]


@pytest.fixture(scope="module")
def call() -> Call:
    app = typer.Typer()
    app.command()(compare)

    def run(*arguments: str | Path) -> Result:
        found = CliRunner().invoke(app, [str(argument) for argument in arguments])
        if found.exception is not None and not isinstance(found.exception, SystemExit):
            raise found.exception
        return found

    return run


@pytest.fixture(autouse=True)
def no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """They take most of the time; `compared`, made before, has them."""
    monkeypatch.setattr("tarbox.training.comparison_results.draw_comparison", lambda *_: None)
    monkeypatch.setattr("tarbox.training.session.draw_curves", lambda _: None)


@pytest.fixture(scope="module")
def compared(call: Call, bench: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two seeds of the tiny model and an ablation."""
    folder = tmp_path_factory.mktemp("compare") / "comparison"
    done = call(bench, "--models", f"{TINY},{TINY}-no-sub", "--seeds", "2", *SHORT, "-o", folder)
    assert done.exit_code == 0
    return folder


@pytest.fixture
def copied(compared: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(compared, tmp_path / "comparison"))


def results(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "results.json").read_text())


def written(folder: Path) -> dict[str, int]:
    """When the weights of every run were written."""
    return {str(file.relative_to(folder)): file.stat().st_mtime_ns for file in folder.rglob("model.safetensors")}


def test_all_files_are_there(compared: Path) -> None:
    assert (compared / "mrr.png").read_bytes().startswith(b"\x89PNG")
    assert r"\toprule" in (compared / "tables.tex").read_text()
    tables = (compared / "tables.md").read_text()
    assert "**TBox answers (concepts), MRR**" in tables
    assert f"**Ablations of {TINY}: ABox answers (entities), Hit@3**" in tables
    found = results(compared)
    assert [entry["key"] for entry in found["models"]] == ["counting", TINY, f"{TINY}-no-sub"]
    assert (found["split"], found["protocol"]) == ("test", "honest")
    whole, ablation = found["models"][1:]
    assert [run["seed"] for run in whole["runs"]] == [0, 1]
    assert whole["runs"][0]["epoch"] == 2
    assert whole["runs"][0]["settings"]["objective"]["without"] == []
    assert ablation["runs"][0]["settings"]["objective"]["without"] == ["subsumption"]
    assert whole["levels"]["entity"]["average"]["mrr"]["n"] == 2
    low, high = whole["runs"][0]["levels"]["entity"]["ci"]
    assert low <= whole["runs"][0]["levels"]["entity"]["mrr"] <= high
    assert found["models"][0]["runs"][0]["seed"] is None  # counting has one run, without a seed


def test_the_same_again_trains_and_ranks_nothing(call: Call, bench: Path, copied: Path) -> None:
    before, first = written(copied), (copied / "results.json").read_text()
    done = call(bench, "-o", copied)
    assert "4 runs are finished already" in done.stderr
    assert "run 1 of" not in done.stderr
    assert written(copied) == before
    assert (copied / "results.json").read_text() == first


@pytest.mark.parametrize(("commit", "ranked"), [("abc", False), ("abc+changes", True)])
def test_an_evaluation_is_used_again_only_where_the_code_is_known_to_be_the_same(
    call: Call, bench: Path, copied: Path, monkeypatch: pytest.MonkeyPatch, commit: str, ranked: bool
) -> None:
    monkeypatch.setattr("tarbox.training.comparison_results.own_commit", lambda: commit)
    call(bench, "-o", copied)
    file = copied / "runs" / "tiny_model.Tiny" / "seed-0" / "evaluation-test.json"
    before = file.stat().st_mtime_ns
    call(bench, "-o", copied)
    assert (file.stat().st_mtime_ns != before) == ranked
    monkeypatch.setattr("tarbox.training.comparison_results.own_commit", lambda: "another")
    call(bench, "-o", copied)
    assert file.stat().st_mtime_ns != before


def test_runs_of_different_code_are_noted(call: Call, bench: Path, copied: Path) -> None:
    file = copied / "runs" / "tiny_model.Tiny" / "seed-0" / "provenance.json"
    starts = json.loads(file.read_text())
    file.write_text(json.dumps([{**starts[0], "commit": "abc"}, {**starts[0], "commit": "def+changes"}]))
    call(bench, "-o", copied)
    notes = " ".join(results(copied)["notes"])
    assert "trained by different versions of tarbox: abc, def+changes" in notes
    assert "uncommitted changes" in notes
    assert results(copied)["models"][1]["runs"][0]["code"] == ["abc", "def+changes"]


def test_a_model_and_seeds_are_added(call: Call, bench: Path, copied: Path) -> None:
    before = written(copied)
    done = call(bench, "--models", f"wide={TINY}", "--set", "wide:dimension=24", *SHORT, "--seeds", "1", "-o", copied)
    assert "run 1 of 1: wide, seed 0" in done.stderr
    assert {key: value for key, value in written(copied).items() if "wide" not in key} == before
    found = results(copied)
    assert [entry["key"] for entry in found["models"]] == ["counting", TINY, f"{TINY}-no-sub", "wide"]
    assert found["models"][3]["runs"][0]["settings"]["model"]["dimension"] == 24
    assert "wide (1 run)" in (copied / "tables.md").read_text()


def test_other_queries_need_no_training(call: Call, bench: Path, copied: Path) -> None:
    done = call(bench, "-o", copied, "--split", "valid", "--templates", "1p,2u", "--queries", "4", "--json")
    found = json.loads(done.stdout)
    assert found["queries"] == {level: {"1p": 4, "2u": 4} for level in ("entity", "concept")}
    assert any("chosen on these same valid queries" in note for note in found["notes"])
    with pytest.raises(Exception, match="no valid queries of template '3p'"):
        call(bench, "-o", copied, "--split", "valid", "--templates", "3p")


def test_other_settings_are_refused(call: Call, bench: Path, copied: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"is in this comparison with other settings: optimizer.rate = 0.02 \(now 0.5\)"
    ):
        call(bench, "--models", TINY, *SHORT, "--set", "optimizer.rate=0.5", "-o", copied)
    config = copied / "runs" / "tiny_model.Tiny" / "seed-1" / "config.toml"
    config.write_text(config.read_text().replace("dimension = 16", "dimension = 8"))
    with pytest.raises(ConfigError, match=r"seed-1 was trained with other settings: model.dimension = 8 \(now 16\)"):
        call(bench, "-o", copied)


def test_another_benchmark_is_refused(call: Call, bench: Path, copied: Path, tmp_path: Path) -> None:
    record = json.loads((copied / "comparison.json").read_text())
    record["benchmark"]["tables"]["test"] = "0"
    (copied / "comparison.json").write_text(json.dumps(record))
    with pytest.raises(ConfigError, match="compares on another benchmark"):
        call(bench, "-o", copied)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("dear")
    with pytest.raises(ConfigError, match="is not empty and holds no comparison"):
        call(bench, "--models", TINY, "-o", tmp_path / "full")
    with pytest.raises(ConfigError, match=r"no comparison at .* yet: name models"):
        call(bench, "-o", tmp_path / "new")


def interrupt(progress: ProgressEvent) -> None:
    """Ends the process's training at the end of its first epoch, as `kill` does."""
    if isinstance(progress, Trained) and isinstance(progress.event, EpochEnded) and progress.event.epoch == 1:
        os.kill(os.getpid(), signal.SIGTERM)


def test_what_was_killed_goes_on(call: Call, bench: Path, compared: Path, tmp_path: Path) -> None:
    named = choose_models([TINY], Overrides(assignments=tuple(SHORT[1::2])))
    plan = make_plan(tmp_path / "c", open_benchmark(bench), [replace(named[0], seeds=2)])
    first, second = plan.jobs()
    with pytest.raises(TrainingInterrupted):
        train_in_turn([first, second], interrupt)
    assert first.is_begun()
    assert not first.is_finished()
    (second.folder / "store").mkdir(parents=True)  # what a process leaves that is killed before it writes run.json
    done = call(bench, "-o", tmp_path / "c")
    assert f"run 1 of 2: {TINY}, seed 0, continued" in done.stderr
    assert f"run 2 of 2: {TINY}, seed 1\n" in done.stderr
    one, two = (results(folder)["models"][1] for folder in (tmp_path / "c", compared))
    assert one["levels"] == two["levels"]  # bit by bit as if nothing had happened


def test_a_failure_costs_its_own_row_only_also_beside_others(call: Call, bench: Path, tmp_path: Path) -> None:
    models = f"good={TINY},bad={TINY}"
    given = ["--set", "bad:fail=number", "--seeds", "1", "--parallel", "2", *SHORT]
    done = call(bench, "--models", models, *given, "-o", tmp_path / "c")
    assert done.exit_code == 1
    assert "tarbox: bad, seed 0: failed: the loss is not a number" in done.stderr
    found = {entry["key"]: entry for entry in results(tmp_path / "c")["models"]}
    assert found["bad"]["levels"] == {}
    assert found["good"]["levels"]["entity"]["average"]["mrr"]["mean"] > 0
    assert "| bad (failed) | - |" in (tmp_path / "c" / "tables.md").read_text()


def test_a_model_may_raise_anything(monkeypatch: pytest.MonkeyPatch, bench: Path, tmp_path: Path) -> None:
    def explode(*_: object) -> None:
        raise RuntimeError("shapes\ndo not fit")

    monkeypatch.setattr("tarbox.training.comparison.start", explode)
    named = choose_models([TINY], Overrides())
    plan = make_plan(tmp_path / "c", open_benchmark(bench), [replace(named[0], seeds=1)])
    assert train_in_turn(plan.jobs(), lambda _: None) == {(TINY, 0): "RuntimeError: shapes do not fit"}


def test_a_model_without_negation_has_a_dash_and_a_comparable_average(call: Call, bench: Path, tmp_path: Path) -> None:
    small = ["--set", "dimension=8", "--set", "negatives.count=2", "--seeds", "1", *SHORT]
    assert call(bench, "--models", "gqe,tar", *small, "-o", tmp_path / "c").exit_code == 0
    found = results(tmp_path / "c")
    assert found["common_templates"] == {level: ["1p", "2p", "2i", "2u"] for level in ("concept", "entity")}
    tables = (tmp_path / "c" / "tables.md").read_text()
    assert "| model | 1p | 2p | 2i | 2u | 2in | avg | common |" in tables
    counting, gqe, tar = (entry["levels"]["entity"] for entry in found["models"])
    assert "2in" not in gqe["templates"]
    assert gqe["common"] == gqe["average"]
    assert tar["common"] != tar["average"]
    assert counting["common"]["mrr"]["n"] == 1
    losses = [entry["runs"][0]["settings"]["objective"]["loss"] for entry in found["models"][1:]]
    assert losses[0] != losses[1]  # gqe's is that of its own recipe


def test_words() -> None:
    assert Word.parse("tar") == Word("tar", "tar")
    assert Word.parse("tar-no-ins").addresses == ("tar", "tar-no-ins")
    assert Word.parse("tar-no-ins").name == "tar w/o Ins"
    assert Word.parse("mine=tar-no-ins").name == "mine"
    with pytest.raises(ConfigError, match="counting does not learn subsumption"):
        choose_models(["counting-no-sub"], Overrides())
    with pytest.raises(ConfigError, match="'tar' is named twice; another name is written NAME=tar"):
        choose_models(["tar", "tar"], Overrides())
    with pytest.raises(ConfigError, match="is no model to compare"):
        choose_models(["a b=tar"], Overrides())
    with pytest.raises(ConfigError, match=r"no model 'tarr'. Did you mean 'tar'"):
        choose_models(["tarr"], Overrides())


def table_of(models: list[ModelSpec], label: str) -> dict[str, Any]:
    settings = next(spec.settings for spec in models if spec.label == label)
    assert settings is not None
    return settings.table()


def test_settings_reach_whom_they_are_for(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text("[optimizer]\nrate = 0.25\n")
    overrides = Overrides(
        ("academia",),
        (f"{TINY}:{tmp_path / 'mine.toml'}",),
        ("tar:dimension=32", "tar-no-sub:dimension=40", "batches.size=77", "similarity_scale=3.0"),
        "cpu",
    )
    found = choose_models(["tar", "tar-no-sub", "tar-no-ins", TINY, "counting"], overrides)
    assert [table_of(found, label)["model"]["dimension"] for label in ("tar", "tar-no-sub", "tar-no-ins")] == [
        32,
        40,
        32,
    ]
    tiny = table_of(found, TINY)
    assert tiny["optimizer"]["rate"] == 0.25
    assert tiny["model"] == {"name": TINY, "dimension": 16, "fail": "", "after": 0}  # it has no similarity_scale
    assert tiny["stopping"]["epochs"] == 60  # a recipe for another model gives its budget only
    assert tiny["batches"]["size"] == table_of(found, "tar")["batches"]["size"] == 77
    assert table_of(found, "tar")["model"]["membership_scale"] == 10.0
    assert tiny["hardware"]["device"] == "cpu"
    assert found[-1].settings is None


@pytest.mark.parametrize(
    ("assignment", "reason"),
    [
        ("gqe:rate=1", "'gqe' is not compared here; there are tar"),
        ("dimensio=1", "Did you mean 'dimension'"),
        ("model.nothing=1", "no setting 'model.nothing'"),
        ("rate", "--set needs key=value"),
        ("seed=4", "say how many with --seeds"),
    ],
)
def test_a_setting_for_nobody_is_an_error(assignment: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        choose_models(["tar"], Overrides(assignments=(assignment,)))


def test_a_plan_survives_its_file(bench: Path, tmp_path: Path) -> None:
    benchmark = open_benchmark(bench)
    named = choose_models(["tar", "tar-no-sub"], Overrides(("academia",)))
    plan = make_plan(tmp_path / "c", benchmark, [replace(spec, seeds=0) for spec in named])
    assert read_plan(tmp_path / "c", benchmark) == plan
    assert [spec.seeds for spec in plan.models] == [1, 3, 3]
    assert plan.models[0] == COUNTING


def test_the_time_left_for_all(bench: Path, tmp_path: Path) -> None:
    named = choose_models([TINY, f"{TINY}-no-sub"], Overrides(assignments=("stopping.minutes=1",)))
    jobs = make_plan(tmp_path / "c", open_benchmark(bench), [replace(one, seeds=2) for one in named]).jobs()
    estimator = Estimator(jobs, 1)
    assert estimator.seconds_left(0.0) is None
    estimator.begin(jobs[0], 0.0)
    estimator.hear(jobs[0], 1000.0, 10.0)  # the limit of a minute comes first
    assert estimator.seconds_left(10.0) == 50 + 3 * 60
    estimator.end(jobs[0], 40.0)
    assert estimator.seconds_left(40.0) == 3 * 40
    assert [job.seed for job in jobs] == [0, 0, 1, 1]  # every model has a first run before any has a second


def test_the_reporter_is_sober_without_a_terminal(bench: Path, tmp_path: Path) -> None:
    named = choose_models([TINY], Overrides())
    jobs: list[Job] = make_plan(tmp_path / "c", open_benchmark(bench), [replace(named[0], seeds=2)]).jobs()
    said, now = StringIO(), iter(range(0, 1000, 20))
    with ProgressLine(said, lambda: float(next(now))) as line:
        reporter = Reporter(jobs, line, 1, lambda: float(next(now)))
        reporter(Began(jobs[0], False))
        reporter(Trained(jobs[0], Started(0, 9, 1, 1)))
        reporter(Trained(jobs[0], EpochEnded(1, {}, 1, 1.0, 1.0, 75.0, 0.1)))
        reporter(Ended(jobs[0], "no luck"))
    lines = said.getvalue().splitlines()
    assert lines[0] == f"run 1 of 2: {TINY}, seed 0"
    assert lines[-1].startswith(f"{TINY}, seed 0: failed: no luck; about ")


def test_the_reporter_says_which_part_of_a_training_is_under_way(bench: Path, tmp_path: Path) -> None:
    """And that many epochs are of this part, whatever the settings say of the whole."""
    named = [replace(one, seeds=1) for one in choose_models([TINY], Overrides())]
    [job] = make_plan(tmp_path / "c", open_benchmark(bench), named).jobs()
    said, now = StringIO(), iter(range(0, 10_000, 30))
    with ProgressLine(said, lambda: float(next(now))) as line:
        reporter = Reporter([job], line, 1, lambda: 0.0)
        reporter(Began(job, False))
        for event in (
            PartBegan("continuing"),
            Started(0, 5, 1, 1),
            Ticked(2, 1, {}, 1.0, 75.0),
            PartBegan("fitting"),
            PartProgressed("fitting", 0.25, 15.0),
        ):
            reporter(Trained(job, event))
    assert [text.removeprefix(f"0 of 1 runs done; {job.name}: ") for text in said.getvalue().splitlines()[1:]] == [
        "continuing",
        "continuing, epoch 3/5; about 1 min 15 s left for all",
        "fitting; about 1 min 15 s left for all",
        "fitting, 25%; about 15 s left for all",
    ]
