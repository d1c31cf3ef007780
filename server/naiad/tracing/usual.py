"""Usual traces: one inference that was executed and has had one response, as numbers and two texts, and as the records of Triton's trace files. Pure.

Nearly all traces are usual. What is kept of one is a few hundred bytes without a reference to its request, and many become text at once: the
text of the first one is repeated, and its digits are replaced column by column. The text is the same as of each trace alone.
"""

import collections.abc
import functools
import json
import re
import struct
import typing

import numpy as np

UsualTrace = tuple[bytes, str, str]
"""What `PACK` makes of its numbers, the client's request id, and the model's name.

The numbers: id, the model's version, the protocol's place in `PROTOCOLS`, and in the order of the file the times at which the request began to be
read, was whole, was received by its model, was queued, was answered; at which its batch began, had its inputs, had its outputs, ended; at which it
was answered, again, and at which its response began to be sent, and was sent (monotonic nanoseconds).
"""

PROTOCOLS = {"HTTP": 0, "GRPC": 1}
FRONT_END = {
    "HTTP": ("HTTP_RECV_START", "HTTP_RECV_END", "HTTP_SEND_START", "HTTP_SEND_END"),
    "GRPC": ("GRPC_WAITREAD_START", "GRPC_WAITREAD_END", "GRPC_SEND_START", "GRPC_SEND_END"),
}
LONGEST_ID = 256
"""Characters of the request id of a usual trace: so much memory may wait per trace."""

_NUMBERS = struct.Struct("15q")
PACK = _NUMBERS.pack

_NAMES = tuple(FRONT_END.values())
_STAMPS = 3
"""The place of the first time."""

_FEW = 16
"""So many are made text one by one."""

_POWERS = 10 ** np.arange(1, 19, dtype=np.int64)
_VARIABLE = re.compile(r'"id":([0-9]+)|"ns":([0-9]+)|"request_id":("(?:[^"\\]|\\.)*")')
"""What differs between traces of one form. No text of a client or a model has these: its quotes are behind backslashes."""

_quoted = json.encoder.encode_basestring_ascii
_Bytes = np.ndarray[typing.Any, np.dtype[np.uint8]]
_Numbers = np.ndarray[typing.Any, np.dtype[np.int64]]


def text(numbers: collections.abc.Sequence[int], request_id: str, model_name: str) -> str:
    """The records of one trace, with commas between them: one expression, in half the time of one for each record."""
    (
        number, version, protocol, received_ns, read_ns, started_ns, queued_ns, responded_ns, start_ns, input_end_ns, output_start_ns, end_ns,
        ended_ns, send_ns, sent_ns,
    ) = numbers  # fmt: skip
    receive, read, send, sent = _NAMES[protocol]
    of_client = f',"request_id":{_quoted(request_id)}' if request_id else ""
    at = f'{{"id":{number},"timestamps":[{{"name":"'
    return (
        f'{at}{receive}","ns":{received_ns}}}]}},{at}{read}","ns":{read_ns}}}]}},'
        f'{{"id":{number},"model_name":{_quoted(model_name)},"model_version":{version}{of_client}}},'
        f'{at}REQUEST_START","ns":{started_ns}}}]}},{at}QUEUE_START","ns":{queued_ns}}}]}},'
        f'{at}INFER_RESPONSE_COMPLETE","ns":{responded_ns}}}]}},{at}COMPUTE_START","ns":{start_ns}}}]}},'
        f'{at}COMPUTE_INPUT_END","ns":{input_end_ns}}}]}},{at}COMPUTE_OUTPUT_START","ns":{output_start_ns}}}]}},'
        f'{at}COMPUTE_END","ns":{end_ns}}}]}},{at}REQUEST_END","ns":{ended_ns}}}]}},'
        f'{at}{send}","ns":{send_ns}}}]}},{at}{sent}","ns":{sent_ns}}}]}}'
    )


