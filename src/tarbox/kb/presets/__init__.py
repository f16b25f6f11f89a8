"""Knowledge bases that `tarbox kb build --preset NAME` builds: where their files are, and how they are read."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from tarbox.kb.presets.academia import ACADEMIA
from tarbox.kb.presets.biomed import BIOMED
from tarbox.kb.presets.dumps import DBPEDIA, YAGO4
from tarbox.kb.presets.preset import Preset

PRESETS: Final[Mapping[str, Preset]] = MappingProxyType(
    {"academia": ACADEMIA, "biomed": BIOMED, "yago4": YAGO4, "dbpedia": DBPEDIA}
)
__all__ = ["PRESETS", "Preset"]
