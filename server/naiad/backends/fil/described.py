"""What the files of tree models say of the model, read without treelite and without their trees: the number of features, classes and targets.

Only headers are read, of checkpoints and of XGBoost's binary format also all lengths, and of XGBoost's files the last 64 KiB, where the library writes what it calls `learner_model_param` behind the trees.
"""

import json
import os
import pathlib
import re
import typing

from naiad.backends.fil import checkpoint, legacy
from naiad.backends.fil.forest import Forest
from naiad.backends.fil.formats import (
    CHECKPOINT,
    LIGHTGBM,
    XGBOOST,
    XGBOOST_JSON,
    XGBOOST_UBJ,
    looks_like,
)
from naiad.backends.model_files.wire_format import ModelFileError

_START = 64
_TAIL = 1 << 16
_WHOLE = 1 << 20
"""Bytes of a JSON file up to which it is read as a whole where its end does not say what is looked for: nothing else in the server runs meanwhile, 0.1 s."""
_HEADER = 1 << 24
"""Bytes that the header of a LightGBM file may have: names of features, and the sizes of trees."""
_LONGEST = 100
"""Bytes of a value that is looked for."""
_END_OF_TREES = b"end of trees"

_LARGEST = (1 << 31) - 1
"""Of features, classes and targets: XGBoost and LightGBM count them in an int."""

_UNSERVED = (
    (b"linear_tree", "computes no linear trees"),
    (b"zero_as_missing", "takes a zero for a value and not for a missing one"),
)

_BINARY = ("binary", "cross_entropy", "cross_entropy_lambda")


def read(path: pathlib.Path, model_type: str) -> Forest | None:
    """What a model file says; None where only treelite can tell.

    Raises:
        ModelFileError: the file cannot be read, is cut off, or is of another type.
    """
    try:
        with path.open("rb") as file:
            found = looks_like(file.read(_START))
            if found not in ("", model_type):
                raise ModelFileError(
                    f"'{path}' is a file of the type {found}, and the config says {model_type}: write the parameter model_type = {found}, or put a file of "
                    f"the type {model_type} there"
                )
            file.seek(0)
            forest = _READERS[model_type](file, path)
    except OSError as error:
        raise ModelFileError(f"unable to read '{path}': {error.strerror}") from error
    if forest is not None and not (
        0 <= forest.features <= _LARGEST and max(forest.classes, forest.targets) <= _LARGEST
    ):
        raise ModelFileError(
            f"'{path}' is damaged (it says that it has {forest.features} features, {forest.classes} classes and {forest.targets} targets): copy it again"
        )
    return forest


def _cut_off(path: pathlib.Path, why: str) -> ModelFileError:
    return ModelFileError(f"'{path}' is cut off ({why}): copy it again")


