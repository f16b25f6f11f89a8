"""Where runs come from and go to: which benchmark a store is divided into, what a refusal leaves, who may train."""

from __future__ import annotations

import errno
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tarbox.benchmark.building import build_benchmark, sample_training_queries
from tarbox.benchmark.folder import open_benchmark
from tarbox.benchmark.options import BenchmarkOptions
from tarbox.core.errors import ConfigError, StoreError, StoreMissing, StoreVersion
from tarbox.kb.facts import Facts
from tarbox.kb.store import manifest_bytes, open_store
from tarbox.kb.vocabulary import Vocabulary
from tarbox.kb.writing import write_store
from tarbox.models.saved import open_run
from tarbox.service.reasoner import Reasoner
from tarbox.training.failures import TrainingError
from tarbox.training.session import open_source, resume, start
from tarbox.training.settings import Settings, read_assignments, resolve

COUNTING = resolve([], "counting")
FACTS = Facts.of(
    Vocabulary.of([f"urn:{name}" for name in "abcdef"], ["urn:C", "urn:D"], ["urn:p"]),
    [(0, 0, 1), (1, 0, 2), (2, 0, 3), (3, 0, 4), (4, 0, 5), (5, 0, 0)],
    [(number, number % 2) for number in range(6)],
)
FEWER = Facts.of(FACTS.vocabulary, [(0, 0, 1), (1, 0, 2), (2, 0, 5)], [(0, 0), (1, 1)])


@pytest.fixture
def letters(tmp_path: Path) -> Path:
    """The folder that has a small store, `letters`, in it."""
    write_store(tmp_path / "letters", FACTS)
    return tmp_path


def test_a_run_on_a_benchmark_says_how_many_facts_were_held_out(store: Path, bench: Path, tmp_path: Path) -> None:
    start(bench, tmp_path / "run", COUNTING)
    start(store, tmp_path / "whole", COUNTING)
    whole, training = (open_store(path).facts for path in (store, bench / "store"))
    lacking = len(whole.heads) + len(whole.typed) - len(training.heads) - len(training.typed)
    assert lacking > 0
    assert open_run(tmp_path / "run").description["source"]["held_out"] == lacking
    assert "held_out" not in open_run(tmp_path / "whole").description["source"]
    told = f"the training split of a benchmark: {lacking:,} facts were held out"
    assert Reasoner.load(tmp_path / "run").trained_on == told


def test_a_benchmark_without_training_queries_has_them_sampled_from_its_facts(bench: Path, tmp_path: Path) -> None:
    """As Query2box's published queries, which are for validation and test alone."""
    folder = Path(shutil.copytree(bench, tmp_path / "bench"))
    (folder / "train.parquet").unlink()
    manifest = json.loads((folder / "manifest.json").read_text())
    for part in ("counts", "files"):
        del manifest[part]["train"]
    (folder / "manifest.json").write_bytes(manifest_bytes(manifest))
    opened = open_source(folder)
    assert opened.benchmark is not None
    assert "train" not in opened.benchmark.splits
    found, again, own = (source.data(seed=3).queries() for source in (opened, opened, open_source(bench)))
    wanted = sample_training_queries(opened.store.facts, 3)
    assert found is not None
    assert again is not None
    assert own is not None
    assert wanted is not None
    assert found.texts("id") == again.texts("id") == wanted.texts("id")
    assert "2p" in found.texts("template")
    assert len(own) != len(found)


def test_a_refused_device_leaves_the_place_free(bench: Path, tmp_path: Path, settings: Callable[..., Settings]) -> None:
    absent = f"cuda:{torch.cuda.device_count()}"
    with pytest.raises(ConfigError, match="Use --device cpu"):
        start(bench, tmp_path / "run", settings(f"hardware.device={absent}"))
    assert not (tmp_path / "run").exists()
    start(bench, tmp_path / "run", settings("hardware.device=cpu", "stopping.epochs=1"))
    before = (tmp_path / "run" / "config.toml").read_text()
    with pytest.raises(ConfigError, match="Use --device cpu"):
        resume(tmp_path / "run", {"hardware": {"device": absent}})
    assert (tmp_path / "run" / "config.toml").read_text() == before


def test_settings_that_a_model_refuses_leave_the_place_free(bench: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="rank is -3"):
        start(bench, tmp_path / "run", resolve([read_assignments(["rank=-3"], "cqd")], "cqd"))
    assert not (tmp_path / "run").exists()


def test_what_is_there_stays(bench: Path, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "notes.txt").write_text("keep me")
    with pytest.raises(ConfigError, match=r"exists and is not empty\. Name another folder"):
        start(bench, tmp_path / "run", resolve([read_assignments(["rank=-3"], "cqd")], "cqd"))
    assert (tmp_path / "run" / "notes.txt").read_text() == "keep me"


