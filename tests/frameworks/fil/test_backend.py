"""Forests through the backend, against the library that made each of them: classes, probabilities and values, batched and not."""

import pathlib
from typing import Any

import numpy as np
import pytest
import sklearn.ensemble
import treelite
import xgboost

from naiad.backends.backend import ModelSource
from naiad.backends.catalog import Catalog
from naiad.backends.fil.backend import SMALL, FilBackend
from naiad.backends.instance import InstanceSpec
from naiad.config.model_config import InstanceKind
from naiad.config.resolving.resolve import resolve
from naiad.core import datatypes
from naiad.core.clock import ManualClock
from naiad.core.tensor import Tensor
from naiad.errors import InferenceError
from tests.frameworks.fil import models
from tests.frameworks.fil.models import Array, by_lightgbm, by_xgboost, config, put, rows
from tests.server.backends.configs import Instance, Loaded, inference, run

# Treelite warns of what it reads beside its errors.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

SPEC = InstanceSpec(name="m_0_0", kind=InstanceKind.CPU, device_id=0)


def load(folder: pathlib.Path) -> Loaded:
    resolution = resolve(folder, backends=Catalog())
    assert resolution.config is not None, resolution.problems
    source = ModelSource(config=resolution.config, version=1, model_dir=folder, options={})
    return Loaded(FilBackend(clock=ManualClock()).load(source), resolution.config)


def given(values: Array) -> Tensor:
    return Tensor("input__0", datatypes.FP32, values.shape, values)


def answers(instance: Instance, values: Array) -> Array:
    """What one request of all rows is answered with, after a check that 3 requests in one batch are answered alike."""
    (whole,) = run(instance, inference(given(values)))
    assert whole.error is None
    (output,) = whole.outputs
    assert (output.name, output.datatype) == ("output__0", datatypes.FP32)
    parts = [values[:1], values[1:7], values[7:]]
    together = run(instance, *(inference(given(part)) for part in parts))
    assert [each.outputs[0].array.shape[0] for each in together] == [len(part) for part in parts]
    np.testing.assert_array_equal(
        np.concatenate([each.outputs[0].array for each in together]), output.array
    )
    return output.array


def expected_of(model: Any, values: Array) -> Array:
    """What the library itself computes: probabilities, or values."""
    if isinstance(model, xgboost.Booster):
        types = model.feature_types
        data = xgboost.DMatrix(values, feature_types=types, enable_categorical=True)
        return np.asarray(model.predict(data))
    return np.asarray(model.predict(values))


XGBOOST: list[tuple[str, dict[str, Any]]] = [
    ("binary:logistic", {}),
    ("binary:logistic", {"booster": "dart", "rate_drop": 0.4, "seed": 1}),
    ("binary:logistic", {"categories": True}),
    ("binary:logistic", {"num_parallel_tree": 3, "subsample": 0.7}),
    ("binary:hinge", {}),
    ("multi:softprob", {}),
    ("multi:softprob", {"booster": "dart", "rate_drop": 0.4, "categories": True}),
    ("reg:squarederror", {}),
    ("reg:squarederror", {"categories": True}),
    ("reg:gamma", {}),
    ("count:poisson", {}),
]
LIGHTGBM: list[tuple[str, dict[str, Any]]] = [
    ("binary", {}),
    ("binary", {"boosting": "dart"}),
    ("binary", {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.6}),
    ("binary", {"categories": True}),
    ("cross_entropy", {}),
    ("multiclass", {}),
    ("multiclass", {"categories": True}),
    ("multiclassova", {}),
    ("regression", {}),
    ("regression", {"reg_sqrt": True}),
    ("tweedie", {"categories": True}),
]
MADE: list[tuple[str, str, str, dict[str, Any]]] = [
    *(("xgboost", file, *each) for each in XGBOOST for file in ("xgboost.json", "xgboost.ubj")),
    *(("lightgbm", "model.txt", *each) for each in LIGHTGBM),
]


