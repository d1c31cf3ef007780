"""Usual traces: one inference that was executed and has had one response, as numbers and two texts, and as the records of Triton's trace files. Pure.

Nearly all traces are usual. What is kept of one is a hundred bytes without a reference to its request (`usual_queue`), and many become text at once: the
text of the first one is repeated, and its digits are replaced column by column. The text is the same as of each trace alone.
"""

import collections.abc
import functools
import json
import re
import struct
import typing

import msgspec
import numpy as np

from naiad.core.inference import Inference, TracedInference


class SentTrace(TracedInference, typing.Protocol):
    """What is read of the context of a request that is traced, whose response was sent or will never be."""

    inference: Inference | None
    protocol: str
    received_ns: int
    read_ns: int
    send_ns: int
    sent_ns: int

    def complete(self) -> None:
        """Its trace is not usual: it is complete otherwise. Nothing of a request that is not traced."""


AddSent = collections.abc.Callable[[collections.abc.Sequence[SentTrace]], None]
"""Gets requests that have their responses, each once, those of a batch together. Keeps the traces of those that are usual, and completes the others."""


def complete_all(traces: collections.abc.Sequence[SentTrace]) -> None:
    """An `AddSent` that keeps none."""
    for trace in traces:
        trace.complete()


PROTOCOLS = {"HTTP": 0, "GRPC": 1}
FRONT_END = {
    "HTTP": ("HTTP_RECV_START", "HTTP_RECV_END", "HTTP_SEND_START", "HTTP_SEND_END"),
    "GRPC": ("GRPC_WAITREAD_START", "GRPC_WAITREAD_END", "GRPC_SEND_START", "GRPC_SEND_END"),
}
LONGEST_ID = 256
"""Characters of the request id of a usual trace: so much memory may wait per trace."""

# As `Py_ssize_t`, which has 64 bits: as "q" each number takes three times as long.
_OF_BATCH = struct.Struct("6n")
PACK_OF_BATCH = _OF_BATCH.pack
"""The numbers that the traces of a batch share: the model's version, the protocol's place in `PROTOCOLS`, and the times at which the batch began, had its
inputs, had its outputs, ended (monotonic nanoseconds)."""

_NUMBERS = struct.Struct(f"n{_OF_BATCH.size}s7n")
PACK_INTO = _NUMBERS.pack_into
"""Writes the numbers of a trace.

They are: id, those of `PACK_OF_BATCH`, and the times at which the request began to be read, was whole, was received by its model, was queued, was answered;
at which its response began to be sent, and was sent.
"""
SIZE = _NUMBERS.size
COLUMNS = SIZE // 8

_NAMES = tuple(FRONT_END.values())
_STAMPS = 3
"""The place of the first time."""
_TIMES = 11
_PLACES = (4, 5, 6, 7, 8, 0, 1, 2, 3, 8, 9, 10)
"""Which of the times is where in the file: the response is twice there."""

_FEW = 16
"""So many are made text one by one."""

_LOW_GROUPS = 2
"""Groups of four digits that have 32 bits."""
_EIGHT_DIGITS = 10**8
_POWERS = 10 ** np.arange(1, 19, dtype=np.int64)
_VARIABLE = re.compile(r'"id":([0-9]+)|"ns":([0-9]+)|"request_id":("(?:[^"\\]|\\.)*")')
"""What differs between traces of one form. No text of a client or a model has these: its quotes are behind backslashes."""

_BRACKET = ord("]")
_quoted = json.encoder.encode_basestring_ascii
_Bytes = np.ndarray[typing.Any, np.dtype[np.uint8]]
_Numbers = np.ndarray[typing.Any, np.dtype[np.int64]]
_T = typing.TypeVar("_T")


def text(numbers: collections.abc.Sequence[int], request_id: str, model_name: str) -> str:
    """The records of one trace, with commas between them: one expression, in half the time of one for each record."""
    (
        number, version, protocol, start_ns, input_end_ns, output_start_ns, end_ns, received_ns, read_ns, started_ns, queued_ns, responded_ns,
        send_ns, sent_ns,
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
        f'{at}COMPUTE_END","ns":{end_ns}}}]}},{at}REQUEST_END","ns":{responded_ns}}}]}},'
        f'{at}{send}","ns":{send_ns}}}]}},{at}{sent}","ns":{sent_ns}}}]}}'
    )


