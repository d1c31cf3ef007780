"""Shapley values of forests: against their definition, summed over all sets of features, and against XGBoost's and LightGBM's own."""

import itertools
import math
import pathlib
import tracemalloc
from typing import Any

import numpy as np
import pytest
import sklearn.ensemble
import treelite
import xgboost

from naiad.backends.fil.shapley import explaining, values as shapley
from naiad.backends.fil.shapley.nodes import Tree
from naiad.backends.fil.shapley.paths import count, part_of
from naiad.backends.fil.shapley.values import ShapleyValues
from naiad.errors import InferenceError
from tests.frameworks.fil import models
from tests.frameworks.fil.models import FEATURES, Array, by_lightgbm, by_xgboost, config, put, rows
from tests.frameworks.fil.test_backend import SPEC, given, load
from tests.server.backends.configs import Instance, inference, run

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

OUTPUT = 'output { name: "treeshap_output" data_type: TYPE_FP32 dims: %s }'
COMPARE = {1: np.equal, 2: np.less, 3: np.less_equal, 4: np.greater, 5: np.greater_equal}


def grown(seed: int, *, depth: int, features: int, outputs: int = 1) -> Tree:
    """A tree of random questions of every kind, whose branches end at random."""
    random = np.random.default_rng(seed)
    nodes: list[dict[str, Any]] = []
    categories: list[int] = []

    def grow(level: int, cover: float) -> int:
        number = len(nodes)
        node = {"left": -1, "right": -1, "cover": cover, "listed": (len(categories),) * 2}
        nodes.append(node)
        if level < depth and (level < 2 or random.random() < 0.8):
            listed = int(random.random() < 0.3)
            begin = len(categories)
            if listed:
                categories.extend(random.choice(4, 2, replace=False).tolist())
            node["listed"] = (begin, len(categories))
            node["categorical"] = listed
            share = float(random.choice([0.0, 0.2, 0.5, 0.9]))
            node["left"] = grow(level + 1, cover * share)
            node["right"] = grow(level + 1, cover * (1 - share))
        return number

    grow(0, 100.0)
    size = len(nodes)
    return Tree(
        left=np.array([node["left"] for node in nodes]),
        right=np.array([node["right"] for node in nodes]),
        feature=random.integers(0, features, size),
        threshold=random.integers(0, 4, size).astype(float),
        comparison=random.integers(1, 6, size).astype(np.int8),
        default_left=random.random(size) < 0.5,
        categorical=np.array([bool(node.get("categorical")) for node in nodes]),
        listed_right=random.random(size) < 0.5,
        categories=np.array(categories, np.uint32),
        category_begin=np.array([node["listed"][0] for node in nodes]),
        category_end=np.array([node["listed"][1] for node in nodes]),
        cover=np.array([node["cover"] for node in nodes]),
        values=random.normal(size=(size, outputs)),
        outputs=np.arange(outputs),
    )


def worth(tree: Tree, row: Array, known: set[int], node: int = 0) -> Array:
    """What the tree gives for a row of which only some features are known: of the others, both branches by their shares."""
    left, right = int(tree.left[node]), int(tree.right[node])
    if left < 0:
        return np.asarray(tree.values[node])
    feature = int(tree.feature[node])
    if feature in known:
        x = row[feature]
        if np.isnan(x):
            goes_left = bool(tree.default_left[node])
        elif tree.categorical[node]:
            listed = tree.categories[tree.category_begin[node] : tree.category_end[node]]
            goes_left = (x >= 0 and int(x) in listed) != bool(tree.listed_right[node])
        else:
            goes_left = bool(COMPARE[int(tree.comparison[node])](x, tree.threshold[node]))
        return worth(tree, row, known, left if goes_left else right)
    cover = tree.cover[node]
    shares = (tree.cover[left] / cover, tree.cover[right] / cover) if cover else (0.5, 0.5)
    return np.asarray(
        shares[0] * worth(tree, row, known, left) + shares[1] * worth(tree, row, known, right)
    )