@pytest.mark.parametrize(
    ("library", "filename", "objective", "settings"),
    MADE,
    ids=["-".join(map(str, (*each[:3], *each[3].values()))) for each in MADE],
)
def test_values_and_probabilities_are_those_of_the_library(
    tmp_path: pathlib.Path, library: str, filename: str, objective: str, settings: dict[str, Any]
) -> None:
    make = by_xgboost if library == "xgboost" else by_lightgbm
    model = make(objective, **settings)
    values = rows(seed=7)
    expected = expected_of(model, values)
    if objective.startswith(("binary", "cross_entropy")):
        expected = np.stack([1 - expected, expected], axis=1)
    parameters = "".join(
        f'parameters {{ key: "{key}" value {{ string_value: "{value}" }} }}'
        for key, value in (("predict_proba", "true"), ("naiad.probabilities", "library"))
    )
    folder = put(tmp_path / "m", model, filename, parameters)
    found = answers(load(folder).make_instance(SPEC), values)
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("objective", ["multiclass", "multiclassova"])
def test_probabilities_of_several_classes_are_a_softmax_as_with_fil(
    tmp_path: pathlib.Path, objective: str
) -> None:
    model = by_lightgbm(objective)
    values = rows(seed=7)
    raw = np.exp(model.predict(values, raw_score=True))
    parameters = 'parameters { key: "predict_proba" value { string_value: "true" } }'
    found = answers(
        load(put(tmp_path / "m", model, "model.txt", parameters)).make_instance(SPEC), values
    )
    np.testing.assert_allclose(found, raw / raw.sum(axis=1, keepdims=True), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("model", "filename"),
    [
        (lambda: by_xgboost("multi:softprob"), "xgboost.json"),
        (lambda: by_xgboost("multi:softmax"), "xgboost.ubj"),
        (lambda: by_lightgbm("multiclass"), "model.txt"),
        (lambda: by_lightgbm("multiclassova"), "model.txt"),
    ],
    ids=["softprob", "softmax", "multiclass", "multiclassova"],
)
def test_a_classifier_answers_with_a_class_and_without_a_dimension_for_it(
    tmp_path: pathlib.Path, model: Any, filename: str
) -> None:
    values = rows(seed=8)
    made = model()
    expected = expected_of(made, values)
    if expected.ndim > 1:
        expected = expected.argmax(axis=1)
    found = answers(load(put(tmp_path / "m", made, filename)).make_instance(SPEC), values)
    assert found.shape == (len(values),)
    assert found.tolist() == expected.tolist()


@pytest.mark.parametrize("threshold", [None, "0.2", "0.9"])
def test_a_binary_classifier_answers_1_above_its_threshold(
    tmp_path: pathlib.Path, threshold: str | None
) -> None:
    model = by_xgboost("binary:logistic")
    values = rows(seed=9)
    more = {} if threshold is None else {"threshold": threshold}
    text = config(1, model_type="xgboost_json", is_classifier="true", **more)
    found = answers(
        load(put(tmp_path / "m", model, "xgboost.json", text)).make_instance(SPEC), values
    )
    assert found.tolist() == (expected_of(model, values) > float(threshold or 0.5)).tolist()
    assert 0 < found.sum() < len(found)


def test_the_probability_of_class_1_alone_is_given_where_the_config_has_one_column(
    tmp_path: pathlib.Path,
) -> None:
    model = by_lightgbm("binary")
    values = rows(seed=10)
    text = config(1, model_type="lightgbm", output_class="true", predict_proba="true")
    found = answers(load(put(tmp_path / "m", model, "model.txt", text)).make_instance(SPEC), values)
    np.testing.assert_allclose(found, expected_of(model, values), rtol=1e-6)


def test_a_model_that_is_a_regression_by_its_config_gives_what_it_computes(
    tmp_path: pathlib.Path,
) -> None:
    model = by_xgboost("binary:logistic")
    values = rows(seed=11)
    text = config(1, model_type="xgboost_ubj", is_classifier="false")
    found = answers(
        load(put(tmp_path / "m", model, "xgboost.ubj", text)).make_instance(SPEC), values
    )
    np.testing.assert_allclose(found, expected_of(model, values), rtol=1e-5)


@pytest.mark.parametrize("objective", ["binary:logistic", "reg:squarederror"])
def test_the_binary_format_of_older_xgboosts_is_served(
    tmp_path: pathlib.Path, objective: str
) -> None:
    model = by_xgboost(objective)
    values = rows(seed=13)
    classifies = "true" if objective.startswith("binary") else "false"
    text = config(1, is_classifier=classifies, predict_proba=classifies)
    folder = put(tmp_path / "m", models.in_binary_format(model), "xgboost.model", text)
    found = answers(load(folder).make_instance(SPEC), values)
    np.testing.assert_allclose(found, expected_of(model, values), rtol=1e-5, atol=1e-6)


def test_checkpoints_of_treelite_are_served(tmp_path: pathlib.Path) -> None:
    values = np.nan_to_num(rows())
    forest = sklearn.ensemble.RandomForestClassifier(5, max_depth=4, random_state=0)
    forest.fit(values, models.three(values))
    model = treelite.sklearn.import_model(forest)
    text = config(3, model_type="treelite_checkpoint", is_classifier="true", predict_proba="true")
    found = answers(
        load(put(tmp_path / "m", model, "checkpoint.tl", text)).make_instance(SPEC), values
    )
    np.testing.assert_allclose(found, forest.predict_proba(values), rtol=1e-5, atol=1e-6)


