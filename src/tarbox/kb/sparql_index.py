"""The facts in a SPARQL engine, Oxigraph: what is known as RDF (ADR 38).

A small knowledge base is loaded into memory. A large one has an index on disk, in its store's folder, that is built
once and then opened for reading by whoever needs it. Its name has the store's content hash, so that it is never that of
other facts, and it gets this name when it is complete.
"""

from __future__ import annotations

import io
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, final

from tarbox.kb.axioms import Axiom
from tarbox.kb.closure import close_typings
from tarbox.kb.export import write_triples
from tarbox.kb.facts import Facts
from tarbox.kb.store import INDEX, Store

if TYPE_CHECKING:
    from pyoxigraph import Store as Engine

IN_MEMORY: Final = 200_000
"""Knowledge bases of up to so many facts need no index on disk."""


def served_triples(facts: Facts, axioms: Iterable[Axiom]) -> Iterator[bytes]:
    """What an engine is asked about, as N-Triples: asserted and inferred facts, typings closed under subsumption."""
    return write_triples(close_typings(facts), axioms)


def find_index(store: Store) -> Path | None:
    """Where the index of a large store is, built now if need be; None for a small one, or where none can be written."""
    if sum(map(len, (store.facts.heads, store.facts.typed, store.facts.subs))) <= IN_MEMORY:
        return None
    place = store.path.resolve() / f"{INDEX}{store.manifest['content_hash']}"
    with suppress(OSError):  # a disk that cannot be written, or is full
        if not place.is_dir():
            _build(place, served_triples(store.facts, store.axioms()))
    return place if place.is_dir() else None


def open_engine(source: Path | Iterator[bytes]) -> Engine:
    """An engine that reads an index, or holds triples in memory."""
    from pyoxigraph import Store as Engine

    return Engine.read_only(str(source)) if isinstance(source, Path) else _fill(Engine(), source)


def _build(place: Path, pieces: Iterator[bytes]) -> None:
    """Writes an index under another name; of two who do so at a time, one finds the place taken."""
    from pyoxigraph import Store as Engine

    scratch = Path(tempfile.mkdtemp(prefix=f".{INDEX}", dir=place.parent))
    try:
        engine = _fill(Engine(str(scratch)), pieces)
        engine.optimize()
        engine.flush()
        del engine
        scratch.chmod(0o755)
        scratch.rename(place)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _fill(engine: Engine, pieces: Iterator[bytes]) -> Engine:
    from pyoxigraph import RdfFormat

    source: Any = _Stream(pieces)
    engine.bulk_load(source, RdfFormat.N_TRIPLES, lenient=True)
    return engine


@final
class _Stream:
    """Pieces of bytes, none of them empty, as a file."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._piece = io.BytesIO()

    def read(self, size: int = -1) -> bytes:
        found = self._piece.read(size)
        if not found:
            self._piece = io.BytesIO(next(self._pieces, b""))
            found = self._piece.read(size)
        return found
