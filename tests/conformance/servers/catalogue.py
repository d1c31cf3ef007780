"""The models that both servers load: a configuration, a source from `models/`, and versions, each written by name.

`write` lays them out as a Triton repository. Good and broken models share one repository, since one broken model must
leave the others serving; broken ones are named `broken_*`.
"""

import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

_SOURCES = Path(__file__).parents[1] / "models"

_TYPES = (
    "BOOL UINT8 UINT16 UINT32 UINT64 INT8 INT16 INT32 INT64 FP16 FP32 FP64 STRING".split()  # noqa: SIM905 (a row of words)
)


@dataclass(frozen=True)
class Model:
    """One model folder.

    Attributes:
        config: the text of config.pbtxt; None for no such file.
        source: the name of a file in `models/`, placed as model.py into each version; None for empty versions.
        versions: names of the version folders.
        files: further files, path within the model folder -> text.
    """

    config: str | None
    source: str | None
    versions: tuple[str, ...] = ("1",)
    files: Mapping[str, str] = field(default_factory=dict)


def tensor(name: str, kind: str, dims: str, more: str = "") -> str:
    """One tensor of a config, as text."""
    return f'{{ name: "{name}" data_type: TYPE_{kind} dims: {dims} {more} }}'


def python_model(inputs: str, outputs: str, more: str = "", batch: int = 0) -> str:
    """A config of the python backend from the texts of its parts."""
    return f'backend: "python"\nmax_batch_size: {batch}\ninput [{inputs}]\noutput [{outputs}]\n{more}\n'


_IN4 = tensor("IN", "FP32", "[ 4 ]")
_OUT4 = tensor("OUT", "FP32", "[ 4 ]")
_DELAY = tensor("DELAY_MS", "INT32", "[ 1 ]")
_REPORT = tensor("REPORT", "STRING", "[ 1 ]")
_ONE = "instance_group [{ kind: KIND_CPU count: 1 }]"

_MIXED = """
name: "config_mixed"
version_policy { all { } }
parameters { key: "greeting" value { string_value: "hello \\"you\\"" } }
metric_tags { key: "team" value: "blue" }
optimization { priority: PRIORITY_MAX input_pinned_memory { enable: false } }
dynamic_batching {
  preferred_batch_size: [ 2, 4 ]
  max_queue_delay_microseconds: 100
  priority_levels: 2
  default_priority_level: 2
  default_queue_policy { timeout_action: DELAY default_timeout_microseconds: 1000 allow_timeout_override: true max_queue_size: 10 }
  priority_queue_policy { key: 1 value { timeout_action: REJECT default_timeout_microseconds: 5000000000 } }
}
instance_group [{ count: 1 kind: KIND_CPU }, {
  name: "named"
  count: 2
  rate_limiter { resources [{ name: "R" count: 1 }] priority: 2 }
  host_policy: "none"
  secondary_devices [{ kind: KIND_NVDLA device_id: 0 }]
}]
response_cache { enable: true }
cc_model_filenames { key: "7.5" value: "none.py" }
model_warmup { name: "none" }
"""

_LEVELS = """
dynamic_batching {
  priority_levels: 4
  default_priority_level: 2
  default_queue_policy { max_queue_size: 2 }
  priority_queue_policy { key: 1 value { timeout_action: REJECT default_timeout_microseconds: 9000000 allow_timeout_override: true } }
  priority_queue_policy { key: 3 value { timeout_action: DELAY default_timeout_microseconds: 9000000 allow_timeout_override: true } }
}
"""

