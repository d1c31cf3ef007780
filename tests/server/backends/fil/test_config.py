"""What is known of tree models without treelite: their files, what a config gets from them, and what is refused."""

import pathlib

import pytest

from naiad.backends.catalog import Catalog
from naiad.backends.fil import checkpoint, described
from naiad.backends.fil.forest import Forest
from naiad.backends.fil.formats import FILES as TYPES, looks_like
from naiad.backends.fil.settings import WITHOUT_EFFECT, Settings, settings_of
from naiad.backends.model_files.wire_format import ModelFileError
from naiad.config.checks.features import ServerFeatures
from naiad.config.model_config import InstanceKind
from naiad.config.resolving.resolve import Resolution, resolve
from naiad.errors import InferenceError
from tests.server.backends.fil import files
from tests.server.backends.fil.files import FILES

TENSORS = 'input { name: "input__0" data_type: TYPE_FP32 dims: 4 } output { name: "output__0" data_type: TYPE_FP32 dims: %s }'
SAYS = {
    "xgboost.json": Forest(features=4, classes=3, classifier=True),
    "xgboost.ubj": Forest(features=4, classes=1, classifier=True),
    "xgboost.model": Forest(features=4, classes=1, classifier=False),
    "model.txt": Forest(features=4, classes=1, classifier=True),
    "checkpoint.tl": Forest(features=4, classes=3, classifier=True),
}
TYPE_OF = {filename: each for each, filename in TYPES.items()}
NAMES = list(FILES)


def parameter(key: str, value: str) -> str:
    return f' parameters {{ key: "{key}" value {{ string_value: "{value}" }} }}'


def write(
    folder: pathlib.Path, filename: str, config: str = "", data: bytes | None = None
) -> pathlib.Path:
    version = folder / "m" / "1"
    version.mkdir(parents=True)
    (version / filename).write_bytes(FILES[filename] if data is None else data)
    if config:
        (folder / "m" / "config.pbtxt").write_text(config)
    return folder / "m"


def resolved(
    folder: pathlib.Path, filename: str, config: str = "", data: bytes | None = None
) -> Resolution:
    return resolve(write(folder, filename, config, data), backends=Catalog())


def problems(resolution: Resolution) -> str:
    return "; ".join(f"{each.message} {each.suggestion}" for each in resolution.problems)


@pytest.mark.parametrize("filename", NAMES)
def test_a_file_says_what_it_is_and_what_its_model_takes(
    tmp_path: pathlib.Path, filename: str
) -> None:
    path = write(tmp_path, filename) / "1" / filename
    assert looks_like(FILES[filename][:64]) == TYPE_OF[filename]
    assert described.read(path, TYPE_OF[filename]) == SAYS[filename]


@pytest.mark.parametrize(
    ("filename", "inputs", "outputs"),
    [
        ("xgboost.json", (4,), (3,)),
        ("xgboost.ubj", (4,), (2,)),
        ("xgboost.model", (4,), (1,)),
        ("model.txt", (4,), (2,)),
        ("checkpoint.tl", (4,), (3,)),
    ],
)
def test_a_config_is_completed_from_the_file(
    tmp_path: pathlib.Path, filename: str, inputs: tuple[int], outputs: tuple[int]
) -> None:
    found = resolved(
        tmp_path, filename, 'backend: "fil" max_batch_size: 16' + parameter("predict_proba", "true")
    )
    config = found.config
    assert config is not None, found.problems
    assert [(each.name, each.datatype.name, each.dims) for each in config.inputs] == [
        ("input__0", "FP32", inputs)
    ]
    assert [(each.name, each.datatype.name, each.dims) for each in config.outputs] == [
        ("output__0", "FP32", outputs)
    ]
    assert config.default_model_filename == filename


def test_a_model_without_a_config_takes_batches_and_answers_with_classes(
    tmp_path: pathlib.Path,
) -> None:
    config = resolved(tmp_path, "xgboost.json").config
    assert config is not None
    assert (config.backend, config.max_batch_size) == ("fil", 32768)
    assert config.dynamic_batching is not None
    assert config.outputs[0].dims == (1,)


