"""The Shapley values of a forest that treelite has loaded, as Triton's fil backend gives them."""

import collections.abc
from typing import Any

import numpy as np

from naiad.backends.batch import Array
from naiad.backends.fil.shapley.nodes import trees_of
from naiad.backends.fil.shapley.paths import count
from naiad.backends.fil.shapley.values import ShapleyValues
from naiad.errors import unsupported

Explain = collections.abc.Callable[[Array], Array]

_LARGEST = 1 << 23
"""Depths of all leaves together up to which a forest is explained: about 0.5 GB of memory, and 0.3 s for a row."""


def shapley_values(loaded: Any, model: str) -> Explain:
    """The function from rows to Shapley values of a forest.

    Args:
        loaded: the forest, of treelite, with one target.
        model: the model's name, for errors.

    Returns:
        A function of FP32 [rows, features], with NaN for missing values. It gives FP32 [rows, features + 1], or [rows, classes, features + 1] of several classes; the last column is what a
        row gets of which nothing is known, and the sum of all columns the value before a sigmoid or softmax.

    Raises:
        InferenceError: UNSUPPORTED: the file has no statistics of its nodes, or the forest is too large.
    """
    header = loaded.get_header_accessor()
    trees = trees_of(loaded, model)
    players = sum(map(count, trees))
    if players > _LARGEST:
        raise unsupported(
            f"unable to load model '{model}': the forest is too large for output 'treeshap_output': the depths of its leaves are {players:,} together, and at most "
            f"{_LARGEST:,} are computed: train it with fewer or flatter trees, or take the output out of the config"
        )
    outputs = max(1, *(int(each) for each in header.get_field("num_class")))
    averages = bool(header.get_field("average_tree_output")[0])
    # One tree of each class in turn, or trees whose leaves hold a value for each class.
    several = outputs > 1 and int(header.get_field("leaf_vector_shape")[1]) == 1
    divisor = loaded.num_tree // (outputs if several else 1) if averages else 1
    values = ShapleyValues(
        trees,
        features=loaded.num_feature,
        outputs=outputs,
        base=np.array(header.get_field("base_scores"), np.float64),
        divisor=max(1, divisor),
    )
    if outputs > 1:
        return values
    return lambda rows: values(rows)[:, 0]
