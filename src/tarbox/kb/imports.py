"""`owl:imports`, resolved among the files at hand: by Protégé's catalogue, or by a file's name."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from urllib.parse import unquote, urlparse
from xml.etree import ElementTree

from tarbox.kb.sources import FORMATS, Source, detect_format

_CATALOG = "catalog-v001.xml"


def find_import(iri: str, sources: Iterable[Source]) -> Source | None:
    """The local file that holds the ontology `iri`, looked for in the folders of `sources`."""
    for folder in dict.fromkeys(source.path.parent for source in sources):
        for file in _candidates(iri, folder):
            format = detect_format(file) if file.is_file() else None
            if format is not None:
                return Source(file, str(file), format)
    return None


def _candidates(iri: str, folder: Path) -> Iterable[Path]:
    catalog = _catalog(folder)
    if iri in catalog:
        yield folder / catalog[iri]
    name = Path(unquote(urlparse(iri).path)).name
    if name and name not in (".", ".."):
        yield folder / name
        for suffix in (".owl", *(suffix for suffixes in FORMATS.values() for suffix in suffixes)):
            yield folder / f"{Path(name).stem}{suffix}"


def _catalog(folder: Path) -> dict[str, str]:
    """IRI to file name, from an OASIS catalogue as Protégé writes it."""
    try:
        root = ElementTree.fromstring((folder / _CATALOG).read_bytes())
    except (OSError, ElementTree.ParseError):
        return {}
    entries = [element.attrib for element in root.iter() if element.tag.endswith("uri")]
    return {entry["name"]: unquote(entry["uri"]) for entry in entries if {"name", "uri"} <= entry.keys()}
