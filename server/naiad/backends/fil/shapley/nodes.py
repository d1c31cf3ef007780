"""The nodes of a tree as arrays, read from a forest that treelite has loaded and that `check_structure` has seen."""

import dataclasses
from typing import Any

import numpy as np

from naiad.backends.batch import Array
from naiad.errors import InferenceError, unsupported

_CATEGORICAL = 2
"""`node_type` of a node that looks for the row's category in a list."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """A tree of `n` nodes, the root first.

    Attributes:
        left, right: int [n], the nodes below; -1 in leaves.
        feature: int [n], the column of the input that a node looks at.
        threshold: FP64 [n], what it compares with.
        comparison: int8 [n]: 1 ==, 2 <, 3 <=, 4 >, 5 >=; a row for which it holds goes left.
        default_left: bool [n]: whether a missing value, NaN, goes left.
        categorical: bool [n]: the node looks for a category in a list, and compares nothing.
        listed_right: bool [n]: a category of its list goes right.
        categories: uint32, all lists one behind the other.
        category_begin, category_end: int [n], where a node's list is.
        cover: FP64 [n], how much of what the model was trained on came to the node.
        values: FP64 [n, m], what leaves add, to the outputs `outputs` of shape [m].
    """

    left: Array
    right: Array
    feature: Array
    threshold: Array
    comparison: Array
    default_left: Array
    categorical: Array
    listed_right: Array
    categories: Array
    category_begin: Array
    category_end: Array
    cover: Array
    values: Array
    outputs: Array


def trees_of(loaded: Any, model: str) -> list[Tree]:
    """All trees of a forest.

    Raises:
        InferenceError: UNSUPPORTED: its file does not say how many rows or how much weight came to each node, or its leaves are of another kind.
    """
    header = loaded.get_header_accessor()
    classes = [int(each) for each in header.get_field("class_id")]
    outputs = max(1, *(int(each) for each in header.get_field("num_class")))
    size = int(header.get_field("leaf_vector_shape")[1])
    if size not in (1, outputs) or (size == 1 and min(classes, default=0) < 0):
        raise unsupported(
            f"unable to load model '{model}': its leaves hold {size} values for {outputs} classes, of which output 'treeshap_output' cannot be computed: take the output out of "
            "the config"
        )
    return [
        _tree(loaded.get_tree_accessor(number), classes[number], size, number, model)
        for number in range(loaded.num_tree)
    ]


def _tree(found: Any, output: int, size: int, number: int, model: str) -> Tree:
    def field(name: str, dtype: type) -> Array:
        return np.array(found.get_field(name), dtype)

    left, right = field("cleft", np.int64), field("cright", np.int64)
    return Tree(
        left=left,
        right=right,
        feature=field("split_index", np.int64),
        threshold=field("threshold", np.float64),
        comparison=field("cmp", np.int8),
        default_left=field("default_left", np.bool_),
        categorical=(field("node_type", np.int8) == _CATEGORICAL) & (left >= 0),
        listed_right=field("category_list_right_child", np.bool_),
        categories=field("category_list", np.uint32),
        category_begin=field("category_list_begin", np.int64),
        category_end=field("category_list_end", np.int64),
        cover=_cover(found, left, number, model),
        values=_values(found, left, size),
        outputs=np.arange(size) if size > 1 else np.array([output]),
    )


def _values(found: Any, left: Array, size: int) -> Array:
    if size == 1:
        return np.array(found.get_field("leaf_value"), np.float64)[:, np.newaxis]
    values = np.zeros((len(left), size))
    begins = np.array(found.get_field("leaf_vector_begin"), np.int64)[left < 0]
    vectors = np.array(found.get_field("leaf_vector"), np.float64)
    values[left < 0] = vectors[begins[:, np.newaxis] + np.arange(size)]
    return values


def _cover(found: Any, left: Array, number: int, model: str) -> Array:
    """The weight of what came to each node in training, or else the number of rows, as FIL takes them."""
    for name in ("sum_hess", "data_count"):
        values = np.array(found.get_field(name), np.float64)
        there = np.array(found.get_field(f"{name}_present"), np.bool_)
        if len(values) != len(left) or len(there) != len(left) or not there.all():
            continue
        if np.isfinite(values).all() and values.min() >= 0 and (values[0] > 0 or len(left) == 1):
            return values
    if len(left) == 1:  # nothing is divided
        return np.ones(1)
    raise _without_statistics(number, model)


def _without_statistics(number: int, model: str) -> InferenceError:
    return unsupported(
        f"unable to load model '{model}': Model does not have node statistics: output 'treeshap_output' needs the number or the weight of the training rows that "
        f"came to each node, and the file has none for tree {number}: save the model again by the library that trained it, or take the output out of the config"
    )
