"""Models that must not load, each with the fragment of the reason that a row names (empty where none is named)."""

from dataclasses import dataclass

from tests.conformance.servers.catalogue import Model, python_model, tensor

_IN = tensor("IN", "FP32", "[ 4 ]")
_OUT = tensor("OUT", "FP32", "[ 4 ]")


@dataclass(frozen=True)
class Broken:
    """A model that fails to load.

    Attributes:
        model: what is in its folder.
        says: a fragment of the reason in the index.
        rows: the rows it shows.
    """

    model: Model
    says: str
    rows: tuple[str, ...]


def _config(
    says: str, rows: str, more: str = "", *, batch: int = 4, inputs: str = _IN, outputs: str = _OUT
) -> Broken:
    return Broken(
        Model(python_model(inputs, outputs, more, batch), "passthrough"), says, tuple(rows.split())
    )


def _source(
    says: str, rows: str, source: str | None, *, config: str | None = None, text: str = ""
) -> Broken:
    files = {"1/model.py": text} if text else {}
    return Broken(
        Model(python_model(_IN, _OUT) if config is None else config, source, files=files),
        says,
        tuple(rows.split()),
    )


def _complete(says: str, rows: str, how: str, more: str = "") -> Broken:
    config = f'backend: "python"\n{more}\nparameters {{ key: "how" value {{ string_value: "{how}" }} }}\n'
    return Broken(Model(config, "complete"), says, tuple(rows.split()))


def _state(says: str, rows: str, initial: str, files: dict[str, str] | None = None) -> Broken:
    """A sequence whose state has such an initial state."""
    more = (
        "sequence_batching { state { "
        'input_name: "STATE_IN" output_name: "STATE_OUT" data_type: TYPE_FP32 dims: [ 2, -1 ] '
        f"{initial} }} }}"
    )
    config = python_model(_IN, _OUT, more, 4)
    return Broken(Model(config, "passthrough", files=files or {}), says, tuple(rows.split()))


_INITIAL = 'initial_state { name: "i" data_type: TYPE_FP32 dims: [ 2, 3 ] zero_data: true }'
_OF_FILE = _INITIAL.replace("zero_data: true", 'data_file: "start"')