GOOD: dict[str, Model] = {
    "identity": Model(python_model(_IN4, _OUT4), "passthrough"),
    "batched": Model(python_model(_IN4, _OUT4, batch=4), "passthrough"),
    "decoupled": Model(
        python_model(_IN4, _OUT4, "model_transaction_policy { decoupled: true }"), "passthrough"
    ),
    "two": Model(
        python_model(
            f"{tensor('IN0', 'INT32', '[ 2 ]')}, {tensor('IN1', 'FP32', '[ -1 ]')}",
            f"{tensor('OUT0', 'INT32', '[ 2 ]')}, {tensor('OUT1', 'FP32', '[ -1 ]')}",
            batch=4,
        ),
        "passthrough",
    ),
    "types": Model(
        python_model(
            ", ".join(tensor(f"IN_{t}", t, "[ -1 ]", "optional: true") for t in _TYPES),
            ", ".join(tensor(f"OUT_{t}", t, "[ -1 ]") for t in _TYPES),
        ),
        "passthrough",
    ),
    "words": Model(
        python_model(tensor("IN", "STRING", "[ -1 ]"), tensor("OUT", "STRING", "[ -1 ]"), batch=4),
        "passthrough",
    ),
    "words_one": Model(
        python_model(tensor("IN", "STRING", "[ 1 ]"), tensor("OUT", "STRING", "[ 1 ]")),
        "passthrough",
    ),
    "matrix": Model(
        python_model(tensor("IN", "FP32", "[ -1, 2 ]"), tensor("OUT", "FP32", "[ -1, 2 ]")),
        "passthrough",
    ),
    "wild": Model(
        python_model(tensor("IN", "FP32", "[ -1, -1 ]"), tensor("OUT", "FP32", "[ -1, -1 ]")),
        "passthrough",
    ),
    "reshaped": Model(
        python_model(
            tensor("IN", "FP32", "[ 4 ]", "reshape { shape: [ 2, 2 ] }"),
            tensor("OUT", "FP32", "[ 4 ]", "reshape { shape: [ 2, 2 ] }"),
            batch=4,
        ),
        "passthrough",
    ),
    "reshaped_seen": Model(
        python_model(
            f"{tensor('IN', 'FP32', '[ 4 ]', 'reshape { shape: [ 2, 2 ] }')}, "
            f"{tensor('ONE', 'INT32', '[ 1 ]', 'reshape { shape: [ ] }')}",
            _REPORT,
            batch=4,
        ),
        "describe",
    ),
    "optional": Model(
        python_model(
            f"{tensor('NEED', 'INT32', '[ 1 ]')}, {tensor('MAY', 'INT32', '[ 1 ]', 'optional: true')}, "
            f"{tensor('MIGHT', 'INT32', '[ 1 ]', 'optional: true')}",
            _REPORT,
        ),
        "describe",
    ),
    "report": Model(
        python_model(
            _DELAY,
            f"{_REPORT}, {tensor('SECOND', 'STRING', '[ 1 ]')}, {tensor('THIRD', 'STRING', '[ 1 ]')}",
        ),
        "describe",
    ),
    "misbehave": Model(
        python_model(
            tensor("MODE", "STRING", "[ 1 ]"),
            f"{tensor('OUT', 'FP32', '[ -1 ]')}, {tensor('OUT64', 'FP64', '[ -1 ]')}",
        ),
        "misbehave",
    ),
    "toolbox": Model(
        python_model(tensor("PROBE", "STRING", "[ 1 ]"), _REPORT),
        "toolbox",
        files={"beside_the_model.py": 'ANSWER = "found"\n'},
    ),
    "half": Model(
        python_model(tensor("IN", "FP16", "[ -1 ]"), tensor("OUT", "FP16", "[ -1 ]")), "passthrough"
    ),
    "complete": Model('backend: "python"\n', "complete"),
    "complete_nothing": Model(None, "complete"),
    "complete_batch": Model(
        'backend: "python"\nmax_batch_size: 2\ndynamic_batching { max_queue_delay_microseconds: 5 }',
        "complete",
    ),
    "plain": Model('backend: "python"\n', "complete"),
    "versions_default": Model(python_model(_DELAY, _REPORT), "describe", versions=("1", "3", "10")),
    "versions_all": Model(
        python_model(_DELAY, _REPORT, "version_policy { all { } }"), "describe", versions=("1", "2")
    ),
    "versions_latest": Model(
        python_model(_DELAY, _REPORT, "version_policy { latest { num_versions: 2 } }"),
        "describe",
        versions=("1", "2", "3", "04", "next", "configs"),
    ),
    "versions_specific": Model(
        python_model(_DELAY, _REPORT, "version_policy { specific { versions: [ 1, 7 ] } }"),
        "describe",
        versions=("1", "2"),
    ),
    "default_queue": Model(python_model(_DELAY, _REPORT, _ONE, batch=4), "describe"),
    "queue": Model(python_model(_DELAY, _REPORT, "dynamic_batching { }", batch=4), "describe"),
    "preferred": Model(
        python_model(
            _DELAY,
            _REPORT,
            "dynamic_batching { preferred_batch_size: [ 3 ] max_queue_delay_microseconds: 1500000 }",
            batch=8,
        ),
        "describe",
    ),
    "shapes": Model(
        python_model(
            f"{_DELAY}, {tensor('DATA', 'FP32', '[ -1 ]')}, {tensor('MAY', 'INT32', '[ 1 ]', 'optional: true')}",
            _REPORT,
            "dynamic_batching { }",
            batch=8,
        ),
        "describe",
    ),
    "ragged": Model(
        python_model(
            f"{_DELAY}, {tensor('DATA', 'FP32', '[ -1 ]', 'allow_ragged_batch: true')}, "
            f"{tensor('MAY', 'INT32', '[ 1 ]', 'optional: true')}",
            _REPORT,
            "dynamic_batching { }\n"
            'batch_input { kind: BATCH_ELEMENT_COUNT target_name: "N" data_type: TYPE_FP32 source_input: "DATA" }',
            batch=8,
        ),
        "describe",
    ),
    "ordered": Model(
        python_model(
            _DELAY,
            _REPORT,
            "dynamic_batching { preserve_ordering: true }\ninstance_group [{ kind: KIND_CPU count: 2 }]",
            batch=1,
        ),
        "describe",
    ),
    "priorities": Model(
        python_model(
            _DELAY,
            _REPORT,
            "dynamic_batching { priority_levels: 3 default_priority_level: 2 }",
            batch=1,
        ),
        "describe",
    ),
    "levels": Model(python_model(_DELAY, _REPORT, _LEVELS, batch=1), "describe"),
    "levels_batched": Model(python_model(_DELAY, _REPORT, _LEVELS, batch=3), "describe"),
    "queue_full": Model(
        python_model(
            _DELAY,
            _REPORT,
            "dynamic_batching { default_queue_policy { max_queue_size: 2 } }",
            batch=1,
        ),
        "describe",
    ),
    "queue_reject": Model(
        python_model(
            _DELAY,
            _REPORT,
            "dynamic_batching { default_queue_policy { timeout_action: REJECT "
            "default_timeout_microseconds: 2000000 allow_timeout_override: true } }",
            batch=1,
        ),
        "describe",
    ),
    "queue_delay": Model(
        python_model(
            _DELAY,
            _REPORT,
            "dynamic_batching { default_queue_policy { timeout_action: DELAY "
            "default_timeout_microseconds: 2000000 allow_timeout_override: true } }",
            batch=1,
        ),
        "describe",
    ),
    "unbatched_queue": Model(python_model(_DELAY, _REPORT, "dynamic_batching { }"), "describe"),
    "instances": Model(
        python_model(
            _DELAY,
            _REPORT,
            'instance_group [{ kind: KIND_CPU count: 1 }, { name: "named" kind: KIND_CPU count: 1 }]',
        ),
        "describe",
    ),
    "config_mixed": Model(
        python_model(
            f"{tensor('IN', 'FP32', '[ 3, 2, 2 ]', 'format: FORMAT_NCHW')}, {tensor('MAY', 'STRING', '[ -1 ]', 'optional: true')}",
            tensor(
                "OUT", "FP32", "[ 4 ]", 'reshape { shape: [ 2, 2 ] } label_filename: "labels.txt"'
            ),
            _MIXED,
            batch=4,
        ),
        "passthrough",
        files={"labels.txt": "a\nb\n"},
    ),
    "named_file": Model(
        python_model(_DELAY, _REPORT, 'default_model_filename: "other.py"'),
        None,
        files={"1/other.py": "describe"},
    ),
    "configured": Model(
        python_model(_IN4, _OUT4, batch=2),
        "passthrough",
        files={
            "configs/special.pbtxt": python_model(_IN4, _OUT4, batch=7),
            "configs/other.pbtxt": python_model(_IN4, _OUT4, batch=3),
        },
    ),
    "counted": Model(python_model(_DELAY, _REPORT, batch=4), "describe"),
    "counted_failures": Model(
        python_model(tensor("MODE", "STRING", "[ 1 ]"), tensor("OUT", "FP32", "[ -1 ]")),
        "misbehave",
    ),
    "finalizing": Model(python_model(_DELAY, tensor("OUT", "FP32", "[ 1 ]")), "finalizing"),
}

