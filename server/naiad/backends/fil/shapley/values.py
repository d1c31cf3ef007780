"""Shapley values of the rows of a batch, by numpy: exact, as TreeSHAP has them, and the same for all rows at once. Pure.

On the way to a leaf of value v with players i, let z_i be the share of training rows that come on where the feature is unknown, and o_i whether the row comes on where it is known
(0 or 1). The Shapley value of player i is

    v (o_i - z_i) sum over sets S of the others of  |S|! (d - 1 - |S|)! / d!  prod of o_j in S  prod of z_j not in S
  = v (o_i - z_i) integral from 0 to 1 of  prod over j != i of  (t o_j + (1 - t) z_j) dt,

because the integral of t^k (1 - t)^(d - 1 - k) is k! (d - 1 - k)! / d!. The integrand is a polynomial of degree d - 1, of which Gauss-Legendre quadrature with (d + 1) // 2 points gives the integral
exactly; every term is positive, so that deep trees lose no digits, where the recurrence of TreeSHAP subtracts.
"""

import collections.abc

import numpy as np
from numpy.polynomial import legendre
from scipy import sparse

from naiad.backends.batch import Array
from naiad.backends.fil.shapley.nodes import Tree
from naiad.backends.fil.shapley.paths import Part, Ways, count, part_of

_PLAYERS = 1 << 16
"""Of the ways of a part: so many that a call of numpy has enough to do, and so few that they stay in the processor's cache."""
_CELLS = 1 << 17
"""Rows times players that are computed at once."""
_LARGEST_CATEGORY = 1 << 24
"""Above which FP32 does not hold every integer; treelite finds no larger one in a list."""


class ShapleyValues:
    """The function from rows to Shapley values, of one forest.

    Args:
        trees: its trees.
        features: columns of a row.
        outputs: how many sums the trees make: the number of classes, or 1.
        base: FP64 [outputs], what is added to the sums.
        divisor: what sums of trees are divided by: the number of trees of a forest that gives averages, or 1.
    """

    def __init__(
        self,
        trees: collections.abc.Sequence[Tree],
        *,
        features: int,
        outputs: int,
        base: Array,
        divisor: float = 1.0,
    ) -> None:
        self._features = features
        self._outputs = outputs
        self._divisor = divisor
        parts = [part_of(some, features, outputs) for some in _parted(trees)]
        self._parts = [_Part(part, features, outputs) for part in parts]
        bias = np.sum([part.bias for part in parts], axis=0)
        self._bias: Array = bias / divisor + base

    def __call__(self, rows: Array) -> Array:
        """What each feature of each row adds to each output.

        Args:
            rows: FP32 [n, features]; NaN is a missing value.

        Returns:
            FP32 [n, outputs, features + 1]; the last column is what a row gets of which nothing is known, and all columns together are the output before a sigmoid or softmax.
        """
        found = np.zeros((len(rows), self._outputs * self._features))
        for part in self._parts:
            part.add(rows, found)
        values = np.empty((len(rows), self._outputs, self._features + 1), np.float32)
        found /= self._divisor
        values[..., :-1] = found.reshape(len(rows), self._outputs, self._features)
        values[..., -1] = self._bias
        return values


def _parted(trees: collections.abc.Sequence[Tree]) -> list[list[Tree]]:
    parts: list[list[Tree]] = [[]]
    players = 0
    for tree in trees:
        more = count(tree)
        if parts[-1] and players + more > _PLAYERS:
            parts.append([])
            players = 0
        parts[-1].append(tree)
        players += more
    return [part for part in parts if part]


