"""The other models that Triton's own tests serve, in small, for ONNX, OpenVINO, TensorFlow and TorchScript: identities, reshapes, ragged batches, sequences, implicit states.

Triton makes them by qa/common/gen_qa_identity_models.py, gen_qa_reshape_models.py, gen_qa_ragged_models.py, gen_qa_sequence_models.py, gen_qa_dyna_sequence_models.py,
gen_qa_implicit_models.py and gen_qa_dyna_sequence_implicit_models.py. A framework's test file makes the model of each and runs it itself; what a model computes is its `Kind`.
"""

import collections.abc
import concurrent.futures
import dataclasses
import functools
import pathlib
import re
import types
from typing import Any

import numpy as np
import tritonclient.grpc
import tritonclient.http

from tests.frameworks.add_sub import numpy_dtype
from tests.reference.process import ServerProcess
from tests.support.check_and_serve import checked

Run = collections.abc.Callable[..., Any]
"""The framework itself: inputs by name to the output, as numpy arrays."""

_START, _READY, _END = "CONTROL_SEQUENCE_START", "CONTROL_SEQUENCE_READY", "CONTROL_SEQUENCE_END"


def _control(name: str, kind: str) -> str:
    return (
        f'control_input {{ name: "{name}" control {{ kind: {kind} fp32_false_true: [ 0, 1 ] }} }}\n'
    )


_SEVERAL = "oldest { max_candidate_sequences: 4 }"
_CORRID = 'control_input { name: "CORRID" control { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_INT32 } }\n'
_DIRECT = f"sequence_batching {{ max_sequence_idle_microseconds: 600000000 {_control('START', _START)} {_control('READY', _READY)} }}\n"
_OLDEST = (
    f"sequence_batching {{ max_sequence_idle_microseconds: 600000000 {_SEVERAL}\n{_control('START', _START)} "
    f"{_control('READY', _READY)} {_control('END', _END)} {_CORRID} }}\n"
)
_STATE = (
    "sequence_batching { max_sequence_idle_microseconds: 600000000\n"
    'state { input_name: "INPUT_STATE" output_name: "OUTPUT_STATE" data_type: TYPE_FP32 dims: 1 } }\n'
)
_GROWING_STATE = _STATE.replace("dims: 1", "dims: -1")
_DYNA_STATE = _OLDEST.rstrip().removesuffix("}") + _GROWING_STATE.partition("\n")[2]
_TEXT_STATE = _STATE.replace("TYPE_FP32", "TYPE_STRING")
_RAGGED = """dynamic_batching { max_queue_delay_microseconds: 50000 }
batch_input { kind: BATCH_ACCUMULATED_ELEMENT_COUNT target_name: "INDEX" data_type: TYPE_FP32 source_input: "INPUT" }
batch_output { target_name: "OUTPUT" kind: BATCH_SCATTER_WITH_INPUT_SHAPE source_input: "INPUT" }
"""


