"""`tarbox demo`: the embedded knowledge base, built and asked."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

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
    """Build the embedded knowledge base `academia` and answer questions over it."""
    from rich.console import Console

    from tarbox.cli.answer_tables import Form, Printer
    from tarbox.cli.ask import Question
    from tarbox.kb.build import BuildOptions, build
    from tarbox.kb.facts import KINDS
    from tarbox.kb.presets import PRESETS
    from tarbox.service.knowledge_base import KnowledgeBase

    console = Console(highlight=False)
    store = output / "academia"
    preset = PRESETS["academia"]
    counts = build(preset.sources(None), store, BuildOptions(preset.interpretation)).manifest["counts"]
    console.print(f"Built {store}: " + ", ".join(f"{counts[name]:,} {name}" for name in KINDS) + ".\n")
    kb = KnowledgeBase.load(store)
    for english, query in QUESTIONS:
        console.print(f"[bold]{english}[/bold]")
        console.print(f"  tarbox ask {store} '{query}'\n", style="cyan", soft_wrap=True)
        Question(kb, Printer(kb, Form.SCREEN), k=10).put(query)
        console.print()
    console.print("These answers follow from the facts. Ask your own, or build a knowledge base from your files:")
    console.print(f"  tarbox ask {store} 'Company and uses some (inverse introducedBy some Researcher)'", style="cyan")
    console.print("  tarbox kb build my-ontology.owl my-facts.nt.gz -o my-kb", style="cyan")
