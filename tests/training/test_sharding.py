"""Which process has what: every link is trained on once in an epoch, by a process that has both of its nodes."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tarbox.models.base import Sizes
from tarbox.training.sharding import NodeShards, Rounds

WAYS = st.integers(1, 5).map(Rounds.of) | st.integers(2, 7).map(lambda shards: Rounds.of(1, shards))
"""Several processes, and one with any number of shards."""
SIZES = st.builds(Sizes, st.integers(1, 40), st.integers(0, 15), st.just(1))


def shards_of(sizes: Sizes, rounds: Rounds, seed: int) -> NodeShards:
    """Of nodes with any numbers of links."""
    random = torch.Generator().manual_seed(seed)
    links = torch.randint(9, (sizes.entities + sizes.concepts,), generator=random)
    return NodeShards.of(sizes, rounds, links)


@settings(deadline=None)
@given(WAYS)
def test_any_two_shards_meet_once_and_no_place_is_taken_twice(rounds: Rounds) -> None:
    processes, met = int(rounds.places.max() + 1) // 2, []
    for number in range(len(rounds)):
        held = rounds.held(number)
        assert len(set(held)) == len(held) == 2 * processes
        assert [int(rounds.places[number, shard]) for shard in held] == list(range(2 * processes))
        met += [tuple(sorted(held[2 * own : 2 * own + 2])) for own in range(processes)]
        assert all(rounds.meetings[first, second] == number for first, second in met[-processes:])
        assert all(number in rounds.visits[shard] for shard in held)
    assert len(set(met)) == len(met) == rounds.shards * (rounds.shards - 1) // 2
    assert rounds.held(len(rounds)) == rounds.held(0)


@given(st.integers(2, 9))
def test_one_process_exchanges_one_shard_at_a_time(shards: int) -> None:
    places = Rounds.of(1, shards).places
    changed = (places[1:] != places[:-1]).sum(1)
    assert changed.tolist() == [2] * len(changed)  # one comes, one goes, one keeps its slot


@settings(deadline=None)
@given(WAYS, SIZES)
def test_every_node_is_in_one_row_of_one_shard(rounds: Rounds, sizes: Sizes) -> None:
    shards = shards_of(sizes, rounds, 0)
    found = []
    for shard in range(rounds.shards):
        nodes = shards.nodes_of(shard)
        assert len(nodes) == shards.rows
        rows = (nodes >= 0).nonzero()[:, 0]
        assert torch.equal(rows < shards.entity_rows, nodes[rows] < sizes.entities)
        found += nodes[rows].tolist()
    assert sorted(found) == list(range(sizes.entities + sizes.concepts))


@settings(deadline=None)
@given(WAYS, SIZES, st.integers(0, 2**32 - 1))
def test_every_link_is_trained_on_once_by_who_has_its_nodes(rounds: Rounds, sizes: Sizes, seed: int) -> None:
    """A slow look: what a process has in a round, row by row, has the nodes of its links at the rows they are given."""
    nodes = sizes.entities + sizes.concepts
    links = torch.randint(nodes, (50, 3), generator=torch.Generator().manual_seed(seed))
    shards = shards_of(sizes, rounds, seed)
    seen = torch.zeros(50, dtype=torch.int64)
    for process in range(int(rounds.places.max() + 1) // 2):
        turns = shards.turns(links, process)
        for number in range(len(rounds)):
            held = rounds.held(number)[2 * process : 2 * process + 2]
            here = torch.stack([shards.nodes_of(shard) for shard in held], 1)
            assert torch.equal(shards.nobody(number, process), (here.flatten() < 0).nonzero()[:, 0])
            mine = links[turns == number]
            local = shards.localize(mine, number).long()
            assert torch.equal(here.flatten()[local[:, 1:]], mine[:, 1:])
            assert torch.equal(local[:, 0], mine[:, 0])
            entities = local[:, 1:] < shards.local_sizes.entities
            assert torch.equal(entities, mine[:, 1:] < sizes.entities)
            seen += turns == number
    assert seen.tolist() == [1] * 50
