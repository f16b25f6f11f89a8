"""What the runs of a comparison reached on the same queries, and the files that say so."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, final

from tarbox.benchmark.tables import QueryTable
from tarbox.core.config import flatten
from tarbox.evaluation.comparison import Comparison, Counts, Outcome, Selection, TableRow, count_queries
from tarbox.evaluation.comparison_plots import draw_comparison
from tarbox.evaluation.comparison_tables import comparison_latex, comparison_markdown
from tarbox.evaluation.evaluator import rank_table
from tarbox.evaluation.metrics import DEFAULT_BOOTSTRAP, Results, measure
from tarbox.evaluation.published import Published
from tarbox.evaluation.reports import from_json, to_json
from tarbox.kb.store import checksum
from tarbox.kb.writing import replace_file
from tarbox.models.registry import find_model
from tarbox.models.saved import WEIGHTS, open_run
from tarbox.models.scorer import Scorer
from tarbox.training.comparison import Job, Plan, Ranking, Tell, end_of, explain
from tarbox.training.hardware import HardwareConfig, open_hardware
from tarbox.training.model_specs import ModelSpec
from tarbox.training.run import PROVENANCE, find_commit
from tarbox.version import __version__

PLOT: Final = "mrr.png"
CHANGED: Final = "+changes"
"""How `find_commit` marks a checkout whose files differ from its commit."""
_BUDGET: Final = ("stopping.epochs", "stopping.minutes", "validation.every", "validation.tolerance")

Failures = Mapping[tuple[str, int], str]
"""Why runs were not trained, by label and seed."""


@final
@dataclass(frozen=True, slots=True)
class Evaluation:
    """Which models are evaluated, on which queries, on which device."""

    plan: Plan
    selection: Selection
    device: str | None
    tell: Tell

    def compare(self, failures: Failures, published: Published | None) -> Comparison:
        """Evaluate every run that is finished; what was evaluated so before is read again."""
        table = self.selection.of(self.plan.benchmark.table(self.selection.split))
        asked = count_queries(table)
        rows = [
            TableRow.of(
                (spec.label, spec.name, spec.model), self._outcomes(spec, table, failures), spec.ablation_of, asked
            )
            for spec in self.plan.models
        ]
        notes = [*_notes(self.plan, self.selection), *_mixed_code(rows)]
        if published is not None:
            rows += published.rows()
            notes.append(published.note(self.plan.benchmark.store.facts.vocabulary))
        about = self._about(asked)
        return Comparison(tuple(rows), about, tuple(notes), published.json() if published else {})

    def _outcomes(self, spec: ModelSpec, table: QueryTable, failures: Failures) -> list[Outcome]:
        if spec.settings is None:
            facts, kind = self.plan.benchmark.store.facts, find_model(spec.model)
            return [
                self._evaluate(None, spec.name, table, lambda: kind.of_arrays(facts, {}, kind.Config(), self._device()))
            ]
        return [self._outcome(job, table, failures.get((job.label, job.seed))) for job in self.plan.jobs_of(spec)]

    def _outcome(self, job: Job, table: QueryTable, failure: str | None) -> Outcome:
        details = {"folder": os.path.relpath(job.folder, self.plan.output), "settings": job.settings.table()}
        end = end_of(job.folder)
        if failure is not None or end is None:
            return Outcome(job.seed, None, failure or "it is not trained to its end", details)
        details |= {key: end[key] for key in ("epoch", "seconds", "reason", "best_epoch", "best_mrr")}
        details["code"] = code_of(job.folder)
        key, file = self._key(job), job.folder / f"evaluation-{self.selection.split}.json"
        known = _read_evaluation(file, key)
        if known is not None:
            return Outcome(job.seed, known, None, details)
        found = self._evaluate(job, job.name, table, lambda: open_run(job.folder).scorer(self._device()))
        if found.results is not None:
            record = {"key": key, "results": to_json(found.results)}
            replace_file(file, (json.dumps(record, indent=1) + "\n").encode())
        return Outcome(job.seed, found.results, found.failure, details)

    def _evaluate(self, job: Job | None, name: str, table: QueryTable, scorer: Callable[[], Scorer]) -> Outcome:
        """Rank all queries; what goes wrong costs this run only."""
        benchmark, done, seed = self.plan.benchmark, [0], None if job is None else job.seed

        def advance(queries: int) -> None:
            done[0] += queries
            self.tell(Ranking(name, done[0], len(table)))

        try:
            ranked = rank_table(scorer(), table, benchmark.excluded(), advance)
            if len(ranked.table) == 0:
                return Outcome(seed, None, "it has no meaning for any of these queries")
            model = job.settings.model_name if job is not None else name
            return Outcome(seed, measure(ranked, model, benchmark.protocol, DEFAULT_BOOTSTRAP))
        except Exception as error:  # noqa: BLE001 (a model of anyone's may raise anything; the other rows must not be lost)
            return Outcome(seed, None, explain(error))

    def _device(self) -> str:
        config = HardwareConfig() if self.device is None else HardwareConfig(device=self.device)
        return str(open_hardware(config).device)

    def _key(self, job: Job) -> dict[str, Any]:
        """What an evaluation depends on; another key means that it must be made again."""
        files = self.plan.benchmark.manifest["files"]
        return {
            "tarbox": __version__,
            "commit": own_commit(),
            "weights": checksum(job.folder / WEIGHTS),
            "queries": files[self.selection.split]["checksum"],
            "templates": list(self.selection.templates),
            "limit": self.selection.queries,
        }

    def _about(self, counts: Counts) -> dict[str, Any]:
        benchmark = self.plan.benchmark
        return {
            "benchmark": benchmark.path.name,
            "protocol": benchmark.protocol,
            "split": self.selection.split,
            "queries": counts,
            "content_hash": benchmark.store.manifest["content_hash"],
            "vocabulary_hash": benchmark.store.vocabulary_hash,
            "tarbox": __version__,
            "interval": "95% bootstrap interval of a run's MRR over queries (ci)",
            "deviation": "sample deviation over runs",
        }


def write_comparison(comparison: Comparison, folder: Path) -> None:
    """results.json, tables.md, tables.tex and the plot."""
    heading = title_of(comparison)
    texts = {
        "results.json": json.dumps(comparison.json(), indent=1, ensure_ascii=False) + "\n",
        "tables.md": comparison_markdown(comparison, heading),
        "tables.tex": comparison_latex(comparison, heading),
    }
    for name, text in texts.items():
        replace_file(folder / name, text.encode())
    if comparison.levels():
        draw_comparison(comparison, folder / PLOT)


def title_of(comparison: Comparison) -> str:
    about = comparison.about
    return f"{about['benchmark']}: {about['split']} queries, {about['protocol']} protocol, figures x 100"


def _read_evaluation(file: Path, key: Mapping[str, Any]) -> Results | None:
    """An earlier evaluation of the same weights on the same queries by the same code.

    Changes that are not committed have no name: nothing then says that the code is still the same.
    """
    if str(key["commit"]).endswith(CHANGED):
        return None
    try:
        record = json.loads(file.read_bytes())
    except (OSError, ValueError):
        return None
    return from_json(record["results"]) if record.get("key") == key else None


@cache
def own_commit() -> str | None:
    """The commit that evaluates; none outside of a checkout."""
    return find_commit(Path(__file__).parent)


def code_of(run: Path) -> list[str]:
    """The versions of tarbox that trained a run, each once: the commit where it is known."""
    starts = json.loads((run / PROVENANCE).read_bytes())
    return list(dict.fromkeys(str(entry["commit"] or entry["versions"]["tarbox"]) for entry in starts))


def _mixed_code(rows: Sequence[TableRow]) -> list[str]:
    """A note where runs come from different code, or from code that nothing names."""
    used = dict.fromkeys(code for row in rows for outcome in row.outcomes for code in outcome.details.get("code", ()))
    notes = []
    if len(used) > 1:
        notes.append(f"Runs were trained by different versions of tarbox: {', '.join(used)}.")
    if any(code.endswith(CHANGED) for code in used):
        notes.append("Runs were trained by code with uncommitted changes: nothing shows that it was the same for all.")
    return notes


def _notes(plan: Plan, selection: Selection) -> list[str]:
    trained = [spec for spec in plan.models if spec.settings is not None]
    notes = []
    if any(spec.seeds > 1 for spec in trained):
        numbers = sorted({spec.seeds for spec in trained})
        notes.append(
            f"Mean ± sample deviation over {' or '.join(map(str, numbers))} seeds; bold goes by the mean alone."
        )
    elif trained:
        notes.append("One seed each: differences may be chance.")
    if selection.split == "valid" and trained:
        notes.append("The best epoch of every trained model was chosen on these same valid queries.")
    notes += _differing_budgets(trained)
    timed = [c.label for c in trained if c.settings is not None and c.settings.stopping.minutes]
    if plan.most_at_a_time > 1 and timed:
        notes.append(
            f"Up to {plan.most_at_a_time} runs were trained at a time, and the budget is in minutes: "
            "they saw fewer epochs than alone. results.json has the epochs of each."
        )
    return notes


def _differing_budgets(trained: list[ModelSpec]) -> list[str]:
    """What models were given differently: a reader must know."""
    tables = {c.label: dict(flatten(c.settings.table())) for c in trained if c.settings is not None}
    notes = []
    for key in _BUDGET:
        given: dict[Any, list[str]] = {}
        for label, table in tables.items():
            given.setdefault(table[key], []).append(label)
        if len(given) > 1:
            shown = "; ".join(f"{value:g}: {', '.join(labels)}" for value, labels in given.items())
            notes.append(f"Budgets differ, {key} = {shown}.")
    return notes
