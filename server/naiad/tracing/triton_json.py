"""A trace as the records of Triton's trace files, in the order in which the reference writes them (rows 9.13 to 9.15). Pure."""

import json
import typing

import numpy as np

from naiad.core.inference import ExecutionTimes
from naiad.core.tensor import Tensor
from naiad.tracing.settings import TIMESTAMPS
from naiad.tracing.trace import InferenceTrace, RequestTrace
from naiad.tracing.usual import FRONT_END, PROTOCOLS, text

_AT_ONCE = 10_000
_quoted = json.encoder.encode_basestring_ascii


def written(trace: RequestTrace) -> str:
    """The records of a trace, with commas between them."""
    level = trace.setting.level
    stamps = level & TIMESTAMPS
    if level == TIMESTAMPS and len(trace.parts) == 1 and trace.sent_ns:
        (part,) = trace.parts
        if part.execution is not None and part.queued_ns and part.responded_ns == [part.ended_ns]:
            numbers = _numbers(trace, part, part.execution)
            return text(numbers, part.request_id, part.model_name)
    records: list[str] = []
    receive, read, send, sent = FRONT_END[trace.protocol]
    own = trace.parts[0] if trace.parts else None
    if stamps:
        records += (
            _stamp(trace.id, receive, trace.received_ns),
            _stamp(trace.id, read, trace.read_ns),
        )
    for part in trace.parts:
        _add_part(records, part, stamps=bool(stamps), first=part is own)
        if part is own and stamps and trace.sent_ns:
            records += (
                _stamp(trace.id, send, trace.send_ns),
                _stamp(trace.id, sent, trace.sent_ns),
            )
    return ",".join(records)


def _numbers(trace: RequestTrace, part: InferenceTrace, times: ExecutionTimes) -> tuple[int, ...]:
    """Of a trace that is usual but for where it goes, as `text` has it."""
    return (
        trace.id, part.model_version, PROTOCOLS[trace.protocol], times.start_ns, times.input_end_ns, times.output_start_ns, times.end_ns,
        trace.received_ns, trace.read_ns, part.started_ns, part.queued_ns, part.ended_ns, trace.send_ns, trace.sent_ns,
    )  # fmt: skip


def _add_part(records: list[str], part: InferenceTrace, *, stamps: bool, first: bool) -> None:
    number = part.id
    if stamps:
        request_id = f',"request_id":{_quoted(part.request_id)}' if part.request_id else ""
        parent = f',"parent_id":{part.parent_id}' if part.parent_id else ""
        records.append(
            f'{{"id":{number},"model_name":{_quoted(part.model_name)},"model_version":{part.model_version}{request_id}{parent}}}'
        )
        records.append(_stamp(number, "REQUEST_START", part.started_ns))
        if part.queued_ns:
            records.append(_stamp(number, "QUEUE_START", part.queued_ns))
    records += [
        _tensor(number, "TENSOR_QUEUE_INPUT", tensor)
        for tensor in part.inputs
        if 0 not in tensor.shape  # of inputs without elements the reference writes nothing
    ]
    records += [_tensor(number, "TENSOR_BACKEND_OUTPUT", tensor) for tensor in part.outputs or ()]
    if not stamps:
        return
    if first:
        records += [_stamp(number, "INFER_RESPONSE_COMPLETE", ns) for ns in part.responded_ns or ()]
    execution = part.execution
    if execution is not None:
        records += (
            _stamp(number, "COMPUTE_START", execution.start_ns),
            _stamp(number, "COMPUTE_INPUT_END", execution.input_end_ns),
            _stamp(number, "COMPUTE_OUTPUT_START", execution.output_start_ns),
            _stamp(number, "COMPUTE_END", execution.end_ns),
        )
    if part.ended_ns:
        records.append(_stamp(number, "REQUEST_END", part.ended_ns))


def _stamp(number: int, name: str, ns: int) -> str:
    return f'{{"id":{number},"timestamps":[{{"name":"{name}","ns":{ns}}}]}}'


def _tensor(number: int, activity: str, tensor: Tensor) -> str:
    shape = ",".join(map(str, tensor.shape))
    return (
        f'{{"id":{number},"activity":"{activity}","tensor":{{"name":{_quoted(tensor.name)},"data":"{_values(tensor)}",'
        f'"shape":"{shape}","dtype":"{tensor.datatype.name}"}}}}'
    )


def _values(tensor: Tensor) -> str:
    """The elements as the inside of a JSON string; those of half precision are left out, as in the reference.

    No single call makes text of a whole tensor, during which the event loop would wait.
    """
    flat: np.ndarray[typing.Any, typing.Any] = tensor.array.reshape(-1)
    name = tensor.datatype.name
    if name in ("FP16", "BF16"):
        return ""
    if name == "BYTES":
        return ",".join(
            _quoted(f'"{element.decode("utf-8", "replace")}"')[1:-1] for element in flat
        )
    if name in ("FP32", "FP64"):
        return ",".join(f"{value:.6g}" for value in flat.tolist())
    if name == "BOOL":
        flat = flat.view(np.int8)
    return ",".join(
        [
            ",".join(map(str, flat[first : first + _AT_ONCE].tolist()))
            for first in range(0, len(flat), _AT_ONCE)
        ]
    )
