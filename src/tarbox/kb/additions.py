"""Facts of a file added to those of a knowledge base, in memory: for a question about what might be."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tarbox.core.ids import Role
from tarbox.kb.arrays import Flags, Ids, Keys
from tarbox.kb.build import BuildOptions, build
from tarbox.kb.facts import Facts, Inferred, join_facts
from tarbox.kb.interpretation import Interpretation
from tarbox.kb.reasoning.inference import infer_again
from tarbox.kb.rows import TripleKeys, contains, pair_keys
from tarbox.kb.sources import find_sources
from tarbox.kb.vocabulary import Names, Vocabulary


def read_facts(file: str | os.PathLike[str], options: Mapping[str, Any]) -> Facts:
    """What a file states, in any format that a store is built from, and read as that with these `options` of its
    manifest was: literals, language, base."""
    chosen = {field.name: options[field.name] for field in fields(Interpretation) if field.name in options}
    meaning = replace(Interpretation(**chosen), annotations=(), min_degree=0, merge_same=False)
    sources, _ = find_sources([os.fspath(file)], None)
    with tempfile.TemporaryDirectory() as folder:  # what is mapped into memory outlives it
        return build(sources, Path(folder) / "given", BuildOptions(meaning, base=options.get("base"))).facts


def add_facts(facts: Facts, more: Facts) -> Facts:
    """All facts of both, over the names of both; what the axioms of the first imply is inferred again.

    >>> first = Facts.of(Vocabulary.of(["b", "d"], relations=["p"]), [(0, 0, 1)])
    >>> both = add_facts(first, Facts.of(Vocabulary.of(["a", "b"], ["C"], ["p"]), [(0, 0, 1)], [(0, 0)]))
    >>> list(both.vocabulary.entities), both.heads.tolist(), both.tails.tolist(), both.typed.tolist()
    (['a', 'b', 'd'], [0, 1], [1, 2], [0])
    """
    vocabulary, parts = _join_names(facts.about_individuals(), more)
    one, other = parts
    codec = TripleKeys(max(len(vocabulary.entities), 1))
    keys = [codec.encode(part.relations, part.heads, part.tails) for part in parts]
    types, supers = (
        [pair_keys(*columns, len(vocabulary.concepts)) for columns in pairs]
        for pairs in ([(part.typed, part.types) for part in parts], [(part.subs, part.supers) for part in parts])
    )
    new = other.with_assertions(_absent(*keys)).with_typings(_absent(*types)).with_subsumptions(_absent(*supers))
    both = replace(join_facts(one, new, "none", tuple), inferred=None)
    if facts.inferred is None:
        return both
    marks = (np.zeros(len(column), np.bool_) for column in (both.heads, both.typed, both.subs))
    return infer_again(replace(both, inferred=Inferred(facts.inferred.mode, facts.inferred.axioms, *marks)))


def _absent(one: Keys, other: Keys) -> Flags:
    return ~contains(np.sort(one), other)


def _join_names(*parts: Facts) -> tuple[Vocabulary, list[Facts]]:
    """The names of two parts together, of which the first decides labels, and both with their ids."""
    names = {role: _join([part.vocabulary.names(role) for part in parts]) for role in Role}
    ids = [{role: names[role].match(part.vocabulary.names(role)) for role in Role} for part in parts]
    synonyms = pa.concat_tables(
        [_move_synonyms(part.vocabulary.synonyms, own) for part, own in zip(parts, ids, strict=True)]
    )
    called = synonyms.group_by(synonyms.column_names, use_threads=False).aggregate([])
    vocabulary = Vocabulary(names[Role.ENTITY], names[Role.CONCEPT], names[Role.RELATION], called)
    return vocabulary, [_move(part, own, vocabulary) for part, own in zip(parts, ids, strict=True)]


def _join(parts: list[Names]) -> Names:
    """Of all, sorted; a label is the first there is."""
    table = pa.concat_tables([pa.table([each.iris, each.labels], ["iri", "label"]) for each in parts])
    joined = table.group_by("iri", use_threads=False).aggregate([("label", "first")]).sort_by("iri").combine_chunks()
    return Names(parts[0].role, joined["iri"], joined["label_first"])


def _move_synonyms(synonyms: pa.Table, ids: Mapping[Role, Ids]) -> pa.Table:
    roles, numbers = np.asarray(synonyms["role"]), np.asarray(synonyms["id"])
    moved = numbers.copy()
    for role, own in ids.items():
        of_role = roles == role.value
        moved[of_role] = own[numbers[of_role]]
    return synonyms.set_column(1, synonyms.schema.field("id"), pa.array(moved, pa.int32()))


def _move(facts: Facts, ids: Mapping[Role, Ids], vocabulary: Vocabulary) -> Facts:
    """The same facts with other ids, in the order they had."""
    entities, concepts, relations = (ids[role] for role in (Role.ENTITY, Role.CONCEPT, Role.RELATION))
    return replace(
        facts,
        vocabulary=vocabulary,
        heads=entities[facts.heads],
        relations=relations[facts.relations],
        tails=entities[facts.tails],
        typed=entities[facts.typed],
        types=concepts[facts.types],
        subs=concepts[facts.subs],
        supers=concepts[facts.supers],
        inferred=None,
        annotations=tuple(sorted(relations[list(facts.annotations)].tolist())),
    )
