"""`tarbox kb build`, `kb info` and `kb export`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tarbox.cli.exits import WITH_REJECTED
from tarbox.cli.progress_line import ProgressLine
from tarbox.core.errors import ConfigError

if TYPE_CHECKING:
    from tarbox.kb.build import Progress
    from tarbox.kb.presets import Preset
    from tarbox.kb.sources import Source

_SHOWN = 20


class KgxFiles(Enum):
    """How KGX is written."""

    TSV = "tsv"
    JSONL = "jsonl"


class EngineName(Enum):
    """What prepares the tables of a store."""

    DUCKDB = "duckdb"
    SPARK = "spark"


class Literals(Enum):
    """What becomes of values such as dates and numbers."""

    DROP = "drop"
    KEEP = "keep"


def build_kb(
    sources: Annotated[
        list[str] | None,
        typer.Argument(metavar="SOURCE...", help="Files, globs or folders: RDF, OWL, OBO, KGX, TSV, CSV."),
    ] = None,
    output: Annotated[Path, typer.Option("-o", "--output", help="The folder of the store.")] = Path("kb"),
    preset: Annotated[str | None, typer.Option(help="academia, biomed, yago4 or dbpedia instead of sources.")] = None,
    raw: Annotated[Path | None, typer.Option(help="The folder with a preset's downloaded files.")] = None,
    format: Annotated[
        str | None, typer.Option(help="The format of all sources, where suffix and content mislead.")
    ] = None,
    base: Annotated[str | None, typer.Option(help="IRI put before the ids of tables; resolves relative IRIs.")] = None,
    literals: Annotated[Literals | None, typer.Option(help="Drop literal values, or keep them as entities.")] = None,
    language: Annotated[str, typer.Option(help="The language of labels.")] = "en",
    infer: Annotated[
        str | None, typer.Option(help="What to infer from axioms: none, rdfs or owl (the default, but for a preset).")
    ] = None,
    complete: Annotated[
        float | None, typer.Option(min=0, help="With owl: seconds to spend on a pair of classes, beyond OWL EL.")
    ] = None,
    merge_same: Annotated[bool, typer.Option(help="Make one entity of those that are owl:sameAs.")] = False,
    min_degree: Annotated[int | None, typer.Option(min=0, help="Leave out entities with fewer assertions.")] = None,
    core: Annotated[bool, typer.Option(help="Repeat --min-degree until every entity meets it.")] = False,
    annotation: Annotated[
        list[str] | None, typer.Option(help="A relation whose objects describe its subjects; repeat it for several.")
    ] = None,
    evidence: Annotated[
        list[str] | None,
        typer.Option(help="Of facts with an evidence code, only these: experimental, author, IDA, ...; repeatable."),
    ] = None,
    memory: Annotated[str | None, typer.Option(help="The memory to stay within, such as 1GB.")] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            help="Where a table's header has what: subject=drug,relation=effect,object=disease,reference=pmid."
        ),
    ] = None,
    strict: Annotated[bool, typer.Option(help="Stop at the first bad line.")] = False,
    engine: Annotated[EngineName, typer.Option(help="What prepares the tables.")] = EngineName.DUCKDB,
    remote: Annotated[str | None, typer.Option(help="With spark: its Spark Connect server, sc://HOST:PORT.")] = None,
    shards: Annotated[int, typer.Option(min=1, help="The number of files of each large table.")] = 1,
) -> None:
    """Build a knowledge base from files."""
    from tarbox.cli.workflow import build_options, find_preset
    from tarbox.kb.attributes import evidence_codes
    from tarbox.kb.build import build
    from tarbox.kb.preparation.staging import parse_memory
    from tarbox.kb.readers.tables import parse_columns
    from tarbox.kb.sources import find_sources

    chosen = find_preset(preset) if preset else None
    if bool(sources) == bool(chosen):
        raise ConfigError("give SOURCE files to `kb build`, or a --preset; not both, not neither.")
    if (engine is EngineName.SPARK) != (remote is not None):
        raise ConfigError("--engine spark and its address, --remote sc://HOST:PORT, go together: give both or neither.")
    found, passed = (chosen.sources(raw), []) if chosen else find_sources(sources or [], format)
    given: dict[str, Any] = {
        "language": language,
        "core": core,
        "merge_same": merge_same,
        "strict": strict,
        "infer": infer,
        "seconds": complete,
        "base": base,
        "memory": parse_memory(memory) if memory else None,
        "columns": parse_columns(columns) if columns is not None else None,
        "remote": remote,
        "shards": shards,
        "keep_literals": literals and literals is Literals.KEEP,
        "min_degree": min_degree,
        "annotations": annotation or None,
        "evidence": evidence_codes(evidence) if evidence else None,
    }
    options = build_options(chosen, {key: value for key, value in given.items() if value is not None})
    with show_progress(found) as progress:
        store = build(found, output, options, progress)
    print_report(store.manifest, passed, f"{_sizes(store.manifest['counts'])} -> {output}")
    if chosen and chosen.paper_sizes:
        _compare(store.manifest["counts"], chosen)
    if store.manifest["report"]["rejections"]:
        raise typer.Exit(WITH_REJECTED)


@contextmanager
def show_progress(sources: Sequence[Source]) -> Iterator[Progress]:
    """What a build tells: its stages, and which share of the bytes of all sources is read."""
    from tarbox.kb.build import Progress

    total, behind, stage = sum(source.path.stat().st_size for source in sources), dict[Path, int](), ["reading"]
    with ProgressLine() as line:

        def begin(text: str) -> None:
            stage[0] = text
            line.show(text)

        def advance(source: Source, position: int) -> None:
            behind[source.path] = position
            line.show(stage[0], sum(behind.values()) / max(total, 1))

        yield Progress(begin, advance)


def print_report(manifest: Mapping[str, Any], passed: list[str], result: str) -> None:
    """The table of what was read, kept and left out, then the result, on stdout; rejected lines on stderr."""
    from rich.console import Console
    from rich.table import Table

    report = manifest["report"]
    table = Table(box=None, pad_edge=False)
    for heading in ("", "statements", "what"):
        table.add_column(heading, justify="right" if heading == "statements" else "left")
    for source in manifest["sources"]:
        table.add_row("read", f"{source['statements']:,}", f"{source['name']} ({source['format']})")
    for reason, number in report["kept"].items():
        table.add_row("kept", f"{number:,}", reason)
    left_out = {"duplicate": report["duplicates"], **report["left_out"]}
    for reason, number in left_out.items():
        if number:
            table.add_row("left out", f"{number:,}", reason)
    for kind, number in manifest.get("axioms", {}).items():
        table.add_row("axioms", f"{number:,}", kind)
    if report["rejections"]:
        table.add_row("rejected", f"{report['rejections']:,}", "lines that cannot be read, named on stderr")
    console = Console(soft_wrap=True, emoji=False)  # urn:x: is no emoji
    console.print(table)
    console.print(result, highlight=False, markup=False)
    for note in (*_notes(report, passed), *_inferred(manifest)):
        console.print(note, highlight=False, markup=False)
    _print_rejected(manifest)


def _sizes(counts: dict[str, int]) -> str:
    from tarbox.kb.facts import KINDS

    return ", ".join(f"{counts[name]:,} {name}" for name in KINDS)


def _notes(report: Mapping[str, Any], passed: list[str]) -> Iterator[str]:
    for what, number in report["notes"].items():
        yield f"{number:,} {what}"
    if report["merged"]:
        yield f"{report['merged']:,} entities merged with the same one"
    if report["obsolete_terms"]:
        yield f"{report['obsolete_terms']:,} obsolete terms are left out"
    if report["entities_below_min_degree"]:
        yield f"{report['entities_below_min_degree']:,} entities are below --min-degree"
    if report["both_entity_and_concept"]:
        yield f"{report['both_entity_and_concept']:,} names are both entity and concept"
    if report.get("linked_terms"):
        yield f"{report['linked_terms']:,} links between terms, from axioms, hold between them as entities, too"
    if report.get("terms_as_entities"):
        yield f"{report['terms_as_entities']:,} terms were made instances of themselves (--annotation)"
    for group in report.get("equivalent_concepts", ())[:_SHOWN]:
        yield f"equivalent concepts: {', '.join(group[:_SHOWN])}"
    if report.get("top_concepts"):
        yield f"top concepts (of more than half of the typed entities): {', '.join(report['top_concepts'][:_SHOWN])}"
    for iri, fate in report["imports"].items():
        yield f"import {iri}: {fate}"
    for file in passed:
        yield f"passed over (no known format): {file}"


def _inferred(manifest: Mapping[str, Any]) -> Iterator[str]:
    """What inference added and found."""
    inference, counts = manifest.get("inference", {}), manifest["counts"]
    if "complete" not in inference:
        return
    kinds = ("subsumptions", "typings", "assertions")
    added = ", ".join(f"{counts.get(f'inferred_{kind}', 0):,} {kind}" for kind in kinds)
    yield f"inferred ({inference['mode']}): {added}"
    yield from findings(inference)


def findings(inference: Mapping[str, Any]) -> Iterator[str]:
    """What inference found wrong, and what it could not use."""
    if not inference["consistent"]:
        yield "the axioms contradict each other: no class can have a member, and none was classified"
    if not inference["complete"]:
        yield "time ran out for some pairs of classes (--complete): subsumptions may be missing"
    if inference["same_entities"]:
        yield f"{inference['same_entities']:,} entities are the same as another"
    for concept in inference["unsatisfiable"][:_SHOWN]:
        yield f"unsatisfiable concept: {concept}"
    for entity, axiom in inference["inconsistent"][:_SHOWN]:
        yield f"inconsistent entity: {entity} against {axiom}"
    for axiom, why in inference["outside"][:_SHOWN]:
        yield f"not applied to entities ({why}): {axiom}"
    for what, number in (
        ("unsatisfiable concepts", len(inference["unsatisfiable"])),
        ("inconsistent entities", inference["inconsistencies"]),
        ("axioms, or parts of them, not applied to entities", inference["axioms_outside"]),
    ):
        if number > _SHOWN:
            yield f"{number:,} {what} in all; `tarbox kb info --json` names them"


def _print_rejected(manifest: Mapping[str, Any]) -> None:
    for line in manifest["rejected"]:
        print(f"{line['file']}:{line['line']}: {line['reason']}", file=sys.stderr)
    hidden = manifest["report"]["rejections"] - len(manifest["rejected"])
    if hidden > 0:
        print(f"and {hidden} more rejected lines", file=sys.stderr)


def _compare(counts: dict[str, int], preset: Preset) -> None:
    """Our sizes beside the paper's."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    table.add_column("")
    for heading in ("ours", *preset.paper_sizes):
        table.add_column(heading, justify="right")
    from tarbox.kb.facts import KINDS

    for name in KINDS:
        theirs = [sizes.get(name) for sizes in preset.paper_sizes.values()]
        table.add_row(name, f"{counts[name]:,}", *("" if size is None else f"{size:,}" for size in theirs))
    console = Console(soft_wrap=True)
    console.print(table)
    for where, least in preset.thresholds.items():
        console.print(f"--min-degree {least}: {where}", highlight=False)