def test_the_model_type_names_the_file_where_there_are_several(tmp_path: pathlib.Path) -> None:
    folder = write(tmp_path, "xgboost.json", 'backend: "fil"' + parameter("model_type", "lightgbm"))
    (folder / "1" / "model.txt").write_bytes(FILES["model.txt"])
    config = resolve(folder, backends=Catalog()).config
    assert config is not None
    assert config.default_model_filename == "model.txt"


def test_a_missing_file_is_the_one_of_the_model_type(tmp_path: pathlib.Path) -> None:
    found = resolved(
        tmp_path, "xgboost.json", 'backend: "fil"' + parameter("model_type", "xgboost_ubj")
    )
    assert "unable to load model 'm': unable to find" in problems(found)
    assert "xgboost.ubj'" in problems(found)


@pytest.mark.parametrize(
    ("filename", "data", "said"),
    [
        ("xgboost.json", files.XGBOOST_JSON[:-3], "is cut off (it does not end with })"),
        ("xgboost.ubj", files.XGBOOST_UBJ[:-3], "is cut off (it does not end with })"),
        ("xgboost.model", files.XGBOOST[:100], "is cut off or damaged (its header is not whole)"),
        ("xgboost.model", files.XGBOOST[:-50], "damaged (tree 0 of 1 is not whole)"),
        ("xgboost.model", files.XGBOOST[:-1], "damaged (its list of trees is not whole)"),
        (
            "xgboost.model",
            files.XGBOOST[:140] + b"\xff" * 8 + files.XGBOOST[148:],
            "damaged (its objective is not whole)",
        ),
        ("model.txt", files.LIGHTGBM[:60], "is cut off (its header is not whole)"),
        ("model.txt", files.LIGHTGBM[:-20], "does not hold the 1 trees that its tree_sizes name"),
        ("checkpoint.tl", files.checkpoint()[:50], "is cut off or damaged (it ends too early)"),
        ("checkpoint.tl", files.checkpoint()[:-1], "is cut off or damaged (it ends too early)"),
        ("checkpoint.tl", files.checkpoint() + b"x", "1 bytes follow its last tree"),
        ("checkpoint.tl", files.checkpoint(scores=2), "it has 2 base scores"),
        ("checkpoint.tl", files.checkpoint(classes=0), "it has no classes"),
        ("checkpoint.tl", files.checkpoint(major=3), "is a checkpoint of treelite 3.8.1, and only"),
        (
            "xgboost.json",
            files.XGBOOST_JSON.replace(b'num_feature":"4', b'num_feature":"99999999999'),
            "is damaged (it says that it has 99999999999 features",
        ),
        (
            "xgboost.json",
            files.XGBOOST_JSON.replace(b'num_class":"3', b'num_class":"99999999999'),
            "99999999999 classes",
        ),
        ("model.txt", files.LIGHTGBM.replace(b"idx=3", b"idx=99999999999999999999"), "is damaged"),
        ("model.txt", files.LIGHTGBM.replace(b"idx=3", b"idx=-9"), "it has -8 features"),
        (
            "model.txt",
            files.LIGHTGBM.replace(b"tree_sizes=", b"tree_sizes=99999999999999999999 "),
            "does not hold the 2 trees",
        ),
        (
            "model.txt",
            files.LIGHTGBM.replace(b"tree_sizes=", b"tree_sizes=-9999 "),
            "does not hold the 2 trees",
        ),
        (
            "model.txt",
            files.LIGHTGBM + b"\nparameters:\n[linear_tree: 1]\n",
            "was trained with linear_tree=true, and treelite computes no linear trees",
        ),
        (
            "model.txt",
            files.LIGHTGBM + b"\nparameters:\n[use_missing: 1]\n[zero_as_missing: 1]\n",
            "was trained with zero_as_missing=true, and treelite takes a zero for a value",
        ),
        ("xgboost.model", files.XGBOOST_UBJ, "write the parameter model_type = xgboost_ubj"),
        ("xgboost.ubj", files.XGBOOST_JSON, "write the parameter model_type = xgboost_json"),
        ("checkpoint.tl", b"", "is cut off or damaged"),
    ],
)
def test_a_file_that_is_not_whole_or_another_one_is_a_problem(
    tmp_path: pathlib.Path, filename: str, data: bytes, said: str
) -> None:
    found = problems(resolved(tmp_path, filename, data=data))
    assert found.startswith("unable to load model 'm': ")
    assert said in found


