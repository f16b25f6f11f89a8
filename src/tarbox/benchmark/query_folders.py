"""The folders of query files that the literature shares: KGReasoning's (BetaE) and Query2box's.

::

    id2ent.pkl id2rel.pkl                       names by id (also ind2ent.pkl, or ent2id.pkl the other way)
    train.txt valid.txt test.txt                facts, ids or names, with tabs (also train_indexified.txt), if any
    SPLIT-queries.pkl                           KGReasoning: groundings by structure (also SPLIT-2p-queries.pkl)
    train-answers.pkl SPLIT-easy-answers.pkl SPLIT-hard-answers.pkl         (or -tp- and -fn-); may be absent
    SPLIT_triples_2c.pkl                        Query2box: groundings with an answer, by name of the structure
    SPLIT_ans_2c.pkl SPLIT_ans_2c_hard.pkl      all answers, and the hard ones

A relation is there once in each direction: `+r` and `-r`, or `r` and `r_reverse` as in NELL995's files.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, final

import numpy as np

from tarbox.benchmark.pickles import load_mapping, load_names, load_plain
from tarbox.core.errors import SourceError
from tarbox.kb.arrays import Places
from tarbox.kb.facts import SPLITS
from tarbox.query.algebra import Direction
from tarbox.query.betae import MAX_DEPTH, NEGATION, STRUCTURES, UNION, Structure

MARKS: Final = MappingProxyType({"n": NEGATION, "u": UNION})
REVERSE: Final = "_reverse"
_BETAE: Final = re.compile(rf"({'|'.join(SPLITS)})(-.+)?-queries\.pkl")
_EASY: Final = ("-easy-answers.pkl", "-tp-answers.pkl")
_HARD: Final = ("-hard-answers.pkl", "-fn-answers.pkl", "-answers.pkl")
_QUERY2BOX: Final = MappingProxyType(
    {
        "1c": "1p",
        "2c": "2p",
        "3c": "3p",
        "2i": "2i",
        "3i": "3i",
        "ci": "pi",
        "ic": "ip",
        "2u": "2u-DNF",
        "uc": "up-DNF",
    }
)
"""Query2box's names of structures, with KGReasoning's."""

_PLAIN: Final = {STRUCTURES[f"{name}-DM"]: STRUCTURES[f"{name}-DNF"] for name in ("2u", "up")}
"""Unions by De Morgan's law are unions: a proof of one needs a link."""

Answers = Sequence[Iterable[int]]


@final
@dataclass(frozen=True, slots=True)
class GivenQueries:
    """The queries of one structure and split: their ids [Q, leaves] in the structure's order, without marks.

    `easy` and `hard` are their answers as the folder has them, or None; those of training queries are `hard`.
    """

    file: Path
    structure: Structure
    numbers: Places
    easy: Answers | None
    hard: Answers | None


@final
@dataclass(frozen=True, slots=True)
class QueryFolder:
    """What a folder holds. `triples` [T, 3] by split are ids, a relation with its direction; `queries` by split."""

    path: Path
    entities: tuple[str, ...]
    relations: tuple[tuple[str, Direction], ...]
    triples: Mapping[str, Places]
    queries: Mapping[str, tuple[GivenQueries, ...]]


def is_betae(folder: Path) -> bool:
    """Whether a folder has query files of KGReasoning's."""
    return any(_BETAE.fullmatch(file.name) for file in folder.glob("*-queries.pkl"))


def is_query2box(folder: Path) -> bool:
    """Whether a folder has query files of Query2box's."""
    return any(_query2box_files(folder, split, name) for split in SPLITS for name in _QUERY2BOX)


def read_betae(folder: Path) -> QueryFolder:
    """A folder in KGReasoning's layout."""
    found: dict[str, list[GivenQueries]] = {}
    for file in sorted(folder.glob("*-queries.pkl")):
        if named := _BETAE.fullmatch(file.name):
            found.setdefault(named[1], []).extend(_betae_queries(file))
    return _read(folder, found)