def defined(trees: list[Tree], row: Array, features: int, outputs: int) -> Array:
    """Shapley's sum over all sets of features; FP64 [outputs, features + 1]."""
    found = np.zeros((outputs, features + 1))
    for tree in trees:
        columns = tree.outputs
        found[columns, -1] += worth(tree, row, set())
        for feature in range(features):
            others = [each for each in range(features) if each != feature]
            for size in range(features):
                weight = math.factorial(size) * math.factorial(features - 1 - size)
                for known in itertools.combinations(others, size):
                    more = worth(tree, row, {*known, feature}) - worth(tree, row, set(known))
                    found[columns, feature] += weight / math.factorial(features) * more
    return found


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("outputs", [1, 3])
def test_values_are_those_of_the_definition(seed: int, outputs: int) -> None:
    features = 4
    trees = [grown(10 * seed + each, depth=5, features=features, outputs=outputs) for each in range(3)]  # fmt: skip
    random = np.random.default_rng(seed)
    some = random.choice([-1.5, -0.5, 0, 1, 1.5, 2, 3, 2**25, np.nan], (6, features))
    explain = ShapleyValues(
        trees, features=features, outputs=outputs, base=np.full(outputs, 0.25), divisor=2.0
    )
    expected = np.stack([defined(trees, row, features, outputs) for row in some]) / 2
    expected[..., -1] += 0.25
    np.testing.assert_allclose(explain(some.astype(np.float32)), expected, atol=1e-6)


def test_a_leaf_alone_and_no_tree_at_all_give_what_they_add() -> None:
    leaf = grown(0, depth=0, features=2)
    for trees in ([], [leaf], [leaf, grown(1, depth=3, features=2)]):
        explain = ShapleyValues(trees, features=2, outputs=1, base=np.zeros(1))
        row = np.array([1.0, 2.0], np.float32)
        np.testing.assert_allclose(
            explain(row[np.newaxis])[0], defined(trees, row, 2, 1), atol=1e-6
        )


def test_deep_ways_lose_no_digits() -> None:
    """60 features on one way: recurrences that subtract have no digits left there."""
    depth = 60
    inner, leaf = np.arange(depth), np.full(depth + 1, -1)
    tree = Tree(
        left=np.concatenate((depth + inner, leaf)),
        right=np.concatenate((inner[1:], [2 * depth], leaf)),
        feature=np.concatenate((inner, leaf)),
        threshold=np.zeros(2 * depth + 1),
        comparison=np.full(2 * depth + 1, 2, np.int8),
        default_left=np.zeros(2 * depth + 1, np.bool_),
        categorical=np.zeros(2 * depth + 1, np.bool_),
        listed_right=np.zeros(2 * depth + 1, np.bool_),
        categories=np.zeros(0, np.uint32),
        category_begin=np.zeros(2 * depth + 1, np.int64),
        category_end=np.zeros(2 * depth + 1, np.int64),
        cover=np.concatenate((0.5**inner, 0.5 ** (inner + 1), [0.5**depth])),
        values=np.concatenate((np.zeros(2 * depth), [1.0]))[:, np.newaxis],
        outputs=np.zeros(1, np.int64),
    )
    explain = ShapleyValues([tree], features=depth, outputs=1, base=np.zeros(1))
    found = explain(np.ones((1, depth), np.float32))[0, 0]
    # All features are alike to the one leaf that counts, and share what it gives.
    np.testing.assert_allclose(found[:-1], (1 - 0.5**depth) / depth, rtol=1e-6)


def own(model: Any, some: Array) -> Array:
    """What the library says itself; [rows, columns] or [rows, classes, columns]."""
    if isinstance(model, xgboost.Booster):
        data = xgboost.DMatrix(some, feature_types=model.feature_types, enable_categorical=True)
        return np.asarray(model.predict(data, pred_contribs=True))
    found = np.asarray(model.predict(some, pred_contrib=True))
    classes = found.shape[1] // (FEATURES + 1)
    return found if classes == 1 else found.reshape(len(some), classes, FEATURES + 1)