_SCRIPT = (
    f"{tensor('SCRIPT', 'STRING', '[ 1 ]')}, {tensor('PAIRS', 'INT32', '[ -1, 2 ]', 'optional: true')}, "
    f"{tensor('WIDE', 'FP32', '[ 2, -1 ]', 'optional: true')}"
)
_PLAYED = f"{tensor('OUT', 'INT32', '[ -1 ]')}, {tensor('SEEN', 'STRING', '[ 1 ]')}"
_DECOUPLED = "model_transaction_policy { decoupled: true }\n" + _ONE

STREAMING: dict[str, Model] = {
    "stream": Model(python_model(_SCRIPT, _PLAYED, _DECOUPLED), "streaming"),
    "counted_stream": Model(python_model(_SCRIPT, _PLAYED, _DECOUPLED), "streaming"),
    "batched_stream": Model(python_model(_SCRIPT, _PLAYED, _DECOUPLED, batch=4), "streaming"),
    "senders": Model(python_model(_SCRIPT, _PLAYED, _ONE), "streaming"),
    "clash": Model(
        python_model(tensor("parameters", "STRING", "[ 1 ]"), _PLAYED, _ONE), "streaming"
    ),
    "side_by_side": Model(
        python_model(_DELAY, tensor("OUT", "INT32", "[ 1 ]"), _DECOUPLED), "side_by_side"
    ),
    "async": Model(python_model(_DELAY, tensor("OUT", "INT32", "[ 1 ]"), _ONE), "side_by_side"),
}
"""Models that answer through senders, or in coroutines."""


def write(
    repository: Path, models: Mapping[str, Model], *, only: Iterable[str] | None = None
) -> Path:
    """Lays models out under `repository`, which is made. Gives `repository`.

    A file whose text is the name of a source is that source.
    """
    repository.mkdir(parents=True, exist_ok=True)
    for name in models if only is None else only:
        model = models[name]
        folder = repository / name
        folder.mkdir(parents=True)
        if model.config is not None:
            (folder / "config.pbtxt").write_text(model.config)
        for version in model.versions:
            (folder / version).mkdir()
            if model.source is not None:
                shutil.copy(_SOURCES / f"{model.source}.py", folder / version / "model.py")
        for path, text in model.files.items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            source = _SOURCES / f"{text}.py"
            target.write_text(
                source.read_text() if text.isidentifier() and source.exists() else text
            )
    return repository
