"""Trace files: which traces go into which file, and the thread that writes them (row 9.12).

A file is valid JSON after every write. The first error stops tracing with one line of log; requests go on.
"""

import collections.abc
import logging
import operator
import typing

import msgspec

from naiad.log_text import Lines
from naiad.tracing.background import Background
from naiad.tracing.file_writer import FileWriter
from naiad.tracing.settings import TraceSetting
from naiad.tracing.trace import RequestTrace
from naiad.tracing.triton_json import written
from naiad.tracing.usual import SentTrace
from naiad.tracing.usual_queue import UsualQueue
from naiad.tracing.writer_process import WriterProcess
from naiad.tracing.writing import Records, Written

_log = logging.getLogger("naiad.trace")

_MANY = 1024
"""So many usual traces at once are written by a process of its own from then on: five thousand per second, or as many as came while a disk was slow."""

_HELD = 1000
"""Traces of a setting with a count that wait for its end in memory; more are written before."""

_MOST_IN_ONE = 50_000
"""Traces of a file with a number, whatever the frequency is: they wait in memory, and clients choose the frequency."""

_MOST_HELD_BYTES = 1 << 26
"""Memory, without tensors, of the traces of all files that wait for further ones: there may be a file for each model, and clients choose request ids."""

_WAITING = 100_000
"""What may wait for the thread, as `_weight` counts: about 100 MB."""

_GATHER_SECONDS = 0.2
"""How long traces are gathered: the thread wakes, writes and flushes once for all of them."""
_ENOUGH_USUAL = 8192
"""So many usual ones are not kept any longer: a megabyte. Each time costs as much as a hundred traces: sleeping processes are woken, and find their memory in no cache."""
_ENOUGH = 2048
"""As many of the others, which may hold two megabytes of tensors, as `_weight` counts: what waits has a limit."""


class Write(msgspec.Struct, frozen=True):
    """Traces for a file: FILE, or FILE.N with the next number N."""

    traces: list[RequestTrace]
    file: str
    numbered: bool


class _Held(msgspec.Struct, eq=False):
    """Complete traces of a setting that wait for further ones.

    Attributes:
        bytes: their memory, without tensors.
    """

    traces: list[RequestTrace]
    bytes: int = 0


class FileGroups:
    """Decides what goes into which file. Pure.

    Attributes:
        bytes: memory of what waits, without tensors.
    """

    def __init__(self) -> None:
        self._held: dict[int, _Held] = {}
        self.bytes = 0

    def collected(self, trace: RequestTrace) -> Write | None:
        """A trace is complete; its setting has counted it. Returns what is to be written now."""
        setting = trace.setting
        held = self._held.get(id(setting))
        if held is None:
            held = self._held[id(setting)] = _Held([])
        size = trace.size
        held.traces.append(trace)
        held.bytes += size
        self.bytes += size
        count = len(held.traces)
        frequency = setting.log_frequency
        used_up = setting.count == 0 and not setting.open
        if used_up or 0 < min(frequency, _MOST_IN_ONE) <= count:
            return self._write(setting, numbered=True)
        if frequency == 0 and (setting.count < 0 or count >= _HELD):
            return self._write(setting, numbered=False)
        if setting.replaced and not setting.open:
            return self.replaced(setting)
        if self.bytes > _MOST_HELD_BYTES:
            largest = max(self._held.values(), key=operator.attrgetter("bytes")).traces[0].setting
            return self._write(largest, numbered=largest.log_frequency > 0)
        return None

    def replaced(self, setting: TraceSetting) -> Write | None:
        """A setting has been replaced: what it still holds goes out once no trace of it is open."""
        if setting.open or not self._held.get(id(setting)):
            return None
        return self._write(setting, numbered=setting.log_frequency > 0)

    def rest(self) -> list[Write]:
        """The server stops: what all settings still hold. Traces that are open now are lost, those that are complete are not."""
        settings = [held.traces[0].setting for held in self._held.values()]
        return [self._write(setting, numbered=setting.log_frequency > 0) for setting in settings]

    def _write(self, setting: TraceSetting, *, numbered: bool) -> Write:
        held = self._held.pop(id(setting))
        self.bytes -= held.bytes
        return Write(held.traces, setting.file, numbered)