def show_kb(
    path: Annotated[Path, typer.Argument(metavar="KB", help="A store.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    plot: Annotated[
        Path | None, typer.Option(help="Draw degrees, concept depths and sizes: .png, .svg or .pdf.")
    ] = None,
) -> None:
    """Show what a knowledge base holds."""
    from tarbox.cli.places import check_kb, check_plot
    from tarbox.kb.statistics import summarise
    from tarbox.kb.store import open_store

    check_kb(path)
    check_plot(plot)
    store = open_store(path)
    summary = summarise(store)
    if plot is not None:
        from tarbox.evaluation.plots import draw_degrees

        draw_degrees(summary.histograms, plot)
        print(f"drawn: {plot}", file=sys.stderr)
    if as_json:
        typer.echo(json.dumps(summary.to_json(), indent=2, ensure_ascii=False))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, show_header=False)
    for name, value in summary.rows():
        table.add_row(name, value)
    Console(soft_wrap=True).print(table)


def export_kb(
    path: Annotated[Path, typer.Argument(metavar="KB", help="A store.")],
    output: Annotated[
        Path, typer.Option("-o", "--output", help="FILE.nt, .nt.gz, .ttl or .jsonld; or a folder, for tables or KGX.")
    ],
    kgx: Annotated[KgxFiles | None, typer.Option(help="Nodes and edges of KGX instead of tables.")] = None,
) -> None:
    """Write a knowledge base as RDF, as TSV tables or as KGX."""
    from tarbox.cli.places import check_kb
    from tarbox.kb.export import export
    from tarbox.kb.store import open_store

    check_kb(path)
    store = open_store(path)
    written = export(store.facts.asserted(), output, store.axioms(), kgx and kgx.value, store.attributes)
    for file, rows in written.items():
        typer.echo(f"{file}: {rows:,} lines")
    if store.manifest.get("axioms") and output not in written:
        typer.echo("The store's axioms are not in the tables: export to FILE.nt for these.", err=True)
    if store.facts.annotations and output not in written:
        options = " ".join(f"--annotation '{iri}'" for iri in store.manifest["annotations"])
        typer.echo(f"The tables do not say which relations annotate: build from them with {options}", err=True)