def joined(traces: list[UsualTrace]) -> bytes | memoryview:
    """The records of several, in their order, with commas between them."""
    if len(traces) < _FEW:
        return ",".join([_alone(trace) for trace in traces]).encode()
    packed, ids, names = zip(*traces, strict=True)
    numbers = np.frombuffer(b"".join(packed), np.int64).reshape(len(traces), -1)
    quoted = [_quoted(each).encode() if each else b"" for each in ids] if any(ids) else None
    lengths = [0] * len(traces) if quoted is None else [len(each) for each in quoted]
    alike = len(set(names)) == 1 and len(set(lengths)) == 1
    if alike and (numbers[:, 1:_STAMPS] == numbers[0, 1:_STAMPS]).all():
        rows = _alike(traces, numbers, quoted)
        if rows is not None:
            return rows.reshape(-1).data[1:]
    # Columns whose values are the same for all traces of one form.
    of_form = np.empty((len(traces), 5), np.int64)
    of_form[:, :2] = numbers[:, 1:_STAMPS]
    of_form[:, 2] = _widths(numbers[:, 0])
    of_form[:, 3] = _widths(numbers[:, _STAMPS:].min(axis=1))
    of_form[:, 4] = _widths(numbers[:, _STAMPS:].max(axis=1))
    groups: dict[tuple[object, ...], list[int]] = {}
    for place, form in enumerate(zip(names, lengths, map(tuple, of_form.tolist()), strict=True)):
        groups.setdefault(form, []).append(place)
    texts: list[bytes | memoryview] = [b""] * len(traces)
    for places in groups.values():
        rows = None
        if len(places) >= _FEW:
            among = None if quoted is None else [quoted[place] for place in places]
            rows = _alike([traces[place] for place in places], numbers[places], among)
        for at, place in enumerate(places):
            texts[place] = (
                _alone(traces[place]).encode() if rows is None else rows[at, 1:].tobytes()
            )
    return b",".join(texts)


def _alone(trace: UsualTrace) -> str:
    packed, request_id, name = trace
    return text(_NUMBERS.unpack(packed), request_id, name)


def _alike(
    traces: list[UsualTrace], numbers: _Numbers, quoted: list[bytes] | None
) -> _Bytes | None:
    """The records of traces that differ in digits and the letters of request ids only, each behind a comma; None if ids or times have different lengths."""
    stamps = np.ascontiguousarray(numbers[:, _STAMPS:].T)
    width = _width(stamps)
    if not width or not _width(numbers[:, 0]):
        return None
    first = _alone(traces[0])
    variable = list(_VARIABLE.finditer(first))
    template = np.frombuffer(b"," + first.encode(), np.uint8)
    rows = np.empty((len(traces), len(template)), np.uint8)
    rows[:] = template
    times = iter(_digits(stamps, width))
    number = _digits(numbers[:, 0], len(variable[0][1]))
    for found in variable:
        begin, end = (1 + place for place in found.span(found.lastindex or 0))
        if found.lastindex == 1:
            digits = number
        elif found.lastindex == 2:  # noqa: PLR2004 - the group of the times
            digits = next(times)
        elif quoted is not None:
            digits = np.frombuffer(b"".join(quoted), np.uint8).reshape(len(traces), -1)
        else:
            continue
        # One move of memory for each, instead of one for each byte.
        whole = np.dtype((np.void, end - begin))
        rows[:, begin:end].view(whole)[:, 0] = digits.view(whole)[:, 0]
    return rows


def _widths(values: typing.Any) -> typing.Any:
    """How many digits numbers have."""
    return np.searchsorted(_POWERS, values, side="right") + 1


def _width(values: _Numbers) -> int:
    """How many digits all of them have; 0 if not all have as many."""
    lowest, highest = _widths(values.min()), _widths(values.max())
    return int(lowest) if lowest == highest else 0


def _digits(values: _Numbers, width: int) -> _Bytes:
    """The decimal digits of numbers of one width; shape: that of the numbers, and the width."""
    four = _four_digits()
    groups = -(-width // 4)
    found = np.empty((*values.shape, groups), four.dtype)
    for group in reversed(range(groups)):
        rest = values // 10_000
        found[..., group] = four[values - rest * 10_000]
        values = rest
        if group and values.min() == (same := values.max()):  # times of one second
            digits = b"%0*d" % (4 * group, int(same))
            found[..., :group] = np.frombuffer(digits, four.dtype)
            break
    return np.ascontiguousarray(found.view(np.uint8)[..., 4 * groups - width :])


@functools.cache
def _four_digits() -> np.ndarray[typing.Any, np.dtype[np.uint32]]:
    """The digits of all numbers below 10,000."""
    return np.frombuffer(b"".join([b"%04d" % number for number in range(10_000)]), np.uint32)
