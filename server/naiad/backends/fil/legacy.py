"""XGBoost's binary format, which its releases before 3.1 wrote: what it says of the model, and all its lengths held against the file before treelite reads it.

The format is XGBoost's structures as they lie in memory: LearnerModelParam, the names of objective and booster, GBTreeModelParam, and for each tree
TreeParam, its nodes and their statistics.
"""

import os
import pathlib
import struct

from naiad.backends.fil.forest import Forest
from naiad.backends.model_files.wire_format import ModelFileError

_LEARNER = struct.Struct("<4xIiiiIII104x")
_BOOSTER = struct.Struct("<i156x")
_TREE = struct.Struct("<4xi12xi124x")
_NODE = 20 + 16
"""Bytes of a node and of its statistics."""
_LONGEST_NAME = 1000
_VECTORS_UNTIL = 2
"""The release of XGBoost since which trees have no vectors of leaves behind them."""


def read(path: pathlib.Path) -> Forest:
    """What a file says, after a walk through all of it.

    Raises:
        ModelFileError: it is damaged or cut off; says where.
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        left = os.fstat(file.fileno()).st_size

        def take(count: int, what: str) -> bytes:
            nonlocal left
            if count > left:
                raise ModelFileError(
                    f"'{path}' is cut off or damaged ({what} is not whole): copy it again"
                )
            left -= count
            return file.read(count)

        def passed(count: int, what: str) -> None:
            nonlocal left
            if count > left:
                take(count, what)
            left -= count
            file.seek(count, os.SEEK_CUR)

        def name(what: str) -> bytes:
            (length,) = struct.unpack("<Q", take(8, what))
            return take(length if length <= _LONGEST_NAME else left + 1, what)

        start = take(4, "its header")
        if start != b"binf":
            file.seek(0)
            left += 4
        header = take(_LEARNER.size, "its header")
        features, classes, _attributes, _metrics, major, _minor, targets = _LEARNER.unpack(header)
        objective = name("its objective")
        name("its booster")
        (trees,) = _BOOSTER.unpack(take(_BOOSTER.size, "its booster"))
        for number in range(trees):
            what = f"tree {number} of {trees}"
            nodes, vectors = _TREE.unpack(take(_TREE.size, what))
            passed(max(0, nodes) * _NODE, what)
            if vectors and major < _VECTORS_UNTIL:
                (length,) = struct.unpack("<Q", take(8, what))
                passed(length * 4, what)
        passed(4 * max(0, trees), "its list of trees")
    return Forest(
        features=features,
        classes=max(1, classes),
        classifier=classes > 1 or objective.startswith(b"binary:"),
        targets=max(1, targets),
    )