@dataclasses.dataclass(frozen=True)
class Kind:
    """A model.

    Attributes:
        name: what it computes: `identity`, `reshape` (the values in another shape), `ragged` (twice INPUT, INDEX is not used), `sequence` ((INPUT + START) · READY),
            `dyna_sequence` ((INPUT + START + END · CORRID) · READY), and, with the output also as OUTPUT_STATE, `implicit` (INPUT + INPUT_STATE), `dyna_implicit`
            (INPUT + INPUT_STATE · READY · (1 - START), of any size), `growing` (INPUT_STATE with INPUT behind it) and `text_implicit` (the sum of INPUT and
            INPUT_STATE, numbers in digits).
        datatype: of INPUT and OUTPUT.
        batched: whether the first dimension of its tensors is the batch; ragged ones have no other.
    """

    name: str
    datatype: str = "FP32"
    batched: bool = True

    @property
    def model(self) -> str:
        """The model's name."""
        return f"{self.name}_{self.datatype.lower()}{'' if self.batched else '_nobatch'}"

    @property
    def is_sequence(self) -> bool:
        """Whether its requests belong to sequences."""
        return "sequence" in self.name or self.has_state

    @property
    def has_state(self) -> bool:
        """Whether the server keeps its output as the state of a sequence."""
        return self.name in ("implicit", "dyna_implicit", "growing", "text_implicit")

    @property
    def inputs(self) -> dict[str, str]:
        """The model's inputs with their datatypes."""
        more = {
            "ragged": {"INDEX": "FP32"},
            "sequence": {"START": "FP32", "READY": "FP32"},
            "dyna_sequence": {"START": "FP32", "READY": "FP32", "END": "FP32", "CORRID": "INT32"},
            "implicit": {"INPUT_STATE": "FP32"},
            "dyna_implicit": {"INPUT_STATE": "FP32", "START": "FP32", "READY": "FP32", "END": "FP32", "CORRID": "INT32"},
            "growing": {"INPUT_STATE": "FP32"},
            "text_implicit": {"INPUT_STATE": "BYTES"},
        }  # fmt: skip
        return {"INPUT": self.datatype, **more.get(self.name, {})}

    @property
    def shape(self) -> list[int]:
        """Of the model's inputs; -1 where any size is allowed."""
        inner = {"reshape": [2, 2], "ragged": [], **{name: [-1] for name in _OF_ANY_SIZE}}
        return [-1, *inner.get(self.name, [1])] if self.batched else inner.get(self.name, [1])

    def shape_of(self, tensor: str) -> list[int]:
        """Of one of its tensors: those that tell of the sequence have one value per row."""
        if tensor in ("START", "READY", "END", "CORRID"):
            return [-1, 1] if self.batched else [1]
        return self.shape

    @property
    def config(self) -> str:
        """The config without the backend."""
        dims = {"reshape": "4", "ragged": "-1", **dict.fromkeys(_OF_ANY_SIZE, "-1")}
        size = "1" if self.is_column else dims.get(self.name, "1")
        datatype = self.datatype.replace("BYTES", "STRING")
        inside = {
            "ragged": "allow_ragged_batch: true",
            "reshape": "reshape { shape: [ 2, 2 ] }",
        }.get(self.name, "")
        shown = "[ 2, 2 ] reshape { shape: [ 4 ] }" if self.name == "reshape" else f"[ {size} ]"
        if self.is_column:
            inside = "reshape { shape: [ ] }"
            shown += inside
        policy = {
            "ragged": _RAGGED,
            "sequence": _DIRECT,
            "dyna_sequence": _OLDEST,
            "implicit": _STATE,
            "dyna_implicit": _DYNA_STATE if self.batched else _DYNA_STATE.replace(_SEVERAL, ""),
            "growing": _GROWING_STATE,
            "text_implicit": _TEXT_STATE,
        }
        return (
            f"max_batch_size: {8 if self.batched else 0}\n"
            f'input {{ name: "INPUT" data_type: TYPE_{datatype} dims: [ {size} ] {inside} }}\n'
            f'output {{ name: "OUTPUT" data_type: TYPE_{datatype} dims: {shown} }}\n'
            + policy.get(self.name, "")
        )

    def given(self, step: int) -> Any:
        """What a client sends."""
        sizes = {
            "reshape": (4,),
            "identity": (3 + step,),
            "text": (1 if self.batched else 3 + step,),
            "ragged": (3 + step,),
            "dyna_implicit": (3,),
            "growing": (1 + step % 3,),
        }
        shape: tuple[int, ...] = sizes.get(self.name, (1,))
        if self.batched:
            shape = (1 if self.is_sequence or self.name == "ragged" else 2, *shape)
        values = np.arange(np.prod(shape)).reshape(shape) + 10 * step
        if self.datatype == "BYTES":
            return np.array([b"%d" % value for value in values.ravel()], object).reshape(shape)
        return values.astype(numpy_dtype(self.datatype))

    @property
    def is_column(self) -> bool:
        """Whether clients send one text per row, and the model gets a list of them."""
        return self.name == "text" and self.batched

    @property
    def first_state(self) -> Any:
        """What a sequence begins with: free dimensions of a state are 1."""
        if self.datatype == "BYTES":
            return np.array([b""], np.object_)
        return np.zeros((1,) * self.given(0).ndim, np.float32)


_OF_ANY_SIZE = ("identity", "text", "dyna_implicit", "growing")

KINDS = (
    Kind("identity"), Kind("identity", "INT64", batched=False), Kind("identity", "BYTES"), Kind("identity", "BYTES", batched=False),
    Kind("identity", batched=False), Kind("reshape"), Kind("reshape", "INT32", batched=False), Kind("ragged"), Kind("sequence"),
    Kind("sequence", batched=False), Kind("dyna_sequence"), Kind("implicit"), Kind("implicit", batched=False),
)  # fmt: skip

DYNAMIC = (
    Kind("dyna_implicit"), Kind("dyna_implicit", batched=False), Kind("growing"), Kind("growing", batched=False),
)  # fmt: skip
"""Sequences whose state changes its size: those of gen_qa_dyna_sequence_implicit_models.py with any shape, and one that grows."""

STEPS = 3


Names = collections.abc.Mapping[str, str]
"""The names of the tensors of a `Kind` in a framework; those that are left out have their own."""

_OWN: Names = types.MappingProxyType({})


def write_config(model: pathlib.Path, kind: Kind, head: str, names: Names = _OWN) -> None:
    """Write the config; `head` names the backend."""
    model.mkdir(parents=True, exist_ok=True)
    config = re.sub(r'"(\w+)"', lambda found: f'"{names.get(found[1], found[1])}"', kind.config)
    (model / "config.pbtxt").write_text(f"{head}\n{config}")