class Usual(msgspec.Struct, frozen=True, eq=False):
    """Some traces.

    Attributes:
        numbers: a row for each, as `PACK_INTO` writes them.
        runs: the place of the first trace that has this request id and this name of a model, as those behind it until the next run; the first is at 0.
        first: the place of the first one in the memory that a writer shares with the server.
    """

    numbers: _Numbers
    runs: list[tuple[int, str, str]]
    first: int = 0

    def texts(self) -> tuple[list[str], list[str]]:
        """The request id and the model's name of each."""
        return (
            self.repeated([request_id for _, request_id, _ in self.runs]),
            self.repeated([name for _, _, name in self.runs]),
        )

    def repeated(self, values: collections.abc.Sequence[_T]) -> list[_T]:
        """A value of each run, for each of its traces."""
        begins = [at for at, _, _ in self.runs]
        found: list[_T] = []
        for value, begin, end in zip(values, begins, (*begins[1:], len(self.numbers)), strict=True):
            found += [value] * (end - begin)
        return found


class UsualTexts:
    """Makes traces text, in memory that it uses again: new memory for each quarter of a megabyte would take as long as the work."""

    def __init__(self) -> None:
        self._memory = np.empty(0, np.uint8)

    def framed(self, traces: Usual) -> memoryview:
        """The records of a few hundred, in their order, with commas before each and a bracket behind the last one. Valid until the next call."""
        numbers, runs = traces.numbers, traces.runs
        if len(numbers) < _FEW:
            rest = zip(numbers.tolist(), *traces.texts(), strict=True)
            return _framed(",".join([text(*each) for each in rest]).encode())
        of_runs = [_quoted(each).encode() if each else b"" for _, each, _ in runs]
        quoted = traces.repeated(of_runs) if any(of_runs) else None
        alike = len({(len(each), name) for each, (_, _, name) in zip(of_runs, runs, strict=True)})
        if alike == 1 and (numbers[:, 1:_STAMPS] == numbers[0, 1:_STAMPS]).all():
            rows = self._alike(runs[0][2], numbers, quoted)
            if rows is not None:
                self._memory[rows.size] = _BRACKET
                return self._memory[: rows.size + 1].data
        ids, names = traces.texts()
        lengths = traces.repeated([len(each) for each in of_runs])
        # Columns whose values are the same for all traces of one form.
        of_form = np.empty((len(numbers), 5), np.int64)
        of_form[:, :2] = numbers[:, 1:_STAMPS]
        of_form[:, 2] = _widths(numbers[:, 0])
        of_form[:, 3] = _widths(numbers[:, _STAMPS:].min(axis=1))
        of_form[:, 4] = _widths(numbers[:, _STAMPS:].max(axis=1))
        groups: dict[tuple[object, ...], list[int]] = {}
        for place, form in enumerate(
            zip(names, lengths, map(tuple, of_form.tolist()), strict=True)
        ):
            groups.setdefault(form, []).append(place)
        texts = [b""] * len(numbers)
        for places in groups.values():
            rows = None
            if len(places) >= _FEW:
                among = None if quoted is None else [quoted[place] for place in places]
                rows = self._alike(names[places[0]], numbers[places], among)
            for at, place in enumerate(places):
                texts[place] = (
                    text(numbers[place].tolist(), ids[place], names[place]).encode()
                    if rows is None
                    else rows[at, 1:].tobytes()
                )
        return _framed(b",".join(texts))

    def _alike(self, name: str, numbers: _Numbers, quoted: list[bytes] | None) -> _Bytes | None:
        """The records of traces that differ in digits and the letters of request ids only, each behind a comma; None if ids or times have different lengths."""
        ids, version, protocol = numbers[:, 0], int(numbers[0, 1]), int(numbers[0, 2])
        stamps = np.ascontiguousarray(numbers[:, _STAMPS:].T)
        digits, width = _width(ids), _width(stamps)
        if not digits or not width:
            return None
        letters = 0 if quoted is None else len(quoted[0])
        form = _form(name, version, protocol, letters=letters, digits=digits, width=width)
        size = len(ids) * len(form.template)
        if size >= len(self._memory):
            self._memory = np.empty(size + 1, np.uint8)
        made = self._memory[:size].reshape(len(ids), -1)
        # Also where it is there already: memory that was not used for long takes longer to be changed in places than to be written.
        made[:] = form.template
        rows = made.view(form.row)[:, 0]
        number = _digits(ids, digits)
        for field in form.numbers:
            rows[field] = number
        at = _digits(stamps, width)
        for field, time in zip(form.times, _PLACES, strict=True):
            rows[field] = at[time]
        if quoted is not None:
            for field in form.texts:
                rows[field] = np.frombuffer(b"".join(quoted), f"V{letters}")
        return made


