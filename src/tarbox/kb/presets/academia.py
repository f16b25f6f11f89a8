"""`academia`: embedded, written by hand around Figure 1 of the TAR paper."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path
from typing import Final

from tarbox.core.errors import ConfigError
from tarbox.kb.presets.preset import Preset
from tarbox.kb.sources import Source

_EXAMPLES: Final = (
    # Figure 1: who will be interested in techniques that G. Hinton is investigating and Google is using?
    ":interestedIn some ((inverse :investigates value :GeoffreyHinton) and (inverse :uses value :Google))",
    ":Person and (:worksAt some (:University and (:locatedIn value :Canada))) and not (:bornIn value :Canada)",
)


def _sources(raw: Path | None) -> list[Source]:
    if raw is not None:
        raise ConfigError(f"--raw {raw}: preset academia is embedded and reads no files. Leave --raw out.")
    path = Path(str(files("tarbox.kb.presets") / "academia.ttl"))
    return [Source(path, path.name, "turtle")]


ACADEMIA: Final = Preset(
    "academia",
    "researchers, universities, companies, techniques and places; embedded, for demonstrations",
    _sources,
    examples=tuple(re.sub(r":(\w+)", r"<https://tarbox.example/academia#\1>", query) for query in _EXAMPLES),
)
