"""Folders in the layout of BetaE over random graphs, with oracles that know their answers."""

from __future__ import annotations

import pickle
import random
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from oracle import Oracle
from tarbox.kb.facts import SPLITS, Facts
from tarbox.kb.terms import mint
from tarbox.kb.vocabulary import Vocabulary
from tarbox.query.algebra import Direction, Query, Slot, ground, lift
from tarbox.query.betae import STRUCTURES, UNION_FORMS, leaves, to_query

SIZE = 12
ENTITIES = [f"concept_person_{number}" for number in range(SIZE)]
RELATIONS = ["concept:knows", "/likes/a thing", "back_reverse"]
Triple = tuple[int, int, int]


def names_of(convention: str) -> list[str]:
    both = [("+{}", "-{}"), ("{}", "{}_reverse")][convention == "reverse"]
    return [form.format(name) for name in RELATIONS for form in both]


class Folder:
    """A folder in BetaE's layout over a random graph, and the oracles that know its answers."""

    def __init__(self, path: Path, seed: int, convention: str) -> None:
        self.path, self.random = path, random.Random(seed)
        path.mkdir()
        every = sorted({self._triple() for _ in range(130)})
        self.random.shuffle(every)
        self.parts = {"train": every[:80], "valid": every[80:95], "test": every[95:]}
        relations = names_of(convention)
        self.dump("id2ent", dict(enumerate(ENTITIES)))
        self.dump("id2rel", dict(enumerate(relations)))
        for split, triples in self.parts.items():
            lines = [f"{h}\t{2 * r}\t{t}\n{t}\t{2 * r + 1}\t{h}\n" for h, r, t in triples]
            (path / f"{split}.txt").write_text("".join(lines))
        vocabulary = Vocabulary.of([mint(name) for name in ENTITIES], (), [mint(name) for name in RELATIONS])
        self.vocabulary = vocabulary
        rows = [vocabulary.entities.find(mint(name)) for name in ENTITIES]
        numbers = [vocabulary.relations.find(mint(name)) for name in RELATIONS]
        self.oracles, held = {}, []
        for split in SPLITS:
            held += [(rows[h], numbers[r], rows[t]) for h, r, t in self.parts[split]]
            self.oracles[split] = Oracle.of(Facts.of(vocabulary, held))

    def _triple(self) -> Triple:
        return (self.random.randrange(SIZE), self.random.randrange(3), self.random.randrange(SIZE))

    def dump(self, name: str, content: object) -> None:
        (self.path / f"{name}.pkl").write_bytes(pickle.dumps(content, protocol=4))

    def ground(self, structure: Any) -> Any:
        if isinstance(structure, tuple):
            return tuple(self.ground(part) for part in structure)
        return {"e": self.random.randrange(SIZE), "r": self.random.randrange(6), "n": -2, "u": -1}[structure]

    def answers(self, split: str, structure: Any, grounding: Any) -> tuple[frozenset[int], frozenset[int]]:
        """(easy, hard) ids of the vocabulary; of a training query all are hard."""
        query = self.query(structure, grounding)
        larger = self.oracles[split].entities(query)
        if split == "train":
            return frozenset(), larger
        easy = self.oracles[SPLITS[SPLITS.index(split) - 1]].entities(query)
        return easy, larger - easy

    def query(self, structure: Any, grounding: Any) -> Query:
        """Their relation 2k goes from head to tail, ours is `inverse k`; a union by De Morgan's law is a union."""
        numbers = [number for number in leaves(grounding) if number >= 0]
        shape, taken = lift(
            to_query(UNION_FORMS.get(structure, structure), [str(place) for place in range(len(numbers))])
        )
        return ground(shape, [self._filler(slot, numbers[int(slot.name)]) for slot in taken])

    def _filler(self, slot: Slot, number: int) -> Slot:
        if slot.direction is None:
            return replace(slot, name=mint(ENTITIES[number]))
        way = Direction.FORWARD if number % 2 else Direction.INVERSE
        return replace(slot, name=mint(RELATIONS[number // 2]), direction=way)

    def numbers(self, ids: Iterable[int]) -> set[int]:
        """Ids of the vocabulary as numbers of the folder."""
        own = {mint(name): number for number, name in enumerate(ENTITIES)}
        return {own[self.vocabulary.entities.iri(id)] for id in ids}

    def fill(self, wanted: int = 6) -> None:
        """Query files of all structures; those of valid and test have a hard answer."""
        self.written: dict[str, dict[Any, set[Any]]] = {}
        for split in SPLITS:
            queries, easy, hard = defaultdict(set), defaultdict(set), defaultdict(set)
            for structure in (*STRUCTURES.values(), *UNION_FORMS):
                while len(queries[structure]) < wanted:
                    grounding = self.ground(structure)
                    known, target = self.answers(split, structure, grounding)
                    if target:
                        queries[structure].add(grounding)
                        easy[grounding], hard[grounding] = self.numbers(known), self.numbers(target)
            self.dump(f"{split}-queries", queries)
            if split == "train":
                self.dump("train-answers", hard)
            else:
                self.dump(f"{split}-easy-answers", easy)
                self.dump(f"{split}-hard-answers", hard)
            self.written[split] = dict(queries)