class TraceFiles:
    """Writes traces to files: a `TraceSink`.

    Args:
        failed: called on the thread with the first error of a file.
        file: FILE, where usual traces go.
        next_id: gives them their ids.
    """

    def __init__(
        self,
        failed: collections.abc.Callable[[OSError, str], None],
        file: str,
        next_id: collections.abc.Callable[[], int],
    ) -> None:
        self._failed = failed
        self._file = file
        self._writer: FileWriter | WriterProcess = FileWriter()
        self._may_move = True
        # Each is written by one thread only.
        self._dropped = self._unwritten = 0
        self._groups = FileGroups()
        self._numbers: dict[str, int] = {}
        self.background = Background[Write](
            self._write,
            name="trace-files",
            most=_WAITING,
            gather_seconds=_GATHER_SECONDS,
            enough=_ENOUGH,
            at_end=self._end,
        )
        self._usual = UsualQueue(
            most=_WAITING,
            enough=_ENOUGH_USUAL,
            announce=self._announce,
            hurry=self.background.hurry,
            dropped=self._drop,
            next_id=next_id,
        )
        self.sent = self._usual.add

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
        writer = self._writer
        if not self.background.close(seconds):
            _log.warning(
                "what waited for %s could not be written within %g s of the stop, and is lost",
                self._file,
                seconds,
            )
            if isinstance(writer, WriterProcess):
                writer.abandon()
        if self.lost:
            _log.warning("%d traces were not written", self.lost)

    def _announce(self) -> None:
        """There are usual traces again: the thread looks at them with what else it is given."""
        self.background.put(Write([], self._file, numbered=False), 0)

    def _put(self, write: Write | None) -> None:
        if write is None or self.background.put(write, _weight(write)):
            return
        self._drop(len(write.traces))
        for trace in write.traces:
            trace.free()

    def _drop(self, count: int) -> None:
        if not self._dropped:
            _log.warning(
                "traces are lost: more of them come than can be written to %s; requests go on. Choose a higher trace_rate, or a faster disk",
                self._file,
            )
        self._dropped += count

    def _write(self, writes: list[Write]) -> None:
        """On the thread."""
        many = 0
        for usual in self._usual.taken():
            many += len(usual.numbers)
            self._writer.usual(self._file, usual)
        whole: dict[str, list[RequestTrace]] = {}
        for write in writes:
            if not write.numbered:
                whole.setdefault(write.file, []).extend(write.traces)
        for file, traces in whole.items():
            if traces:
                self._writer.records(self._joined(traces, file, grows=True))
        for write in writes:
            if write.numbered:
                number = self._numbers.get(write.file, 0)
                self._numbers[write.file] = number + 1
                path = f"{write.file}.{number}"
                self._writer.records(self._joined(write.traces, path, grows=False))
        self._report(self._writer.written())
        self._usual.release()
        self._choose_writer(many)

    def _choose_writer(self, many: int) -> None:
        """The event loop waits for the interpreter lock while traces become text: many become so in another process."""
        writer = self._writer
        if isinstance(writer, WriterProcess):
            if writer.has_ended:
                self._writer = FileWriter(writer.begun)
        elif many >= _MANY and self._may_move and writer.may_move():
            assert self._usual.rows is not None, "they were there"
            process = WriterProcess(writer.begun, self._usual.rows)
            try:
                process.start()
            except OSError as error:
                self._may_move = False
                _log.warning(
                    "traces are written by a thread, which takes more of the server's time: the process that would write them cannot be started: %s",
                    error.strerror or error,
                )
                return
            writer.close()
            self._writer = process

    def _end(self) -> None:
        """On the thread, once it ends."""
        self._writer.close()

    def _joined(self, traces: list[RequestTrace], path: str, *, grows: bool) -> Records:
        """Several as text; one of which no text can be made is lost alone. They are freed."""
        texts = []
        for trace in traces:
            try:
                texts.append(written(trace))
            except Exception:  # noqa: BLE001 - whatever a model gave, other traces go on
                self._unwritten += 1
                _log.exception("trace %d cannot be written as JSON, and is lost", trace.id)
            trace.free()
        try:
            return Records(path, len(texts), ",".join(texts).encode(), grows)
        except MemoryError:
            self._unwritten += len(texts)
            _log.error(
                "%d traces cannot be written to %s, and are lost: there is no memory for their text",
                len(texts),
                path,
            )
            return Records(path, 0, b"", grows)

    def _report(self, reply: Written) -> None:
        for fault in reply.faults:
            self._unwritten += fault.traces
            if fault.number:
                self._failed(OSError(fault.number, fault.words), fault.path)
            else:
                _log.error(
                    "%d traces cannot be written to %s, and are lost: %s",
                    fault.traces,
                    fault.path,
                    Lines(fault.words),
                )


def _weight(write: Write) -> int:
    """About how many KB its traces have, with the tensors that they hold; at least one each."""
    return sum(max(1, (trace.size + trace.held) >> 10) for trace in write.traces)


class TraceSink(typing.Protocol):
    """Where complete traces go. Loop only, but for `close`."""

    @property
    def lost(self) -> int:
        """Traces that were not written, or spans that were not sent; those that are open do not count."""
        ...

    def sent(self, traces: collections.abc.Sequence[SentTrace]) -> None:
        """See `AddSent`. A setting that may have usual traces writes to files."""

    def collected(self, trace: RequestTrace) -> None:
        """Another trace is complete."""

    def replaced(self, setting: TraceSetting) -> None:
        """A setting was replaced by another one."""

    def stop(self) -> None:
        """The server stops: nothing that is not complete now will be."""

    def close(self, seconds: float) -> None:
        """Write what waits, for at most this time; not on the event loop."""
