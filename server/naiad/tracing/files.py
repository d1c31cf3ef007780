"""Trace files: which traces go into which file, and the thread that writes them (row 9.12).

A file is valid JSON after every write. The first error stops tracing with one line of log; requests go on.
"""

import collections.abc
import contextlib
import io
import logging
import os
import pathlib
import stat
import typing

import msgspec

from naiad.tracing.background import Background
from naiad.tracing.settings import TraceSetting
from naiad.tracing.trace import RequestTrace
from naiad.tracing.triton_json import written

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
        # Each is written by one thread only.
        self._dropped = self._unwritten = 0
        self._groups = FileGroups()
        self._open: dict[str, _JsonArray] = {}
        self._begun = set[str]()
        self._numbers: dict[str, int] = {}
        self.background = Background[Write](
            self._write, name="trace-files", most=_WAITING, gather_seconds=_GATHER_SECONDS
        )

    @property
    def lost(self) -> int:
        """See `TraceSink`: traces for which there was no room, or no disk."""
        return self._dropped + self._unwritten

    def collected(self, trace: RequestTrace) -> None:
        """See `TraceSink`."""
        setting = trace.setting
        if (
            setting.count < 0 and not setting.log_frequency
        ):  # the usual case, in which nothing waits
            self._put(Write([trace], setting.file, numbered=False))
        else:
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
        if self.lost:
            _log.warning("%d traces were not written", self.lost)

    def _put(self, write: Write | None) -> None:
        if write is None or self.background.put(write, _weight(write)):
            return
        if not self._dropped:
            _log.warning(
                "traces are lost: more of them come than can be written to %s; requests go on. Choose a higher trace_rate, or a faster disk",
                write.file,
            )
        self._dropped += len(write.traces)
        for trace in write.traces:
            trace.free()

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
                with (
                    self._reported(path, write.traces),
                    contextlib.closing(_JsonArray(path)) as array,
                ):
                    array.append(self._joined(write.traces))

    def _append(self, file: str, traces: list[RequestTrace]) -> None:
        with self._reported(file, traces):
            array = self._open.get(file)
            if array is not None and not array.is_at(file):
                del self._open[file]
                array.close()
                array = None
            if array is None:
                # One that was written before goes on, once there is room again.
                array = self._open[file] = _JsonArray(file, goes_on=file in self._begun)
                self._begun.add(file)
            array.append(self._joined(traces))

    def _joined(self, traces: list[RequestTrace]) -> bytes:
        """Several, with commas between them; one of which no text can be made is lost alone."""
        texts = []
        for trace in traces:
            try:
                texts.append(written(trace))
            except Exception:  # noqa: BLE001 - whatever a model gave, other traces go on
                self._unwritten += 1
                _log.exception("trace %d cannot be written as JSON, and is lost", trace.id)
        return ",".join(texts).encode()

    @contextlib.contextmanager
    def _reported(self, path: str, traces: list[RequestTrace]) -> collections.abc.Iterator[None]:
        try:
            yield
        except OSError as error:
            self._unwritten += len(traces)
            if array := self._open.pop(path, None):
                with contextlib.suppress(OSError):
                    array.close()
            self._failed(error, path)
        finally:
            for trace in traces:
                trace.free()


def _weight(write: Write) -> int:
    """About how many KB its traces have: one each, and what tensors they hold."""
    return len(write.traces) + sum(trace.held >> 10 for trace in write.traces)


class _JsonArray:
    """A file that holds a JSON array, whole after each write. A file that is there already is replaced, unless the array goes on. Raises OSError."""

    def __init__(self, path: str, *, goes_on: bool = False) -> None:
        try:
            self._file = io.FileIO(path, "r+" if goes_on else "w")
        except FileNotFoundError:
            self._file = io.FileIO(path, "w")
        self._seeks = self._file.seekable()
        # Where the bracket is that ends the array; 0: it has not begun.
        self._end = self._found_end() if self._seeks else 0

    def _found_end(self) -> int:
        size = self._file.seek(0, io.SEEK_END)
        if not size or not self._file.readable():
            return size
        self._file.seek(size - 1)
        # There was no room for the bracket, either, when a write failed.
        return size - (self._file.read(1) == b"]")

    def is_at(self, path: str) -> bool:
        """Whether it is what this path names, with all that was written: files are moved, removed and cut off."""
        here = os.fstat(self._file.fileno())
        try:
            there = pathlib.Path(path).stat()
        except FileNotFoundError:
            return False
        is_cut = stat.S_ISREG(here.st_mode) and here.st_size < self._end
        return os.path.samestat(here, there) and not is_cut

    def append(self, records: bytes) -> None:
        """Write further records; after an error the file has those from before."""
        if not records:
            return
        rest = memoryview((b"," if self._end else b"[") + records + (b"]" if self._seeks else b""))
        size = len(rest)
        if self._seeks:
            self._file.seek(self._end)
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError:
            if self._seeks:
                self._file.truncate(self._end)
                if self._end:
                    self._file.seek(self._end)
                    self._file.write(b"]")
            raise
        self._end += size - 1

    def close(self) -> None:
        """End the array."""
        if not self._seeks and self._end:
            self._file.write(b"]")
        self._file.close()


class TraceSink(typing.Protocol):
    """Where complete traces go. Loop only, but for `close`."""

    @property
    def lost(self) -> int:
        """Traces that were not written, or spans that were not sent; those that are open do not count."""
        ...

    def collected(self, trace: RequestTrace) -> None:
        """A trace is complete."""

    def replaced(self, setting: TraceSetting) -> None:
        """A setting was replaced by another one."""

    def stop(self) -> None:
        """The server stops: nothing that is not complete now will be."""

    def close(self, seconds: float) -> None:
        """Write what waits, for at most this time; not on the event loop."""
