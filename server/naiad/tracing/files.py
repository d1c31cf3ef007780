"""Trace files: which traces go into which file, and the thread that writes them (row 9.12).

A file is valid JSON after every write. The first error stops tracing with one line of log; requests go on.
"""

import collections.abc
import contextlib
import io
import logging
import typing

import msgspec

from naiad.tracing.background import Background
from naiad.tracing.settings import TraceSetting
from naiad.tracing.trace import RequestTrace, size_of
from naiad.tracing.triton_json import joined

_log = logging.getLogger("naiad.trace")

_HELD = 1000
"""Traces of a setting with a count that wait for its end in memory; more are written before."""

_MOST_IN_ONE = 50_000
"""Traces of a file with a number, whatever the frequency is: they wait in memory, and clients choose the frequency."""

_WAITING = 100_000
"""What may wait for the thread, as `_weight` counts: about 100 MB."""

_GATHER_SECONDS = 0.05


class Write(msgspec.Struct, frozen=True):
    """Traces for a file: FILE, or FILE.N with the next number N."""

    traces: list[RequestTrace]
    file: str
    numbered: bool


class FileGroups:
    """Decides what goes into which file. Pure."""

    def __init__(self) -> None:
        self._held: dict[int, list[RequestTrace]] = {}

    def collected(self, trace: RequestTrace) -> Write | None:
        """A trace is complete; its setting has counted it. Returns what is to be written now."""
        setting = trace.setting
        held = self._held.setdefault(id(setting), [])
        held.append(trace)
        frequency = setting.log_frequency
        used_up = setting.count == 0 and not setting.open
        if used_up or 0 < min(frequency, _MOST_IN_ONE) <= len(held):
            return self._write(setting, numbered=True)
        if frequency == 0 and (setting.count < 0 or len(held) >= _HELD):
            return self._write(setting, numbered=False)
        if setting.replaced and not setting.open:
            return self.replaced(setting)
        return None

    def replaced(self, setting: TraceSetting) -> Write | None:
        """A setting has been replaced: what it still holds goes out once no trace of it is open."""
        if setting.open or not self._held.get(id(setting)):
            return None
        return self._write(setting, numbered=setting.log_frequency > 0)

    def rest(self) -> list[Write]:
        """The server stops: what all settings still hold. Traces that are open now are lost, those that are complete are not."""
        settings = [held[0].setting for held in self._held.values()]
        return [self._write(setting, numbered=setting.log_frequency > 0) for setting in settings]

    def _write(self, setting: TraceSetting, *, numbered: bool) -> Write:
        return Write(self._held.pop(id(setting)), setting.file, numbered)


class TraceFiles:
    """Writes traces to files: a `TraceSink`.

    Args:
        failed: called on the thread with the first error of a file.
    """

    def __init__(self, failed: collections.abc.Callable[[OSError, str], None]) -> None:
        self._failed = failed
        self._groups = FileGroups()
        self._open: dict[str, _JsonArray] = {}
        self._numbers: dict[str, int] = {}
        self.background = Background[Write](
            self._write, name="trace-files", most=_WAITING, gather_seconds=_GATHER_SECONDS
        )

    def collected(self, trace: RequestTrace) -> None:
        """See `TraceSink`."""
        self._put(self._groups.collected(trace))

    def replaced(self, setting: TraceSetting) -> None:
        """See `TraceSink`."""
        self._put(self._groups.replaced(setting))

    def stop(self) -> None:
        """See `TraceSink`."""
        for write in self._groups.rest():
            self._put(write)

    def close(self, seconds: float) -> None:
        """See `TraceSink`."""
        if self.background.close(seconds):
            for array in self._open.values():
                with contextlib.suppress(OSError):
                    array.close()

    def _put(self, write: Write | None) -> None:
        if write is not None:
            self.background.put(write, _weight(write))

    def _write(self, writes: list[Write]) -> None:
        """On the thread."""
        whole: dict[str, list[RequestTrace]] = {}
        for write in writes:
            if not write.numbered:
                whole.setdefault(write.file, []).extend(write.traces)
        for file, traces in whole.items():
            self._append(file, traces)
        for write in writes:
            if write.numbered:
                number = self._numbers.get(write.file, 0)
                self._numbers[write.file] = number + 1
                path = f"{write.file}.{number}"
                with self._reported(path), contextlib.closing(_JsonArray(path)) as array:
                    array.append(_taken(write.traces))

    def _append(self, file: str, traces: list[RequestTrace]) -> None:
        with self._reported(file):
            if file not in self._open:
                self._open[file] = _JsonArray(file)
            self._open[file].append(_taken(traces))

    @contextlib.contextmanager
    def _reported(self, path: str) -> collections.abc.Iterator[None]:
        try:
            yield
        except OSError as error:
            if array := self._open.pop(path, None):
                with contextlib.suppress(OSError):
                    array.close()
            self._failed(error, path)


def _weight(write: Write) -> int:
    """About how many KB its traces have: one each, and what tensors they hold."""
    tensors = (
        tensor
        for trace in write.traces
        for part in trace.parts
        for tensor in (*part.inputs, *part.outputs)
    )
    return len(write.traces) + sum(size_of(tensor) >> 10 for tensor in tensors)


def _taken(traces: list[RequestTrace]) -> bytes:
    """The records of traces, which are not needed any more: each is in a cycle with its parts."""
    records = joined(traces)
    for trace in traces:
        trace.parts.clear()
    return records


class _JsonArray:
    """A file that holds a JSON array, whole after each write. A file that is there already is replaced. Raises OSError."""

    def __init__(self, path: str) -> None:
        self._file = io.FileIO(path, "w")
        self._empty = True
        self._seeks = self._file.seekable()

    def append(self, records: bytes) -> None:
        """Write further records."""
        if not self._empty and self._seeks:
            self._file.seek(-1, io.SEEK_END)
        end = b"]" if self._seeks else b""
        before = self._file.tell() if self._seeks and not self._empty else None
        rest = memoryview((b"[" if self._empty else b",") + records + end)
        self._empty = False
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError:
            if before is not None:
                self._file.truncate(before)
                self._file.seek(before)
                self._file.write(end)
            raise

    def close(self) -> None:
        """End the array."""
        if not self._seeks and not self._empty:
            self._file.write(b"]")
        self._file.close()


class TraceSink(typing.Protocol):
    """Where complete traces go. Loop only, but for `close`."""

    def collected(self, trace: RequestTrace) -> None:
        """A trace is complete."""

    def replaced(self, setting: TraceSetting) -> None:
        """A setting was replaced by another one."""

    def stop(self) -> None:
        """The server stops: nothing that is not complete now will be."""

    def close(self, seconds: float) -> None:
        """Write what waits, for at most this time; not on the event loop."""
