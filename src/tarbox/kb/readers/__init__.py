"""One small adapter per file format: from a file to blocks of statements."""

from __future__ import annotations

from typing import Final

from tarbox.kb.readers.annotations import (
    read_gaf,
    read_gene_table,
    read_genes_to_disease,
    read_genes_to_phenotype,
    read_hpoa,
)
from tarbox.kb.readers.dumps import DUMP_RULES, read_dump
from tarbox.kb.readers.kgx import read_kgx
from tarbox.kb.readers.lines import read_lines
from tarbox.kb.readers.owl import read_owl
from tarbox.kb.readers.rdf import read_rdf
from tarbox.kb.readers.tables import read_table
from tarbox.kb.statements import Reader

READERS: Final[dict[str, Reader]] = {
    "ntriples": read_lines,
    "nquads": read_lines,
    "turtle": read_rdf,
    "trig": read_rdf,
    "rdfxml": read_rdf,
    "jsonld": read_rdf,
    "functional": read_owl,
    "owlxml": read_owl,
    "manchester": read_owl,
    "obo": read_owl,
    "tsv": read_table,
    "csv": read_table,
    "kgx": read_kgx,
    "kgx-jsonl": read_kgx,
    "gaf": read_gaf,
    "hpoa": read_hpoa,
    "hpo-genes": read_genes_to_phenotype,
    "hpo-diseases": read_genes_to_disease,
    "hgnc": read_gene_table,
    **dict.fromkeys(DUMP_RULES, read_dump),
}