def test_a_number_that_is_not_an_integer_is_left_to_treelite(tmp_path: pathlib.Path) -> None:
    data = files.XGBOOST_JSON.replace(b'"num_feature":"4"', b'"num_feature":Infinity')
    path = write(tmp_path, "xgboost.json", data=data) / "1" / "xgboost.json"
    assert described.read(path, "xgboost_json") is None


@pytest.mark.parametrize("padding", [1 << 17, 1 << 21])
def test_a_large_file_whose_end_says_nothing_is_left_to_treelite(
    tmp_path: pathlib.Path, padding: int
) -> None:
    data = files.XGBOOST_JSON[:-1] + b',"z":"' + b"z" * padding + b'"}'
    path = write(tmp_path, "xgboost.json", data=data) / "1" / "xgboost.json"
    expected = SAYS["xgboost.json"] if padding < 1 << 20 else None
    assert described.read(path, "xgboost_json") == expected


@pytest.mark.parametrize("number", range(28))
def test_no_array_of_a_checkpoint_goes_beyond_the_file(
    tmp_path: pathlib.Path, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = files.array
    made: list[bytes] = []

    def array(form: str, *values: float) -> bytes:
        made.append(whole(form, *values))
        huge = (1 << 60).to_bytes(8, "little")
        return made[-1] if len(made) != number + 1 else huge + made[-1][8:]

    monkeypatch.setattr(files, "array", array)
    path = tmp_path / "checkpoint.tl"
    path.write_bytes(files.checkpoint())
    assert len(made) == 28
    with pytest.raises(ModelFileError, match="is cut off or damaged"):
        checkpoint.read(path)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (TENSORS % "2", "dims"),
        (TENSORS.replace("dims: 4", "dims: 5") % "1", "input__0"),
        (TENSORS.replace("input__0", "features") % "1", "unexpected inference input 'features'"),
        (TENSORS.replace("TYPE_FP32", "TYPE_FP64") % "1", "TYPE_FP64"),
        (
            TENSORS % "1" + ' output { name: "treeshap_output" data_type: TYPE_FP32 dims: 4 }',
            "tensor 'treeshap_output': config says dims [4] after the batch dimension, the graph says [?, 5]",
        ),
        (
            'output { name: "treeshap_output" data_type: TYPE_FP32 dims: 5 }',
            "its config lists the output 'treeshap_output' without 'output__0': list both",
        ),
        (parameter("model_type", "catboost"), "catboost not recognized as a valid serialization"),
        (parameter("is_classifier", "yes"), "Expected 'true' or 'false' for parameter 'is_class"),
        (parameter("threshold", "half"), "expected the parameter 'threshold' to be a number such"),
        (parameter("threshold", "nan"), "expected the parameter 'threshold' to be a number such"),
        (
            parameter("naiad.probabilities", "own"),
            "expected the parameter 'naiad.probabilities' to",
        ),
        (parameter("cpu_nthread", "all"), "expected the parameter 'cpu_nthread' to be a number of"),
    ],
)
def test_contradictions_are_problems(tmp_path: pathlib.Path, config: str, said: str) -> None:
    found = resolved(tmp_path, "model.txt", f'backend: "fil" max_batch_size: 8 {config}')
    assert said in problems(found)


