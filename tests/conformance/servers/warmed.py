"""The models of the set-up of warmups: models that tell what they were given, and models whose warmup fails."""

from pathlib import Path

from tests.conformance.servers.catalogue import Model, python_model, tensor, write

_ONE = "instance_group [{ kind: KIND_CPU count: 1 }]"
_REPORT = tensor("REPORT", "STRING", "[ 1 ]")
_X = tensor("X", "FP32", "[ -1 ]")
_S = tensor("S", "STRING", "[ 2 ]")


def given(name: str, kind: str, dims: str, how: str) -> str:
    """An input of a sample."""
    return f'inputs {{ key: "{name}" value {{ data_type: TYPE_{kind} dims: {dims} {how} }} }}'


def sample(*inputs: str, name: str = "first", more: str = "batch_size: 1") -> str:
    """A sample."""
    return f'model_warmup {{ name: "{name}" {more} {" ".join(inputs)} }}'


def _model(
    *samples: str,
    inputs: str = _X,
    batch: int = 4,
    more: str = _ONE,
    files: dict[str, str] | None = None,
) -> Model:
    config = python_model(inputs, _REPORT, "\n".join((more, *samples)), batch=batch)
    return Model(config, "remember", files=files or {})


ZERO = given("X", "FP32", "[ 3 ]", "zero_data: true")
_TWO = f"{_X}, {_S}"
_CONTROLS = """
sequence_batching {
  control_input [
    { name: "START" control { kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] } },
    { name: "READY" control { kind: CONTROL_SEQUENCE_READY fp32_false_true: [ 0, 1 ] } },
    { name: "CORRID" control { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_UINT64 } }
  ]
}
instance_group [{ kind: KIND_CPU count: 1 }]
"""
_STRING_ID = """
sequence_batching {
  control_input { name: "CORRID" control { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_STRING } }
}
instance_group [{ kind: KIND_CPU count: 1 }]
"""
_GIVEN_CONTROLS = (
    given("START", "INT32", "[ 1 ]", 'input_data_file: "one"'),
    given("READY", "FP32", "[ 1 ]", "zero_data: true"),
    given("CORRID", "UINT64", "[ 1 ]", "zero_data: true"),
)
_ONE_IN_A_FILE = {"warmup/one": "\x01\0\0\0"}
_MODE = tensor("MODE", "STRING", "[ 1 ]")
_STRINGS = "\x01\0\0\0a\x03\0\0\0bcd"

GOOD: dict[str, Model] = {
    "zeros": _model(sample(ZERO)),
    "random": _model(sample(given("X", "FP32", "[ 3 ]", "random_data: true"))),
    "counted": _model(sample(ZERO, more="batch_size: 1 count: 3")),
    "none": _model(sample(ZERO, more="batch_size: 0")),
    "several": _model(sample(ZERO, more="batch_size: 3")),
    "two_samples": _model(
        sample(ZERO), sample(given("X", "FP32", "[ 2 ]", "zero_data: true"), name="second", more="batch_size: 2 count: 2")
    ),
    "unbatched": _model(sample(ZERO), batch=0),
    "strings": _model(sample(ZERO, given("S", "STRING", "[ 2 ]", "zero_data: true")), inputs=_TWO),
    "random_strings": _model(sample(ZERO, given("S", "STRING", "[ 2 ]", "random_data: true")), inputs=_TWO),
    "file": _model(
        sample(given("X", "FP32", "[ 2 ]", 'input_data_file: "x"')), files={"warmup/x": "\0\0\0@\0\0@@"}
    ),
    "long_file": _model(
        sample(given("X", "FP32", "[ 1 ]", 'input_data_file: "x"')), files={"warmup/x": "\0\0\0@\0\0@@"}
    ),
    "file_of_strings": _model(
        sample(ZERO, given("S", "STRING", "[ 2 ]", 'input_data_file: "s"')), inputs=_TWO, files={"warmup/s": _STRINGS}
    ),
    "sequence": _model(sample(ZERO, *_GIVEN_CONTROLS, more="batch_size: 2"), more=_CONTROLS, files=_ONE_IN_A_FILE),
    "sequence_oldest": _model(
        sample(ZERO, *_GIVEN_CONTROLS), more=_CONTROLS.replace("{\n", "{ oldest { max_candidate_sequences: 4 }\n", 1), files=_ONE_IN_A_FILE
    ),
    "sequence_without_controls": _model(sample(ZERO), more=_CONTROLS),
    "sequence_of_other_controls": _model(
        sample(ZERO, given("START", "FP32", "[ 2 ]", "zero_data: true")), more=_CONTROLS
    ),
    "sequence_named_by_string_unbatched": _model(
        sample(ZERO, given("CORRID", "STRING", "[ 1 ]", 'input_data_file: "id"')),
        batch=0, more=_STRING_ID, files={"warmup/id": "\x02\0\0\0ab"},
    ),
    "instances": _model(sample(ZERO, more="batch_size: 2"), more="instance_group [{ kind: KIND_CPU count: 2 }]"),
}  # fmt: skip

REFUSED: dict[str, tuple[str, Model]] = {
    "w_missing_file": (
        "failed to open text file for read",
        _model(sample(given("X", "FP32", "[ 2 ]", 'input_data_file: "x"'))),
    ),
    "w_short_file": (
        "warmup setting expects 8 bytes, but the data provided from x",
        _model(sample(given("X", "FP32", "[ 2 ]", 'input_data_file: "x"')), files={"warmup/x": "abcd"}),
    ),
    "w_variable": (
        "warmup setting expects all variable-size dimensions are specified for input 'X'",
        _model(sample(given("X", "FP32", "[ -1 ]", "zero_data: true"))),
    ),
    "w_no_data": (
        "warmup setting expects input 'X' to have input_data_type set",
        _model(sample(given("X", "FP32", "[ 2 ]", ""))),
    ),
    "w_no_input": ("expected 1 inputs but got 0 inputs for model 'w_no_input'", _model(sample())),
    "w_raises": (
        "failed to run warmup sample 'first': ",
        _model(
            sample(given("MODE", "STRING", "[ 1 ]", 'input_data_file: "mode"')),
            inputs=_MODE,
            files={"warmup/mode": "\x05\0\0\0raise"},
        ),
    ),
    "w_error": (
        "an error on purpose",
        _model(
            sample(given("MODE", "STRING", "[ 1 ]", 'input_data_file: "mode"'), name="bad"),
            inputs=_MODE,
            files={"warmup/mode": "\x05\0\0\0error"},
        ),
    ),
}  # fmt: skip


def put(folder: Path) -> list[Path]:
    """Writes the repository."""
    models = {**GOOD, **{name: model for name, (_, model) in REFUSED.items()}}
    return [write(folder / "models", models)]
