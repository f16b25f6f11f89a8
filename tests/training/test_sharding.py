"""Which process has what: every link is trained on once in an epoch, by a process that has both of its nodes."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tarbox.models.base import Sizes
from tarbox.training.sharding import NodeShards, Rounds

PROCESSES = st.integers(1, 5)
SIZES = st.builds(Sizes, st.integers(1, 40), st.integers(0, 15), st.just(1))


def shards_of(sizes: Sizes, processes: int, seed: int) -> NodeShards:
    """Of nodes with any numbers of links."""
    random = torch.Generator().manual_seed(seed)
    links = torch.randint(9, (sizes.entities + sizes.concepts,), generator=random)
    return NodeShards.of(sizes, Rounds.of(processes), links)


@settings(deadline=None)
@given(PROCESSES)
def test_any_two_shards_meet_once_and_no_place_is_taken_twice(processes: int) -> None:
    rounds = Rounds.of(processes)
    assert len(rounds) == rounds.shards - 1 == 2 * processes - 1
    met = []
    for number in range(len(rounds)):
        held = rounds.held(number)
        assert sorted(held) == list(range(rounds.shards))
        met += [tuple(sorted(held[2 * own : 2 * own + 2])) for own in range(processes)]
        assert all(rounds.meetings[first, second] == number for first, second in met[-processes:])
    assert len(set(met)) == len(met) == processes * len(rounds)
    assert rounds.held(len(rounds)) == rounds.held(0)


@settings(deadline=None)
@given(PROCESSES, SIZES)
def test_every_node_is_in_one_row_of_one_shard(processes: int, sizes: Sizes) -> None:
    shards = shards_of(sizes, processes, 0)
    found = []
    for shard in range(shards.rounds.shards):
        rows, nodes = shards.nodes_of(shard)
        assert len(rows) == len(set(rows.tolist())) <= shards.rows
        assert all((row < shards.entity_rows) == (node < sizes.entities) for row, node in zip(rows, nodes, strict=True))
        found += nodes.tolist()
    assert sorted(found) == list(range(sizes.entities + sizes.concepts))


@settings(deadline=None)
@given(PROCESSES, SIZES, st.integers(0, 2**32 - 1))
def test_every_link_is_trained_on_once_by_who_has_its_nodes(processes: int, sizes: Sizes, seed: int) -> None:
    """A slow look: what a process has in a round, row by row, has the nodes of its links at the rows they are given."""
    nodes = sizes.entities + sizes.concepts
    links = torch.randint(nodes, (50, 3), generator=torch.Generator().manual_seed(seed))
    shards = shards_of(sizes, processes, seed)
    seen = torch.zeros(50, dtype=torch.int64)
    for process in range(processes):
        turns = shards.turns(links, process)
        for number in range(len(shards.rounds)):
            here = torch.full((shards.rows, 2), -1)
            for slot in (0, 1):
                rows, own = shards.nodes_of(shards.rounds.held(number)[2 * process + slot])
                here[rows, slot] = own
            assert torch.equal(shards.nobody(number, process), (here.flatten() < 0).nonzero()[:, 0])
            mine = links[turns == number]
            local = shards.localize(mine, number).long()
            assert torch.equal(here.flatten()[local[:, 1:]], mine[:, 1:])
            assert torch.equal(local[:, 0], mine[:, 0])
            entities = local[:, 1:] < shards.local_sizes.entities
            assert torch.equal(entities, mine[:, 1:] < sizes.entities)
            seen += turns == number
    assert seen.tolist() == [1] * 50