def explained(folder: pathlib.Path, model: Any, filename: str, columns: int, dims: str) -> Instance:
    kind = {"xgboost.ubj": "xgboost_ubj", "model.txt": "lightgbm", "checkpoint.tl": "treelite_checkpoint"}  # fmt: skip
    text = config(columns, OUTPUT % dims, model_type=kind[filename], predict_proba="true")
    return load(put(folder / "m", model, filename, text)).make_instance(SPEC)


MADE: list[tuple[str, str, dict[str, Any]]] = [
    ("xgboost", "binary:logistic", {}),
    ("xgboost", "binary:logistic", {"categories": True}),
    ("xgboost", "binary:logistic", {"booster": "dart", "rate_drop": 0.4, "seed": 1}),
    ("xgboost", "multi:softprob", {"categories": True, "num_parallel_tree": 2}),
    ("xgboost", "reg:gamma", {"max_depth": 9}),
    ("lightgbm", "binary", {"categories": True}),
    ("lightgbm", "binary", {"boosting": "dart"}),
    ("lightgbm", "multiclass", {"categories": True}),
    ("lightgbm", "multiclassova", {}),
    ("lightgbm", "tweedie", {"num_leaves": 40, "min_data_in_leaf": 2}),
]


@pytest.mark.parametrize(
    ("library", "objective", "settings"),
    MADE,
    ids=["-".join(map(str, (*each[:2], *each[2].values()))) for each in MADE],
)
def test_values_are_those_of_the_library(
    tmp_path: pathlib.Path, library: str, objective: str, settings: dict[str, Any]
) -> None:
    model = (by_xgboost if library == "xgboost" else by_lightgbm)(objective, **settings)
    some = rows(seed=7)
    expected = own(model, some)
    several = expected.ndim > 2
    columns = 3 if several else 2 if objective.startswith("binary") else 1
    instance = explained(
        tmp_path, model, "xgboost.ubj" if library == "xgboost" else "model.txt", columns,
        f"[ 3, {FEATURES + 1} ]" if several else f"{FEATURES + 1}",
    )  # fmt: skip
    parts = [some[:1], some[1:7], some[7:]]
    together = run(instance, *(inference(given(part)) for part in parts))
    assert [[each.name for each in answer.outputs] for answer in together] == [
        ["output__0", "treeshap_output"]
    ] * 3
    found = np.concatenate([answer.outputs[1].array for answer in together])
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", ["classifier", "regressor"])
def test_values_of_a_forest_of_averages_add_up_to_its_answer(
    tmp_path: pathlib.Path, kind: str
) -> None:
    some = np.nan_to_num(rows())
    if kind == "classifier":
        forest: Any = sklearn.ensemble.RandomForestClassifier(5, max_depth=4, random_state=0)
        forest.fit(some, models.three(some))
        columns, dims, expected = 3, f"[ 3, {FEATURES + 1} ]", forest.predict_proba(some)
    else:
        forest = sklearn.ensemble.RandomForestRegressor(5, max_depth=4, random_state=0)
        forest.fit(some, models.amounts(some))
        columns, dims, expected = 1, str(FEATURES + 1), forest.predict(some)
    model = treelite.sklearn.import_model(forest)
    (answer,) = run(
        explained(tmp_path, model, "checkpoint.tl", columns, dims), inference(given(some))
    )
    np.testing.assert_allclose(answer.outputs[1].array.sum(axis=-1), expected, atol=1e-5)
    np.testing.assert_allclose(
        answer.outputs[1].array[0, ..., -1],
        answer.outputs[1].array[-1, ..., -1],
    )


