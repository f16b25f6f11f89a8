"""`tarbox demo`: the embedded knowledge base, built, learnt and asked."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Annotated, Final

import typer

RECIPE: Final = "credo-small"
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
SUGGESTED: Final = "Company and uses some (introducedBy some Researcher)"
SUGGESTED_CONCEPT: Final = "AIResearcher"


def demo(
    output: Annotated[Path, typer.Option("-o", "--output", help="The folder to build in.")] = Path("demo"),
) -> None:
    """Build the embedded knowledge base `academia`, train on all of its facts, and answer questions at both levels."""
    from rich.console import Console

    from tarbox.cli.answer_tables import Form, Printer
    from tarbox.cli.ask import QuestionSession
    from tarbox.cli.workflow import build, train
    from tarbox.kb.facts import KINDS

    console = Console(highlight=False)
    store, run = output / "academia", output / "run"
    counts = build(preset="academia", to=store).facts.counts()
    console.print(f"Built {store}: " + ", ".join(f"{counts[name]:,} {name}" for name in KINDS) + ".\n")
    console.print("Training the reasoner on all facts ...")
    began = time.monotonic()
    if run.exists():
        shutil.rmtree(run)
    reasoner = train(store, to=run, recipe=RECIPE)
    console.print(f"Trained {run} in {time.monotonic() - began:.0f} s.\n")
    printer = Printer(reasoner.kb, Form.SCREEN, predicts=True)
    for english, query in QUESTIONS:
        console.print(f"[bold]{english}[/bold]")
        console.print(f"  tarbox ask {run} '{query}'\n", style="cyan", soft_wrap=True)
        QuestionSession(reasoner.kb, printer, k=12, reasoner=reasoner).put(query)
        console.print()
    console.print(
        "Known answers follow from the facts. The degree of a predicted one is the probability that it is true, as far "
        "as the facts tell. Go on with:"
    )
    for command in suggestions(store, run):
        console.print(f"  {command}", style="cyan", soft_wrap=True)


def suggestions(store: Path, run: Path) -> tuple[str, ...]:
    """What a person may try next."""
    return (
        f"tarbox ask {run} '{SUGGESTED}'",
        f"tarbox concept {run} {SUGGESTED_CONCEPT}",
        f"tarbox serve {run}",
        f"tarbox bench build {store} -o bench     # holds facts out, to measure how well they are predicted",
        "tarbox kb build my-ontology.owl my-facts.nt.gz -o my-kb && tarbox train my-kb -o my-run",
    )
