"""What a preset is, and how it finds the files it needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import final

from tarbox.core.errors import SourceError
from tarbox.kb.interpretation import Interpretation
from tarbox.kb.sources import COMPRESSIONS, Source


@final
@dataclass(frozen=True, slots=True)
class Preset:
    """A knowledge base by name.

    `sources` takes the folder of `--raw`, or None, and gives what `tarbox.kb.build.build` reads; `interpretation` is
    the preset's own, which the user's options override. `paper_sizes` are the sizes that a paper gives, by where it
    gives them; `thresholds` are the degrees for `--min-degree` that are on record, by where. `examples` are questions
    worth asking, as class expressions with full IRIs: whatever knowledge base knows all their names offers them.

    >>> from tarbox.kb.presets import PRESETS
    >>> [source.path.name for source in PRESETS["academia"].sources(None)]
    ['academia.ttl']
    """

    name: str
    summary: str
    sources: Callable[[Path | None], list[Source]]
    interpretation: Interpretation = field(default_factory=Interpretation)
    paper_sizes: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    thresholds: Mapping[str, int] = field(default_factory=dict)
    examples: tuple[str, ...] = ()


@final
@dataclass(frozen=True, slots=True)
class Wanted:
    """A file that a preset reads: the names it goes by, as to download; its format; what it holds.

    The same file under another compression, or none, is as good.
    """

    names: tuple[str, ...]
    format: str
    holds: str

    def find(self, folder: Path) -> Source | None:
        for name in self.names:
            bare = name.removesuffix(Path(name).suffix) if name.endswith(COMPRESSIONS) else name
            for path in (folder / name, *(folder / (bare + suffix) for suffix in ("", *COMPRESSIONS))):
                if path.is_file():
                    return Source(path, str(path), self.format)
        return None

    def __str__(self) -> str:
        return f"{' or '.join(self.names)} ({self.holds})"


def find_wanted(wanted: Iterable[Wanted], folder: Path, preset: str, advice: str) -> list[Source]:
    """A source for each file wanted; where some are missing, an error that lists them and gives `advice`."""
    if not folder.is_dir():
        raise SourceError(f"--raw {folder}: no such folder. {advice}")
    found = [(file, file.find(folder)) for file in wanted]
    missing = "; ".join(str(file) for file, source in found if source is None)
    if missing:
        raise SourceError(f"preset {preset}: not in {folder}: {missing}. {advice}")
    return [source for _, source in found if source is not None]