def test_without_a_batch_dimension_the_config_has_the_rows(tmp_path: pathlib.Path) -> None:
    model = by_xgboost("multi:softprob")
    values = rows(seed=12, count=3)
    text = """backend: "fil" input { name: "input__0" data_type: TYPE_FP32 dims: [ -1, 5 ] }
        parameters { key: "predict_proba" value { string_value: "true" } }"""
    instance = load(put(tmp_path / "m", model, "xgboost.json", text)).make_instance(SPEC)
    (answer,) = run(instance, inference(given(values), rows=1))
    np.testing.assert_allclose(
        answer.outputs[0].array, expected_of(model, values), rtol=1e-5, atol=1e-6
    )


def test_small_batches_are_computed_by_one_thread_and_large_ones_by_the_configs(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    used: list[int] = []
    predict = treelite.gtil.predict

    def noted(model: Any, data: Array, *, nthread: int) -> Array:
        used.append(nthread)
        return np.asarray(predict(model, data, nthread=1))

    monkeypatch.setattr(treelite.gtil, "predict", noted)
    model = by_xgboost("reg:squarederror")
    text = config(1, model_type="xgboost_json", is_classifier="false", cpu_nthread="2")
    instance = load(put(tmp_path / "m", model, "xgboost.json", text)).make_instance(SPEC)
    used.clear()  # of the load
    for count in (1, SMALL // 8, SMALL // 8 + 1):
        run(instance, inference(given(rows(count=count))))
    assert used == [1, 1, 2]


@pytest.mark.parametrize("threads", ["100000", str(10**30)])
def test_more_threads_than_the_machine_has_are_all_of_them(
    tmp_path: pathlib.Path, threads: str
) -> None:
    model = by_xgboost("reg:squarederror")
    text = config(1, model_type="xgboost_json", is_classifier="false", cpu_nthread=threads)
    values = rows(count=SMALL // 8 + 1)
    (answer,) = run(
        load(put(tmp_path / "m", model, "xgboost.json", text)).make_instance(SPEC),
        inference(given(values)),
    )
    assert answer.error is None
    np.testing.assert_allclose(
        answer.outputs[0].array, expected_of(model, values), rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("setting", ["linear_tree", "zero_as_missing"])
def test_what_treelite_computes_otherwise_than_lightgbm_is_a_problem_of_the_file(
    tmp_path: pathlib.Path, setting: str
) -> None:
    model = by_lightgbm("regression", **{setting: True})
    resolution = resolve(put(tmp_path / "m", model, "model.txt"), backends=Catalog())
    assert [f"was trained with {setting}=true" in each.message for each in resolution.problems] == [
        True
    ]


@pytest.mark.parametrize("filename", ["xgboost.json", "xgboost.ubj"])
def test_a_linear_model_is_a_problem_of_the_file(tmp_path: pathlib.Path, filename: str) -> None:
    model = by_xgboost("reg:squarederror", booster="gblinear")
    resolution = resolve(put(tmp_path / "m", model, filename), backends=Catalog())
    (problem,) = resolution.problems
    assert "is a linear model (booster gblinear), and treelite computes trees" in problem.message


def test_instances_share_the_model(tmp_path: pathlib.Path) -> None:
    loaded = load(put(tmp_path / "m", by_xgboost("reg:squarederror"), "xgboost.json"))
    one, two = loaded.make_instance(SPEC), loaded.make_instance(SPEC)
    assert one.instance._trees is two.instance._trees  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("model", "filename", "reason"),
    [
        (
            lambda: bytes(by_xgboost("reg:squarederror").save_raw("ubj")).replace(
                b"cats{", b"cots{"
            ),
            "xgboost.ubj",
            "unable to load model 'm': .*",
        ),
    ],
    ids=["unknown field"],
)
def test_what_treelite_refuses_is_said_at_the_load(
    tmp_path: pathlib.Path, model: Any, filename: str, reason: str
) -> None:
    folder = put(tmp_path / "m", model(), filename)
    with pytest.raises(InferenceError, match=reason):
        load(folder)


def test_unknown_fields_of_xgboost_are_left_out_if_asked(tmp_path: pathlib.Path) -> None:
    raw = bytes(by_xgboost("reg:squarederror").save_raw("json"))
    raw = raw.replace(b'"gradient_booster":{', b'"gradient_booster":{"later":1,', 1)
    with pytest.raises(InferenceError, match="unable to load model 'm'"):
        load(put(tmp_path / "strict" / "m", raw, "xgboost.json"))
    text = 'parameters { key: "xgboost_allow_unknown_field" value { string_value: "true" } }'
    load(put(tmp_path / "open" / "m", raw, "xgboost.json", text))
