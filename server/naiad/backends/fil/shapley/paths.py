"""The ways from the root of each tree to its leaves, merged by feature and laid out for numpy. Pure.

For Shapley values a leaf is a game of its own: the features on the way to it are the players. A feature that is known lets the row come to the leaf or not; of one that is unknown, the
share of the training rows that took this way comes there. A feature that is asked several times on a way is one player.
"""

import collections.abc
import dataclasses

import numpy as np

from naiad.backends.batch import Array
from naiad.backends.fil.shapley.nodes import Tree


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Ways:
    """`P` ways that have up to `d` players each; those that lack some are filled up with players that change nothing.

    Attributes:
        share: FP64 [d, P]: of the training rows at each node that asks for the feature, the share that goes on towards the leaf, multiplied; 1 of an added player.
        edges: int [E], what the players ask: `node` for "goes left there", `nodes + node` for "goes right", 2 * `nodes` for an added player; player after player,
            in the order of `share`.
        begins: int [d * P]: where each player's edges begin.
        cells: int [d * P, m]: for each player and value of its leaf, the place in [outputs, features] that it counts for.
        values: FP64 [d * P, m]: the leaf's values; 0 of an added player.
    """

    share: Array
    edges: Array
    begins: Array
    cells: Array
    values: Array


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Some trees of a forest, their nodes one behind the other in one `Tree`, and its ways by their number of players."""

    nodes: Tree
    ways: list[Ways]
    bias: Array
    """FP64 [outputs]: what a row of which nothing is known gets."""


def count(tree: Tree) -> int:
    """How many players all ways of a tree have together, at most: the depths of its leaves, summed. It says how much memory and time the tree takes."""
    depth = np.zeros(len(tree.left), np.int64)
    level = np.flatnonzero(tree.left[:1] >= 0)
    at = 0
    while len(level):
        at += 1
        below = np.concatenate((tree.left[level], tree.right[level]))
        depth[below] = at
        level = below[tree.left[below] >= 0]
    return int(depth[tree.left < 0].sum())


def part_of(trees: collections.abc.Sequence[Tree], features: int, outputs: int) -> Part:
    """The ways of some trees; every tree has as many values in a leaf as the first one."""
    nodes = _joined(trees)
    leaves, edge, node = _edges(nodes)
    share = _shares(nodes)[edge]
    values, wide = nodes.values[leaves], nodes.outputs[leaves]
    bias = np.zeros(outputs)
    total = np.ones(len(leaves))
    way = np.repeat(np.arange(len(leaves)), np.diff(node, append=len(edge)))
    np.multiply.at(total, way, share)
    np.add.at(bias, wide, values * total[:, np.newaxis])
    if not len(edge):
        return Part(nodes=nodes, ways=[], bias=bias)
    # Edges by way and feature, so that a feature's are neighbours.
    feature = nodes.feature[edge % len(nodes.left)]
    order = np.lexsort((feature, way))
    edge, feature, way, share = edge[order], feature[order], way[order], share[order]
    new = np.ones(len(edge), np.bool_)
    new[1:] = (way[1:] != way[:-1]) | (feature[1:] != feature[:-1])
    begins = np.flatnonzero(new)
    players = _Players(
        way=way[begins],
        feature=feature[begins],
        share=np.multiply.reduceat(share, begins),
        begins=begins,
        lengths=np.diff(begins, append=len(edge)),
    )
    sizes = np.bincount(players.way, minlength=len(leaves))
    # As many points of the quadrature do for 2k - 1 players as for 2k.
    padded = sizes + sizes % 2
    ways = [
        _ways(
            players,
            np.flatnonzero(padded == size),
            edge=edge,
            values=values,
            wide=wide,
            sizes=sizes,
            features=features,
        )
        for size in np.unique(padded[padded > 0])
    ]
    return Part(nodes=nodes, ways=ways, bias=bias)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Players:
    way: Array
    feature: Array
    share: Array
    begins: Array
    lengths: Array


def _ways(
    players: _Players,
    chosen: Array,
    *,
    edge: Array,
    values: Array,
    wide: Array,
    sizes: Array,
    features: int,
) -> Ways:
    """Of the chosen ways."""
    width = int(sizes[chosen].max())
    first = np.searchsorted(players.way, chosen)
    rank = np.arange(width)[:, np.newaxis]
    real = rank < sizes[chosen]
    player = np.where(real, first + rank, 0)  # [d, P]
    begins, lengths = players.begins[player], np.where(real, players.lengths[player], 1)
    ends = np.cumsum(lengths)
    starts = ends - lengths.ravel()
    index = np.arange(ends[-1]) - np.repeat(starts, lengths.ravel())
    nowhere = -1
    edges = np.where(
        np.repeat(real.ravel(), lengths.ravel()),
        edge[np.repeat(begins.ravel(), lengths.ravel()) + index],
        nowhere,
    )
    cells = wide[chosen][np.newaxis] * features + players.feature[player][..., np.newaxis]
    return Ways(
        share=np.where(real, players.share[player], 1.0),
        edges=edges,
        begins=starts,
        cells=cells.reshape(-1, wide.shape[1]),
        values=(values[chosen][np.newaxis] * real[..., np.newaxis]).reshape(-1, wide.shape[1]),
    )


def _joined(trees: collections.abc.Sequence[Tree]) -> Tree:
    """All nodes in one `Tree`, whose `outputs` are [nodes, m]."""
    sizes = np.array([len(tree.left) for tree in trees])
    starts = np.cumsum(sizes) - sizes
    lists = np.array([len(tree.categories) for tree in trees])
    begun = np.cumsum(lists) - lists

    def joined(name: str) -> Array:
        return np.concatenate([getattr(tree, name) for tree in trees])

    def moved(name: str, by: Array) -> Array:
        values = joined(name)
        return np.where(values < 0, values, values + np.repeat(by, sizes))

    plain = ("feature", "threshold", "comparison", "default_left", "categorical", "listed_right")
    return Tree(
        **{name: joined(name) for name in (*plain, "categories", "cover", "values")},
        left=moved("left", starts),
        right=moved("right", starts),
        category_begin=moved("category_begin", begun),
        category_end=moved("category_end", begun),
        outputs=np.repeat(np.stack([tree.outputs for tree in trees]), sizes, axis=0),
    )


def _shares(nodes: Tree) -> Array:
    """For each edge, left ones first, the share of a node's training rows that take it; half where no row came to the node at all."""
    inner = nodes.left >= 0
    cover = nodes.cover
    shares = np.full((2, len(cover)), 0.5)
    for side, child in enumerate((nodes.left, nodes.right)):
        asked = inner & (cover > 0)
        shares[side, asked] = cover[child[asked]] / cover[asked]
    return shares.ravel()


def _edges(nodes: Tree) -> tuple[Array, Array, Array]:
    """All leaves, the edges on the ways to them from the root, way after way, and where each way begins."""
    size = len(nodes.left)
    up = np.full(size, -1)
    inner = np.flatnonzero(nodes.left >= 0)
    up[nodes.left[inner]] = inner
    up[nodes.right[inner]] = inner + size
    leaves = np.flatnonzero(nodes.left < 0)
    # A level holds the ways that go so deep alone: of a few very deep leaves the others take no memory.
    edges: list[Array] = []
    ways: list[Array] = []
    at, way = up[leaves], np.arange(len(leaves))
    while len(at := at[(there := at >= 0)]):
        way = way[there]
        edges.append(at)
        ways.append(way)
        at = up[at % size]
    if not edges:
        return leaves, np.zeros(0, np.int64), np.zeros(len(leaves), np.int64)
    way = np.concatenate(ways)
    lengths = np.bincount(way, minlength=len(leaves))
    order = np.argsort(way, kind="stable")
    return leaves, np.concatenate(edges)[order], np.cumsum(lengths) - lengths
