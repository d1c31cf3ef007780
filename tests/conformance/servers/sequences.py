"""The models of the set-up of sequences: one Python model under many configs, and configs that are refused."""

from pathlib import Path

from tests.conformance.servers.catalogue import Model, python_model, tensor, write

_ONE = "instance_group [{ kind: KIND_CPU count: 1 }]"
_TWO = "instance_group [{ kind: KIND_CPU count: 2 }]"
_VALUE = tensor("VALUE", "INT32", "[ 1 ]")
_DELAY = tensor("DELAY_MS", "INT32", "[ 1 ]")
_REPORT = tensor("REPORT", "STRING", "[ 1 ]")
LONG_IDLE = 60_000_000
SHORT_IDLE = 300_000

_INT32 = "int32_false_true: [ 0, 1 ]"


def control(name: str, kind: str, values: str) -> str:
    """A control input of a config."""
    return f'{{ name: "{name}" control [{{ kind: CONTROL_SEQUENCE_{kind} {values} }}] }}'


def controls(
    corrid: str = "UINT64", start: str = _INT32, end: str = _INT32, ready: str = _INT32
) -> str:
    """All four control inputs; `corrid` is the datatype of the correlation ID, "" for none."""
    found = [
        control("START", "START", start),
        control("END", "END", end),
        control("READY", "READY", ready),
    ]
    if corrid:
        found.append(control("CORRID", "CORRID", f"data_type: TYPE_{corrid}"))
    return f"control_input [{', '.join(found)}]"


def sequences(
    text: str, *, batch: int = 4, idle_us: int = LONG_IDLE, instances: str = _ONE, more: str = ""
) -> Model:
    """A model with the sequence batcher."""
    idle = f"max_sequence_idle_microseconds: {idle_us}" if idle_us else ""
    config = f"sequence_batching {{ {text} {idle} }}\n{instances}\n{more}"
    return Model(python_model(f"{_VALUE}, {_DELAY}", _REPORT, config, batch=batch), "sequence")


_OLDEST = "oldest { max_candidate_sequences: 4 }"
_DECOUPLED = "model_transaction_policy { decoupled: true }"

GOOD: dict[str, Model] = {
    "direct": sequences(f"direct {{ }} {controls()}"),
    "oldest": sequences(f"{_OLDEST} {controls()}"),
    "unbatched": sequences(controls(), batch=0),
    "unbatched_oldest": sequences(f"{_OLDEST} {controls()}", batch=0),
    "no_corrid": sequences(controls("")),
    "no_controls": sequences(""),
    "no_strategy": sequences(controls(), idle_us=0),
    "fp32_controls": sequences(
        controls(start="fp32_false_true: [ 0.5, 1.5 ]", end="fp32_false_true: [ -1, 1 ]", ready="fp32_false_true: [ 0, 2 ]")
    ),
    "bool_controls": sequences(
        controls(*["INT64", *["bool_false_true: [ false, true ]"] * 3])
    ),
    "reversed_controls": sequences(controls("INT64", end="int32_false_true: [ 7, -7 ]")),
    "uint32": sequences(controls("UINT32")),
    "int32": sequences(controls("INT32")),
    "int64": sequences(controls("INT64")),
    "texts": sequences(controls("STRING"), batch=0),
    "other_texts": sequences(controls("STRING"), batch=0),
    "batched_texts": sequences(controls("STRING")),
    "one_slot": sequences(controls(), batch=1),
    "one_candidate": sequences(f"oldest {{ max_candidate_sequences: 1 }} {controls()}"),
    "short": sequences(controls(), batch=1, idle_us=SHORT_IDLE),
    "two": sequences(f"{_OLDEST} {controls()}", instances=_TWO),
    "iterative": sequences(f"{_OLDEST} iterative_sequence: true {controls('')}"),
    "streams": sequences(f"{_OLDEST} {controls()}", more=_DECOUPLED),
    "preferred": sequences(
        f"oldest {{ max_candidate_sequences: 4 preferred_batch_size: [ 2 ] max_queue_delay_microseconds: 1500000 }} {controls()}"
    ),
    "delayed": sequences(
        f"direct {{ max_queue_delay_microseconds: 1500000 minimum_slot_utilization: 0.5 }} {controls()}"
    ),
}  # fmt: skip

