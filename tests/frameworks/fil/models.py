"""Small forests, trained here by XGBoost, LightGBM and scikit-learn, on 200 rows of 5 features of which some are missing."""

import json
import pathlib
import struct
from typing import Any

import lightgbm
import numpy as np
import xgboost

FEATURES = 5
ROWS = 200

Array = np.ndarray[Any, Any]


def rows(seed: int = 0, count: int = ROWS) -> Array:
    """FP32 [count, 5]; every tenth value or so is NaN, and the last column holds the categories 0 to 3."""
    random = np.random.default_rng(seed)
    values = random.normal(size=(count, FEATURES)).astype(np.float32)
    values[:, -1] = random.integers(0, 4, count)
    values[random.random(values.shape) < 0.1] = np.nan
    return values


def _sum(values: Array) -> Array:
    filled = np.nan_to_num(values)
    return np.asarray(filled[:, 0] + filled[:, 1] + np.isin(filled[:, 4], (1, 3)))


def labels(values: Array) -> Array:
    """Two classes."""
    return (_sum(values) > 0.5).astype(int)


def three(values: Array) -> Array:
    """Three classes."""
    return np.digitize(_sum(values), (0.0, 1.0))


def amounts(values: Array) -> Array:
    """Positive numbers."""
    return np.exp(_sum(values) / 3)


def targets(objective: str, values: Array) -> Array:
    """What a model of an objective is trained on."""
    if objective.startswith("multi"):
        return three(values)
    if objective.startswith(("binary", "cross_entropy")):
        return labels(values)
    return amounts(values)


def by_xgboost(objective: str, *, categories: bool = False, **parameters: Any) -> Any:
    """A booster of 8 trees."""
    values = rows()
    settings = {"objective": objective, "max_depth": 4, "nthread": 1, **parameters}
    if objective.startswith("multi"):
        settings["num_class"] = 3
    types = ["q"] * (FEATURES - 1) + ["c"] if categories else None
    data = xgboost.DMatrix(
        values, targets(objective, values), feature_types=types, enable_categorical=categories
    )
    return xgboost.train({**settings, "max_cat_to_onehot": 1}, data, 8)


def by_lightgbm(objective: str, *, categories: bool = False, **parameters: Any) -> Any:
    """A booster of 8 trees."""
    values = rows()
    settings = {
        "objective": objective, "verbose": -1, "num_leaves": 8, "num_threads": 1, "min_data_per_group": 1, **parameters,
    }  # fmt: skip
    if objective.startswith("multi"):
        settings["num_class"] = 3
    data = lightgbm.Dataset(
        values,
        targets(objective, values),
        categorical_feature=[FEATURES - 1] if categories else "auto",
    )
    return lightgbm.train(settings, data, 8)


def in_binary_format(booster: Any) -> bytes:
    """A booster with numerical splits in XGBoost's binary format, which its own releases since 3.1 do not write, as XGBoost 1.7 wrote it."""
    learner = json.loads(booster.save_raw("json"))["learner"]
    model = learner["gradient_booster"]["model"]
    numbers = learner["learner_model_param"]
    objective = learner["objective"]["name"].encode()
    score = json.loads(numbers["base_score"])[0]
    classes = int(numbers["num_class"])
    data: bytes = (
        b"binf" + struct.pack("<fIiiiIII", score, FEATURES, classes, 0, 0, 1, 7, 1) + bytes(104)
    )
    data += struct.pack("<Q", len(objective)) + objective + struct.pack("<Q", 6) + b"gbtree"
    trees = model["trees"]
    data += struct.pack("<iiii8xii", len(trees), 1, FEATURES, 0, max(1, classes), 0) + bytes(128)
    for tree in trees:
        left, right = tree["left_children"], tree["right_children"]
        data += struct.pack("<6i", 1, len(left), 0, 0, FEATURES, 0) + bytes(124)
        for node, parent in enumerate(tree["parents"]):
            is_left = node > 0 and left[parent] == node
            data += struct.pack(
                "<iiiIf",
                -1 if node == 0 else parent - (is_left << 31),
                left[node],
                right[node],
                tree["split_indices"][node] | tree["default_left"][node] << 31,
                tree["split_conditions"][node],
            )
        data += bytes(16 * len(left))
    return data + struct.pack(f"<{len(trees)}i", *model["tree_info"])


def put(folder: pathlib.Path, model: Any, filename: str, config: str = "") -> pathlib.Path:
    """The model in `<folder>/1/<filename>`, with a config of the parameters and fields given, or none; gives back `folder`."""
    (folder / "1").mkdir(parents=True)
    path = folder / "1" / filename
    if isinstance(model, bytes):
        path.write_bytes(model)
    elif hasattr(model, "serialize"):
        model.serialize(str(path))
    else:
        model.save_model(str(path))
    if config:
        (folder / "config.pbtxt").write_text(config)
    return folder


def config(outputs: int, *more: str, kind: str = "KIND_CPU", **parameters: str) -> str:
    """A config in the form of FIL's documentation."""
    entries = ",\n".join(
        f'  {{\n    key: "{key}"\n    value: {{ string_value: "{value}" }}\n  }}'
        for key, value in parameters.items()
    )
    return f"""backend: "fil"
max_batch_size: 32768
input [
 {{
    name: "input__0"
    data_type: TYPE_FP32
    dims: [ {FEATURES} ]
  }}
]
output [
 {{
    name: "output__0"
    data_type: TYPE_FP32
    dims: [ {outputs} ]
  }}
]
instance_group [{{ kind: {kind} }}]
parameters [
{entries}
]
dynamic_batching {{}}
""" + "\n".join(more)