def test_only_requests_that_ask_are_explained(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    compute = shapley.ShapleyValues.__call__

    def noted(self: ShapleyValues, some: Array) -> Array:
        asked.append(len(some))
        return compute(self, some)

    monkeypatch.setattr(shapley.ShapleyValues, "__call__", noted)
    model = by_xgboost("binary:logistic")
    instance = explained(tmp_path, model, "xgboost.ubj", 2, str(FEATURES + 1))
    some = rows(seed=3, count=6)
    answers = run(
        instance,
        inference(given(some[:1]), outputs=["output__0"]),
        inference(given(some[1:3]), outputs=["treeshap_output"]),
        inference(given(some[3:])),
    )
    assert [[each.name for each in answer.outputs] for answer in answers] == [
        ["output__0"],
        ["treeshap_output"],
        ["output__0", "treeshap_output"],
    ]
    expected = own(model, some)
    np.testing.assert_allclose(answers[1].outputs[0].array, expected[1:3], atol=1e-5)
    np.testing.assert_allclose(answers[2].outputs[1].array, expected[3:], atol=1e-5)
    run(instance, inference(given(some), outputs=["output__0"]))
    assert asked == [5]


def test_without_a_batch_dimension_values_have_the_rows(tmp_path: pathlib.Path) -> None:
    model = by_xgboost("reg:squarederror")
    text = f"""backend: "fil" input {{ name: "input__0" data_type: TYPE_FP32 dims: [ -1, 5 ] }}
        output {{ name: "output__0" data_type: TYPE_FP32 dims: [ -1, 1 ] }} {OUTPUT % "[ -1, 6 ]"}"""
    some = rows(seed=12, count=3)
    instance = load(put(tmp_path / "m", model, "xgboost.json", text)).make_instance(SPEC)
    (answer,) = run(instance, inference(given(some), rows=1))
    np.testing.assert_allclose(answer.outputs[1].array, own(model, some), atol=1e-5)


def test_a_file_without_statistics_of_its_nodes_is_refused(tmp_path: pathlib.Path) -> None:
    data = models.in_binary_format(by_xgboost("binary:logistic"))
    text = config(2, OUTPUT % "6", model_type="xgboost", predict_proba="true")
    with pytest.raises(InferenceError, match=r"Model does not have node statistics: .* for tree 0"):
        load(put(tmp_path / "m", data, "xgboost.model", text))


def test_a_forest_that_is_too_large_is_refused(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(explaining, "_LARGEST", 100)
    with pytest.raises(InferenceError, match="is too large for output 'treeshap_output': the dep"):
        explained(tmp_path, by_xgboost("binary:logistic"), "xgboost.ubj", 2, "6")


def test_a_large_forest_is_computed_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    trees = [grown(each, depth=4, features=3) for each in range(9)]
    some = np.random.default_rng(0).integers(0, 4, (50, 3)).astype(np.float32)
    whole = ShapleyValues(trees, features=3, outputs=1, base=np.zeros(1))(some)
    monkeypatch.setattr(shapley, "_PLAYERS", 60)
    monkeypatch.setattr(shapley, "_CELLS", 300)
    parted = ShapleyValues(trees, features=3, outputs=1, base=np.zeros(1))
    assert len(parted._parts) > 2
    np.testing.assert_allclose(parted(some), whole, atol=1e-6)


def test_a_few_deep_leaves_take_no_memory_for_all_others() -> None:
    # 16,384 leaves of depth 14, below one of which 1,000 more hang in a chain.
    left, right = [-1], [-1]

    def split(node: int) -> tuple[int, int]:
        left[node], right[node] = len(left), len(left) + 1
        left.extend((-1, -1))
        right.extend((-1, -1))
        return left[node], right[node]

    level = [0]
    for _ in range(14):
        level = [below for node in level for below in split(node)]
    deepest = level[0]
    for _ in range(1000):
        deepest = split(deepest)[0]
    size = len(left)
    tree = Tree(
        left=np.array(left),
        right=np.array(right),
        feature=np.arange(size) % 4,
        threshold=np.zeros(size),
        comparison=np.full(size, 2, np.int8),
        default_left=np.zeros(size, np.bool_),
        categorical=np.zeros(size, np.bool_),
        listed_right=np.zeros(size, np.bool_),
        categories=np.zeros(0, np.uint32),
        category_begin=np.zeros(size, np.int64),
        category_end=np.zeros(size, np.int64),
        cover=np.ones(size),
        values=np.ones((size, 1)),
        outputs=np.array([0]),
    )
    tracemalloc.start()
    try:
        part_of([tree], features=4, outputs=1)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    players = count(tree)  # 0.7 million; a table of leaves by depth would have 18 million places
    assert peak < 120 * players