def test_one_process_trains_a_run(bench: Path, tmp_path: Path) -> None:
    start(bench, tmp_path / "run", COUNTING)
    code = "import sys; from pathlib import Path; from tarbox.training.run import RunFolder\n"
    code += "with RunFolder(Path(sys.argv[1])).locked(): print('held', flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", code, str(tmp_path / "run")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(TrainingError, match=r"another process is training .*run\. Wait until it has ended"):
            resume(tmp_path / "run", {})
        other.kill()
    assert resume(tmp_path / "run", {}).reason == "there is nothing to train"  # a dead process holds nothing


def test_a_disk_without_locks_is_trained_on_too(bench: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "no locks available")

    start(bench, tmp_path / "run", COUNTING)
    monkeypatch.setattr("fcntl.flock", refuse)
    assert resume(tmp_path / "run", {}).reason == "there is nothing to train"


def test_the_name_of_a_knowledge_base_goes_with_it(letters: Path) -> None:
    start(letters / "letters", letters / "run", COUNTING)
    assert Reasoner.load(letters / "run").kb.title == "letters"
    (letters / "elsewhere").mkdir()
    shutil.move(letters / "run", letters / "elsewhere" / "run")
    assert Reasoner.load(letters / "elsewhere" / "run").kb.title == "letters"
    build_benchmark(FACTS, BenchmarkOptions(), letters / "again", origin=open_store(letters / "letters"))
    again, unnamed = open_benchmark(letters / "again"), letters / "unnamed"
    assert again.store.manifest["name"] == "letters"
    build_benchmark(FACTS, BenchmarkOptions(), unnamed)
    older = open_benchmark(unnamed).store.manifest
    assert "name" not in older
    assert older["content_hash"] == again.store.manifest["content_hash"]  # a name changes no hash


def test_a_store_with_a_common_name_is_called_after_its_source(store: Path, tmp_path: Path) -> None:
    assert store.name == "store"
    start(store, tmp_path / "run", COUNTING)
    assert Reasoner.load(tmp_path / "run").kb.title == "academia"


def test_a_resumed_run_takes_its_benchmark_from_a_new_place(letters: Path) -> None:
    build_benchmark(FACTS, BenchmarkOptions(), letters / "bench")
    start(letters / "bench", letters / "run", COUNTING)
    (letters / "bench").rename(letters / "moved")
    with pytest.raises(StoreMissing, match=r"Name its new place: `tarbox eval .*run --bench BENCH`"):
        resume(letters / "run", {})
    assert resume(letters / "run", {}, source=letters / "moved").reason == "there is nothing to train"
    build_benchmark(FEWER, BenchmarkOptions(), letters / "fewer")
    with pytest.raises(StoreError, match=r"run was trained on other facts than .*fewer has"):
        resume(letters / "run", {}, source=letters / "fewer")
    with pytest.raises(ConfigError, match=r"run was trained on a benchmark, and .*letters is a store"):
        resume(letters / "run", {}, source=letters / "letters")


def test_a_resumed_run_takes_no_other_queries(letters: Path) -> None:
    build_benchmark(FACTS, BenchmarkOptions(counts=(20, 5, 5)), letters / "small")
    start(letters / "small", letters / "run", COUNTING)
    build_benchmark(FACTS, BenchmarkOptions(counts=(1, 1, 1)), letters / "other")
    with pytest.raises(StoreError, match=r"was trained with other queries than .*other has"):
        resume(letters / "run", {}, source=letters / "other")


def test_a_run_on_a_store_needs_the_store_no_more(letters: Path) -> None:
    start(letters / "letters", letters / "run", COUNTING)
    write_store(letters / "others", FEWER)
    with pytest.raises(StoreError, match=r"run was trained on other facts than .*others has"):
        resume(letters / "run", {}, source=letters / "others")
    shutil.rmtree(letters / "letters")
    assert resume(letters / "run", {}).reason == "there is nothing to train"


def test_a_run_of_an_older_tarbox_is_refused(letters: Path) -> None:
    start(letters / "letters", letters / "run", COUNTING)
    file = letters / "run" / "run.json"
    older = {key: value for key, value in json.loads(file.read_text()).items() if key not in ("source", "content_hash")}
    file.write_text(json.dumps(older | {"version": 1, "benchmark": {"relative": "b", "absolute": "/b"}}))
    with pytest.raises(StoreVersion, match=r"has run format 1, this tarbox reads 2\. Train it again"):
        open_run(letters / "run")


def test_what_is_damaged_is_named(bench: Path, tmp_path: Path) -> None:
    start(bench, tmp_path / "run", COUNTING)
    config, described = tmp_path / "run" / "config.toml", tmp_path / "run" / "run.json"
    good, description = config.read_text(), json.loads(described.read_text())
    for text in ("x = = 1", "model = 3\n"):
        config.write_text(text)
        with pytest.raises(StoreError, match=r"config\.toml is damaged"):
            open_run(tmp_path / "run")
    config.unlink()
    with pytest.raises(StoreError, match=r"config\.toml is missing"):
        open_run(tmp_path / "run")
    config.write_text(good)
    for text in ("{", "[]", json.dumps({key: description[key] for key in ("format", "version")})):
        described.write_text(text)
        with pytest.raises(StoreError, match=r"run\.json is damaged"):
            open_run(tmp_path / "run")
