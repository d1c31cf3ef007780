"""Treelite's checkpoints, format 4: the lengths of all arrays, held against the file before treelite reads it, and what the header says of the model.

Treelite believes every length: a damaged file makes it fill the machine's memory, or read where nothing is. Only lengths are read here, and none of
what they count. The format: https://treelite.readthedocs.io/en/latest/serialization/v4.html
"""

import os
import pathlib
import struct
import typing

from naiad.backends.fil.forest import Forest
from naiad.backends.model_files.wire_format import ModelFileError

VERSION = 4
_CLASSIFIES = (0, 2)
"""Treelite's numbers of the tasks kBinaryClf and kMultiClf."""
_FLOATS = {2: 4, 3: 8}
"""Bytes of the types that thresholds and leaves may have, by treelite's numbers: kFloat32 and kFloat64."""
_MAX_TARGETS = 1 << 16


def read(path: pathlib.Path) -> Forest:
    """What a checkpoint says, after a walk through all of it.

    Raises:
        ModelFileError: it is damaged, cut off, or of another version; says which.
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        walk = _Walk(file, path)
        forest = walk.header()
        for _ in range(walk.trees):
            walk.tree()
        if walk.left:
            raise walk.damaged(f"{walk.left} bytes follow its last tree")
        return forest


class _Walk:
    """Goes through the file. `trees` is how many there are, after the header; `left` is how many bytes follow."""

    def __init__(self, file: typing.BinaryIO, path: pathlib.Path) -> None:
        self.trees = 0
        self.left = os.fstat(file.fileno()).st_size
        self._file = file
        self._path = path
        self._widths = (0, 0)

    def damaged(self, how: str) -> ModelFileError:
        """The error of a file in which something cannot be."""
        return ModelFileError(f"'{self._path}' is cut off or damaged ({how}): copy it again")

    def header(self) -> Forest:
        """All that precedes the trees."""
        major, minor, patch, thresholds, leaves = self._values("<iiiBB")
        if major != VERSION:
            raise ModelFileError(
                f"'{self._path}' is a checkpoint of treelite {major}.{minor}.{patch}, and only those of {VERSION}.x are read: load it by treelite 4 where "
                f"it comes from, python -c \"import treelite; treelite.Model.deserialize('{self._path.name}').serialize('{self._path.name}')\""
            )
        if thresholds != leaves or thresholds not in _FLOATS:
            raise self.damaged("its thresholds and leaves are of no known type")
        self._widths = (_FLOATS[thresholds], _FLOATS[leaves])
        self.trees, features, task, _average, targets = self._values("<QiB?i")
        if features < 0 or not 0 < targets < _MAX_TARGETS:
            raise self.damaged("it has no features or targets")
        classes = self._numbers(targets)
        if min(classes) < 1:
            raise self.damaged("it has no classes")
        for width in (4, 4, 4, 1):  # shape of leaves, targets and classes of trees, postprocessor
            self._array(width)
        self._values("<ff")
        scores = self._array(8)
        if scores != targets * max(classes):
            raise self.damaged(f"it has {scores} base scores")
        self._array(1)
        self._optional()
        return Forest(
            features=features, classes=max(classes), classifier=task in _CLASSIFIES, targets=targets
        )

    def tree(self) -> None:
        """One tree."""
        threshold, leaf = self._widths
        (nodes, _categories) = self._values("<i?")
        # Types, children, features, directions, leaves, thresholds, comparisons, sides of categories.
        for width in (1, 4, 4, 4, 1, leaf, threshold, 1, 1):
            if self._array(width) != nodes:
                raise self.damaged("an array of a tree is not as long as the tree has nodes")
        for width in (leaf, 8, 8, 4, 8, 8):  # vectors of leaves, lists of categories
            self._array(width)
        for width in (8, 1, 8, 1, 8, 1):  # statistics
            self._array(width)
        self._optional()
        self._optional()

    def _values(self, form: str) -> tuple[typing.Any, ...]:
        return struct.unpack(form, self._bytes(struct.calcsize(form)))

    def _bytes(self, count: int) -> bytes:
        if count > self.left:
            raise self.damaged("it ends too early")
        self.left -= count
        return self._file.read(count)

    def _numbers(self, count: int) -> list[int]:
        (length,) = self._values("<Q")
        if length != count:
            raise self.damaged("it does not say the classes of each target")
        return list(struct.unpack(f"<{count}i", self._bytes(4 * count)))

    def _array(self, width: int) -> int:
        """Pass an array; gives back its length."""
        (length,) = self._values("<Q")
        self._pass(length * width)
        return int(length)

    def _pass(self, count: int) -> None:
        if count > self.left:
            raise self.damaged("an array of it is longer than the rest of the file")
        self.left -= count
        self._file.seek(count, os.SEEK_CUR)

    def _optional(self) -> None:
        """Pass fields that only later versions know."""
        (count,) = self._values("<i")
        for _ in range(count):
            self._array(1)
            width, length = self._values("<QQ")
            self._pass(width * length)