_START = control("S", "START", _INT32)


def _refused(text: str, *, more: str = "") -> Model:
    return sequences(text, more=more)


REFUSED: dict[str, tuple[str, Model]] = {
    "s_no_name": (
        "sequence batching control tensor must have a name for s_no_name",
        _refused(f"control_input [{control('', 'START', _INT32)}]"),
    ),
    "s_name_twice": (
        "sequence batching control tensor 'S' is specified for multiple control kinds for s_name_twice",
        _refused(f"control_input [{_START}, {control('S', 'END', _INT32)}]"),
    ),
    "s_kind_twice": (
        "sequence batching specifies multiple CONTROL_SEQUENCE_START tensors for s_kind_twice",
        _refused(f"control_input [{_START}, {control('T', 'START', _INT32)}]"),
    ),
    "s_no_values": (
        (
            "sequence batching must specify either 'int32_false_true', 'fp32_false_true' or 'bool_false_true' for "
            "CONTROL_SEQUENCE_START for s_no_values"
        ),
        _refused(f"control_input [{control('S', 'START', '')}]"),
    ),
    "s_two_types": (
        (
            "sequence batching specifies more than one from 'int32_false_true', 'fp32_false_true' and 'bool_false_true' for "
            "CONTROL_SEQUENCE_END for s_two_types"
        ),
        _refused(f"control_input [{control('S', 'END', _INT32 + ' fp32_false_true: [ 0, 1 ]')}]"),
    ),
    "s_one_value": (
        "sequence batching control 'int32_false_true' must have exactly 2 entries for CONTROL_SEQUENCE_READY for s_one_value",
        _refused(f"control_input [{control('S', 'READY', 'int32_false_true: [ 1 ]')}]"),
    ),
    "s_three_values": (
        "sequence batching control 'fp32_false_true' must have exactly 2 entries for CONTROL_SEQUENCE_START for s_three_values",
        _refused(f"control_input [{control('S', 'START', 'fp32_false_true: [ 0, 1, 2 ]')}]"),
    ),
    "s_id_values": (
        (
            "sequence batching must not specify either 'int32_false_true', 'fp32_false_true' or 'bool_false_true' for "
            "CONTROL_SEQUENCE_CORRID for s_id_values"
        ),
        _refused(f"control_input [{control('S', 'CORRID', 'data_type: TYPE_UINT64 ' + _INT32)}]"),
    ),
    "s_id_type": (
        (
            "unexpected data type for control CONTROL_SEQUENCE_CORRID for s_id_type. Allowed data types are TYPE_UINT64, TYPE_INT64, "
            "TYPE_UINT32, TYPE_INT32 and TYPE_STRING"
        ),
        _refused(f"control_input [{control('S', 'CORRID', 'data_type: TYPE_FP32')}]"),
    ),
    "s_preferred": (
        "sequence batching preferred batch size must be <= max batch size for s_preferred",
        _refused("oldest { preferred_batch_size: [ 8 ] }"),
    ),
    "s_preferred_zero": (
        "sequence batching preferred batch size must be positive for s_preferred_zero",
        _refused("oldest { preferred_batch_size: [ 0 ] }"),
    ),
    "s_utilization": (
        "sequence batching minimum slot utilization must be in range (0.0, 1.0] for s_utilization",
        _refused("direct { minimum_slot_utilization: 1.5 }"),
    ),
    "s_cache": (
        "Response Cache does not currently support model s_cache with sequence batching scheduler",
        _refused("", more="response_cache { enable: true }"),
    ),
}


def put(folder: Path) -> list[Path]:
    """Writes all of them."""
    repository = write(folder / "models", GOOD)
    return [write(repository, {name: model for name, (_, model) in REFUSED.items()})]
