"""`tarbox demo`: the embedded knowledge base, built, learnt and asked."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from tarbox.service.reasoner import Reasoner

COUNTS: Final = (300, 20, 20)  # queries per template and level: enough for a minute of training
QUESTIONS: Final[tuple[tuple[str, str], ...]] = (
    (
        "Who will be interested in techniques that G. Hinton is investigating and Google is using?",
        "interestedIn some ((inverse investigates value GeoffreyHinton) and (inverse uses value Google))",
    ),
    (
        "Which people work at a university in Canada and were not born there?",
        "Person and (worksAt some (University and locatedIn value Canada)) and not (bornIn value Canada)",
    ),
)


def demo(
    output: Annotated[Path, typer.Option("-o", "--output", help="The folder to build in.")] = Path("demo"),
) -> None:
    """Build the embedded knowledge base `academia`, train on it, and answer questions at both levels."""
    from rich.console import Console

    from tarbox.cli.answer_tables import Form, Printer
    from tarbox.cli.ask import Question
    from tarbox.kb.build import BuildOptions, build
    from tarbox.kb.facts import KINDS
    from tarbox.kb.presets import PRESETS

    console = Console(highlight=False)
    store, bench, run = output / "academia", output / "bench", output / "run"
    preset = PRESETS["academia"]
    counts = build(preset.sources(None), store, BuildOptions(preset.interpretation)).manifest["counts"]
    console.print(f"Built {store}: " + ", ".join(f"{counts[name]:,} {name}" for name in KINDS) + ".\n")
    reasoner = _train(store, bench, run, console)
    printer = Printer(reasoner.kb, Form.SCREEN, predicts=True)
    for english, query in QUESTIONS:
        console.print(f"[bold]{english}[/bold]")
        console.print(f"  tarbox ask {run} '{query}'\n", style="cyan", soft_wrap=True)
        Question(reasoner.kb, printer, k=12, reasoner=reasoner).put(query)
        console.print()
    console.print(
        "Known answers follow from the facts it was given. The degree of a predicted one is the probability that it is "
        "among the facts held out. Go on with:"
    )
    console.print(f"  tarbox ask {run} 'Company and uses some (introducedBy some Researcher)'", style="cyan")
    console.print(f"  tarbox concept {run} AIResearcher", style="cyan")
    console.print(f"  tarbox serve {run}", style="cyan")
    console.print("  tarbox kb build my-ontology.owl my-facts.nt.gz -o my-kb", style="cyan")


def _train(store: Path, bench: Path, run: Path, console: Console) -> Reasoner:
    """Credo on a small benchmark of the store: a tenth of the facts are held out, so there is something to predict."""
    import shutil

    from tarbox.benchmark.building import build_benchmark
    from tarbox.benchmark.options import BenchmarkOptions
    from tarbox.cli.training_progress import Narrator
    from tarbox.kb.store import open_store
    from tarbox.service.reasoner import Reasoner
    from tarbox.training.session import Surroundings, start
    from tarbox.training.settings import read_recipe, resolve

    began = time.monotonic()
    console.print("Training the reasoner on 90% of the facts; the others are held out to be predicted ...")
    if run.exists():
        shutil.rmtree(run)
    options = BenchmarkOptions(counts=COUNTS, workers=os.cpu_count() or 1)
    opened = open_store(store)
    build_benchmark(opened.facts, options, bench, origin=opened)
    with Narrator() as narrator:
        state = start(bench, run, resolve([read_recipe("credo-small")], "credo"), Surroundings([narrator]))
    best = f": validation MRR {100 * state.best:.1f}" if state.best is not None else ""
    console.print(f"Trained {run} in {time.monotonic() - began:.0f} s{best}.\n")
    return Reasoner.load(run)