def read_query2box(folder: Path) -> QueryFolder:
    """A folder in Query2box's layout."""
    found: dict[str, list[GivenQueries]] = {}
    for split in SPLITS:
        for name, own in _QUERY2BOX.items():
            if files := _query2box_files(folder, split, name):
                found.setdefault(split, []).append(_query2box_queries(files, STRUCTURES[own], split))
    return _read(folder, found)


def _read(folder: Path, queries: Mapping[str, list[GivenQueries]]) -> QueryFolder:
    entities, relations = _names(folder, "ent"), _names(folder, "rel")
    triples = {}
    for split in SPLITS:
        there = [file for end in ("", "_indexified") if (file := folder / f"{split}{end}.txt").exists()]
        if there:
            triples[split] = _triples(there[-1], entities, relations)
    ordered = {split: tuple(queries[split]) for split in SPLITS if split in queries}
    for given in chain.from_iterable(ordered.values()):
        _check_ids(given, len(entities), len(relations))
    return QueryFolder(folder, tuple(entities), tuple(_directions(relations)), triples, ordered)


def _names(folder: Path, kind: str) -> list[str]:
    for name in ("id", "ind"):
        for file, inverted in ((f"{name}2{kind}.pkl", False), (f"{kind}2{name}.pkl", True)):
            if (folder / file).exists():
                return load_names(folder / file, inverted)
    raise SourceError(f"{folder} has query files and no id2{kind}.pkl, which says what their numbers stand for")


def _directions(names: Sequence[str]) -> Iterator[tuple[str, Direction]]:
    """What a name of a relation is without its direction; head to tail is `inverse` in Manchester syntax."""
    signed, there = all(name[:1] in ("+", "-") for name in names), set(names)
    for name in names:
        stem = name[1:] if signed else name.removesuffix(REVERSE)
        back = name[0] == "-" if signed else stem != name and stem in there
        yield stem if signed or back else name, Direction.FORWARD if back else Direction.INVERSE