def _xgboost(file: typing.BinaryIO, path: pathlib.Path) -> Forest | None:
    """JSON and UBJSON: keys are in the order of the alphabet, so that learner_model_param and objective follow the trees."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _TAIL))
    tail = file.read(_TAIL)
    if not tail.rstrip().endswith(b"}"):
        raise _cut_off(path, "it does not end with }")
    begun = tail.rfind(b"learner_model_param")
    booster = tail.rfind(b"name", 0, max(0, begun))
    if booster >= 0 and _value(b"name", tail[max(0, booster - 1) : begun]) == "gblinear":
        raise ModelFileError(
            f"'{path}' is a linear model (booster gblinear), and treelite computes trees: train it with the booster gbtree or dart, or serve it by xgboost in "
            "a Python model"
        )
    found = None if begun < 0 else _parameters(tail[begun:])
    if found is None and size <= _WHOLE:
        found = _parameters_of_json(file)
    if found is None:
        return None
    features, classes, targets, objective = found
    return Forest(
        features=features,
        classes=max(1, classes),
        classifier=classes > 1 or objective.startswith("binary:"),
        targets=max(1, targets),
    )


def _value(key: bytes, data: bytes) -> str | None:
    """The text after a key: in JSON, or, in UBJSON, after S and its length."""
    name = re.escape(key)
    if found := re.search(rb'"' + name + rb'"\s*:\s*"?([\w:.+-]+)', data):
        return found[1].decode()
    found = re.search(name + rb"S(?:L(.{8})|l(.{4})|I(.{2})|[iU](.))", data, re.DOTALL)
    if found is None:
        return None
    length = int.from_bytes(next(each for each in found.groups() if each is not None), "big")
    return data[found.end() : found.end() + min(length, _LONGEST)].decode(errors="replace")


def _parameters(data: bytes) -> tuple[int, int, int, str] | None:
    numbers = [_value(key, data) for key in (b"num_feature", b"num_class", b"num_target")]
    objective = data.rfind(b"objective")
    name = _value(b"name", data[objective:]) if objective >= 0 else None
    features, classes, targets = (
        int(each) if each and each.isdecimal() else None for each in numbers
    )
    if features is None or classes is None or name is None:
        return None
    return features, classes, targets or 1, name


def _parameters_of_json(file: typing.BinaryIO) -> tuple[int, int, int, str] | None:
    file.seek(0)
    try:
        learner = json.load(file)["learner"]
        numbers = learner["learner_model_param"]
        return (
            int(numbers["num_feature"]),
            int(numbers.get("num_class", 0)),
            int(numbers.get("num_target", 1)),
            str(learner["objective"]["name"]),
        )
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError):
        return None


def _legacy(_file: typing.BinaryIO, path: pathlib.Path) -> Forest | None:
    return legacy.read(path)


def _lightgbm(file: typing.BinaryIO, path: pathlib.Path) -> Forest | None:
    """Lines of `key=value` up to an empty one. `tree_sizes` has the bytes of each tree, so that a file that lacks some is noticed: treelite would serve the rest."""
    header = file.read(_HEADER)
    end, gap = header.find(b"\n\n"), 2
    if end < 0:
        end, gap = header.find(b"\r\n\r\n"), 4
    if end < 0:
        if len(header) == _HEADER:
            return None
        raise _cut_off(path, "its header is not whole")
    fields = dict(
        line.split("=", 1)
        for line in header[:end].decode(errors="replace").splitlines()
        if "=" in line
    )
    try:
        classes = int(fields["num_class"])
        features = int(fields["max_feature_idx"]) + 1
        sizes = [int(size) for size in fields.get("tree_sizes", "").split()]
    except (KeyError, ValueError):
        return None
    _refuse_unserved(file, path)
    if sizes:
        # No farther than the end of the file, where no trees end.
        file.seek(max(0, min(end + gap + sum(sizes), os.fstat(file.fileno()).st_size)))
        if gap == 2 and not file.read(len(_END_OF_TREES)) == _END_OF_TREES:  # noqa: PLR2004
            raise _cut_off(
                path, f"it does not hold the {len(sizes)} trees that its tree_sizes name"
            )
    objective = (fields.get("objective", "").split() or [""])[0]
    return Forest(
        features=features, classes=max(1, classes), classifier=classes > 1 or objective in _BINARY
    )


def _refuse_unserved(file: typing.BinaryIO, path: pathlib.Path) -> None:
    """What was trained in a way that treelite does not compute; LightGBM writes how behind the trees, as lines of `[key: value]`."""
    file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL))
    trained = file.read(_TAIL)
    for setting, why in _UNSERVED:
        if b"\n[" + setting + b": 1]" in trained:
            raise ModelFileError(
                f"'{path}' was trained with {setting.decode()}=true, and treelite {why}: train it without, or serve it by lightgbm in a Python model"
            )


def _checkpoint(_file: typing.BinaryIO, path: pathlib.Path) -> Forest | None:
    return checkpoint.read(path)


_READERS = {
    XGBOOST: _legacy,
    XGBOOST_JSON: _xgboost,
    XGBOOST_UBJ: _xgboost,
    LIGHTGBM: _lightgbm,
    CHECKPOINT: _checkpoint,
}
