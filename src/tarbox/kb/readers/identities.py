"""Which names of biology's files mean one thing, and which terms lie where: what one file needs to know of the others.

Genes are called by NCBI's ids and symbols in the files of the HPO, by UniProt's accessions and symbols of another day
in GAF, and diseases by OMIM's, Orphanet's and DECIPHER's ids. All sources of a build are looked at before any is read.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, final

from tarbox.kb.sources import Source, chunks
from tarbox.kb.statements import ReadOptions

HUMAN: Final = "taxon:9606"
INHERITANCE_ROOT: Final = "HP:0000005"
ONSET_ROOT: Final = "HP:0003674"
BY_ID: Final = "genes joined by an identifier or a former symbol"
BY_SYNONYM: Final = "genes joined by a synonym"
AMBIGUOUS: Final = "genes not joined: a synonym of theirs is a symbol of another gene, or of several"
BY_MONDO: Final = "ids of diseases that are one by MONDO's cross references"
_COMMENTS: Final = (b"!", b"#")
_OBO_LINE: Final = re.compile(
    rb'^(?:id: (\S+)|is_a: (HP:\d+)|xref: ((?:OMIM|Orphanet|ORPHA|DECIPHER):\w+) \{[^\n]*"MONDO:equivalentTo")', re.M
)


@final
@dataclass(frozen=True, slots=True)
class GeneRow:
    """A gene of a table in the form of HGNC's complete set: its symbol, former symbols and aliases, identifiers."""

    symbol: str
    former: tuple[str, ...]
    aliases: tuple[str, ...]
    ids: tuple[str, ...]


@final
@dataclass(frozen=True, slots=True)
class Identities:
    """`symbols` are the current symbols of genes, by identifier, where a file has another; `diseases` the MONDO terms
    of diseases, by id. `inheritance` and `onset` are the terms below those of HPO; `notes` count what was joined.
    """

    symbols: Mapping[str, str]
    diseases: Mapping[str, str]
    inheritance: frozenset[str]
    onset: frozenset[str]
    notes: Mapping[str, int]

    @classmethod
    def of(cls, options: ReadOptions) -> Identities:
        """Those of all sources of a build, found once."""
        if cls not in options.shared:
            options.shared[cls] = _find(options.sources)
        found: Identities = options.shared[cls]
        return found


def _find(sources: Iterable[Source]) -> Identities:
    proteins: dict[str, tuple[str, frozenset[str]]] = {}
    genes: dict[str, str] = {}
    rows: list[GeneRow] = []
    children: defaultdict[str, list[str]] = defaultdict(list)
    same: defaultdict[str, set[str]] = defaultdict(set)
    for source in sources:
        match source.format:
            case "gaf":
                for cells in _table(source, 13):
                    id = f"{cells[0]}:{cells[1]}"
                    if id not in proteins and cells[12].startswith(HUMAN):
                        proteins[id] = cells[2].strip(), frozenset(cells[10].split("|"))
            case "hpo-genes" | "hpo-diseases":
                genes |= {f"NCBIGene:{_bare(cells[0])}": cells[1].strip() for cells in _table(source, 2)}
            case "hgnc":
                rows += gene_rows(source)
            case "obo":
                _read_terms(source, children, same)
    symbols, notes = _join_genes(proteins, genes, rows)
    diseases = {id: term for id, (term, *others) in same.items() if not others}
    notes[BY_MONDO] = len(diseases)
    inheritance, onset = (frozenset(_below(root, children)) for root in (INHERITANCE_ROOT, ONSET_ROOT))
    return Identities(symbols, diseases, inheritance, onset, {what: n for what, n in notes.items() if n})


def _bare(id: str) -> str:
    return id.removeprefix("NCBIGene:")


