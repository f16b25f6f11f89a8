"""The rules applied to all facts at once until nothing new follows: semi-naive evaluation over sorted numbers.

Two sorted arrays hold what is known: *edges* `(role * W + x) * W + y`, each in both directions, so that every join
is a look-up by (role, x); and *types* `x * K + concept`, for the concepts that some rule asks for. In each round only
what is new is joined with what is known. Individuals that turn out to be the same are one number from then on.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, final

import numpy as np

from tarbox.core.errors import TarboxError
from tarbox.kb.arrays import Flags, Keys, Places
from tarbox.kb.facts import Facts
from tarbox.kb.reasoning.compiled_rules import Clashes, CompiledRules
from tarbox.kb.reasoning.rules import ANY, EVERYBODY, RuleForm
from tarbox.kb.rows import TripleKeys, contains, distinct, pair_keys, ranges

_ROWS: Final = 1 << 20
"""How many new facts are joined at a time, and how many results of a join are held at a time."""
MOST_FACTS: Final = 200_000_000
"""More facts than this are not inferred: the relation that makes them is not what its axiom says."""


@final
class Saturation:
    """What follows from facts by rules. `edges` and `types` are closed once `run` is over.

    `same[x]` is the individual that stands for x, and `united[x]` the axiom by which x is another;
    `clashes` are (individual, axiom) found outside of `types`.
    """

    def __init__(self, compiled: CompiledRules) -> None:
        self.compiled = compiled
        self.rules, self.table, self.hierarchy = compiled.rules, compiled.table, compiled.hierarchy
        self.width, self.kinds = compiled.width, compiled.kinds
        self.triples = TripleKeys(self.width)
        self.literal = np.arange(self.width) < compiled.literals
        self.literal[list(compiled.more_literals)] = True
        self._chains = _both_ways(self.table[RuleForm.CHAIN])
        self._conjunctions = np.concatenate(
            [self.table[RuleForm.BOTH], self.table[RuleForm.BOTH][:, [1, 0, 2, 3]]]  # each premise may be the new one
        )
        self.same = np.arange(self.width)
        self.united: dict[int, int] = {}
        self.clashes: Clashes = set()
        self.edges: Keys = np.empty(0, np.int64)
        self.types: Keys = np.empty(0, np.int64)

    def run(self, facts: Facts) -> None:
        """To the fixpoint, from the given facts."""
        edges, types = self._given(facts)
        while len(edges) or len(types):
            self._grow(edges, types)
            edges, types = self._merge()

    def _given(self, facts: Facts) -> tuple[Keys, Keys]:
        here = np.isin(facts.relations, self.compiled.used_relations())
        edges = self._edges(2 * facts.relations[here], facts.heads[here], facts.tails[here])
        origin, concepts = self.compiled.asked.gather(facts.types)
        types = [pair_keys(facts.typed[origin], concepts, self.kinds)]
        members = self.table[RuleForm.MEMBER]
        types.append(self._types(members[:, 0], members[:, 1]))
        everybody = self.rules.concepts.more.get(EVERYBODY)
        if everybody is not None:
            entities = np.flatnonzero(~self.literal)
            types.append(self._types(entities, np.full(len(entities), everybody)))
        return distinct(edges), distinct(np.concatenate(types))

    def _grow(self, edges: Keys, types: Keys) -> None:
        while len(edges) or len(types):
            self.edges, self.types = _merged(self.edges, edges), _merged(self.types, types)
            refuse_more(len(self.edges) + len(self.types), MOST_FACTS)
            found: tuple[list[Keys], list[Keys]] = ([], [])
            for new in _pieces(edges):
                for kind, keys in self._from_edges(new):
                    self._keep(found, kind, keys)
            for new in _pieces(types):
                for kind, keys in self._from_types(new):
                    self._keep(found, kind, keys)
            edges, types = (distinct(np.concatenate([np.empty(0, np.int64), *kept])) for kept in found)

    def _keep(self, found: tuple[list[Keys], list[Keys]], kind: int, keys: Keys) -> None:
        keys = distinct(keys)
        keys = keys[~contains(self.types if kind else self.edges, keys)]
        if len(keys):
            found[kind].append(keys)

    def _edges(self, roles: Any, heads: Any, tails: Any) -> Keys:
        """Edges with those that follow by role inclusion, in both directions."""
        origin, above = self.compiled.above.gather(roles)
        heads, tails = np.asarray(heads)[origin], np.asarray(tails)[origin]
        forth, back = self.triples.encode(above, heads, tails), self.triples.encode(above ^ 1, tails, heads)
        return np.concatenate([forth, back])

    def _types(self, entities: Any, concepts: Any) -> Keys:
        """Memberships with those that a rule or the store asks for, by inclusion; literals are in no concept."""
        origin, above = self.compiled.told.gather(concepts)
        return pair_keys(np.asarray(entities)[origin], above, self.kinds)

    def _from_edges(self, new: Keys) -> Iterator[tuple[int, Keys]]:
        roles, heads, tails = self.triples.decode(new)
        some = self.table[RuleForm.SOME]
        anyone, some = some[some[:, 1] == ANY], some[some[:, 1] != ANY]
        at, rule = _match(anyone[:, 0], roles)
        yield 1, self._types(heads[at], anyone[rule, 2])
        pairs = pair_keys(some[:, 0], some[:, 1], self.kinds)
        used = np.flatnonzero(np.isin(roles, some[:, 0]))
        for at, concepts in _look_up(self.types, tails[used], self.kinds):
            place = used[at]
            hit, rule = _match(pairs, pair_keys(roles[place], concepts, self.kinds))
            yield 1, self._types(heads[place[hit]], some[rule, 2])
        loops = np.flatnonzero(heads == tails)
        at, rule = _match(self.table[RuleForm.SELF][:, 0], roles[loops])
        yield 1, self._types(heads[loops[at]], self.table[RuleForm.SELF][rule, 1])
        at, rule = _match(self._chains[:, 0], roles)
        for hit, ends in _look_up(self.edges, self._chains[rule, 1] * self.width + tails[at], self.width):
            yield 0, self._edges(self._chains[rule[hit], 2], heads[at[hit]], ends)

    def _from_types(self, new: Keys) -> Iterator[tuple[int, Keys]]:
        entities, concepts = np.divmod(new, self.kinds)
        some, value, loop = (self.table[form] for form in (RuleForm.SOME, RuleForm.VALUE, RuleForm.LOOP))
        at, rule = _match(some[:, 1], concepts)
        for hit, heads in _look_up(self.edges, (some[rule, 0] ^ 1) * self.width + entities[at], self.width):
            yield 1, self._types(heads, some[rule[hit], 2])
        pairs = pair_keys(self._conjunctions[:, 0], self._conjunctions[:, 1], self.kinds)
        used = np.flatnonzero(np.isin(concepts, self._conjunctions[:, 0]))
        for at, others in _look_up(self.types, entities[used], self.kinds):
            place = used[at]
            hit, rule = _match(pairs, pair_keys(concepts[place], others, self.kinds))
            yield 1, self._types(entities[place[hit]], self._conjunctions[rule, 2])
        at, rule = _match(value[:, 0], concepts)
        yield 0, self._edges(value[rule, 1], entities[at], self.same[value[rule, 2]])
        at, rule = _match(loop[:, 0], concepts)
        yield 0, self._edges(loop[rule, 1], entities[at], entities[at])

    def _merge(self) -> tuple[Keys, Keys]:
        """Make one of individuals that are the same; returns the facts about those, to be joined again."""
        first = self.compiled.unite(self._equalities(), self.clashes, self.united)
        if not first:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        moved = np.zeros(self.width, np.bool_)
        standing = np.arange(self.width)
        for x, root in first.items():
            standing[x] = root
            moved[root] = True
        self.same = standing[self.same]
        roles, heads, tails = self.triples.decode(self.edges)
        heads, tails = standing[heads], standing[tails]
        self.edges, touched = distinct(self.triples.encode(roles, heads, tails)), moved[heads] | moved[tails]
        entities, concepts = np.divmod(self.types, self.kinds)
        entities = standing[entities]
        self.types = distinct(pair_keys(entities, concepts, self.kinds))
        again = pair_keys(entities[moved[entities]], concepts[moved[entities]], self.kinds)
        return distinct(self.triples.encode(roles[touched], heads[touched], tails[touched])), distinct(again)

    def _equalities(self) -> Iterator[tuple[int, int, int, int]]:
        """(whose, x, y, axiom): that x is y follows from the axiom, by what is known of `whose`."""
        entities, concepts = np.divmod(self.types, self.kinds)
        table = self.table[RuleForm.SAME]
        at, rule = _match(table[:, 0], concepts)
        members = entities[at].tolist()
        yield from zip(members, members, self.same[table[rule, 1]].tolist(), table[rule, 2].tolist(), strict=True)
        for guard, role, filler, axiom in self.table[RuleForm.SINGLE].tolist():
            heads, tails = self.edges_of(role)
            keep = self.in_concept(heads, guard) & self.in_concept(tails, filler)
            heads, tails = heads[keep], tails[keep]
            for place in np.flatnonzero(heads[1:] == heads[:-1]).tolist():
                yield int(heads[place]), int(tails[place]), int(tails[place + 1]), axiom

    def edges_of(self, role: int) -> tuple[Keys, Keys]:
        """(heads, tails) of a role, sorted."""
        square = self.width * self.width
        first, last = np.searchsorted(self.edges, [role * square, (role + 1) * square])
        _, heads, tails = self.triples.decode(self.edges[first:last])
        return heads, tails

    def in_concept(self, entities: Any, concept: int) -> Flags:
        if concept == ANY:
            return np.ones(len(entities), np.bool_)
        return contains(self.types, pair_keys(entities, np.full(len(entities), concept), self.kinds))

    def merged(self) -> dict[int, int]:
        """The individuals that are another one too, and who stands for them."""
        moved = np.flatnonzero(self.same != np.arange(self.width))
        return dict(zip(moved.tolist(), self.same[moved].tolist(), strict=True))

    def contradictions(self) -> set[tuple[int, int]]:
        """(individual, axiom) for all that cannot be, once `run` is over."""
        found = set(self.clashes)
        axiom_of = np.full(self.kinds, -1)
        for concept, axiom in self.compiled.contradicting().items():
            axiom_of[concept] = axiom
        entities, concepts = np.divmod(self.types, self.kinds)
        clash = axiom_of[concepts] >= 0
        found |= set(zip(entities[clash].tolist(), axiom_of[concepts[clash]].tolist(), strict=True))
        for one, other, axiom in self.table[RuleForm.DISJOINT].tolist():
            heads, tails = self.edges_of(one)
            among = contains(self.edges, self.triples.encode(np.full(len(heads), other), heads, tails))
            found |= {(int(x), axiom) for x in heads[among]}
        found.update(self.compiled.different_but_same(self.merged()))
        return found


def refuse_more(known: int, most: int) -> None:
    if known > most:
        raise TarboxError(
            f"more than {most:,} facts would follow. Build with --infer rdfs, or leave out the axiom "
            "that makes so many: a transitive or symmetric relation, or a chain."
        )


def _both_ways(chains: Places) -> Places:
    """r after s within t is also s backwards after r backwards within t backwards: one join does for both."""
    back = np.stack([chains[:, 1] ^ 1, chains[:, 0] ^ 1, chains[:, 2] ^ 1, chains[:, 3]], axis=1)
    return np.concatenate([chains, back])


def _match(keys: Keys, wanted: Keys) -> tuple[Places, Places]:
    """(place among `wanted`, place among `keys`) of all that are equal; `keys` are few."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    first, last = np.searchsorted(ordered, wanted), np.searchsorted(ordered, wanted, "right")
    origin, places = ranges(first, last - first)
    return origin, order[places]


def _look_up(ordered: Keys, prefixes: Keys, width: int) -> Iterator[tuple[Places, Keys]]:
    """(place among `prefixes`, rest) of all keys `prefix * width + rest`, some at a time."""
    first = np.searchsorted(ordered, prefixes * width)
    sizes = np.searchsorted(ordered, (prefixes + 1) * width) - first
    ends = np.cumsum(sizes)
    begin = 0
    while begin < len(prefixes):
        behind = ends[begin - 1] if begin else 0
        end = max(begin + 1, int(np.searchsorted(ends, behind + _ROWS, "right")))
        origin, places = ranges(first[begin:end], sizes[begin:end])
        if len(origin):
            yield origin + begin, ordered[places] - prefixes[origin + begin] * width
        begin = end


def _merged(ordered: Keys, more: Keys) -> Keys:
    both = np.concatenate([ordered, more])
    both.sort(kind="stable")  # two runs: a merge
    return both[np.append(True, both[1:] != both[:-1])] if len(both) else both


def _pieces(keys: Keys) -> Iterator[Keys]:
    for start in range(0, len(keys), _ROWS):
        yield keys[start : start + _ROWS]
