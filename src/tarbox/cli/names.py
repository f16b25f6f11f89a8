"""`tarbox search` and `tarbox show`: what there is, and what is known of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from tarbox.core.ids import Role

if TYPE_CHECKING:
    from tarbox.service.answering import Answerer
    from tarbox.service.cards import CardItem, ConceptCard, ConceptLine, EntityCard, FactGroup, FactValue, RelationCard
    from tarbox.service.catalogue import Catalogue, Page
    from tarbox.service.search import SearchResult

StoreOrRun = Annotated[Path, typer.Argument(metavar="KB|RUN", help="A store, or a run.", show_default=False)]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
_ALL: Final = 1 << 40
_SYNONYMS: Final = 10


def search(
    source: StoreOrRun,
    text: Annotated[list[str], typer.Argument(metavar="TEXT...", help="Words of a name.", show_default=False)],
    k: Annotated[int, typer.Option("-k", min=1, help="How many.")] = 20,
    role: Annotated[Role | None, typer.Option(help="Only these.")] = None,
    as_json: AsJson = False,
) -> None:
    """Find entities, concepts and relations by words of a label, synonym or identifier."""
    from tarbox.core.errors import UnknownName

    kb, sought = _open(source).kb, " ".join(text)
    found = kb.search(sought, k, role)
    if as_json:
        results = [asdict(each) | {"role": each.role.value} for each in found]
        typer.echo(json.dumps({"results": results}, ensure_ascii=False, indent=2))
    elif not found:
        raise UnknownName(f"nothing in {kb.title} is called '{sought}', nor anything like it")
    else:
        _print_found(found)


def _print_found(found: Sequence[SearchResult]) -> None:
    from tarbox.kb.terms import from_ntriples, local_name

    names = []
    for each in found:
        term = from_ntriples(each.iri)
        other = each.matched not in (each.label, term, local_name(term))
        names.append(_written(each) + (f" (also {each.matched})" if other else ""))
    counts = [f"{each.count:,} {'entities' if each.role.value == 'concept' else 'facts'}" for each in found]
    widths = [max(map(len, column)) for column in (names, counts)]
    for each, name, count in zip(found, names, counts, strict=True):
        typer.echo(f"{each.role.value:8}  {name:{widths[0]}}  {count:>{widths[1]}}  {each.iri}")


def show(
    source: StoreOrRun,
    name: Annotated[
        str | None, typer.Argument(help="An entity, concept or relation; without, all relations and the top concepts.")
    ] = None,
    k: Annotated[int, typer.Option("-k", min=0, help="How many of each list; 0 for all.")] = 10,
    predicted: Annotated[bool, typer.Option(help="Of a run: what it predicts, too.")] = True,
    as_json: AsJson = False,
) -> None:
    """Show what is known of an entity, a concept or a relation; without a name, the relations and the top concepts."""
    from tarbox.service.catalogue import ROOT_CONCEPTS, Catalogue, Page

    cards, page = Catalogue(_open(source)), Page(k or _ALL)
    if name is None:
        relations, concepts = cards.relations(page=Page(_ALL)), cards.concepts(ROOT_CONCEPTS, page)
        shown: dict[str, Any] = {**asdict(relations), "top_concepts": asdict(concepts)}
        lines = _schema_lines(relations.relations, concepts.concepts, concepts.total)
    else:
        found = _find(cards, name, page, predicted)
        shown = {role: asdict(card) for role, (card, _) in found.items()}
        lines = (line for card, tell in found.values() for line in tell(card))
    if as_json:
        typer.echo(json.dumps(shown, ensure_ascii=False, indent=2))
        return
    for line in lines:
        typer.echo(line)


def _open(source: Path) -> Answerer:
    from tarbox.benchmark.folder import is_benchmark
    from tarbox.cli.places import check_kb
    from tarbox.service.answering import open_answerer

    if is_benchmark(source):
        check_kb(source)
    return open_answerer(source)


def _find(
    cards: Catalogue, name: str, page: Page, predicted: bool
) -> dict[str, tuple[Any, Callable[[Any], Iterator[str]]]]:
    """The cards of the things of this name, by role, each with what tells it; a name may be used in several roles."""
    from tarbox.core.errors import AmbiguousName, UnknownName

    makers: dict[str, tuple[Callable[[], Any], Callable[[Any], Iterator[str]]]] = {
        "entity": (lambda: cards.entity(name, page, predicted=predicted), _entity_lines),
        "concept": (lambda: cards.concept(name, page), _concept_lines),
        "relation": (lambda: cards.relation(name, page), _relation_lines),
    }
    found, ambiguous = {}, None
    for role, (make, tell) in makers.items():
        try:
            found[role] = make(), tell
        except AmbiguousName as error:
            ambiguous = error
        except UnknownName:
            continue
    if found:
        return found
    if ambiguous is not None:
        raise ambiguous
    near = cards.kb.search(name, 3)
    said = " or ".join(f"the {each.role.value} {_written(each)}" for each in near)
    question = f". Did you mean {said}?" if near else ""
    raise UnknownName(f"nothing in {cards.kb.title} is called '{name}'{question}", [each.name for each in near])


def _written(thing: SearchResult | CardItem | ConceptLine) -> str:
    """As a query says it, and the label where that says more."""
    return thing.name if thing.name.strip("'") == thing.label else f"{thing.name} ! {thing.label}"


def _heading(kind: str, label: str, iri: str, name: str, synonyms: Sequence[str]) -> Iterator[str]:
    yield f"{label}, {kind}"
    yield f"  {iri}" + ("" if name in (label, iri) else f", in queries {name}")
    if synonyms:
        yield f"  also called {_some(synonyms[:_SYNONYMS], len(synonyms), '; ')}"


def _number(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' if count != 1 else ''}"


def _some(shown: Sequence[str], count: int, between: str = ", ") -> str:
    return between.join(shown) + (f" and {count - len(shown):,} more" if count > len(shown) else "")


def _entity_lines(card: EntityCard) -> Iterator[str]:
    yield from _heading("an entity", card.label, card.iri, card.name, card.synonyms)
    yield f"types: {_some([item.label for item in card.types], card.type_count) or 'none'}"
    yield _number(card.count, "fact")
    yield from _group_lines(card.outgoing, "  ")
    yield from _group_lines(card.incoming, "  inverse ")
    yield from _group_lines(card.predicted_outgoing, "  predicted: ")
    yield from _group_lines(card.predicted_incoming, "  predicted: inverse ")


def _group_lines(groups: Iterable[FactGroup], before: str) -> Iterator[str]:
    """The values of each group, in one line where no fact has attributes."""
    for group in groups:
        yield f"{before}{group.relation.label} ({group.count:,})"
        values = [("" if each.degree == 1 else f"{each.degree:.2f} ") + _value(each) for each in group.values]
        if any(each.attributes for each in group.values):
            yield from (f"    {value}" for value in values)
        else:
            yield f"    {_some(values, group.count)}"


def _value(value: FactValue) -> str:
    from tarbox.kb.attributes import say_attributes

    return value.label + (f" [{say_attributes(value.attributes)}]" if value.attributes else "")


def _concept_lines(card: ConceptCard) -> Iterator[str]:
    yield from _heading("a concept", card.label, card.iri, card.name, card.synonyms)
    for path in card.paths:
        yield f"place: {' > '.join(line.label for line in path)}"
    if card.equivalents:
        yield f"the same as: {', '.join(line.label for line in card.equivalents)}"
    if card.child_count:
        children = [f"{line.label} ({line.count:,})" for line in card.children]
        yield f"{card.child_count:,} directly below: {_some(children, card.child_count)}"
    yield f"{_number(card.count, 'instance')}: {_some([item.label for item in card.instances], card.count) or 'none'}"
    if card.described > card.count:
        yield f"describes {card.described:,} entities, by annotation relations too"
    if card.predicted:
        yield f"predicted: {', '.join(f'{value.degree:.2f} {value.label}' for value in card.predicted)}"


def _relation_lines(card: RelationCard) -> Iterator[str]:
    line = card.relation
    yield from _heading("a relation", line.label, line.iri, line.name, card.synonyms)
    yield f"{_number(line.count, 'fact')}, from {line.subjects:,} entities: {_ends(line.domain)}"
    yield f"to {line.objects:,} entities: {_ends(line.range)}"
    for fact in card.facts:
        yield f"  {fact.subject.label} {line.label} {_value(fact.object)}"
    if line.count > len(card.facts):
        yield f"  and {line.count - len(card.facts):,} more"


def _ends(items: Sequence[CardItem]) -> str:
    return ", ".join(f"{item.label} ({item.count:,})" for item in items) or "without types"


def _schema_lines(relations: Sequence[Any], concepts: Sequence[ConceptLine], total: int) -> Iterator[str]:
    yield _number(len(relations), "relation")
    for line in relations:
        yield f"  {_written(line)}: {_number(line.count, 'fact')}"
        yield f"    from {_ends(line.domain)}"
        yield f"    to {_ends(line.range)}"
    yield _number(total, "top concept")
    for concept in concepts:
        below = _number(concept.children, "concept")
        yield f"  {_written(concept)}: {_number(concept.count, 'instance')}, {below} directly below"