def _table(source: Source, width: int) -> Iterator[list[str]]:
    """The rows with at least `width` cells; the reader of the file says what is wrong with the others."""
    with source.open() as stream:
        for _, block in chunks(stream):
            for raw in block.split(b"\n"):
                if raw and not raw.startswith(_COMMENTS):
                    cells = raw.decode(errors="replace").rstrip("\r").split("\t", 15)
                    if len(cells) >= width:
                        yield cells


def gene_rows(source: Source) -> Iterator[GeneRow]:
    """The rows of a table of genes; its first row names the columns, several values in a cell are parted by `|`."""
    columns: list[str] = []
    with source.open() as stream:
        for _, block in chunks(stream):
            for line in block.decode(errors="replace").splitlines():
                cells = [cell.strip('"') for cell in line.split("\t")]
                if columns:
                    row = {
                        name: [value for value in cell.split("|") if value]
                        for name, cell in zip(columns, cells, strict=False)
                    }
                    yield from _gene_row(row)
                columns = columns or cells


def _gene_row(row: Mapping[str, list[str]]) -> Iterator[GeneRow]:
    prefixes = {"entrez_id": "NCBIGene:", "uniprot_ids": "UniProtKB:", "hgnc_id": ""}
    ids = [prefix + value for name, prefix in prefixes.items() for value in row.get(name, ())]
    for symbol in row.get("symbol", ()):
        yield GeneRow(symbol, tuple(row.get("prev_symbol", ())), tuple(row.get("alias_symbol", ())), tuple(ids))


def _read_terms(source: Source, children: defaultdict[str, list[str]], same: defaultdict[str, set[str]]) -> None:
    """HPO's hierarchy, and MONDO's terms by the ids of diseases that they are equivalent to."""
    with source.open() as stream:
        term = ""
        for id, above, other in _OBO_LINE.findall(stream.readall()):
            if id:
                term = id.decode()
            elif above:
                children[above.decode()].append(term)
            elif term.startswith("MONDO:"):
                same[other.decode().replace("Orphanet:", "ORPHA:")].add(term)


def _below(root: str, children: Mapping[str, Collection[str]]) -> Iterator[str]:
    yield root
    for child in children.get(root, ()):
        yield from _below(child, children)


def _join_genes(
    proteins: Mapping[str, tuple[str, frozenset[str]]], genes: Mapping[str, str], rows: Iterable[GeneRow]
) -> tuple[dict[str, str], Counter[str]]:
    """Current symbols by identifier where a file has another, and how many were found which way.

    NCBI's symbol stands above UniProt's. A former symbol or a synonym joins where it can only mean one gene.
    """
    by_name: defaultdict[str, set[str]] = defaultdict(set)
    for row in rows:
        for name in (*row.ids, *row.former):
            by_name[name].add(row.symbol)
    known = {name: symbol for name, (symbol, *others) in by_name.items() if not others}
    notes: Counter[str] = Counter()
    found = {id: known[id] for id, symbol in genes.items() if known.get(id, symbol) != symbol}
    official = {found.get(id, symbol) for id, symbol in genes.items()}.union(*by_name.values())
    used = {symbol for symbol, _ in proteins.values()}
    claims: defaultdict[str, set[str]] = defaultdict(set)
    for id, (symbol, synonyms) in proteins.items():
        current = known.get(id) or (None if symbol in official else known.get(symbol))
        if current is not None:
            notes[BY_ID] += current != symbol
            found[id] = current
        elif symbol not in official:
            for synonym in (synonyms & official) - used:
                claims[symbol].add(synonym)
    wanted = Counter(synonym for synonyms in claims.values() for synonym in synonyms)
    joined = {symbol: next(iter(s)) for symbol, s in claims.items() if len(s) == 1 and wanted[next(iter(s))] == 1}
    found |= {id: joined[symbol] for id, (symbol, _) in proteins.items() if symbol in joined and id not in found}
    notes[BY_SYNONYM], notes[AMBIGUOUS] = len(joined), len(claims) - len(joined)
    return found, notes