def _triples(file: Path, entities: Sequence[str], relations: Sequence[str]) -> Places:
    """[T, 3] ids; a file has ids throughout, or names throughout, of relations without a sign."""
    try:
        lines = [line.split("\t") for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise SourceError(f"{file}: cannot be read: {error}") from None
    if any(len(cells) != 3 for cells in lines):
        number = next(number for number, cells in enumerate(lines, 1) if len(cells) != 3)
        raise SourceError(f"{file}:{number}: expected head, relation and tail with tabs between them")
    if all(cell.strip().isdecimal() for cell in chain.from_iterable(lines)):
        ids = np.array(lines, np.int64).reshape(-1, 3)
        bounds = np.array([len(entities), len(relations), len(entities)])
        if (ids >= bounds).any():
            raise SourceError(f"{file}: {ids.max(axis=0).tolist()} are ids beyond the dictionaries, {bounds.tolist()}")
        return ids
    nodes = {name: number for number, name in enumerate(entities)}
    edges = {name.removeprefix("+"): number for number, name in enumerate(relations)}
    try:
        return np.array([(nodes[h], edges[r.removeprefix("+")], nodes[t.strip()]) for h, r, t in lines]).reshape(-1, 3)
    except KeyError as error:
        raise SourceError(f"{file}: {error.args[0]!r} is not in the dictionaries of this folder") from None


def _betae_queries(file: Path) -> Iterator[GivenQueries]:
    prefix = file.name.removesuffix("-queries.pkl")
    easy, hard = (
        next((load_mapping(path) for end in ends if (path := file.with_name(prefix + end)).exists()), None)
        for ends in (_EASY, _HARD)
    )
    for key, groundings in load_mapping(file).items():
        try:
            marks, ordered = tuple(leaves(key)), sorted(groundings)
        except TypeError as error:
            raise SourceError(f"{file}: the groundings of {key!r} are not tuples of numbers: {error}") from None
        if not set(marks) <= {"e", "r", *MARKS}:
            raise SourceError(f"{file}: {key!r} is no structure of KGReasoning's")
        numbers = _table(file, ordered, len(marks))
        for place, mark in enumerate(marks):
            if mark in MARKS and (numbers[:, place] != MARKS[mark]).any():
                raise SourceError(f"{file}: a grounding of {key!r} does not have {MARKS[mark]} for {mark!r}")
        kept = numbers[:, [place for place, mark in enumerate(marks) if mark not in MARKS]]
        yield GivenQueries(file, _PLAIN.get(key, key), kept, _of(easy, ordered), _of(hard, ordered))


def _query2box_files(folder: Path, split: str, name: str) -> dict[str, Path]:
    """The files of a split and structure that are there: `triples`, `ans` and `hard`."""
    ends = {"triples": f"triples_{name}", "ans": f"ans_{name}", "hard": f"ans_{name}_hard"}
    return {kind: file for kind, end in ends.items() if (file := folder / f"{split}_{end}.pkl").exists()}


def _query2box_queries(files: Mapping[str, Path], structure: Structure, split: str) -> GivenQueries:
    """The keys of an answer file are groundings; a triple has an answer and a name after them, or around one chain."""
    every, hard = (load_mapping(files[kind]) if kind in files else None for kind in ("ans", "hard"))
    answered = every if every is not None else hard
    file = next(iter(files.values()))
    if answered is None:
        rows = load_plain(file)
        if not isinstance(rows, list | set) or not all(isinstance(row, tuple) and len(row) > 1 for row in rows):
            raise SourceError(f"{file}: expected a list of Query2box's groundings")
        answered = dict.fromkeys((row[0][:2],) if len(row) == 2 else row[:-2] for row in rows)
    ordered = sorted(answered)
    size = sum(mark not in MARKS for mark in leaves(structure))
    numbers = _table(file, ordered, size)
    if split == "train":
        return GivenQueries(file, structure, numbers, None, _of(every, ordered))
    if every is None or hard is None:
        return GivenQueries(file, structure, numbers, None, _of(hard, ordered))
    easy = [set(every[key]) - set(hard.get(key, ())) for key in ordered]
    return GivenQueries(file, structure, numbers, easy, _of(hard, ordered))


def _of(answers: Mapping[Any, Iterable[int]] | None, groundings: Sequence[Any]) -> Answers | None:
    return None if answers is None else [answers.get(key, ()) for key in groundings]


def leaves(nested: Any, levels: int = MAX_DEPTH) -> Iterator[Any]:
    """What stands in nested tuples, from left to right."""
    if not isinstance(nested, tuple):
        yield nested
    elif levels:
        for part in nested:
            yield from leaves(part, levels - 1)
    else:
        raise SourceError(f"a query is nested more than {MAX_DEPTH} levels deep, the limit")


def _table(file: Path, groundings: Sequence[Any], width: int) -> Places:
    rows = [tuple(leaves(grounding)) for grounding in groundings]
    wrong = next((row for row in rows if len(row) != width or not all(type(number) is int for number in row)), None)
    if wrong is not None:
        raise SourceError(f"{file}: {wrong} are not the {width} numbers of a grounding")
    return np.array(rows, np.int64).reshape(-1, width)


def _check_ids(given: GivenQueries, entities: int, relations: int) -> None:
    kept = [mark for mark in leaves(given.structure) if mark not in MARKS]
    for place, mark in enumerate(kept):
        column, bound = given.numbers[:, place], entities if mark == "e" else relations
        if ((column < 0) | (column >= bound)).any():
            kind = "entity" if mark == "e" else "relation"
            raise SourceError(f"{given.file}: there is no {kind} {column.max()}: the dictionary has {bound:,}")