def _framed(records: bytes) -> memoryview:
    return memoryview(bytearray(b",%b]" % records))


class _Form(msgspec.Struct, frozen=True, eq=False):
    """What the records of traces of one form have in common.

    Attributes:
        template: their text, behind a comma.
        row: the same as a type with a field for each place at which traces differ.
        numbers, times, texts: the fields for ids, for times, and for request ids.
    """

    template: _Bytes
    row: np.dtype[np.void]
    numbers: tuple[str, ...]
    times: tuple[str, ...]
    texts: tuple[str, ...]


@functools.lru_cache(maxsize=64)
def _form(
    name: str, version: int, protocol: int, *, letters: int, digits: int, width: int
) -> _Form:
    """Args: `letters` of a request id in quotes, 0 for none; `digits` of an id; `width` of times, in digits."""
    first = 10 ** (digits - 1), version, protocol, *(10 ** (width - 1) for _ in range(_TIMES))
    template = "," + text(first, "x" * (letters - 2) if letters else "", name)
    fields = [(each.lastindex or 0, each) for each in _VARIABLE.finditer(template)]
    row = np.dtype(
        {
            "names": [str(each.start(kind)) for kind, each in fields],
            "formats": [f"V{len(each[kind])}" for kind, each in fields],
            "offsets": [each.start(kind) for kind, each in fields],
            "itemsize": len(template),
        }
    )
    numbers, times, texts = (
        tuple(str(each.start(kind)) for kind, each in fields if kind == wanted)
        for wanted in (1, 2, 3)
    )
    return _Form(np.frombuffer(template.encode(), np.uint8), row, numbers, times, texts)


def _widths(values: typing.Any) -> typing.Any:
    """How many digits numbers have."""
    return np.searchsorted(_POWERS, values, side="right") + 1


def _width(values: _Numbers) -> int:
    """How many digits all of them have; 0 if not all have as many."""
    lowest, highest = len(str(values.min())), len(str(values.max()))
    return lowest if lowest == highest else 0


def _digits(values: _Numbers, width: int) -> np.ndarray[typing.Any, np.dtype[np.void]]:
    """The decimal digits of numbers of one width."""
    four = _four_digits()
    groups = -(-width // 4)
    found = np.empty((*values.shape, groups), four.dtype)
    lowest, highest = int(values.min()), int(values.max())
    above = lowest // _EIGHT_DIGITS
    if groups > _LOW_GROUPS and highest - above * _EIGHT_DIGITS < 1 << 32:
        # Times of a few seconds: what differs has 32 bits, of which a processor divides several at once.
        low: typing.Any = values.astype(np.uint32) - np.uint32(above * _EIGHT_DIGITS & 0xFFFF_FFFF)
        for _ in range(_LOW_GROUPS):
            groups -= 1
            rest = low // np.uint32(10_000)
            found[..., groups] = four[(low - rest * np.uint32(10_000)).astype(np.intp)]
            low = rest
        values = low + np.int64(above)
    for group in reversed(range(groups)):
        if values.min() == (same := values.max()):  # times of one second
            digits = b"%0*d" % (4 * (group + 1), int(same))
            # One after another: numpy takes ten times as long for an axis of two.
            for at, value in enumerate(np.frombuffer(digits, four.dtype)):
                found[..., at] = value
            break
        rest = values // 10_000
        found[..., group] = four[values - rest * 10_000]
        values = rest
    digits_only = np.ascontiguousarray(found.view(np.uint8)[..., -width:])
    return digits_only.view(f"V{width}")[..., 0]


@functools.cache
def _four_digits() -> np.ndarray[typing.Any, np.dtype[np.uint32]]:
    """The digits of all numbers below 10,000."""
    return np.frombuffer(b"".join([b"%04d" % number for number in range(10_000)]), np.uint32)