def check_problems(
    models: pathlib.Path, kinds: collections.abc.Iterable[Kind]
) -> dict[str, list[Any]]:
    """What `naiad check` finds wrong, by the model; nothing for a model that is fine."""
    problems, _ = checked(models, [kind.model for kind in kinds], [])
    return {model: found for model, found in problems.items() if found}


def merged_differences(
    server: ServerProcess, kind: Kind, run: Run, names: Names = _OWN
) -> list[str]:
    """Where requests of several lengths that are one batch get another answer than the framework gives to their values in one row; and whether they were one."""
    found = []
    parts = [kind.given(step) + 100 * step for step in range(6)]
    expected = np.asarray(run(INPUT=np.concatenate([each.ravel() for each in parts]), INDEX=np.zeros(1, np.float32)))  # fmt: skip
    ends = np.cumsum([each.size for each in parts])
    for module, address in ((tritonclient.http, server.http), (tritonclient.grpc, server.grpc)):
        before = _counts(server, kind)
        ask = functools.partial(_asked, module, kind=kind, sequence=0, step=0, names=names)
        with concurrent.futures.ThreadPoolExecutor(len(parts)) as pool:
            answers = list(pool.map(lambda given, ask=ask, to=address: ask(given=given, address=to), parts))  # fmt: skip
        for part, end, got in zip(parts, ends, answers, strict=True):
            wanted = expected[end - part.size : end]
            if got.ravel().tolist() != wanted.tolist():
                found.append(f"{module.__name__}: {got.tolist()}, not {wanted.tolist()}")
        requests, batches = (after - was for after, was in zip(_counts(server, kind), before, strict=True))  # fmt: skip
        if batches >= requests:
            found.append(f"{module.__name__}: {requests} requests were {batches} batches")
    return found


def _counts(server: ServerProcess, kind: Kind) -> tuple[int, int]:
    """The requests and the batches so far."""
    with tritonclient.http.InferenceServerClient(server.http) as client:
        (counts,) = client.get_inference_statistics(kind.model)["model_stats"]
    return counts["inference_count"], counts["execution_count"]


def differences(server: ServerProcess, kind: Kind, run: Run, names: Names = _OWN) -> list[str]:
    """Where the server answers otherwise than the framework, over both protocols; of sequences in batches, two that run at the same time."""
    found = []
    for number, (module, address) in enumerate(
        ((tritonclient.http, server.http), (tritonclient.grpc, server.grpc))
    ):
        ids = (10 * number + 1, 10 * number + 2) if kind.is_sequence else (0,)
        if not kind.batched:
            ids = ids[:1]  # an instance has one slot for sequences
        states = dict.fromkeys(ids, kind.first_state)
        for step in range(STEPS):
            for sequence in ids:
                given = kind.given(step + sequence)
                got = _asked(module, kind=kind, given=given, address=address, sequence=sequence, step=step, names=names)  # fmt: skip
                expected = np.asarray(run(**_feeds(kind, given, sequence, step, states)))
                states[sequence] = expected
                shape = (expected if kind.name == "growing" else _shown(kind, given)).shape
                if got.ravel().tolist() != expected.ravel().tolist() or got.shape != shape:
                    found.append(f"{kind.model} {module.__name__} {sequence} {step}: {got.tolist()}, not {expected.tolist()}")  # fmt: skip
    return found


def _shown(kind: Kind, given: Any) -> Any:
    """The input in the shape of the output."""
    return given.reshape(*given.shape[:-1], 2, 2) if kind.name == "reshape" else given


def _feeds(
    kind: Kind, given: Any, sequence: int, step: int, states: dict[int, Any]
) -> dict[str, Any]:
    """What the model is given, by the rules of the scheduler."""
    if kind.name == "reshape":
        given = given.reshape(*given.shape[:-1], 2, 2)
    if kind.name == "ragged":
        given = given.ravel()
    like = np.ones((1,) * given.ndim if kind.name == "dyna_implicit" else given.shape, np.float32)
    controls = {
        "INDEX": np.array([given.size], np.float32),
        "START": like * (step == 0),
        "READY": like,
        "END": like * (step == STEPS - 1),
        "CORRID": (like * sequence).astype(np.int32),
        "INPUT_STATE": states[sequence],
    }
    return {"INPUT": given, **{name: controls[name] for name in kind.inputs if name != "INPUT"}}


def _asked(
    module: Any, *, kind: Kind, given: Any, address: str, sequence: int, step: int, names: Names
) -> Any:
    tensor = module.InferInput(names.get("INPUT", "INPUT"), list(given.shape), kind.datatype)
    tensor.set_data_from_numpy(given)
    more = {}
    if sequence:
        more = {
            "sequence_id": sequence,
            "sequence_start": step == 0,
            "sequence_end": step == STEPS - 1,
        }
    with module.InferenceServerClient(address) as client:
        return client.infer(kind.model, [tensor], **more).as_numpy(names.get("OUTPUT", "OUTPUT"))