@pytest.mark.parametrize("step", ["completion.complete", "preflight.check_file"])
def test_an_unknown_fault_of_a_backend_is_a_problem_of_its_model(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def fails(*_: object) -> None:
        raise IndexError("out of range")

    monkeypatch.setattr(f"naiad.backends.fil.{step}", fails)
    found = resolved(tmp_path, "model.txt", f'backend: "fil" {TENSORS % "1"}')
    assert [each.message for each in found.problems] == [
        "unable to load model 'm': IndexError: out of range"
    ]


@pytest.mark.parametrize(
    ("filename", "dims", "batch"),
    [("model.txt", "5", 8), ("checkpoint.tl", "[ 3, 5 ]", 8), ("xgboost.json", "[ -1, 3, 5 ]", 0)],
)
def test_shapley_values_have_a_column_for_each_feature_and_one_more(
    tmp_path: pathlib.Path, filename: str, dims: str, batch: int
) -> None:
    first = "" if batch else "-1, "
    tensors = (
        f'input {{ name: "input__0" data_type: TYPE_FP32 dims: [ {first}4 ] }} '
        f'output {{ name: "treeshap_output" data_type: TYPE_FP32 dims: {dims} }} '
        f'output {{ name: "output__0" data_type: TYPE_FP32 dims: [ {first}1 ] }}'
    )
    found = resolved(tmp_path, filename, f'backend: "fil" max_batch_size: {batch} {tensors}')
    assert found.config is not None, found.problems


def test_several_targets_are_refused(tmp_path: pathlib.Path) -> None:
    data = files.XGBOOST_JSON.replace(b'"num_target":"1"', b'"num_target":"2"')
    assert "Multi-target model not supported: it has 2 targets" in problems(
        resolved(tmp_path, "xgboost.json", data=data)
    )


def test_parameters_without_effect_are_noted(tmp_path: pathlib.Path) -> None:
    text = "".join(parameter(key, "1") for key in WITHOUT_EFFECT)
    notes = resolved(tmp_path, "model.txt", f'backend: "fil" {text}').notes
    assert [each for each in notes if each.startswith("parameters")] == [
        f"parameters {key} has no effect: {why}" for key, why in WITHOUT_EFFECT.items()
    ]


@pytest.mark.parametrize("gpus", [(), (0,)], ids=["without a GPU", "with one"])
def test_instances_on_gpus_run_on_the_cpu_only_if_asked(
    tmp_path: pathlib.Path, gpus: tuple[int, ...]
) -> None:
    model = write(tmp_path, "model.txt", 'backend: "fil" instance_group { kind: KIND_GPU }')
    refused = problems(resolve(model, backends=Catalog(), gpus=gpus))
    assert "has kind KIND_GPU, which backend 'fil' does not support, because treelite" in refused
    assert "write kind: KIND_CPU or KIND_MODEL, or start with --gpu-fallback=cpu" in refused
    found = resolve(
        model, backends=Catalog(), gpus=gpus, features=ServerFeatures(gpu_fallback=True)
    )
    assert found.config is not None, found.problems
    assert [each.kind for each in found.config.instance_groups] == [InstanceKind.CPU]
    assert found.remark.startswith("treelite computes trees on the CPU: what asks for one")


def test_parameters_become_settings() -> None:
    assert settings_of("m", {}) == Settings(model_type="xgboost")
    assert settings_of("m", {}, "forest.tl") == Settings(model_type="treelite_checkpoint")
    assert settings_of(
        "m",
        {
            "model_type": "lightgbm",
            "is_classifier": "true",
            "output_class": "false",
            "predict_proba": "True",
            "threshold": "0.25",
            "cpu_nthread": "3",
            "xgboost_allow_unknown_field": "true",
        },
    ) == Settings(
        model_type="lightgbm",
        classifier=False,
        predict_proba=True,
        threshold=0.25,
        threads=3,
        unknown_fields=True,
    )
    with pytest.raises(InferenceError):
        settings_of("m", {"output_class": "maybe"})
