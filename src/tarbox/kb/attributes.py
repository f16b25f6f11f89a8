"""What is said about a fact beside the fact itself: evidence codes, references, frequencies (ADR 40)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tarbox.core.errors import ConfigError
from tarbox.kb.arrays import Ids
from tarbox.kb.statements import Piece

EVIDENCE: Final = "evidence"
EVIDENCE_GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    "experimental": ("EXP", "IDA", "IPI", "IMP", "IGI", "IEP", "HTP", "HDA", "HMP", "HGI", "HEP", "PCS", "ICE"),
    "phylogenetic": ("IBA", "IBD", "IKR", "IRD"),
    "computational": ("ISS", "ISO", "ISA", "ISM", "IGC", "RCA"),
    "author": ("TAS", "NAS"),
    "curator": ("IC", "ND"),
    "electronic": ("IEA",),
}
"""The evidence codes of GO, as GO groups them; of HPO, published and other clinical studies are experimental."""
OTHER_EVIDENCE: Final = "evidence of another kind (--evidence)"


def evidence_codes(names: Iterable[str]) -> tuple[str, ...]:
    """The codes that groups and codes name, sorted."""
    every = {code for group in EVIDENCE_GROUPS.values() for code in group}
    found: set[str] = set()
    for name in names:
        group = EVIDENCE_GROUPS.get(name.lower(), (name.upper(),))
        if not every.issuperset(group):
            raise ConfigError(
                f"--evidence {name}: neither a group of evidence codes ({', '.join(EVIDENCE_GROUPS)}) nor a code "
                f"({', '.join(sorted(every))})."
            )
        found.update(group)
    return tuple(sorted(found))


def keep_evidence(piece: Piece, codes: Collection[str]) -> Piece:
    """The piece without the statements whose evidence is of other codes; those without evidence stay."""
    rows, given = piece.attributes.column("row").to_numpy(), pc.equal(piece.attributes.column("name"), EVIDENCE)
    wanted = pc.and_(given, pc.is_in(piece.attributes.column("value"), pa.array(sorted(codes))))
    keep = np.ones(piece.statements.num_rows, np.bool_)
    keep[rows[np.asarray(given)]] = False
    keep[rows[np.asarray(wanted)]] = True
    if keep.all():
        return piece
    attributes = piece.attributes.filter(pa.array(keep[rows]))
    moved = pa.array((np.cumsum(keep) - 1)[attributes.column("row").to_numpy()], pa.int32())
    return replace(
        piece,
        statements=piece.statements.filter(pa.array(keep)),
        attributes=attributes.set_column(0, attributes.schema.field(0), moved),
        left_out={**piece.left_out, OTHER_EVIDENCE: int(np.count_nonzero(~keep))},
    )


@final
@dataclass(frozen=True, slots=True)
class FactAttributes:
    """The attributes of asserted facts, memory-mapped: assertion i has those of the rows where `facts` is i.

    `heads`, `relations`, `tails` are the asserted assertions [A], sorted; `names` and `values` [N] go with `facts` [N],
    which increases.
    """

    heads: Ids
    relations: Ids
    tails: Ids
    facts: Ids
    names: pa.Array
    values: pa.Array

    def __bool__(self) -> bool:
        return bool(len(self.facts))

    def of(self, head: int, relation: int, tail: int) -> dict[str, tuple[str, ...]]:
        """The values by name; none of a fact that has no attributes, or that is no asserted one.

        >>> ids = [np.array([number], np.int32) for number in (5, 0, 7, 0)]
        >>> FactAttributes(*ids, pa.array(["evidence"]), pa.array(["IDA"])).of(5, 0, 7)
        {'evidence': ('IDA',)}
        """
        low, high = 0, len(self.heads)
        for column, wanted in ((self.heads, head), (self.relations, relation), (self.tails, tail)):
            ends = np.searchsorted(column[low:high], [wanted, wanted + 1])
            low, high = low + int(ends[0]), low + int(ends[1])
        found: dict[str, tuple[str, ...]] = {}
        if low < high:
            first, last = np.searchsorted(self.facts, np.array([low, low + 1], self.facts.dtype)).tolist()
            for row in range(first, last):
                name = self.names[row].as_py()
                found[name] = (*found.get(name, ()), self.values[row].as_py())
        return found


def say_attributes(attributes: Mapping[str, tuple[str, ...]], most: int = 3) -> str:
    """As a person reads them, at most so many values of each: ``evidence IDA, IMP; reference PMID:1``."""
    return "; ".join(
        f"{name} {', '.join(values[:most])}" + (f" and {len(values) - most:,} more" if len(values) > most else "")
        for name, values in attributes.items()
    )
