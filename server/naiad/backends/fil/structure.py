"""A check of a loaded forest, before any row goes through it: treelite follows whatever a damaged checkpoint says, out of its memory or in a cycle for ever.

Every node of a tree has one parent and the root none, so that each way down ends; every index is one of an array that is there.
"""

from typing import Any

import numpy as np

from naiad.backends.batch import Array
from naiad.errors import InferenceError, invalid

_ARRAYS = ("cleft", "cright", "split_index")
_SEGMENTS = ("category_list", "leaf_vector")


def check_structure(loaded: Any, model: str) -> None:
    """Check every tree.

    Args:
        loaded: the model, of treelite.
        model: its name, for the error.

    Raises:
        InferenceError: INVALID_ARG: a tree is damaged; says which and how.
    """
    header = loaded.get_header_accessor()
    count, features = loaded.num_tree, loaded.num_feature
    classes = [int(each) for each in header.get_field("num_class")]
    targets = int(header.get_field("num_target")[0])
    largest = max(classes, default=0)
    shape = [int(each) for each in header.get_field("leaf_vector_shape")]
    if (
        len(classes) != targets
        or min(classes, default=0) < 1
        or len(shape) != 2  # noqa: PLR2004 - targets and classes
        or len(header.get_field("base_scores")) != targets * largest
    ):
        raise _damaged(model, "its header contradicts itself")
    for field, limit in (("target_id", targets), ("class_id", largest)):
        values = np.asarray(header.get_field(field))
        if len(values) != count or not _within(values, -1, limit):
            raise _damaged(model, f"{field} is not one of each of its {count} trees")
    size = shape[0] * shape[1]
    for number in range(count):
        fault = _fault(loaded.get_tree_accessor(number), features, size)
        if fault:
            raise _damaged(model, f"tree {number}: {fault}")


def _fault(tree: Any, features: int, leaf_size: int) -> str:
    """What is wrong with a tree; "" for nothing."""
    nodes = int(tree.get_field("num_nodes")[0])
    left, right, split = (np.asarray(tree.get_field(name)) for name in _ARRAYS)
    if nodes < 1 or not len(left) == len(right) == len(split) == nodes:
        return "its arrays are not as long as it has nodes"
    inner = left != -1
    children = np.concatenate((left[inner], right[inner]))
    if not _within(children, 1, nodes) or len(np.unique(children)) != len(children):
        return "its nodes are not those of a tree"
    if not _within(split[inner], 0, features):
        return f"it looks at a feature that is not one of {features}"
    for name in _SEGMENTS:
        begin, end = (np.asarray(tree.get_field(f"{name}_{side}")) for side in ("begin", "end"))
        length = len(tree.get_field(name))
        if not len(begin) == len(end) == nodes or (begin > end).any() or (end > length).any():
            return f"its {name} is not whole"
        if name == "leaf_vector" and leaf_size > 1:
            sizes = (end - begin)[~inner]
            if (sizes != leaf_size).any():
                return f"its leaves do not hold {leaf_size} values"
    return ""


def _within(values: Array, first: int, end: int) -> bool:
    return bool(((values >= first) & (values < end)).all())


def _damaged(model: str, how: str) -> InferenceError:
    return invalid(
        f"unable to load model '{model}': the forest is damaged ({how}): copy its file again"
    )
