"""`yago4` and `dbpedia`: the knowledge bases of the TAR paper, from the public dumps that its authors prepared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

from tarbox.core.errors import SourceError
from tarbox.kb.interpretation import Interpretation
from tarbox.kb.presets.preset import Preset, Wanted, find_wanted
from tarbox.kb.sources import Source

THRESHOLDS: Final[Mapping[str, int]] = {
    "the paper's text": 5,
    "the published preparation, whose sizes the paper's table shows": 50,
}


@final
@dataclass(frozen=True, slots=True)
class _Dump:
    """The files of a dump; calling it finds them in the folder of `--raw`."""

    preset: str
    release: str
    page: str
    files: tuple[Wanted, ...]

    def __call__(self, raw: Path | None) -> list[Source]:
        advice = f"Download what is missing from {self.release}: {self.page}"
        if raw is None:
            names = ", ".join(str(file) for file in self.files)
            raise SourceError(
                f"preset {self.preset} needs --raw DIR, a folder with {names}, as they are or unpacked. {advice}"
            )
        return find_wanted(self.files, raw, self.preset, advice)


YAGO4: Final = Preset(
    "yago4",
    "YAGO 4, English Wikipedia flavour, as in the TAR paper",
    _Dump(
        "yago4",
        "YAGO 4, English Wikipedia flavour (release 2020-02-24)",
        "https://yago-knowledge.org/downloads/yago-4",
        (
            Wanted(("yago-wd-class.nt.gz",), "yago4-class", "subsumptions"),
            Wanted(("yago-wd-facts.nt.gz",), "yago4-facts", "assertions"),
            Wanted(("yago-wd-full-types.nt.gz",), "yago4-types", "typings"),
            Wanted(("yago-wd-simple-types.nt.gz",), "yago4-types", "more typings"),
        ),
    ),
    Interpretation(min_degree=5, keep_literals=True),
    paper_sizes={
        "paper (95% for training, closed)": {
            "entities": 32_465,
            "concepts": 8_382,
            "relations": 75,
            "assertions": 101_417,
            "typings": 83_291,
            "subsumptions": 16_644,
        }
    },
    thresholds=THRESHOLDS,
)

DBPEDIA: Final = Preset(
    "dbpedia",
    "DBpedia 2016-10 with Wikidata IRIs, as in the TAR paper",
    _Dump(
        "dbpedia",
        "DBpedia, release 2016-10 (the ontology, and the English files with Wikidata IRIs)",
        "http://downloads.dbpedia.org/wiki-archive/downloads-2016-10.html",
        (
            Wanted(("dbpedia_2016-10.nt",), "dbpedia-ontology", "subsumptions"),
            Wanted(("mappingbased_objects_wkd_uris_en.ttl.bz2",), "dbpedia-objects", "assertions"),
            Wanted(("instance_types_transitive_wkd_uris_en.ttl.bz2",), "dbpedia-types", "typings"),
        ),
    ),
    Interpretation(min_degree=5),
    paper_sizes={
        "paper (95% for training, closed)": {
            "entities": 28_824,
            "concepts": 981,
            "relations": 327,
            "assertions": 136_821,
            "typings": 225_436,
            "subsumptions": 2_582,
        }
    },
    thresholds=THRESHOLDS,
)