class _Part:
    def __init__(self, part: Part, features: int, outputs: int) -> None:
        self._ask = _Questions(part.nodes)
        self._games = [_Game(ways, features * outputs) for ways in part.ways]
        largest = max((game.cells for game in self._games), default=1)
        self._rows = max(1, _CELLS // largest)

    def add(self, rows: Array, found: Array) -> None:
        """Add the values of some rows to FP64 [rows, outputs * features]."""
        if not self._games:
            return
        for begin in range(0, len(rows), self._rows):
            some = slice(begin, begin + self._rows)
            taken = self._ask(rows[some])
            for game in self._games:
                found[some] += game(taken)


class _Questions:
    """Which edges rows take."""

    def __init__(self, nodes: Tree) -> None:
        inner = nodes.left >= 0
        self._nodes = nodes
        self._feature = np.where(inner, nodes.feature, 0)
        numbers = inner & ~nodes.categorical
        compare = {1: np.equal, 2: np.less, 3: np.less_equal, 4: np.greater, 5: np.greater_equal}
        self._compare = [
            (call, chosen)
            for code, call in compare.items()
            if len(chosen := np.flatnonzero(numbers & (nodes.comparison == code)))
        ]
        self._categorical = np.flatnonzero(nodes.categorical)
        lists = [
            (np.uint64(rank) << np.uint64(32))
            | nodes.categories[nodes.category_begin[node] : nodes.category_end[node]]
            for rank, node in enumerate(self._categorical)
        ]
        self._lists = np.sort(np.concatenate([*lists, np.full(1, 1 << 63, np.uint64)]))

    def __call__(self, rows: Array) -> Array:
        """Of bool [rows, 2 * nodes + 1]: whether each row goes left and right at each node, and True for the added player."""
        nodes, size = self._nodes, len(self._feature)
        taken = np.ones((len(rows), 2 * size + 1), np.bool_)
        left = taken[:, :size]
        values = rows[:, self._feature]
        for compare, chosen in self._compare:
            if len(chosen) == size:
                compare(values, nodes.threshold, out=left)
            else:
                left[:, chosen] = compare(values[:, chosen], nodes.threshold[chosen])
        if len(self._categorical):
            left[:, self._categorical] = self._listed(values[:, self._categorical])
        missing = np.isnan(values)
        if missing.any():
            np.copyto(left, nodes.default_left, where=missing)
        np.logical_not(left, out=taken[:, size:-1])
        return taken

    def _listed(self, values: Array) -> Array:
        ours = (values >= 0) & (values <= _LARGEST_CATEGORY)
        category = np.where(ours, values, 0).astype(np.uint64)
        keys = category | (np.arange(values.shape[1], dtype=np.uint64) << np.uint64(32))
        at = np.searchsorted(self._lists, keys)
        found: Array = (self._lists[at] == keys) & ours
        return found ^ self._nodes.listed_right[self._categorical]


class _Game:
    """The ways of one number of players."""

    def __init__(self, ways: Ways, width: int) -> None:
        players, _ = ways.share.shape
        self.cells = ways.share.size
        self._share = ways.share
        self._edges = ways.edges
        self._begins = None if len(ways.edges) == self.cells else ways.begins
        points, weights = legendre.leggauss((players + 1) // 2)
        self._points = [
            (float(point + 1) / 2, float(weight) / 2)
            for point, weight in zip(points, weights, strict=True)
        ]
        player = np.repeat(np.arange(self.cells), ways.cells.shape[1])
        self._to_cells = sparse.csr_array(
            (ways.values.ravel(), (ways.cells.ravel(), player)), shape=(width, self.cells)
        )

    def __call__(self, taken: Array) -> Array:
        """FP64 [rows, width]: what each cell gets."""
        came = taken[:, self._edges]
        if self._begins is not None:
            came = np.logical_and.reduceat(came, self._begins, axis=1)
        came = came.reshape(len(taken), *self._share.shape).astype(np.float64)
        players = came.shape[1]
        total = np.zeros_like(came)
        factor, others = np.empty_like(came), np.empty_like(came)
        for point, weight in self._points:
            np.multiply(came, point, out=factor)
            factor += (1 - point) * self._share
            # The product of all others: of those before, times those behind.
            running = np.full(came[:, 0].shape, weight)
            for player in range(players):
                others[:, player] = running
                running *= factor[:, player]
            running.fill(1.0)
            for player in range(players - 1, -1, -1):
                others[:, player] *= running
                running *= factor[:, player]
            total += others
        came -= self._share
        total *= came
        return np.asarray((self._to_cells @ total.reshape(len(taken), -1).T).T)
