"""From what treelite computes to what FIL answers with: classes, probabilities or values. Pure."""

import typing

import numpy as np

from naiad.backends.batch import Array
from naiad.backends.fil.settings import Settings

Make = typing.Callable[[Array], Array]


def maker(settings: Settings, *, classifier: bool, classes: int, columns: int) -> Make:
    """The function from scores to answers.

    Args:
        settings: those of the model.
        classifier: whether it is one.
        classes: how many scores a row has.
        columns: how many values its answer has by the config.

    Returns:
        A function of FP32 or FP64 [rows, classes] that gives FP32 [rows] where `columns` is 1, as FIL does, and else [rows, columns].
    """
    if classifier and not settings.predict_proba:
        if classes > 1:
            return _most_likely
        threshold = np.float32(settings.threshold)

        def above(scores: Array) -> Array:
            return (_values(scores)[:, 0] > threshold).astype(np.float32)

        return above
    if classes == 1 and columns > 1:
        return _both
    if columns == 1:
        return lambda scores: _values(scores)[:, 0]
    return _values


def _values(scores: Array) -> Array:
    values: Array = scores.astype(np.float32, copy=False)
    return values


def _most_likely(scores: Array) -> Array:
    """The first class of the highest score."""
    classes: Array = scores.argmax(axis=1)
    return classes.astype(np.float32)


def _both(scores: Array) -> Array:
    """Of the probability of class 1, those of both."""
    probability = _values(scores)
    return np.concatenate((1 - probability, probability), axis=1)