BROKEN: dict[str, Broken] = {
    "broken_state_twice": _state(
        "initial_state field for state input 'STATE_IN' must contain exactly one or zero element. Found '2' elements.",
        "13.21",
        f"{_INITIAL} {_INITIAL}",
    ),
    "broken_state_type": _state(
        "The data type used for 'initial_state' field of state 'STATE_IN' does not match the state data type.",
        "13.21",
        _INITIAL.replace("FP32", "INT32"),
    ),
    "broken_state_name": _state(
        "Field 'name' must be set when using initial_state for state input 'STATE_IN'.",
        "13.21",
        _INITIAL.replace('name: "i"', ""),
    ),
    "broken_state_rank": _state(
        "Number of dimensions in 'initial_state' doesn't match the size of 'state' dimensions for state input 'STATE_IN'. 1 != 2",
        "13.21",
        _INITIAL.replace("[ 2, 3 ]", "[ 2 ]"),
    ),
    "broken_state_variable": _state(
        "'initial_state' field for state input name 'STATE_IN' contains variable dimensions.",
        "13.21",
        _INITIAL.replace("[ 2, 3 ]", "[ 2, -1 ]"),
    ),
    "broken_state_dims": _state(
        "'initial_state' dim for input name 'STATE_IN' doesn't match 'state' dim description. 4 != 2",
        "13.21",
        _INITIAL.replace("[ 2, 3 ]", "[ 4, 3 ]"),
    ),
    "broken_state_empty": _state(
        "initial_state setting expects state'STATE_IN' to have state_data set",
        "13.21",
        _INITIAL.replace("zero_data: true", ""),
    ),
    "broken_state_file": _state(
        "failed to open text file for read",
        "13.21 11.28",
        _OF_FILE,
    ),
    "broken_state_short": _state(
        "initial_state setting expects 24 bytes, but the data provided from start",
        "13.21 11.28",
        _OF_FILE,
        {"initial_state/start": "too short"},
    ),
    "broken_unknown_field": _config("", "11.1", "max_batchsize: 3"),
    "broken_batch_source": _config(
        "unknown source input name 'NO'",
        "11.18 11.19",
        'batch_input { kind: BATCH_ELEMENT_COUNT target_name: "B" data_type: TYPE_FP32 source_input: "NO" }',
    ),
    "broken_batch_sources": _config(
        "batch input kind 'BATCH_ITEM_SHAPE' expects 1 source input, got 2",
        "11.18 11.19",
        'batch_input { kind: BATCH_ITEM_SHAPE target_name: "B" data_type: TYPE_FP32 source_input: [ "IN", "IN" ] }',
    ),
    "broken_batch_type": _config(
        "batch input data type must be TYPE_INT32 or TYPE_FP32",
        "11.18 11.19",
        'batch_input { target_name: "B" data_type: TYPE_INT64 source_input: "IN" }',
    ),
    "broken_batch_target": _config(
        "unknown target output name 'NO'",
        "11.20",
        'batch_output { target_name: "NO" source_input: "IN" }',
    ),
    "broken_batch_target_twice": _config(
        "target output name 'OUT' can only be specified once",
        "11.20",
        'batch_output { target_name: [ "OUT", "OUT" ] source_input: "IN" }',
    ),
    "broken_batch_output_source": _config(
        "batch output kind 'BATCH_SCATTER_WITH_INPUT_SHAPE' expects 1 source input, got 0",
        "11.20",
        'batch_output { target_name: "OUT" }',
    ),
    "broken_strategy_path": _config(
        "Batching library path",
        "12.18",
        'dynamic_batching { } parameters { key: "TRITON_BATCH_STRATEGY_PATH" value { string_value: "/nowhere/x.so" } }',
    ),
    "broken_strategy_with_sequences": _config(
        "TRITON_BATCH_STRATEGY_PATH cannot be specified with sequence batcher",
        "12.18",
        'sequence_batching { } parameters { key: "TRITON_BATCH_STRATEGY_PATH" value { string_value: "x.so" } }',
    ),
    "broken_negative_batch": _config("'max_batch_size' must be non-negative", "11.9", batch=-1),
    "broken_name": _config(
        "unexpected directory name 'broken_name' for model 'another', directory name must equal model name",
        "7.20",
        'name: "another"',
    ),
    "broken_no_input_name": _config(
        "must specify 'name'", "11.10", inputs="{ data_type: TYPE_FP32 dims: [ 1 ] }"
    ),
    "broken_no_data_type": _config(
        "must specify 'data_type'", "11.10", inputs='{ name: "IN" dims: [ 1 ] }'
    ),
    "broken_no_dims": _config(
        "must specify 'dims'", "11.10", inputs='{ name: "IN" data_type: TYPE_FP32 }'
    ),
    "broken_zero_dim": _config("", "11.10", inputs=tensor("IN", "FP32", "[ 0 ]")),
    "broken_output_dims": _config(
        "must specify 'dims'", "11.17", outputs='{ name: "OUT" data_type: TYPE_FP32 }'
    ),
    "broken_format": _config(
        "", "11.11", inputs=tensor("IN", "FP32", "[ 4 ]", "format: FORMAT_NHWC")
    ),
    "broken_reshape_volume": _config(
        "", "11.12", inputs=tensor("IN", "FP32", "[ 4 ]", "reshape { shape: [ 3 ] }")
    ),
    "broken_reshape_variables": _config(
        "", "11.12", inputs=tensor("IN", "FP32", "[ -1, 4 ]", "reshape { shape: [ 4 ] }")
    ),
    "broken_reshape_empty": _config(
        "", "11.12", batch=0, inputs=tensor("IN", "FP32", "[ 1 ]", "reshape { shape: [ ] }")
    ),
    "broken_shape_tensor": _config(
        "", "11.13", inputs=tensor("IN", "INT32", "[ 1 ]", "is_shape_tensor: true")
    ),
    "broken_preferred_high": _config(
        "", "11.23", "dynamic_batching { preferred_batch_size: [ 5 ] }"
    ),
    "broken_preferred_zero": _config(
        "", "11.23", "dynamic_batching { preferred_batch_size: [ 0 ] }"
    ),
    "broken_default_priority": _config(
        "", "11.23", "dynamic_batching { priority_levels: 2 default_priority_level: 3 }"
    ),
    "broken_no_default_priority": _config("", "11.23", "dynamic_batching { priority_levels: 2 }"),
    "broken_priority_key": _config(
        "",
        "11.23",
        "dynamic_batching { priority_levels: 2 default_priority_level: 1 "
        "priority_queue_policy { key: 3 value { max_queue_size: 1 } } }",
    ),
    "broken_ordering_priorities": _config(
        "",
        "11.23",
        "dynamic_batching { preserve_ordering: true priority_levels: 2 default_priority_level: 1 }",
    ),
    "broken_ordering_delay": _config(
        "",
        "11.23",
        "dynamic_batching { preserve_ordering: true "
        "default_queue_policy { timeout_action: DELAY default_timeout_microseconds: 5 } }",
    ),
    "broken_cpu_gpus": _config("", "11.33", "instance_group [{ kind: KIND_CPU gpus: [ 0 ] }]"),
    "broken_gpu_absent": _config("", "11.33", "instance_group [{ kind: KIND_GPU gpus: [ 7 ] }]"),
    "broken_model_kind_gpus": _config(
        "", "11.33", "instance_group [{ kind: KIND_MODEL gpus: [ 0 ] }]"
    ),
    "broken_two_schedulers": _config("", "11.47", "dynamic_batching { }\nsequence_batching { }"),
    "broken_metric_control": _config(
        "", "11.1", "model_metrics { metric_control [ { bogus: 1 } ] }"
    ),
    "broken_platform_pair": _source(
        "unexpected 'platform' and 'backend' pair",
        "11.3",
        "passthrough",
        config='platform: "tensorrt_plan"\nbackend: "onnxruntime"\nmax_batch_size: 0\n'
        f"input [{_IN}]\noutput [{_OUT}]\n",
    ),
    "broken_no_backend": Broken(
        Model(f"max_batch_size: 0\ninput [{_IN}]\noutput [{_OUT}]\n", None),
        "must specify 'platform' or 'backend'",
        ("11.3",),
    ),
    "broken_unknown_backend": _source(
        "unable to find backend library for backend 'nonesuch'",
        "11.53",
        "passthrough",
        config=f'backend: "nonesuch"\ninput [{_IN}]\noutput [{_OUT}]\n',
    ),
    "broken_bare": Broken(Model(None, "complete"), "", ("11.48",)),
    "broken_no_version": Broken(
        Model(python_model(_IN, _OUT), "passthrough", versions=("next",)),
        "at least one version must be available under the version policy of model 'broken_no_version'",
        ("7.40", "7.39"),
    ),
    "broken_specific": Broken(
        Model(
            python_model(_IN, _OUT, "version_policy { specific { versions: [ 9 ] } }"),
            "passthrough",
        ),
        "at least one version must be available under the version policy of model 'broken_specific'",
        ("7.40", "11.8"),
    ),
    "broken_initialize": _source("no weights on purpose", "15.3", "raising"),
    "broken_no_class": _source("", "15.1", None, text="class SomethingElse:\n    pass\n"),
    "broken_no_execute": _source("", "15.1", None, text="class TritonPythonModel:\n    pass\n"),
    "broken_syntax": _source("SyntaxError", "15.1", None, text="def broken(:\n"),
    "broken_import": _source(
        "no_such_module_here", "15.1", None, text="import no_such_module_here\n"
    ),
}

COMPLETING: dict[str, Broken] = {
    "broken_complete_return": _complete("", "15.27", "wrong-return"),
    "broken_complete_raise": _complete("completion went wrong on purpose", "15.27", "raise"),
    "broken_complete_conflict": _complete(
        "", "15.27", "conflict", 'input [{ name: "IN" data_type: TYPE_FP32 dims: [ 3 ] }]'
    ),
    "broken_complete_name": _complete("", "15.27", "no-name"),
}
